"""Srcbook's format: what Srcbook wrote comes back byte for byte, what it cannot hold is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import NotebookFormatError
from cellwright.formats import export, read
from cellwright.formats.model import Draft, DraftCell, document_of
from cellwright.notebook import Document
from tests.support.formats.books import book, draft_cells, texts_of

PAGE = """<!-- srcbook:{"language":"typescript","tsconfig.json":{"compilerOptions":{"strict":true}}} -->

# Two sorts

###### package.json

```json
{
  "type": "module",
  "dependencies": {
    "zod": "^3"
  }
}
```

Some text.

```typescript
// a block of the text
```

###### sort.ts

```typescript
export const sort = (numbers: number[]) => numbers;


sort([1]);
```

## More

###### old.mjs

```javascript
1;
```
"""


def test_a_srcbook_becomes_a_notebook_and_comes_back_byte_for_byte() -> None:
    found = read(PAGE.encode(), name="sorts.src.md")
    document = found.document
    assert found.title == "Two sorts"
    assert document.language == "typescript"
    assert texts_of(document) == [
        ("markdown", "# Two sorts"),
        ("markdown", "Some text.\n\n```typescript\n// a block of the text\n```"),
        ("code", "export const sort = (numbers: number[]) => numbers;\n\n\nsort([1]);"),
        ("markdown", "## More"),
        ("code", "1;"),
    ]
    assert [cell.filename for cell in document.cells if cell.kind == "code"] == ["sort.ts", "old.mjs"]
    assert [cell.language for cell in document.cells if cell.kind == "code"] == [None, "javascript"]
    assert document.tsconfig == {"compilerOptions": {"strict": True}}
    assert document.package == {"type": "module", "dependencies": {"zod": "^3"}}
    written = export(document, name="unused", format="src.md")
    assert written.content.decode() == PAGE
    assert written.notices == ()


def test_a_srcbook_is_known_by_its_first_line() -> None:
    assert read(PAGE.encode(), name="page.md").document.language == "typescript"


@settings(deadline=None, max_examples=50)
@given(st.lists(draft_cells(), max_size=6), st.sampled_from(["typescript", "javascript"]))
def test_a_page_without_notices_gives_back_every_cell(cells: list[DraftCell], language: str) -> None:
    document = document_of(Draft(tuple(cells), language=language), max_cells=100)
    written = export(document, name="Any name", format="src.md")
    if any("cannot be read back" in notice for notice in written.notices):
        return
    again = read(written.content, name="x.src.md").document
    if not written.notices:
        code = [one for one in texts_of(document) if one[0] == "code"]
        assert [one for one in texts_of(again) if one[0] == "code"] == code
        text = "".join(source for kind, source in texts_of(document) if kind == "markdown")
        kept = "".join(source for kind, source in texts_of(again) if kind == "markdown")
        assert "".join(text.split()) in "".join(kept.split()), "no text is lost but blanks"
    if not any("read back" in notice for notice in written.notices):
        second = export(again, name="other", format="src.md")
        assert second.content == written.content, "a page that was read is written as it was"


def test_what_a_srcbook_cannot_hold_is_changed_and_said() -> None:
    document = book(
        ("markdown", "# Title\n\nIntro"),
        ("markdown", "# Another\n\n###### not a file"),
        ("code", "let a = 1"),
        DraftCell("code", "select 1", language="sql"),
        DraftCell("code", "2", filename="a.ts"),
        DraftCell("code", "3", filename="a.ts"),
        DraftCell("code", "'```\\n'\n```", filename="../up.ts"),
        language="typescript",
    )
    written = export(document, name="unused", format="src.md")
    assert texts_of(read(written.content, name="x.src.md").document) == [
        ("markdown", "# Title"),
        ("markdown", "Intro"),
        ("markdown", "## Another\n\n##### not a file"),
        ("code", "let a = 1"),
        ("markdown", "```sql\nselect 1\n```"),
        ("code", "2"),
        ("code", "3"),
        ("code", "'```\\n'\n```"),
    ]
    assert len(written.notices) == 5
    assert "The file 'a.ts' is called 'a-2.ts'" in written.notices


def test_a_text_that_swallows_what_follows_is_said() -> None:
    document = book(("markdown", "```\nnever closed"), ("code", "1"), language="typescript")
    (notice,) = export(document, name="n", format="src.md").notices
    assert "read back" in notice


def test_only_javascript_and_typescript_are_written() -> None:
    with pytest.raises(NotebookFormatError, match="this notebook is in python"):
        export(book(("code", "1")), name="n", format="src.md")


def test_linked_files_are_read_where_they_lie(tmp_path: Path) -> None:
    page = PAGE.partition("###### sort.ts")[0] + "###### sort.ts\n\n[sort.ts](./src/sort.ts)\n"
    alone = read(page.encode(), name="README.src.md")
    assert alone.notices == ("line 24: sort.ts is a link to ./src/sort.ts, which was not to be had",)
    (tmp_path / "sort.ts").write_text("let linked = 1\n")
    found = read(
        page.encode(), name="README.src.md", find_file=lambda name: (tmp_path / Path(name).name).read_bytes()
    )
    assert found.document.cells[-1].source == "let linked = 1\n"


HEAD = '<!-- srcbook:{"language":"typescript"} -->\n\n# T\n\n'


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("# T\n\ntext", "line 1: there is no srcbook comment"),
        ('<!-- srcbook:{"language":"cobol"} -->\n\n# T', "line 1: the language is 'cobol'"),
        ('<!-- srcbook:{"language"} -->\n\n# T', "line 1: the srcbook comment is not JSON"),
        (
            '<!-- srcbook:{"language":"typescript","tsconfig.json":3} -->\n\n# T',
            "tsconfig.json is not an object",
        ),
        (HEAD + "# Again", "line 5: 'Again' is a second heading"),
        (HEAD.replace("# T", "text\n\n# T"), "line 3: something stands before the title"),
        (HEAD.replace("# T", "## T"), "there is no title"),
        (HEAD + "text\n\n###### a.ts\n\nno code", "line 7: '###### a.ts' is followed by no code block"),
        (HEAD + "###### a.ts", "line 5: '###### a.ts' is followed by no code block"),
        (HEAD + "###### a.cob\n\n```\n```", "line 5: 'a.cob' is not a name that ends in"),
        (HEAD + "###### package.json\n\n```json\n{\n  x\n}\n```", "line 9: package.json is not JSON"),
        (HEAD + 2 * "###### package.json\n\n```json\n{}\n```\n\n", "line 11: there is a second package.json"),
    ],
)
def test_a_broken_srcbook_says_where_and_why(page: str, complaint: str) -> None:
    with pytest.raises(NotebookFormatError, match=complaint):
        read(page.encode(), name="x.src.md", format="src.md")


def test_deep_nesting_is_read_in_a_moment() -> None:
    read((HEAD + "> " * 20_000 + "x\n\n" + "[" * 20_000).encode(), name="x.src.md")


def test_the_package_of_a_changed_notebook_is_written_anew() -> None:
    compact = PAGE.replace(
        '{\n  "type": "module",\n  "dependencies": {\n    "zod": "^3"\n  }\n}', '{"type":  "module"}'
    )
    document: Document = read(compact.encode(), name="x.src.md").document
    assert export(document, name="n", format="src.md").content.decode() == compact
    text = document.to_bytes().decode().replace('"type": "module"', '"type": "commonjs"')
    changed = Document.from_bytes(text.encode(), name="changed")
    page = export(changed, name="n", format="src.md").content.decode()
    assert '```json\n{\n  "type": "commonjs"\n}\n```' in page
    assert json.loads(page.split("```json\n")[1].split("\n```")[0]) == {"type": "commonjs"}

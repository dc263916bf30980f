"""Notebooks go out as files of every format and come in again."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import nbformat
import pytest

from tests.system.daemon.conftest import Place

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SRCBOOK = '<!-- srcbook:{"language":"typescript"} -->\n\n# T\n\n###### package.json\n\n```json\n{}\n```\n\n'


def _notebook(path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title"),
            nbformat.v4.new_code_cell(
                "show()", outputs=[nbformat.v4.new_output("display_data", data={"image/png": PNG})]
            ),
        ]
    )
    nbformat.write(notebook, path)


def test_a_file_becomes_a_file_of_another_format_and_needs_no_daemon(place: Place) -> None:
    work = place.root / "work"
    _notebook(work / "in.ipynb")
    done = place.run("export", "in.ipynb", "-o", "page.md")
    assert done.returncode == 0, done.stderr
    assert "![output](page_files/cell-2-1.png)" in (work / "page.md").read_text()
    assert (work / "page_files" / "cell-2-1.png").read_bytes() == base64.b64decode(PNG)
    assert "wrote page.md and 1 picture beside it" in done.stderr
    back = place.run("export", "page.md", "--to", "ipynb")
    assert [cell["source"] for cell in json.loads(back.stdout)["cells"]] == [["# Title"], ["show()"]]
    assert place.run("daemon", "status").returncode == 1


def test_what_a_format_cannot_hold_is_said_beside_the_data(place: Place) -> None:
    _notebook(place.root / "work" / "in.ipynb")
    done = place.run("export", "in.ipynb", "--to", "markdown")
    assert "note: 1 pictures are named in words" in done.stderr
    assert "note:" not in done.stdout
    told = json.loads(place.run("export", "in.ipynb", "--to", "markdown", "--json").stdout)
    assert told["notices"]
    assert told["content"] == done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("export", "in.ipynb", "--to", "docx"), 1, "There is no format 'docx'"),
        (("export", "in.ipynb", "-o", "x.docx"), 2, "'x.docx' tells no format"),
        (("export", "in.ipynb", "--to", "src.md"), 1, "this notebook is in python"),
        (("export", "in.ipynb", "--to", "pdf", "--json"), 2, "pdf is not text"),
        (
            ("import", "broken.src.md"),
            1,
            "broken.src.md, line 13: '###### a.ts' is followed by no code block",
        ),
        (("import", "missing.md"), 2, "cannot read missing.md"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_line(
    shared: Place, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    work = shared.root / "work"
    _notebook(work / "in.ipynb")
    (work / "broken.src.md").write_text(SRCBOOK + "text\n\n###### a.ts\n\nno code\n")
    done = shared.run(*arguments)
    assert done.returncode == code
    assert complaint in done.stderr
    assert done.stdout == ""


def test_files_beside_a_page_are_read_and_none_above_it(place: Place) -> None:
    work = place.root / "work"
    (place.root / "secret.ts").write_text("stolen")
    (work / "src").mkdir()
    (work / "src" / "a.ts").write_text("let a = 1")
    page = SRCBOOK + "###### a.ts\n\n[a.ts](./src/a.ts)\n\n###### b.ts\n\n[b.ts](../secret.ts)\n"
    (work / "README.src.md").write_text(page)
    done = place.run("export", "README.src.md", "--to", "json")
    cells = json.loads(done.stdout)["cells"]
    assert [cell["content"] for cell in cells] == ["# T", "let a = 1", ""]
    assert "b.ts is a link to ../secret.ts, which was not to be had" in done.stderr

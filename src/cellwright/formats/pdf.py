"""A notebook as PDF, by typst: no browser, no LaTeX, nothing fetched, and the same bytes for the same notebook.

What is printed is decided in ``printing``; here it is compiled, with what can go wrong there: pictures that typst
cannot read, and letters that no font has.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.errors import NotebookError
from cellwright.formats.glyphs import missing_glyphs, unusual_characters
from cellwright.formats.model import Writing, Written
from cellwright.formats.printing import Book, set_book, texts_of
from cellwright.notebook import Document

__all__ = ["Pdf", "PrintFailed", "to_pdf", "write_pdf"]

_PROGRAM = Path(__file__).parent / "templates" / "notebook.typ"
_PICTURE = b"#set page(width: auto, height: auto)\n#image(sys.inputs.file)"
_SHOWN_CHARACTERS = 12


class PrintFailed(NotebookError):
    """Typst could not make pages of a notebook."""

    code = "print_failed"


@dataclass(frozen=True, slots=True)
class Pdf:
    """A print, and what is not in it as it is in the notebook."""

    content: bytes
    notices: tuple[str, ...]


def to_pdf(document: Document, *, name: str, include_outputs: bool = True) -> Pdf:
    """A notebook as PDF; ``name`` is its title where it has none of its own.

    Raises:
        ImportError: a library of the extra ``export`` is not installed.
        PrintFailed: typst refused it.
    """
    import typst  # noqa: PLC0415  # an extra

    book = set_book(document, name=name, include_outputs=include_outputs)
    notices = [*book.notices, *_undrawn(book)]
    with tempfile.TemporaryDirectory(prefix="cellwright-print-") as directory:
        root = Path(directory)
        for file, data in book.files.items():
            (root / file).write_bytes(data)
        (root / "notebook.typ").write_bytes(_PROGRAM.read_bytes())
        try:
            return Pdf(_compiled(root, book.tree), tuple(notices))
        except typst.TypstError as error:
            broken = {file for file in book.files if not _readable(root, file)}
            if not broken:
                raise PrintFailed(
                    f"Typst cannot print this notebook: {error}", hint="Export it as html"
                ) from error
        pictures = f"{len(broken)} picture{'s' * (len(broken) != 1)}"
        notices.append(f"{pictures} cannot be read, and a note stands in the place of each")
        return Pdf(_compiled(root, _without(book.tree, broken)), tuple(notices))


def write_pdf(document: Document, writing: Writing) -> Written:
    """The format ``pdf``."""
    printed = to_pdf(document, name=writing.name)
    return Written(printed.content, printed.notices)


def _compiled(root: Path, tree: Any) -> bytes:
    import typst  # noqa: PLC0415  # an extra, checked by the caller

    (root / "book.json").write_text(json.dumps(tree, ensure_ascii=False))
    return typst.compile(root / "notebook.typ", root=root)


def _readable(root: Path, file: str) -> bool:
    import typst  # noqa: PLC0415  # an extra, checked by the caller

    main = root / "picture.typ"
    main.write_bytes(_PICTURE)
    try:
        typst.compile(main, root=root, sys_inputs={"file": file}, format="svg")
    except typst.TypstError:
        return False
    return True


def _without(node: Any, broken: set[str]) -> Any:
    """The same tree with notes in the place of some pictures."""
    if isinstance(node, list):
        return [_without(one, broken) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("t") == "picture" and node["file"] in broken:
        return {"t": "note", "v": "[a picture that cannot be read]"}
    return {key: _without(value, broken) for key, value in node.items()}


def _undrawn(book: Book) -> Iterable[str]:
    """What to say about letters that come out as empty boxes."""
    unusual = unusual_characters(texts_of(book.tree))
    missing = missing_glyphs(unusual) if unusual else []
    if not missing:
        return
    shown = " ".join(missing[:_SHOWN_CHARACTERS]) + (" …" if len(missing) > _SHOWN_CHARACTERS else "")
    yield (
        f"No font on this machine has {len(missing)} of the characters, which are printed as empty boxes: {shown}. "
        "Install a font that has them (Debian: fonts-noto-cjk, fonts-noto-color-emoji, fonts-noto-core)"
    )

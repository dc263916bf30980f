"""Our own formats, as ``pyproject.toml`` registers them.

Which there are is asked often, and most are not wanted then: pages and what stands on jupytext are imported when one
is written or read, and those whose libraries are heavy import them in their functions.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cellwright.formats._json_formats import read_ipynb, read_json, write_ipynb, write_json
from cellwright.formats._markdown import read_markdown, write_markdown
from cellwright.formats._scripts import write_script
from cellwright.formats.model import Format, Imported, Reading, Writing, Written
from cellwright.notebook import Document
from cellwright.notebook.languages import every_language

__all__ = ["HTML", "IPYNB", "JSON", "MARKDOWN", "MYST", "PDF", "PERCENT", "SCRIPT", "SRCBOOK"]

CELLWRIGHT_API = 1


def _writer(module: str, function: str) -> Callable[[Document, Writing], Written]:
    """A function of a module that is imported when a notebook is written."""

    def write(document: Document, writing: Writing) -> Written:
        written: Written = getattr(import_module(module, __package__), function)(document, writing)
        return written

    return write


def _reader(module: str, function: str) -> Callable[[bytes, Reading], Imported]:
    """The same for one that is read."""

    def read(content: bytes, reading: Reading) -> Imported:
        imported: Imported = getattr(import_module(module, __package__), function)(content, reading)
        return imported

    return read


IPYNB = Format("ipynb", "application/x-ipynb+json", (".ipynb",), write_ipynb, read_ipynb)
JSON = Format("json", "application/json", (".json",), write_json, read_json)
MARKDOWN = Format("markdown", "text/markdown", (".md", ".markdown"), write_markdown, read_markdown)
SRCBOOK = Format(
    "src.md",
    "text/markdown",
    (".src.md",),
    _writer("._srcbook", "write_srcmd"),
    _reader("._srcbook", "read_srcmd"),
    outputs=False,
)
MYST = Format(
    "myst",
    "text/markdown",
    (".myst.md", ".myst"),
    _writer("._jupytext_formats", "write_myst"),
    _reader("._jupytext_formats", "read_myst"),
    extra="export",
    needs=("jupytext",),
    outputs=False,
)
PERCENT = Format(
    "percent",
    "text/plain",
    tuple(suffix for language in every_language() for suffix in language.suffixes),
    _writer("._jupytext_formats", "write_percent"),
    _reader("._jupytext_formats", "read_script"),
    extra="export",
    needs=("jupytext",),
    outputs=False,
)
HTML = Format(
    "html",
    "text/html",
    (".html", ".htm"),
    _writer("._html", "write_html"),
    extra="export",
    needs=("nbconvert",),
)
PDF = Format(
    "pdf",
    "application/pdf",
    (".pdf",),
    _writer("._pdf", "write_pdf"),
    extra="export",
    needs=("typst",),
    binary=True,
)
SCRIPT = Format(
    "script",
    "text/plain",
    (),
    write_script,
    _reader("._jupytext_formats", "read_script"),
    extra="export",
    outputs=False,
)

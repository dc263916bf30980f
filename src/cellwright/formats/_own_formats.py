"""Our own formats, as ``pyproject.toml`` registers them. Those whose libraries are heavy import them in their functions."""

from __future__ import annotations

from cellwright.formats._html import write_html
from cellwright.formats._json_formats import read_ipynb, read_json, write_ipynb, write_json
from cellwright.formats._jupytext_formats import read_myst, read_script, write_myst, write_percent
from cellwright.formats._markdown import read_markdown, write_markdown
from cellwright.formats._pdf import write_pdf
from cellwright.formats._scripts import write_script
from cellwright.formats._srcbook import read_srcmd, write_srcmd
from cellwright.formats.model import Format
from cellwright.notebook.languages import every_language

__all__ = ["HTML", "IPYNB", "JSON", "MARKDOWN", "MYST", "PDF", "PERCENT", "SCRIPT", "SRCBOOK"]

CELLWRIGHT_API = 1

IPYNB = Format("ipynb", "application/x-ipynb+json", (".ipynb",), write_ipynb, read_ipynb)
JSON = Format("json", "application/json", (".json",), write_json, read_json)
MARKDOWN = Format("markdown", "text/markdown", (".md", ".markdown"), write_markdown, read_markdown)
SRCBOOK = Format("src.md", "text/markdown", (".src.md",), write_srcmd, read_srcmd, outputs=False)
MYST = Format(
    "myst",
    "text/markdown",
    (".myst.md", ".myst"),
    write_myst,
    read_myst,
    extra="export",
    needs=("jupytext",),
    outputs=False,
)
PERCENT = Format(
    "percent",
    "text/plain",
    tuple(suffix for language in every_language() for suffix in language.suffixes),
    write_percent,
    read_script,
    extra="export",
    needs=("jupytext",),
    outputs=False,
)
HTML = Format("html", "text/html", (".html", ".htm"), write_html, extra="export", needs=("nbconvert",))
PDF = Format("pdf", "application/pdf", (".pdf",), write_pdf, extra="export", needs=("typst",), binary=True)
SCRIPT = Format("script", "text/plain", (), write_script, read_script, extra="export", outputs=False)

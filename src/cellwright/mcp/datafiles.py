"""Files of the data directory as resources: the newest listed, each to be read whole up to a bound.

Blocks, so whoever asks does so in a thread. Which files are the directory's own is ``sandbox.files``'s to say; what is in
a table is the tools' to tell.
"""

from __future__ import annotations

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import Resource, ResourceTemplate

from cellwright.errors import FileTooLarge
from cellwright.mcp.uris import DATA, data_uri
from cellwright.sandbox.listing import Entry, quoted_path, shown_path
from cellwright.tools.data_directory import Shelf, relative

__all__ = ["DATA_TEMPLATE", "MAX_DATA_BYTES", "data_listed", "data_read", "mime_of"]

MAX_DATA_BYTES = 16 * 1024**2
"""A message holds 64 MiB, and bytes grow by a third on their way."""
MOST_DATA_FILES = 200
_OUR_TEMPORARY = ".cellwright-"
_BINARY = "application/octet-stream"
_MIMES = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "log": "text/plain",
    "py": "text/x-python",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "ts": "text/x-typescript",
    "sql": "text/x-sql",
    "md": "text/markdown",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "json": "application/json",
    "geojson": "application/geo+json",
    "jsonl": "application/x-ndjson",
    "ndjson": "application/x-ndjson",
    "ipynb": "application/x-ipynb+json",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xls": "application/vnd.ms-excel",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "zip": "application/zip",
    "gz": "application/gzip",
}

DATA_TEMPLATE = ResourceTemplate(
    uri_template=f"{DATA}{{+path}}", name="data", description="A file of the data directory"
)


def data_listed(shelf: Shelf) -> list[Resource]:
    """The files that were written last, newest first."""
    if not shelf.root.is_dir():
        return []
    with shelf.open() as whole:
        entries = whole.snapshot().entries.values()
    files = sorted(filter(_is_listed, entries), key=lambda entry: entry.mtime_ns, reverse=True)
    return [
        Resource(
            uri=data_uri(entry.path),
            name=shown_path(entry.path),
            description=f"Data file {quoted_path(entry.path)}",
            mime_type=mime_of(entry.path),
            size=entry.size,
        )
        for entry in files[:MOST_DATA_FILES]
    ]


def _is_listed(entry: Entry) -> bool:
    """Whether it can be read: a plain file with one name, and no half of one that is being written."""
    name = entry.path.rpartition("/")[2]
    return entry.type == "file" and entry.links == 1 and not name.startswith(_OUR_TEMPORARY)


def data_read(shelf: Shelf, path: str) -> ReadResourceContents:
    """A file's content: text as text, everything else as bytes.

    Raises:
        SandboxError: there is none, it leads elsewhere, or is too large.
    """
    name = relative(path)
    try:
        with shelf.open() as whole:
            content = whole.read(name, MAX_DATA_BYTES)
    except FileTooLarge as error:
        raise FileTooLarge(error.message, hint="Read a part of it with file_system") from None
    mime = mime_of(name)
    if b"\0" in content:
        return ReadResourceContents(content, mime)
    try:
        return ReadResourceContents(content.decode(), "text/plain" if mime == _BINARY else mime)
    except UnicodeDecodeError:
        return ReadResourceContents(content, mime)


def mime_of(path: str) -> str:
    """What a file is by its name."""
    return _MIMES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), _BINARY)

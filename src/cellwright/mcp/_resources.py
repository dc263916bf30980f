"""What can be read by address: of sessions state, history, context, exports and every output in full, and data files.

Listed one by one, since clients do not look at templates. Reads the engine and changes nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict
from typing import Any, Literal

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.types import Annotations, Resource, ResourceLink, ResourceTemplate

from cellwright import formats
from cellwright.engine import Engine, Execution, Session
from cellwright.engine.cell_states import cell_states
from cellwright.errors import (
    CellwrightError,
    FileTooLarge,
    NoSuchFile,
    UnknownCell,
    UnknownExecution,
    UnknownSession,
)
from cellwright.mcp._looks import icon_of
from cellwright.mcp._tool_names import ToolNames
from cellwright.mcp.calls import untimed
from cellwright.mcp.context import Knowledge, context_of
from cellwright.mcp.outputs import (
    DATA,
    NETWORK_URI,
    Address,
    cell_output_uri,
    data_path,
    data_uri,
    output_payload,
    parts_of,
    read_address,
    session_uri,
)
from cellwright.mcp.tools.notebooks import about_session
from cellwright.mcp.tools.read import exported
from cellwright.sandbox.files import Entry, quoted_path, shown_path
from cellwright.text_budget import cut_tail
from cellwright.tools.data_directory import DataDirectory, relative
from cellwright.tools.web.fetch_log import FetchLog

__all__ = ["MAX_DATA_BYTES", "Resources", "data_link"]
_MOST_LISTED = 1_000

_HISTORY = 200

_JSON = "application/json"

_NOTICES = "cellwright/notices"
"""What an export could not hold, in the metadata of its content."""

_VIEWS = {
    "state": "Cells with sources, states and output sizes",
    "history": "Executions, newest first",
    "context": "Imports, functions, variables, cells with states, last error",
}

_TEMPLATES = {
    "state": _VIEWS["state"],
    "history": _VIEWS["history"],
    "context": _VIEWS["context"],
    "network": "Requests of its code to the network, each with its verdict",
    "export/{format}": "The notebook in another format",
    "cells/{cell_id}/outputs/{index}": "One output that a cell shows now, in full",
    "executions/{execution_id}/outputs/{index}": "One output of one execution, in full",
}


class Resources:
    """The resources of an MCP server."""

    def __init__(self, engine: Engine, knowledge: Knowledge, names: ToolNames) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._names = names
        self._shelf = DataDirectory.of(engine)

    def templates(self) -> list[ResourceTemplate]:
        of_sessions = [
            ResourceTemplate(
                uri_template=f"notebook://session/{{session_id}}/{path}",
                name=(name := path.partition("/")[0]),
                title=f"{name.capitalize()} of a session",
                icons=[icon_of(name)],
                description=description,
                mime_type=_JSON if path in {*_VIEWS, "network"} else None,
            )
            for path, description in _TEMPLATES.items()
        ]
        return [*of_sessions, DATA_TEMPLATE]

    async def listed(self) -> list[Resource]:
        """What there is now, newest sessions first and then the newest data files, within a bound for each."""
        return [*self._of_sessions(), *await anyio.to_thread.run_sync(data_listed, self._shelf)]

    def _of_sessions(self) -> list[Resource]:
        fetched = "Requests to the web for no session, each with its verdict"
        found = [
            Resource(
                uri=NETWORK_URI,
                name="network",
                title="Requests to the web",
                description=fetched,
                mime_type=_JSON,
            )
        ]
        for session in reversed(self._engine.sessions()):
            found += [
                Resource(
                    uri=session_uri(session.id, view),
                    name=f"{session.name} {view}",
                    title=f"{untimed(session.name)}: {view}",
                    description=description,
                    mime_type=_JSON,
                )
                for view, description in _VIEWS.items()
            ]
            found += _outputs_listed(session)
            if len(found) >= _MOST_LISTED:
                break
        return found[:_MOST_LISTED]

    async def read(self, uri: str) -> ReadResourceContents | None:
        """The content of one of our addresses; none for an address that is not ours.

        Raises:
            ResourceNotFoundError: it is ours, and there is no such thing.
        """
        if (path := data_path(uri)) is not None:
            return await self._data(path)
        if uri == NETWORK_URI:
            use = await anyio.to_thread.run_sync(FetchLog(self._engine.settings.storage).read)
            return _as_json({"dropped": use.dropped, "requests": [asdict(entry) for entry in use.entries]})
        address = read_address(uri)
        if address is None:
            if uri.startswith("notebook://"):
                known = ", ".join(template.uri_template for template in self.templates())
                raise ResourceNotFoundError(f"There is no resource {uri}. There are: {known}")
            return None
        try:
            return await self._content(address)
        except (UnknownSession, UnknownCell, UnknownExecution) as error:
            raise ResourceNotFoundError(str(error)) from error
        except CellwrightError as error:
            raise ResourceError(str(error)) from error

    async def _data(self, path: str) -> ReadResourceContents:
        try:
            return await anyio.to_thread.run_sync(data_read, self._shelf, path)
        except NoSuchFile as error:
            raise ResourceNotFoundError(str(error)) from error
        except CellwrightError as error:
            raise ResourceError(str(error)) from error

    async def _content(self, address: Address) -> ReadResourceContents:
        session = self._engine.session(address.session_id)
        match address.view:
            case "state" | "history" | "context" | "network" as view:
                return _as_json(await self._view(session, view))
            case "export":
                await session.refresh()
                found = await exported(session, address.item, self._engine.pages)
                binary = formats.format_named(address.item).binary
                meta = {_NOTICES: list(found.notices)} if found.notices else None
                content = found.content if binary else found.content.decode()
                return ReadResourceContents(content, found.mime, meta)
            case "cell":
                return _output(session.cell(address.item).outputs, address.index)
            case "execution":
                execution = self._execution(session, address.item)
                return _output([*execution.outputs, *execution.late_outputs], address.index)

    async def _view(
        self, session: Session, view: Literal["state", "history", "context", "network"]
    ) -> dict[str, Any]:
        match view:
            case "state":
                return _state(session, self._names)
            case "history":
                history = await self._engine.history(session.id, outputs=False)
                newest = [_past(execution) for execution in reversed(history[-_HISTORY:])]
                return {"session_id": session.id, "total": len(history), "executions": newest}
            case "context":
                return await context_of(self._knowledge, session)
            case "network":
                use = await self._engine.network_log(session.id)
                requests = [asdict(entry) for entry in use.entries]
                return {"session_id": session.id, "dropped": use.dropped, "requests": requests}

    def _execution(self, session: Session, execution_id: str) -> Execution:
        execution = self._engine.execution(execution_id)
        if execution.session_id != session.id:
            raise UnknownExecution(f"Session {session.id} has no execution {execution_id!r}")
        return execution


def _outputs_listed(session: Session) -> list[Resource]:
    return [
        Resource(
            uri=cell_output_uri(session.id, cell.id, part.index),
            name=f"{session.name} {cell.id} output {part.index}",
            description=f"{part.kind} of: {cut_tail(cell.source, 60)}",
            mime_type=part.mime,
            size=part.size,
        )
        for cell in session.cells
        for part in parts_of(cell.outputs)
    ]


def _state(session: Session, names: ToolNames) -> dict[str, Any]:
    cells = session.cells
    states = cell_states(session, cells)
    return {
        **about_session(session, names),
        "running": [execution.id for execution in session.runs.live],
        "cells": [
            {
                "id": cell.id,
                "type": cell.kind,
                "state": states[cell.id],
                "version": cell.version,
                "content": cell.source,
                "outputs": [
                    {
                        "mime": part.mime,
                        "bytes": part.size,
                        "uri": cell_output_uri(session.id, cell.id, part.index),
                    }
                    for part in parts_of(cell.outputs)
                ],
            }
            for cell in cells
        ],
    }


def _past(execution: Execution) -> dict[str, Any]:
    record = execution.record
    return {
        "execution_id": record.id,
        "cell_id": record.cell_id,
        "status": record.state,
        "generation": record.generation,
        "attempt": record.attempt,
        "queued_at": record.queued_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "source": record.source,
        "error": record.error and {key: record.error.get(key) for key in ("ename", "evalue")},
        "reason": record.reason,
        "checkpoint": record.checkpoint,
        "undone": record.undone,
    }


def _output(outputs: Any, index: int) -> ReadResourceContents:
    if index >= len(outputs):
        raise ResourceNotFoundError(f"There is no output {index}: there are {len(outputs)}")
    mime, content = output_payload(outputs[index])
    if mime.startswith("image/") and mime != "image/svg+xml":
        try:
            return ReadResourceContents(base64.b64decode(content), mime)
        except (binascii.Error, ValueError):
            return ReadResourceContents(content, "text/plain")
    return ReadResourceContents(content, mime)


def _as_json(data: dict[str, Any]) -> ReadResourceContents:
    return ReadResourceContents(json.dumps(data, ensure_ascii=False), _JSON)


# Files of the data directory as resources: the newest listed, each to be read whole up to a bound.

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
    uri_template=f"{DATA}{{+path}}",
    name="data",
    title="Data file",
    description="A file of the data directory",
    icons=[icon_of("data")],
)


def data_listed(shelf: DataDirectory) -> list[Resource]:
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


def data_read(shelf: DataDirectory, path: str) -> ReadResourceContents:
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


def data_link(path: str, size: int | None) -> ResourceLink:
    """A file of the data directory for a person to open; models read of it in the text beside it."""
    name = shown_path(path.rpartition("/")[2])
    return ResourceLink(
        name=name,
        title=name,
        uri=data_uri(path),
        mime_type=mime_of(path),
        size=size,
        annotations=Annotations(audience=["user"]),
    )


def mime_of(path: str) -> str:
    """What a file is by its name."""
    return _MIMES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), _BINARY)

"""The room of a shared document: one WebSocket over which a server and its clients exchange what they edit.

A room lasts as long as its connection. Whoever comes again begins with an empty document and takes in the server's:
rooms are forgotten and built anew by their server, and a document of an earlier one would not fit. What a document
says is ``shared_document``; whose notebook it is, stands above.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from cellwright.errors import CellwrightError, HostCannot, HostUnreachable, NotebookError
from cellwright.jupyter._contents import ServerAddress, answered, refusal, unreachable
from cellwright.jupyter._document_merge import (
    PRIVATE,
    Sheet,
    SheetCell,
    placements,
    plain,
    shared_metadata,
    text_edits,
)
from cellwright.notebook.cells import is_valid_id, new_id, same

if TYPE_CHECKING:
    import httpx2
    import pycrdt
    from websockets.asyncio.client import ClientConnection

__all__ = [
    "GLOBAL_PRESENCE",
    "SharedDocument",
    "SharedNotebook",
    "Ticket",
    "find_shared_document",
    "open_shared_document",
]
GLOBAL_PRESENCE = "JupyterLab:globalAwareness"
"""The room that has no document, only who is there."""

_FILE_GONE = 4404

_SYNC, _AWARENESS = 0, 1

_STEP_2 = 1

_LARGEST_MESSAGE = 512 * 1024 * 1024

_CONNECT_S = _LOAD_S = 15.0

# A connection that is cut without a word is noticed after the two together.
_PING_S, _PONG_S = 4.0, 6.0

_LEAVE_S = 1.0

_QUIET_ROUNDS, _ROUND_S = 3, 0.01


@dataclass(frozen=True, slots=True)
class Ticket:
    """What lets one into the room of a notebook."""

    room_id: str
    session_id: str | None = None


async def find_shared_document(
    address: ServerAddress, client: httpx2.AsyncClient, path: str
) -> Ticket | None:
    """The room of a notebook on the server; None where documents there are not shared.

    Raises:
        HostUnreachable: the server cannot be reached.
        HostCannot: it does not let us.
        NotebookError: there is no such notebook.
    """
    await answered(address, client, "GET", address.api("contents", path), params={"content": "0"})
    body = {"format": "json", "type": "notebook"}
    with suppress(NotebookError):  # jupyter-collaboration
        told = await answered(address, client, "PUT", address.api("collaboration/session", path), json=body)
        return Ticket(f"json:notebook:{told['fileId']}", told["sessionId"])
    with suppress(NotebookError):  # jupyter-server-documents
        told = await answered(
            address, client, "POST", address.api("fileid/index"), params={"path": path.strip("/")}
        )
        if isinstance(told, dict) and "id" in told:
            return Ticket(f"json:notebook:{told['id']}")
    return None


class SharedDocument:
    """A document in its room, and the people there. Made by ``open_shared_document``."""

    def __init__(self, socket: ClientConnection, user: dict[str, Any]) -> None:
        from pycrdt import Awareness, Doc  # an extra

        doc: pycrdt.Doc[Any] = Doc()
        self.notebook = SharedNotebook(doc)
        self._socket = socket
        self._doc = doc
        self._presence = Awareness(doc)
        self._presence.set_local_state(user)
        self._changed = anyio.Event()
        self._asked = self._answered = self._updates = 0
        self._answer = anyio.Event()
        self._outgoing: list[bytes] = []
        self._to_send = anyio.Event()
        self._applying = self._left = False
        self._end: CellwrightError | None = None
        """Why the connection ended, once it has."""
        self._observers = [
            doc.observe(self._updated),
            self._presence.observe(self._presence_changed),
        ]

    @property
    def people(self) -> list[str]:
        """The names of the others who are there."""
        others = [
            state.get("user", {})
            for client, state in self._presence.states.items()
            if client != self._presence.client_id and isinstance(state, dict)
        ]
        return sorted({str(user["name"]) for user in others if user.get("name")})

    def show(self, field: str, value: Any) -> None:
        """Let the others see something of us, in the way that JupyterLab names it."""
        self._presence.set_local_state_field(field, value)

    async def changed(self) -> None:
        """Wait until somebody else has changed something since this was last waited for."""
        await self._changed.wait()
        self._changed = anyio.Event()

    async def settled(self) -> None:
        """Wait until the server has all that was done here so far.

        Raises:
            HostUnreachable: the connection ended first.
        """
        from pycrdt import create_sync_message  # an extra

        # It answers in the order in which it hears: an answer says that what was sent before has come.
        self._asked += 1
        number = self._asked
        self._send(create_sync_message(self._doc))
        while self._answered < number:
            if self._end is not None:
                raise self._end
            await self._answer.wait()

    async def loaded(self) -> None:
        """Wait until the document says all that the server has of it.

        A server may read a file into its document cell by cell while we are there, and tells nobody that it is done.
        """
        quiet = 0
        while quiet < _QUIET_ROUNDS:
            seen = self._updates
            await self.settled()
            await anyio.sleep(_ROUND_S)
            # No notebook in a room is without any cell: one that is, is still to come.
            is_quiet = self._updates == seen + 1 and len(self.notebook)
            quiet = quiet + 1 if is_quiet else 0

    async def run(self, address: ServerAddress) -> None:
        """Carry what is said, both ways, until the connection ends.

        Raises:
            HostUnreachable: it ended.
            NotebookError: the notebook is no longer there.
        """
        try:
            await self._carry()
        finally:
            # Whoever waits for an answer need not be of the group that the end of this one ends.
            self._end = _closed(address, self._socket)
            self._answer.set()
        if not self._left:
            raise self._end

    async def _carry(self) -> None:
        from websockets.exceptions import ConnectionClosed

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sending)
            tasks.start_soon(self._presence.start)
            with suppress(ConnectionClosed):
                async for message in self._socket:
                    if isinstance(message, bytes):
                        self._take(message)
            tasks.cancel_scope.cancel()

    async def leave(self) -> None:
        """Let the others see that we are gone."""
        self._left = True
        with suppress(Exception), anyio.move_on_after(_LEAVE_S, shield=True):
            self._presence.set_local_state(None)
            for message in self._drained():
                await self._socket.send(message)

    # What is heard -----------------------------------------------------------------------------------------------

    def _take(self, message: bytes) -> None:
        from pycrdt import handle_sync_message, read_message  # an extra

        kind, body = message[0], message[1:]
        if kind == _SYNC:
            self._applying = True
            try:
                reply = handle_sync_message(body, self._doc)
            finally:
                self._applying = False
            if reply is not None:
                self._send(reply)
            if body[0] == _STEP_2:
                self._answered += 1
                self._answer.set()
                self._answer = anyio.Event()
            if reply is None:
                self._updates += 1
                self._changed.set()
        elif kind == _AWARENESS:
            self._presence.apply_awareness_update(read_message(body), "remote")

    # What is said ------------------------------------------------------------------------------------------------

    def _updated(self, event: Any) -> None:
        from pycrdt import create_update_message  # an extra

        if not self._applying:
            self._send(create_update_message(event.update))

    def _presence_changed(self, topic: str, change: tuple[dict[str, Any], Any]) -> None:
        from pycrdt import create_awareness_message  # an extra

        came, origin = change[0]["added"], change[1]
        # Whoever comes is told nothing of those who are there: they have to say it again.
        if topic == "update" and (origin == "local" or came):
            update = self._presence.encode_awareness_update([self._presence.client_id])
            self._send(create_awareness_message(update))

    def _send(self, message: bytes) -> None:
        self._outgoing.append(message)
        self._to_send.set()

    async def _sending(self) -> None:
        from pycrdt import create_awareness_message  # an extra
        from websockets.exceptions import ConnectionClosed

        update = self._presence.encode_awareness_update([self._presence.client_id])
        self._send(create_awareness_message(update))
        with suppress(ConnectionClosed):  # whoever listens tells
            while True:
                for message in self._drained():
                    await self._socket.send(message)
                await self._to_send.wait()
                self._to_send = anyio.Event()

    def _drained(self) -> list[bytes]:
        messages, self._outgoing = self._outgoing, []
        return messages


@asynccontextmanager
async def open_shared_document(
    address: ServerAddress,
    ticket: Ticket,
    user: dict[str, Any],
    tasks: anyio.abc.TaskGroup,
    *,
    empty: bool = False,
    was_empty: bool = False,
) -> AsyncIterator[SharedDocument]:
    """Be in a room, with all that its document says; whatever ends the connection is raised in ``tasks``.

    A room that has no document is ``empty``; ``was_empty`` says that the document had no cell when it was last seen.

    Raises:
        HostUnreachable: the server cannot be reached, or does not tell all of the document in time.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus

    url = address.socket("collaboration/room", ticket.room_id)
    if ticket.session_id is not None:
        url += f"?sessionId={ticket.session_id}"
    try:
        socket = await connect(
            url,
            additional_headers=address.headers,
            max_size=_LARGEST_MESSAGE,
            open_timeout=_CONNECT_S,
            ping_interval=_PING_S,
            ping_timeout=_PONG_S,
            close_timeout=_LEAVE_S,
            proxy=True if address.by_proxy else None,
        )
    except InvalidStatus as error:
        raise refusal(address, error.response.status_code, f"room {ticket.room_id}") from None
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise unreachable(address, error) from None
    document = SharedDocument(socket, user)
    try:
        tasks.start_soon(document.run, address)
        await _load(document, address, empty=empty, was_empty=was_empty)
        yield document
    finally:
        await document.leave()
        with anyio.move_on_after(_LEAVE_S, shield=True):
            await socket.close()


async def _load(document: SharedDocument, address: ServerAddress, *, empty: bool, was_empty: bool) -> None:
    with anyio.move_on_after(_LOAD_S) as loading:
        await (document.settled() if empty else document.loaded())
    if loading.cancelled_caught and not empty and (len(document.notebook) or not was_empty):
        # What is still to come would be taken for deleted.
        raise unreachable(address, TimeoutError(f"it has not told all of the notebook within {_LOAD_S:g} s"))


def _closed(address: ServerAddress, socket: ClientConnection) -> CellwrightError:
    """Why a room's connection ended, in our words."""
    code, reason = socket.close_code, socket.close_reason or ""
    if code == _FILE_GONE:
        return NotebookError(
            f"The notebook is no longer on the Jupyter server {address.name}: {reason}",
            hint="Its copy here goes on; save it under another name, or put the file back",
        )
    with suppress(ValueError, TypeError):
        told = json.loads(reason)
        if not told.get("reloadable", True):
            return HostCannot(f"The Jupyter server {address.name} cannot share it: {told.get('errorReason')}")
        reason = told.get("reason", reason)
    return HostUnreachable(f"The connection to the Jupyter server {address.name} ended ({code} {reason})")


# A shared notebook document: read as a sheet, and brought to say another by the smallest edits that do.

_NBFORMAT_MINOR = 5


class SharedNotebook:
    """One shared notebook, in the form that Jupyter's programs use."""

    def __init__(self, doc: pycrdt.Doc[Any]) -> None:
        from pycrdt import Array, Map  # an extra

        self.doc = doc
        self._cells: pycrdt.Array[Any] = doc.get("cells", type=Array)
        self._meta: pycrdt.Map[Any] = doc.get("meta", type=Map)
        self._state: pycrdt.Map[Any] = doc.get("state", type=Map)
        self._known: dict[str, SheetCell] = {}
        self._changed: set[str] | None = None
        """Cells that others edited since the last reading; None means that any may have been, or moved."""
        self._order: list[str] = []
        self._running: set[str] | None = None
        self._subscription = self._cells.observe_deep(self._note)

    @property
    def path(self) -> str | None:
        """Where the document lies on its server by now, if that is told."""
        path = self._state.get("path")
        # Whoever shares a document may have written anything into it.
        return path if isinstance(path, str) and not {".", ".."} & set(path.split("/")) else None

    def __len__(self) -> int:
        return len(self._cells)

    def read(self) -> Sheet:
        """What it says; cells without an id of their own are given one first."""
        if self._changed is None:
            self._repair()
            self._order = [cell["id"] for cell in self._cells]
        cells = []
        for index, cell_id in enumerate(self._order):
            known = self._known.get(cell_id)
            if known is None or self._changed is None or cell_id in self._changed:
                read = SheetCell.of(self._cells[index].to_py())
                known = read if known is None or not read.says(known) else known
                self._known[cell_id] = known
            cells.append(known)
        self._changed = set()
        metadata = self._meta.get("metadata")
        return Sheet(tuple(cells), shared_metadata(metadata.to_py() if metadata is not None else {}))

    def become(self, sheet: Sheet) -> None:
        """Say what the sheet says, by edits that leave as much as can be untouched."""
        before = self.read()
        with self.doc.transaction():
            written = self._arrange(before, sheet)
            olds = before.by_id
            for index, cell in enumerate(sheet.cells):
                if cell.id not in written and olds[cell.id] is not cell:
                    _edit_cell(self._cells[index], olds[cell.id], cell)
            self._edit_metadata(before, sheet)
        self._known = sheet.by_id
        self._order = sheet.ids
        self._changed = set()

    def show_running(self, cell_ids: Iterable[str]) -> None:
        """Let people see which cells run."""
        ids = self.read().ids
        running = set(cell_ids)
        # Whoever was here before us may have left cells that seem to run.
        doubtful = set(ids) if self._running is None else self._running ^ running
        with self.doc.transaction():
            for cell_id in doubtful.intersection(ids):
                cell = self._cells[ids.index(cell_id)]
                state = "running" if cell_id in running else "idle"
                if cell.get("cell_type") == "code" and cell.get("execution_state", "idle") != state:
                    cell["execution_state"] = state
        self._running = running

    # Reading -----------------------------------------------------------------------------------------------------

    def _note(self, events: list[Any]) -> None:
        for event in events:
            path = event.path
            is_named_anew = len(path) == 1 and "id" in event.keys
            if self._changed is None or not path or is_named_anew:
                self._changed = None
                return
            self._changed.add(self._order[path[0]])

    def _repair(self) -> None:
        """See to it that every cell has an id of its own, which two people who move one cell at once may break."""
        if (self._meta.get("nbformat_minor") or 0) < _NBFORMAT_MINOR and len(self._cells):
            self._meta["nbformat_minor"] = float(_NBFORMAT_MINOR)
            self._meta["nbformat"] = 4.0
        seen: dict[str, Any] = {}
        index = 0
        while index < len(self._cells):
            cell = self._cells[index]
            cell_id = cell.get("id")
            if is_valid_id(cell_id) and cell_id not in seen:
                seen[cell_id] = cell
            elif cell_id in seen and same(plain(seen[cell_id].to_py()), plain(cell.to_py())):
                del self._cells[index]
                continue
            else:
                cell["id"] = fresh = new_id(seen)
                seen[fresh] = cell
            index += 1

    # Editing -----------------------------------------------------------------------------------------------------

    def _arrange(self, before: Sheet, sheet: Sheet) -> set[str]:
        """Let the cells of the sheet stand in its order. To move a cell is to write it anew; these are returned."""
        news, written = sheet.by_id, set[str]()
        order: list[str] = []
        for cell in before.cells:
            new = news.get(cell.id)
            if new is not None and self._can_stay(len(order), cell, new):
                order.append(cell.id)
            else:
                del self._cells[len(order)]
        for cell_id, place, _ in list(placements(order, sheet.ids)):
            private: dict[str, Any] = {}
            if cell_id in order:
                private = _private(self._cells[order.index(cell_id)])
                del self._cells[order.index(cell_id)]
                order.remove(cell_id)
            self._cells.insert(place, _new_cell(news[cell_id], private))
            order.insert(place, cell_id)
            written.add(cell_id)
        return written

    def _can_stay(self, index: int, old: SheetCell, new: SheetCell) -> bool:
        return old.kind == new.kind and (old is new or _is_editable(self._cells[index], new))

    def _edit_metadata(self, before: Sheet, sheet: Sheet) -> None:
        from pycrdt import Map  # an extra

        if same(before.metadata, sheet.metadata):
            return
        if not isinstance(self._meta.get("metadata"), Map):
            self._meta["metadata"] = Map({})
        _edit_map(self._meta["metadata"], before.metadata or {}, sheet.metadata or {})


def _is_editable(cell: Any, new: SheetCell) -> bool:
    """Whether the cell has the parts that are edited in place; another program may have made it otherwise."""
    from pycrdt import Array, Map, Text  # an extra

    parts = isinstance(cell.get("source"), Text) and isinstance(cell.get("metadata"), Map)
    return parts and (new.kind != "code" or isinstance(cell.get("outputs"), Array))


def _private(cell: Any) -> dict[str, Any]:
    """What of a cell's metadata goes with it although no sheet has it."""
    metadata = cell.to_py().get("metadata") or {}
    return {key: metadata[key] for key in PRIVATE & metadata.keys()}


def _new_cell(cell: SheetCell, private: Mapping[str, Any]) -> Any:
    from pycrdt import Array, Map, Text  # an extra

    fields: dict[str, Any] = {
        "id": cell.id,
        "cell_type": cell.kind,
        "source": Text(cell.source),
        "metadata": Map({**cell.metadata, **private}),
    }
    if cell.attachments:
        fields["attachments"] = dict(cell.attachments)
    if cell.kind == "code":
        fields["outputs"] = Array([_new_output(output) for output in cell.outputs])
        fields["execution_count"] = cell.execution_count
        fields["execution_state"] = "idle"
    return Map(fields)


def _edit_cell(cell: Any, old: SheetCell, new: SheetCell) -> None:
    # The text is taken out first: an augmented assignment to the map's item would write the item anew.
    _edit_text(cell["source"], new.source)
    if not same(old.metadata, new.metadata):
        _edit_map(cell["metadata"], old.metadata, new.metadata)
    if not same(old.attachments, new.attachments):
        if new.attachments:
            cell["attachments"] = dict(new.attachments)
        else:
            del cell["attachments"]
    if new.kind == "code":
        if not same(old.outputs, new.outputs):
            _edit_outputs(cell["outputs"], list(new.outputs))
        if old.execution_count != new.execution_count:
            cell["execution_count"] = new.execution_count


def _edit_text(text: Any, after: str) -> None:
    """Make a shared text say this; its places are counted in bytes of UTF-8."""
    before = str(text)
    for edit in reversed(text_edits(before, after)):
        start = len(before[: edit.start].encode())
        stop = start + len(before[edit.start : edit.stop].encode())
        if stop > start:
            del text[start:stop]
        if edit.text:
            text.insert(start, edit.text)


def _edit_map(target: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for key in old.keys() - new.keys():
        del target[key]
    for key, value in new.items():
        if key not in old or not same(old[key], value):
            target[key] = value


def _edit_outputs(target: Any, after: list[Mapping[str, Any]]) -> None:
    """Keep the outputs that are the same, and let a stream that grew grow."""
    kept = 0
    for shown, output in zip(list(target), after, strict=False):
        before = plain(shown.to_py())
        if not same(before, output):
            if not _grows(shown, before, output):
                break
            _edit_text(shown["text"], output["text"])
        kept += 1
    if len(target) > kept:
        del target[kept:]
    target.extend([_new_output(output) for output in after[kept:]])


def _grows(shown: Any, before: Mapping[str, Any], output: Mapping[str, Any]) -> bool:
    from pycrdt import Text  # an extra

    return (
        output.get("output_type") == "stream"
        and isinstance(output.get("text"), str)
        and isinstance(shown.get("text"), Text)
        and same({**before, "text": ""}, {**output, "text": ""})
    )


def _new_output(output: Mapping[str, Any]) -> Any:
    from pycrdt import Map, Text  # an extra

    fields = dict(output)
    if fields.get("output_type") == "stream" and isinstance(fields.get("text"), str):
        fields["text"] = Text(fields["text"])
    return Map(fields)

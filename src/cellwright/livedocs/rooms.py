"""The room of a shared document: one WebSocket over which a server and its clients exchange what they edit.

A room lasts as long as its connection. Whoever comes again begins with an empty document and takes in the server's:
rooms are forgotten and built anew by their server, and a document of an earlier one would not fit. What a document
says is ``shared``; whose notebook it is, stands above.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from cellwright.errors import CellwrightError, HostCannot, HostUnreachable, NotebookError
from cellwright.livedocs.addresses import ServerAddress, answered, refusal, unreachable
from cellwright.livedocs.shared import SharedNotebook

if TYPE_CHECKING:
    import httpx2
    import pycrdt
    from websockets.asyncio.client import ClientConnection

__all__ = ["GLOBAL_PRESENCE", "Room", "Ticket", "enter_room", "find_room"]

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


async def find_room(address: ServerAddress, client: httpx2.AsyncClient, path: str) -> Ticket | None:
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


class Room:
    """A document in its room, and the people there. Made by ``enter_room``."""

    def __init__(self, socket: ClientConnection, user: dict[str, Any]) -> None:
        from pycrdt import Awareness, Doc  # noqa: PLC0415  # an extra

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
        from pycrdt import create_sync_message  # noqa: PLC0415  # an extra

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
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

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
        from pycrdt import handle_sync_message, read_message  # noqa: PLC0415  # an extra

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
        from pycrdt import create_update_message  # noqa: PLC0415  # an extra

        if not self._applying:
            self._send(create_update_message(event.update))

    def _presence_changed(self, topic: str, change: tuple[dict[str, Any], Any]) -> None:
        from pycrdt import create_awareness_message  # noqa: PLC0415  # an extra

        came, origin = change[0]["added"], change[1]
        # Whoever comes is told nothing of those who are there: they have to say it again.
        if topic == "update" and (origin == "local" or came):
            update = self._presence.encode_awareness_update([self._presence.client_id])
            self._send(create_awareness_message(update))

    def _send(self, message: bytes) -> None:
        self._outgoing.append(message)
        self._to_send.set()

    async def _sending(self) -> None:
        from pycrdt import create_awareness_message  # noqa: PLC0415  # an extra
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

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
async def enter_room(
    address: ServerAddress,
    ticket: Ticket,
    user: dict[str, Any],
    tasks: anyio.abc.TaskGroup,
    *,
    empty: bool = False,
    was_empty: bool = False,
) -> AsyncIterator[Room]:
    """Be in a room, with all that its document says; whatever ends the connection is raised in ``tasks``.

    A room that has no document is ``empty``; ``was_empty`` says that the document had no cell when it was last seen.

    Raises:
        HostUnreachable: the server cannot be reached, or does not tell all of the document in time.
    """
    from websockets.asyncio.client import connect  # noqa: PLC0415
    from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415

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
    room = Room(socket, user)
    try:
        tasks.start_soon(room.run, address)
        await _load(room, address, empty=empty, was_empty=was_empty)
        yield room
    finally:
        await room.leave()
        with anyio.move_on_after(_LEAVE_S, shield=True):
            await socket.close()


async def _load(room: Room, address: ServerAddress, *, empty: bool, was_empty: bool) -> None:
    with anyio.move_on_after(_LOAD_S) as loading:
        await (room.settled() if empty else room.loaded())
    if loading.cancelled_caught and not empty and (len(room.notebook) or not was_empty):
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

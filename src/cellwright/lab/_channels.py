"""One client's socket to a session's kernel: its requests go in, and all that happens on the kernel comes out.

A client that comes back under its name is told again what became of its latest requests. It forgot those that it knows
the end of, so nothing is shown twice and nothing is missing, whatever broke in between: the line, or this process.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Container, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import anyio
import anyio.abc
import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

import cellwright
from cellwright.engine import Engine, Event, Execution, Missed, Requester, Session, Subscription
from cellwright.engine.records import ExecutionRecord
from cellwright.errors import CellwrightError, UnknownCell, UnknownExecution
from cellwright.notebook.languages import find_language

__all__ = [
    "BadMessage",
    "Channels",
    "decode",
    "is_kernel_id",
    "kernel_model",
    "kernelspec",
    "kernelspec_name",
    "kernelspecs",
    "messages_for",
    "new_kernel_id",
]

_log = logging.getLogger(__name__)

_MOST_WAITING = 10_000

_TOLD_AGAIN = 50

_PAGE = 200

_GONE = (WebSocketDisconnect, RuntimeError)
"""Starlette raises the latter for a socket that was closed while somebody wrote."""


class Channels:
    """Serves one WebSocket until either side leaves."""

    def __init__(self, socket: WebSocket, engine: Engine, session: Session, *, knows: Container[int]) -> None:
        self._socket = socket
        self._engine = engine
        self._session = session
        self._client = socket.query_params.get("session_id", "")
        self._knows = knows
        """Generations of the kernel whose end the client asked for."""
        self._sending = anyio.Lock()
        self._told: dict[str, int] = {}
        """Executions that were told again, and up to which event."""
        self._asked, self._to_run = anyio.create_memory_object_stream[Request](_MOST_WAITING)

    async def serve(self) -> None:
        await self._socket.accept()
        async with self._asked, self._to_run, anyio.create_task_group() as tasks:
            self._tasks = tasks
            with suppress(*_GONE), self._engine.subscribe(self._session.id) as live:
                await self._tell_again()
                tasks.start_soon(self._run_in_order)
                tasks.start_soon(self._apart, self._tell_all(live))
                await self._hear()
            tasks.cancel_scope.cancel()

    # What is heard -----------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        while True:
            try:
                request = decode(await self._socket.receive_text())
            except (BadMessage, KeyError) as error:  # a frame of bytes has no text
                _log.warning("lab_message_refused session=%s %s", self._session.id, error)
                continue
            if request.header.msg_type == "execute_request":
                await self._asked.send(request)
            else:
                self._tasks.start_soon(self._apart, self._answer(request))

    async def _apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something whose failure, with a client that is just leaving, is nobody's business."""
        with suppress(*_GONE):
            await work

    async def _answer(self, request: Request) -> None:
        await self._send(status("busy", request.header))
        said = await answer(self._engine, self._session, request)
        if said is not None:
            await self._send(said)
        await self._send(status("idle", request.header))
        if live := self._session.runs.live:  # the client takes the last status for the kernel's
            await self._send(status("busy", parent_of(live[0].record)))

    async def _run_in_order(self) -> None:
        async for request in self._to_run:
            try:
                await self._run(request)
            except CellwrightError as error:
                await self._apart(self._refuse(request, error))

    async def _run(self, request: Request) -> Execution:
        content, session = request.content, self._session
        code = content.get("code")
        source = code if isinstance(code, str) else ""
        asker = Requester(
            self._client, request.header.msg_id, stops=content.get("stop_on_error") is not False
        )
        numbered = not content.get("silent") and content.get("store_history") is not False
        await session.refresh()
        try:
            cell = session.document.cell(str(request.metadata.get("cellId")))
        except UnknownCell:
            return await session.execute_code(source, numbered=numbered, asker=asker)
        if cell.source == source and cell.kind == "code" and numbered:
            return await session.execute(cell.id, asker=asker)
        # Edited there and not saved yet: its text and its outputs come with the file.
        return await session.execute_code(source, language=cell.language, numbered=numbered, asker=asker)

    async def _refuse(self, request: Request, error: CellwrightError) -> None:
        """What could not even be queued fails as code does."""
        text = f"{error.message}. {error.hint}" if error.hint else error.message
        content = {"ename": error.code, "evalue": text, "traceback": [text]}
        await self._send(status("busy", request.header))
        await self._send(OutgoingMessage("iopub", "error", content, request.header))
        reply = {"status": "error", "execution_count": None, **content}
        await self._send(OutgoingMessage("shell", "execute_reply", reply, request.header))
        await self._send(status("idle", request.header))

    # What is told ------------------------------------------------------------------------------------------------

    async def _tell_all(self, live: Subscription) -> None:
        async for item in live:
            if isinstance(item, Missed):
                await self._tell_missed(item)
            else:
                await self._tell(item)
        await self._socket.close(code=1001, reason="the daemon is ending")

    async def _tell_missed(self, missed: Missed) -> None:
        last = missed.first_seq - 1
        while last < missed.last_seq and (
            page := self._engine.events(since=last, session_id=self._session.id, limit=_PAGE)
        ):
            for event in page:
                await self._tell(event)
            last = page[-1].seq

    async def _tell(self, event: Event) -> None:
        if event.data.get("session") == "deleted":
            await self._socket.close(code=1000, reason="the session was deleted")
        elif event.execution_id is not None:
            if event.seq > self._told.get(event.execution_id, 0):
                await self._tell_of_execution(event)
        elif state_lost(event) and event.generation not in self._knows:
            await self._send(status("restarting"))

    async def _tell_of_execution(self, event: Event) -> None:
        try:
            execution = self._engine.execution(event.execution_id or "")
        except UnknownExecution:
            return
        for said in messages_for(event, execution.record, self._client):
            await self._send(said)
        if event.kind == "notebook.cell.completed":
            self._tasks.start_soon(self._apart, self._tell_idle(execution))

    async def _tell_idle(self, execution: Execution) -> None:
        """The last word, once what is made of an execution's leavings was told too."""
        await execution.wait()
        await self._send(status("idle", parent_of(execution.record)))

    async def _tell_again(self) -> None:
        ran = await self._engine.history(self._session.id, outputs=False) if self._client else []
        asked = [run for run in ran if run.record.asker is not None]
        own = [run for run in asked if run.record.asker and run.record.asker.client == self._client]
        for run in own[-_TOLD_AGAIN:]:
            events = await self._engine.events_of(run.id)
            await self._send(status("busy", parent_of(run.record)))
            await self._send(cleared(run.record))
            for event in events:
                await self._tell_of_execution(event)
                self._told[run.id] = event.seq

    async def _send(self, said: OutgoingMessage) -> None:
        async with self._sending:
            await self._socket.send_text(encode(said))


# What clients ask beside running code: answered at once, from here or by a kernel that has nothing to do.

# What a kernel is asked, and what is said where it cannot answer now.
_RELAYED: Mapping[str, Mapping[str, Any]] = {
    "complete_request": {"status": "ok", "matches": [], "metadata": {}},
    "inspect_request": {"status": "ok", "found": False, "data": {}, "metadata": {}},
    "is_complete_request": {"status": "unknown"},
}

_MOST_HISTORY = 1000


async def answer(engine: Engine, session: Session, request: Request) -> OutgoingMessage | None:
    """The answer to anything but an execution; None where the protocol has none."""
    kind = request.header.msg_type
    match kind:
        case "comm_open":
            closed = {"comm_id": request.content.get("comm_id", ""), "data": {}}
            return OutgoingMessage("iopub", "comm_close", closed, request.header)
        case "comm_msg" | "comm_close" | "input_reply":
            return None
        case _:
            content = await _content(engine, session, request)
            return OutgoingMessage(request.reply_channel, request.reply_kind, content, request.header)


async def _content(engine: Engine, session: Session, request: Request) -> Mapping[str, Any]:
    match kind := request.header.msg_type:
        case "kernel_info_request":
            return kernel_info(session)
        case "comm_info_request":
            return {"status": "ok", "comms": {}}
        case "history_request":
            return {"status": "ok", "history": await _history(engine, session, request.content)}
        case "interrupt_request":
            await session.interrupt()
            return {"status": "ok"}
        case _ if kind in _RELAYED:
            return await _relayed(session, request)
        case _:
            return {
                "status": "error",
                "ename": "NotSupported",
                "evalue": f"Cellwright does not answer {kind}",
                "traceback": [],
            }


async def _relayed(session: Session, request: Request) -> Mapping[str, Any]:
    code, cursor = request.content.get("code", ""), request.content.get("cursor_pos", 0)
    try:
        return await session.relay(request.header.msg_type, request.content)
    except (CellwrightError, TimeoutError):
        # Busy with a cell, most of all: then nobody waits for a completion.
        return {
            **_RELAYED[request.header.msg_type],
            "cursor_start": cursor,
            "cursor_end": cursor if code else 0,
        }


async def _history(
    engine: Engine, session: Session, content: Mapping[str, Any]
) -> list[tuple[int, int, str]]:
    """The newest codes that ran, each with its number."""
    wanted = content.get("n")
    count = min(wanted, _MOST_HISTORY) if isinstance(wanted, int) and wanted > 0 else _MOST_HISTORY
    ran = await engine.history(session.id, outputs=False)
    return [(run.generation, run.record.number, run.record.source) for run in ran[-count:]]


# What happens to a session's executions, as the messages that a kernel would have sent. Pure.

_SOMEBODY = "cellwright"

_LATE = "[cellwright: what follows came after this cell's end and is no part of its outputs]\n"

_CUT_SHORT = {"timeout": "TimeLimit", "interrupted": "Interrupted", "died": "KernelDied"}

# What the protocol asks of a kind, where a kernel may leave it out.
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "stream": {"name": "stdout", "text": ""},
    "display_data": {"data": {}, "metadata": {}, "transient": {}},
    "update_display_data": {"data": {}, "metadata": {}, "transient": {}},
    "execute_result": {"data": {}, "metadata": {}, "transient": {}, "execution_count": 0},
    "error": {"ename": "", "evalue": "", "traceback": []},
    "clear_output": {"wait": False},
}


def parent_of(record: ExecutionRecord) -> Header:
    """What messages about an execution answer to."""
    if record.asker is None:
        return Header(record.id, "execute_request", _SOMEBODY)
    return Header(record.asker.request, "execute_request", record.asker.client)


def messages_for(event: Event, record: ExecutionRecord, client: str) -> list[OutgoingMessage]:
    """What one client hears of one event of an execution, but for the idle status at its very end."""
    parent = parent_of(record)
    match event.kind:
        case "notebook.cell.executing" if event.data["state"] == "running":
            began = {"code": record.source, "execution_count": record.number}
            return [status("busy", parent), OutgoingMessage("iopub", "execute_input", began, parent)]
        case "notebook.cell.output":
            return [_output(event.data["type"], event.data["content"], parent)]
        case "notebook.cell.late_output":
            return _late(event.data, parent)
        case "notebook.cell.completed":
            is_own = record.asker is not None and record.asker.client == client
            return [*_cut_short(record, parent), *([_reply(record, parent)] if is_own else [])]
        case _:
            return []


def _output(kind: str, content: Mapping[str, Any], parent: Header) -> OutgoingMessage:
    needed = _NEEDED.get(kind, {})
    given = {key: value for key, value in content.items() if value is not None or key not in needed}
    return OutgoingMessage("iopub", kind, {**needed, **given}, parent)


def _late(data: Mapping[str, Any], parent: Header) -> list[OutgoingMessage]:
    """What came after an execution's end, below its outputs; what would change those is left out."""
    kind, content = data["type"], data["content"]
    if kind == "clear_output" or data.get("by") is not None:  # who says it tells it as its own output too
        return []
    if kind in ("display_data", "update_display_data"):
        kind, content = "display_data", {**content, "transient": {}}
    mark = (
        [OutgoingMessage("iopub", "stream", {"name": "stderr", "text": _LATE}, parent)]
        if data["first"]
        else []
    )
    return [*mark, _output(kind, content, parent)]


def cleared(record: ExecutionRecord) -> OutgoingMessage:
    """What comes before outputs that are told again to who may have had some of them."""
    return OutgoingMessage("iopub", "clear_output", {"wait": False}, parent_of(record))


def status(state: str, parent: Header | None = None) -> OutgoingMessage:
    return OutgoingMessage("iopub", "status", {"execution_state": state}, parent)


def state_lost(event: Event) -> bool:
    """Whether an event tells that the kernel's memory is gone."""
    if event.kind == "notebook.state.changed":
        return event.data.get("session") == "suspended"
    return event.kind == "notebook.error" and event.data.get("code") == "kernel_died"


def _cut_short(record: ExecutionRecord, parent: Header) -> list[OutgoingMessage]:
    """Why it did not end by itself, where a person sees it: no kernel says that."""
    if record.started_at is None or record.state not in _CUT_SHORT or record.reason is None:
        return []
    if record.state == "interrupted" and record.error is not None:  # its traceback says it
        return []
    content = {"ename": _CUT_SHORT[record.state], "evalue": record.reason, "traceback": [record.reason]}
    return [OutgoingMessage("iopub", "error", content, parent)]


def _reply(record: ExecutionRecord, parent: Header) -> OutgoingMessage:
    content: dict[str, Any] = {"execution_count": record.execution_count}
    if record.state == "ok":
        content |= {"status": "ok", "user_expressions": {}, "payload": []}
    elif record.started_at is None:
        content |= {"status": "aborted"}
    else:
        error = record.error or {}
        content |= {
            "status": "error",
            "ename": error.get("ename") or _CUT_SHORT.get(record.state, "Error"),
            "evalue": error.get("evalue") or record.reason or "",
            "traceback": error.get("traceback") or [],
        }
    return OutgoingMessage("shell", "execute_reply", content, parent)


# Jupyter's messages as a server and a gateway send them over a WebSocket: one JSON object in a text frame.
# Pure.

PROTOCOL = "5.3"

Channel: TypeAlias = Literal["shell", "control", "iopub"]

_OURS = "cellwright"


class BadMessage(CellwrightError):
    """What came over the socket is no message."""

    code = "bad_message"


class Header(msgspec.Struct, frozen=True):
    """Who sent a message, and what it is; unknown fields are left out, for nobody asks for them back."""

    msg_id: str
    msg_type: str
    session: str = ""
    username: str = ""
    date: str = ""
    version: str = PROTOCOL


class Request(msgspec.Struct, frozen=True):
    """What a client asks."""

    header: Header
    channel: str = "shell"
    content: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    @property
    def reply_channel(self) -> Channel:
        return "control" if self.channel == "control" else "shell"

    @property
    def reply_kind(self) -> str:
        return self.header.msg_type.removesuffix("_request") + "_reply"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What a client is told, and in answer to what."""

    channel: Channel
    kind: str
    content: Mapping[str, Any]
    parent: Header | None = None


_decode = msgspec.json.Decoder(Request).decode


def decode(text: str) -> Request:
    """Read what a client sent.

    Raises:
        BadMessage: it is no message of the protocol.
    """
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadMessage(f"No message of Jupyter's protocol: {str(error)[:200]}") from error


def encode(said: OutgoingMessage) -> str:
    """A message as it goes over the socket."""
    header = Header(
        uuid.uuid4().hex, said.kind, _OURS, _OURS, datetime.now(UTC).isoformat().replace("+00:00", "Z")
    )
    message = {
        "header": header,
        "msg_id": header.msg_id,
        "msg_type": header.msg_type,
        "parent_header": said.parent if said.parent is not None else {},
        "metadata": {},
        "content": said.content,
        "channel": said.channel,
        "buffers": [],
    }
    return msgspec.json.encode(message).decode()


# A session as Lab sees it: the one kernelspec there is, the one kernel, and the language it speaks. Pure.

# Kernels have such ids on the wire. Those that are the same session begin alike, so that they are known without a list.
_NAMESPACE = uuid.UUID("5f1d0a52-6d3b-4b37-9a2e-0c7d4f1c2b11")

_ALIKE = 18

_PYTHON = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "mimetype": "text/x-python",
}


def new_kernel_id(session_id: str) -> str:
    """One more name for a session's kernel: a server lets go of each that it started, and must not let go of two."""
    return str(uuid.uuid5(_NAMESPACE, session_id))[:_ALIKE] + str(uuid.uuid4())[_ALIKE:]


def is_kernel_id(kernel_id: str, session_id: str) -> bool:
    """Whether a name may be one of this session's kernel's."""
    return kernel_id[:_ALIKE] == new_kernel_id(session_id)[:_ALIKE]


def kernelspec_name(session: Session) -> str:
    """What the notebook itself calls its kernel: by that name Lab finds this one without asking."""
    spec = session.document.metadata.get("kernelspec")
    name = spec.get("name") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) and name else f"cellwright-{session.language}"


def kernelspec(session: Session) -> dict[str, Any]:
    spec = {
        "argv": [],
        "env": {},
        "display_name": f"{session.language.capitalize()} (session {session.id})",
        "language": session.language,
        "interrupt_mode": "message",
        "metadata": {"cellwright": {"session": session.id}},
    }
    return {"name": kernelspec_name(session), "spec": spec, "resources": {}}


def kernelspecs(session: Session) -> dict[str, Any]:
    found = kernelspec(session)
    return {"default": found["name"], "kernelspecs": {found["name"]: found}}


def kernel_model(
    session: Session, kernel_id: str, *, last_activity: float, connections: int
) -> dict[str, Any]:
    active = datetime.fromtimestamp(last_activity, UTC)
    return {
        "id": kernel_id,
        "name": kernelspec_name(session),
        "last_activity": f"{active:%Y-%m-%dT%H:%M:%S.%f}Z",
        "execution_state": "busy" if session.runs.live else "idle",
        "connections": connections,
    }


def kernel_info(session: Session) -> dict[str, Any]:
    """Answered from here: the kernel would be asked only once its cell has ended, and Lab waits for this first."""
    return {
        "status": "ok",
        "protocol_version": PROTOCOL,
        "implementation": "cellwright",
        "implementation_version": cellwright.__version__,
        "language_info": _language_info(session),
        "banner": f"Session {session.id} of {session.path.name}, shared with whoever else works on it.",
        "help_links": [],
        "debugger": False,
    }


def _language_info(session: Session) -> dict[str, Any]:
    known = find_language(session.language)
    info: dict[str, Any] = {"name": session.language, "version": "", "mimetype": f"text/x-{session.language}"}
    info["file_extension"] = known.suffixes[0] if known is not None else ".txt"
    if session.language == "python":
        info |= {**_PYTHON, "version": session.record.python_version}
    told = session.document.metadata.get("language_info")
    return {**info, **told} if isinstance(told, Mapping) and told.get("name") == info["name"] else info

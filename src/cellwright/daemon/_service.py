"""The daemon itself: one engine, a MCP server for each dialect, and whoever comes to the socket. Ends when idle.

Builds everything and reads the settings once. How clients find it is in ``connect``, HTTP is in ``listeners``.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.abc

import cellwright
from cellwright.assembly import open_engine
from cellwright.audit import acting
from cellwright.daemon._attention import recent_sessions, waiting_for_people
from cellwright.daemon._connections import (
    ClientInput,
    ClientOutput,
    Conversation,
    is_hung_up,
    receive_arrival,
)
from cellwright.daemon._early_responder import Arrival, EarlyResponder
from cellwright.daemon._lab_gateways import LabRequest, Labs
from cellwright.daemon._listeners import Listener
from cellwright.daemon._mcp_servers import McpServers, take_grants
from cellwright.daemon._ports import OpenPorts, page_lacks
from cellwright.daemon._refusals import cause_of, refusal_of
from cellwright.daemon.logs import keep_log
from cellwright.daemon.paths import DaemonPaths
from cellwright.engine import Engine
from cellwright.engine.approvals import Action
from cellwright.errors import CellwrightError
from cellwright.formats.grammars import leave_out_address_grammars
from cellwright.settings import Settings, load_settings
from cellwright.unixstreams import UnixStream, lines

__all__ = ["Daemon", "run_daemon"]

_log = logging.getLogger(__name__)
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
_IDLE_CHECKS_PER_PERIOD = 4
_LISTEN = ("serve", "page", "lab")


def run_daemon(
    paths: DaemonPaths, directory: str, listener: socket.socket, early_responder: EarlyResponder
) -> CellwrightError | None:
    """Serve until told to stop, or until idle for as long as the settings say; what kept it from going on, if anything."""
    keep_log(paths)
    leave_out_address_grammars()
    try:
        settings = load_settings(_place(directory), storage=Path(paths.storage))
        anyio.run(_run, paths, settings, listener, early_responder)
    except (CellwrightError, ExceptionGroup) as error:
        if (cause := cause_of(error)) is None:
            raise
        _log.error("cannot_go_on %s", cause)
        return cause
    return None


def _place(directory: str) -> Path:
    """Where a client works. A desktop application starts its servers in /, where nobody wants notebooks."""
    return Path(directory) if directory != "/" else Path.home()


async def _run(
    paths: DaemonPaths, settings: Settings, listener: socket.socket, early_responder: EarlyResponder
) -> None:
    for name, danger in settings.dangers.items():
        _log.warning("dangerous setting=%s: %s", name, danger)
    async with _engine_and_servers(settings) as (engine, mcp_servers):
        daemon = Daemon(paths, engine, mcp_servers)
        await daemon.serve(listener, early_responder)


@asynccontextmanager
async def _engine_and_servers(settings: Settings) -> AsyncIterator[tuple[Engine, McpServers]]:
    """The engine attaches to its host, another process, while this one imports the SDK: both take about as long."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, _import_the_sdk)
        async with (
            open_engine(settings, ephemeral=not settings.persist_sessions) as engine,
            McpServers(engine) as mcp_servers,
        ):
            yield engine, mcp_servers


def _import_the_sdk() -> None:
    import cellwright.mcp.server  # noqa: F401  # see above


class Daemon:
    """Clients of one engine."""

    def __init__(self, paths: DaemonPaths, engine: Engine, mcp_servers: McpServers) -> None:
        self._paths = paths
        self._engine = engine
        self._mcp_servers = mcp_servers
        self._clients = 0
        self._listeners: list[Listener] = []
        self._started_at = time.time()
        self._last_needed = time.monotonic()
        self._stopped = anyio.Event()

    async def serve(self, listener: socket.socket, early_responder: EarlyResponder) -> None:
        """Take over from the early_responder and go on until stopped."""
        await anyio.to_thread.run_sync(_import_the_sdk)
        gc.freeze()
        gc.enable()
        arrivals = await anyio.to_thread.run_sync(early_responder.finish)
        listening = await anyio.abc.SocketListener.from_socket(listener)
        _log.info(
            "ready version=%s pid=%s storage=%s", cellwright.__version__, os.getpid(), self._paths.storage
        )
        async with anyio.create_task_group() as self._tasks:
            tasks = self._tasks
            tasks.start_soon(self._stop_on_signal)
            tasks.start_soon(self._end_when_idle)
            self._labs = Labs(self._engine, tasks, self._keep_open)
            self._ports = OpenPorts(self._paths, self._engine, self._mcp_servers, tasks, self._keep_open)
            await self._labs.reopen()
            await self._ports.reopen()
            for arrival in arrivals:
                tasks.start_soon(self._receive, UnixStream(arrival.connection), arrival)
            tasks.start_soon(
                listening.serve, lambda stream: self._receive(UnixStream.over(stream), None), tasks
            )
            await self._stopped.wait()
            self._hide()
            tasks.cancel_scope.cancel()
        await listening.aclose()
        _log.info("ending")

    # Connections -------------------------------------------------------------------------------------------------

    async def _receive(self, stream: anyio.abc.ByteStream, arrival: Arrival | None) -> None:
        arrival = arrival or Arrival(stream.extra(anyio.abc.SocketAttribute.raw_socket))
        self._clients += 1
        try:
            async with stream:
                if await receive_arrival(stream, arrival):
                    await self._answer_or_refuse(stream, arrival)
        except _GONE:
            pass
        except Exception:  # noqa: BLE001  # boundary: a defect met by one client must not end everybody's daemon
            _log.exception("client_failed wants=%s", arrival.wants)
        finally:
            self._clients -= 1
            self._last_needed = time.monotonic()

    async def _answer_or_refuse(self, stream: anyio.abc.ByteStream, arrival: Arrival) -> None:
        listens = arrival.wants in _LISTEN
        try:
            with acting("command line" if listens else "cellwright"):
                await self._answer(stream, arrival)
        except CellwrightError as error:
            if listens:
                self._engine.audit.note("listen", refused=f"{error.code}: {error.message}")
            await _tell(stream, {"error": error.message, "hint": error.hint})

    async def _answer(self, stream: anyio.abc.ByteStream, arrival: Arrival) -> None:
        handshake = arrival.handshake or {}
        match arrival.wants:
            case "mcp":
                await self._serve_mcp(stream, arrival)
            case "status":
                await _tell(stream, self.status())
            case "approvals":
                await _tell(stream, await self._approvals(handshake))
            case "stop":
                await self._stop(stream, handshake)
            case "serve":
                await self._serve_http(stream, handshake)
            case "page":
                await _tell(stream, await self._ports.page(handshake))
            case "lab":
                await self._serve_lab(stream, handshake)
            case other:
                await _tell(stream, {"error": f"This daemon does not know how to {other!r}"})

    async def _serve_mcp(self, stream: anyio.abc.ByteStream, arrival: Arrival) -> None:
        handshake = arrival.handshake or {}
        grants = take_grants(handshake)
        conversation = Conversation(arrival.answered)
        heard = ClientInput(stream, conversation, lambda: is_hung_up(arrival.connection), said=arrival.said)
        try:
            mcp_server = await self._mcp_servers.of(handshake.get("dialect"), handshake.get("toolset"))
        except CellwrightError as error:
            async for line in lines(heard):
                if (reply := refusal_of(line, error)) is not None:
                    await ClientOutput(stream, conversation).send(reply)
            return
        directory = handshake.get("directory")
        place = _place(directory) if directory else None
        await mcp_server.serve(heard, ClientOutput(stream, conversation), directory=place, grants=grants)

    async def _serve_http(self, stream: anyio.abc.ByteStream, handshake: dict[str, Any]) -> None:
        """Keep a port open for as long as who asked for it stays, or until the end of the daemon."""
        if handshake.get("detach"):
            url = await self._ports.detach(handshake)
            await _tell(stream, {"url": url, "page": await page_lacks() is None})
            return
        async with self._ports.opened(handshake) as url:
            await _tell_and_stay(stream, {"url": url, "page": await page_lacks() is None})

    async def _serve_lab(self, stream: anyio.abc.ByteStream, handshake: dict[str, Any]) -> None:
        """Keep a gateway open for as long as who asked for it stays, or the Lab that it was asked for."""
        request = LabRequest.from_handshake(handshake)
        url = await self._labs.open(request)
        try:
            await _tell_and_stay(stream, {"url": url})
        finally:
            self._tasks.start_soon(self._labs.leave, request)

    async def _keep_open(self, listener: Listener) -> None:
        self._listeners.append(listener)
        _log.info("listening url=%s", listener.url)
        self._engine.audit.note("listen", opened=listener.url)
        try:
            await listener.run()
        finally:
            self._engine.audit.note("listen", closed=listener.url)
            self._listeners.remove(listener)
            _log.info("closed url=%s", listener.url)

    async def _stop(self, stream: anyio.abc.ByteStream, handshake: dict[str, Any]) -> None:
        busy = self._busy(but=1)
        if handshake.get("if_idle") and busy is not None:
            await _tell(stream, {"stopping": False, "busy": busy})
            return
        ended = {"pid": os.getpid(), "sessions": [session.id for session in self._engine.sessions("active")]}
        ended |= {"running": self._running()}
        # An idle daemon makes way for one of another environment: its host would start kernels in the old one.
        if handshake.get("kernels") or handshake.get("if_idle"):
            await self._engine.close(stop_host=True)
        # Before it is said: whoever comes once it is known must not be let in, only to be sent away.
        self._hide()
        await _tell(stream, {"stopping": True, **ended})
        self._stopped.set()

    def _hide(self) -> None:
        """From here on whoever comes starts another daemon, which waits for this one to be done."""
        with suppress(FileNotFoundError):
            os.unlink(self._paths.socket)  # the paths are plain strings

    # State -------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What ``cellwright daemon status`` shows."""
        return {
            "state": "ready",
            "version": cellwright.__version__,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "storage": self._paths.storage,
            "root": str(self._engine.settings.root),
            "clients": self._clients - 1,
            "sessions": {kind: len(self._engine.sessions(kind)) for kind in ("active", "suspended")},
            "running": self._running(),
            "listeners": [listener.url for listener in self._listeners],
            "dangers": self._engine.settings.dangers,
            "recent": recent_sessions(self._engine),
            "waiting": waiting_for_people(self._engine),
        }

    async def _approvals(self, handshake: dict[str, Any]) -> dict[str, Any]:
        """What people allowed for longer than once, or how much of it was taken back."""
        approvals = self._engine.approvals
        if not handshake.get("forget"):
            waiting = [{"id": one.id, "by": one.by, "what": one.matter.what} for one in approvals.waiting()]
            return {
                "approvals": approvals.kept(),
                "rules": approvals.rules.model_dump(),
                "waiting": waiting,
            }
        action = handshake.get("action")
        if action is not None and action not in get_args(Action):
            raise CellwrightError(
                f"There is no action {action!r}", hint=f"Choose one of: {', '.join(get_args(Action))}"
            )
        with acting("command line"):
            return {"forgotten": await approvals.forget(action, handshake.get("of"))}

    def _running(self) -> int:
        return sum(len(session.runs.live) for session in self._engine.sessions("active"))

    def _busy(self, *, but: int = 0) -> str | None:
        """Why it cannot end now without anybody noticing; ``but`` so many clients that do not count."""
        if self._clients > but:
            return f"{self._clients - but} clients"
        needed = next((listener for listener in self._listeners if listener.needed), None)
        if needed is not None:
            return f"listening on {needed.url}"
        if self._mcp_servers.asked:
            return f"{self._mcp_servers.asked} questions to the agent"
        if active := len(self._engine.sessions("active")):
            return f"{active} active sessions"
        # Their kernels live on until nobody can bring them back any more.
        deleted = len(self._engine.deleted())
        return f"{deleted} deleted sessions that can be brought back" if deleted else None

    async def _end_when_idle(self) -> None:
        idle_s = self._engine.settings.daemon_idle_s
        while True:
            await anyio.sleep(idle_s / _IDLE_CHECKS_PER_PERIOD)
            if self._busy() is not None:
                self._last_needed = time.monotonic()
            elif time.monotonic() - self._last_needed >= idle_s:
                _log.info("idle_for_s=%g", idle_s)
                self._stopped.set()

    async def _stop_on_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                self._stopped.set()


async def _tell_and_stay(stream: anyio.abc.ByteStream, message: dict[str, Any]) -> None:
    """Answer, and wait until whoever asked has gone."""
    with suppress(*_GONE):
        await _tell(stream, message)
        while True:
            await stream.receive()


async def _tell(stream: anyio.abc.ByteStream, message: dict[str, Any]) -> None:
    await stream.send(json.dumps(message).encode() + b"\n")

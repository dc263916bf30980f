"""Tells clients what happens in the engine: which resources changed, and as log messages what was done.

Changes of a resource are gathered for a moment, so that a cell that prints ten thousand lines is told a few times. A
client hears of what it follows, by either protocol era's way, and gets log messages of the sessions it works with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated, SubscriptionBus
from mcp.types import LoggingLevel

from cellwright.engine import Engine, Event, Missed
from cellwright.mcp.clients import Client
from cellwright.mcp.knowledge import Knowledge
from cellwright.mcp.pace import Pace
from cellwright.mcp.uris import cell_output_uri, data_uri, session_uri

__all__ = ["Notifier", "changed_resources", "log_entry"]

_VIEWS = ("state", "history", "context")
_SHOWS = frozenset({"notebook.cell.output", "notebook.cell.late_output", "notebook.cell.completed"})
_HISTORY = frozenset(
    {
        "notebook.cell.executing",
        "notebook.cell.completed",
        "notebook.cell.undone",
        "notebook.session.rolled_back",
        "notebook.session.adopted",
    }
)
_CHANGES_THE_LIST = frozenset({"notebook.cell.completed", "notebook.session.adopted"})
_TOLD = (
    "state",
    "seconds",
    "message",
    "hint",
    "session",
    "host",
    "verdict",
    "done",
    "total",
    "checkpoint",
    "branch",
    "note",
    "by",
)
_MOST_OUTPUTS = 100
_SENDING_S = 5.0
_LOG_WAITING = 1_000


class Notifier:
    """One task that follows the engine, and one that tells the clients."""

    def __init__(
        self,
        engine: Engine,
        knowledge: Knowledge,
        bus: SubscriptionBus,
        clients: Callable[[], Iterable[Client]],
        pace: Pace,
    ) -> None:
        self._engine = engine
        self._knowledge = knowledge
        self._bus = bus
        self._clients = clients
        self._pace = pace
        self._changed: dict[str, None] = {}
        self._cells: dict[tuple[str, str], None] = {}
        self._list_changed = False
        self._logs: list[Event] = []
        self._woken = anyio.Event()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with self._engine.subscribe() as events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell)
                task_status.started()
                async for event in events:
                    self._take(event)
                tasks.cancel_scope.cancel()

    def data_changed(self, paths: Iterable[str]) -> None:
        """Files of the data directory came or changed."""
        self._changed |= dict.fromkeys(map(data_uri, paths))
        self._list_changed = True
        self._woken.set()

    def _take(self, event: Event | Missed) -> None:
        if isinstance(event, Missed):
            # Whatever was missed, everything may have changed.
            everything = [session_uri(each.id, view) for each in self._engine.sessions() for view in _VIEWS]
            self._changed |= dict.fromkeys(everything)
            self._list_changed = True
        else:
            self._knowledge.take(event)
            self._changed |= dict.fromkeys(changed_resources(event))
            if event.cell_id is not None and event.kind in _SHOWS:
                self._cells[(event.session_id, event.cell_id)] = None
            self._list_changed = self._list_changed or _changes_the_list(event)
            if len(self._logs) < _LOG_WAITING:
                self._logs.append(event)
        self._woken.set()

    async def _tell(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            changed, self._changed = [*self._changed, *self._shown_outputs()], {}
            logs, self._logs = self._logs, []
            list_changed, self._list_changed = self._list_changed, False
            for uri in changed:
                await self._bus.publish(ResourceUpdated(uri=uri))
            if list_changed:
                await self._bus.publish(ResourcesListChanged())
            async with anyio.create_task_group() as tasks:
                for client in self._clients():
                    tasks.start_soon(self._tell_one, client, changed, logs, list_changed)
            await anyio.sleep(self._pace.notify_s)

    def _shown_outputs(self) -> list[str]:
        """The addresses of the outputs of every cell that showed something new."""
        cells, self._cells = list(self._cells), {}
        known = {session.id: session for session in self._engine.sessions()}
        return [
            cell_output_uri(session_id, cell_id, index)
            for session_id, cell_id in cells
            if session_id in known and cell_id in known[session_id].document
            for index in range(min(len(known[session_id].cell(cell_id).outputs), _MOST_OUTPUTS))
        ]

    async def _tell_one(
        self,
        client: Client,
        changed: list[str],
        logs: list[Event],
        list_changed: bool,
    ) -> None:
        # A client that has stopped reading, or is gone, must not hold up the others.
        with (
            anyio.move_on_after(_SENDING_S),
            suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
        ):
            for uri in changed:
                if uri in client.followed:
                    await client.followed[uri].send_resource_updated(uri)
            if list_changed and client.reach is not None:
                await client.reach.send_resource_list_changed()
            for event in logs:
                if event.session_id in client.sessions:
                    await client.log(*log_entry(event))


def changed_resources(event: Event) -> list[str]:
    """Which addresses show something else after an event."""
    if event.kind == "notebook.network.request":
        return [session_uri(event.session_id, "network")]
    uris = [session_uri(event.session_id, "state")]
    if event.kind not in ("notebook.cell.output", "notebook.cell.late_output"):
        uris.append(session_uri(event.session_id, "context"))
    if event.kind in _HISTORY:
        uris.append(session_uri(event.session_id, "history"))
    return uris


def _changes_the_list(event: Event) -> bool:
    return event.data.get("session") in {"created", "deleted"} or event.kind in _CHANGES_THE_LIST


_LEVELS: dict[str, LoggingLevel] = {
    "notebook.error": "error",
    "notebook.session.taken": "warning",
    "notebook.cell.output": "debug",
    "notebook.cell.late_output": "debug",
    "notebook.state.changed": "debug",
}


def log_entry(event: Event) -> tuple[LoggingLevel, dict[str, Any]]:
    """An event as a log message: its weight, and what it says without what may be large."""
    failed = event.kind == "notebook.cell.completed" and event.data.get("state") != "ok"
    level: LoggingLevel = "warning" if failed else _LEVELS.get(event.kind, "info")
    told = {key: event.data[key] for key in _TOLD if event.data.get(key)}
    about = {"session_id": event.session_id, "cell_id": event.cell_id, "execution_id": event.execution_id}
    return level, {"event": event.kind, **{key: value for key, value in about.items() if value}, **told}

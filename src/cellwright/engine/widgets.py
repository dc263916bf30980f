"""The widgets of one session's kernel: their state by its comms, messages to them, and the states that are saved.

The kernel has the truth. Its comm messages are folded here, so that a page is answered while a cell runs; a kernel that
this engine has not followed from its beginning is queried for all states when a page shows widgets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from cellwright.engine._context import SessionContext
from cellwright.engine.kernel import SessionKernel
from cellwright.engine.records import Batch
from cellwright.errors import KernelError, KernelGone
from cellwright.hosts.protocol import WIDGETS_REQUEST
from cellwright.notebook import Document, OutputCollector
from cellwright.notebook.widgets import STATE_MIME, State, reached, saved_state, states_saved, view_of

__all__ = ["SessionWidgets", "Widgets"]

_TIMEOUT_S = 60.0
_MOST_WIDGETS = 5_000
_MOST_BYTES = 32 << 20
_KEPT_OUTPUTS = 100
_KEPT_TEXT = 100_000


class SessionWidgets:
    """The widgets of one session."""

    def __init__(self, session: SessionContext, kernel: SessionKernel) -> None:
        self._session = session
        self._kernel = kernel
        self._of: str | None = None
        """The kernel whose widgets these are."""
        self._answered_by: str | None = None
        """The kernel that was queried for all of its widgets."""
        self._widgets = Widgets()
        self._former: dict[str, State] = {}
        """How the widgets of earlier kernels last were, until that is saved."""
        self._changed = anyio.Event()
        self._unsaved = False

    @property
    def number(self) -> int:
        """Counts the changes of all widgets."""
        return self._widgets.number

    @property
    def kernel_id(self) -> str | None:
        """The kernel that is alive, if one is."""
        return self._session.record.kernel_id

    def take(self, kernel_id: str, kind: str, content: bytes) -> None:
        """Fold a message of one of the kernel's comms."""
        self._follow(kernel_id)
        self._widgets.take(kind, json.loads(content))
        self._ring()

    def now(self, model: str) -> State | None:
        """A widget's state as far as it is known; None where it was closed or never was."""
        return self._widgets.state(model) if self._of == self.kernel_id else None

    async def all(self) -> Mapping[str, State]:
        """The states of the live kernel's widgets; none where no kernel is alive."""
        kernel_id = self.kernel_id
        if kernel_id is None:
            return {}
        if self._answered_by != kernel_id and self._kernel.runs_python:
            # A busy kernel answers later; its messages so far are folded already.
            with suppress(KernelError, TimeoutError):
                reply = await self._ask({"want": "state"})
                self._follow(kernel_id)
                self._widgets.replace(reply.get("models"))
                self._answered_by = kernel_id
        return self._widgets.states() if self._of == kernel_id else {}

    def kept(self) -> Mapping[str, State]:
        """The states of widgets as they last were, also of a kernel that is gone, and as the notebook has them."""
        saved = states_saved(self._session.file.document.metadata)
        return {**saved, **self._former, **self._widgets.states()}

    async def changes(self, since: int) -> tuple[int, frozenset[str]]:
        """Wait until a widget has changed after this number; the number now, and which."""
        while self._widgets.number == since:
            await self._changed.wait()
        return self._widgets.number, self._widgets.changed_since(since)

    async def send(self, model: str, data: Mapping[str, Any], *, cell_id: str) -> None:
        """Send a page's message to a widget; outputs of the widget's code become late outputs of a cell.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: no kernel has the widget.
            KernelError: the widget's code did not end in time, and was interrupted.
        """
        if self.kernel_id is None:
            raise KernelGone("The kernel that has this widget is gone", hint="Run the cell again")
        reply = await self._ask({"want": "message", "model": model, "data": dict(data)})
        self._unsaved = True
        self._session.touch()
        execution = self._session.runs.newest(cell_id)
        outputs = reply.get("outputs")
        if execution is None or not isinstance(outputs, list) or not outputs:
            return
        batch = Batch()
        for one in outputs:
            self._session.runs.late_output(batch, self._session.record, execution.id, one)
        await self._session.services.recorder.commit(batch)

    def save_into(self, document: Document) -> State | None:
        """The notebook's metadata with the state of the widgets that its outputs show, where that is not in it already."""
        if not self._unsaved:
            return None
        self._unsaved = False
        views = [view for cell in document.cells for output in cell.outputs if (view := view_of(output))]
        states, self._former = self.kept(), {}
        shown = {model: states[model] for model in reached(states, views)}
        if not shown:
            return None
        section = {STATE_MIME: saved_state(shown)}
        return (
            None if document.metadata.get("widgets") == section else {**document.metadata, "widgets": section}
        )

    def _follow(self, kernel_id: str) -> None:
        if self._of != kernel_id:
            if self._unsaved:
                self._former |= self._widgets.states()
            self._of, self._answered_by = kernel_id, None
            self._widgets.replace({})

    def _ring(self) -> None:
        self._unsaved = True
        self._changed.set()
        self._changed = anyio.Event()

    async def _ask(self, content: dict[str, Any]) -> dict[str, Any]:
        reply = await self._kernel.ask(WIDGETS_REQUEST, content, timeout_s=_TIMEOUT_S)
        if reply.get("status") != "ok":
            raise KernelGone(f"The widget did not answer: {reply.get('evalue')}", hint="Run the cell again")
        return reply


# Comm messages, folded. Pure.


@dataclass(slots=True)
class _Widget:
    state: State
    number: int
    size: int = 0
    outputs: OutputCollector | None = None
    """Of one that takes outputs, since it last told all of them."""


@dataclass(slots=True)
class Widgets:
    """The widgets of one kernel."""

    number: int = 0
    _held: dict[str, _Widget] = field(default_factory=dict)
    _closed: dict[str, int] = field(default_factory=dict)
    _size: int = 0

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """Fold one message; a malformed one is skipped, as code can send anything."""
        model, data = content.get("comm_id"), content.get("data")
        if not isinstance(model, str):
            return
        if kind == "comm_close":
            self._close(model)
        elif isinstance(data, Mapping):
            state = data.get("state")
            if kind == "comm_open" and content.get("target_name") == "jupyter.widget":
                self._put(model, state)
            elif model in self._held and data.get("method") == "cellwright_output":
                self._add_output(model, data)
            elif model in self._held and data.get("method") in ("update", "echo_update"):
                before = self._held[model].state
                self._put(model, {**before, **state} if isinstance(state, Mapping) else None)

    def replace(self, models: Any) -> None:
        """Take these for all that there are."""
        for model in list(self._held):
            self._close(model)
        for model, state in models.items() if isinstance(models, Mapping) else ():
            self._put(model, state)

    def state(self, model: str) -> State | None:
        held = self._held.get(model)
        return dict(held.state) if held is not None else None

    def states(self) -> dict[str, State]:
        return {model: held.state for model, held in self._held.items()}

    def changed_since(self, number: int) -> frozenset[str]:
        """The widgets that are not as they were at that number, or no longer there."""
        changed = {model for model, held in self._held.items() if held.number > number}
        return frozenset(changed | {model for model, at in self._closed.items() if at > number})

    def _put(self, model: str, state: Any) -> None:
        if not isinstance(state, Mapping) or (model not in self._held and len(self._held) >= _MOST_WIDGETS):
            return
        size = len(json.dumps(state, default=str))
        before = self._held.get(model)
        if self._size + size - (before.size if before is not None else 0) > _MOST_BYTES:
            return
        self._size += size - (before.size if before is not None else 0)
        self.number += 1
        outputs = (
            before.outputs
            if before is not None and before.state.get("outputs") is state.get("outputs")
            else None
        )
        self._held[model] = _Widget(dict(state), self.number, size, outputs)
        self._closed.pop(model, None)

    def _close(self, model: str) -> None:
        held = self._held.pop(model, None)
        if held is not None:
            self.number += 1
            self._size -= held.size
            self._closed[model] = self.number
            while len(self._closed) > _MOST_WIDGETS:
                del self._closed[next(iter(self._closed))]

    def _add_output(self, model: str, data: Mapping[str, Any]) -> None:
        held, content = self._held[model], data.get("content")
        if not isinstance(content, Mapping):
            return
        collector = held.outputs
        if collector is None:
            collector = OutputCollector()
            for output in held.state.get("outputs") or ():
                if isinstance(output, Mapping):
                    collector.add(str(output.get("output_type")), output)
        collector.add(str(data.get("type")), content)
        outputs = [_tail(output) for output in collector.outputs[-_KEPT_OUTPUTS:]]
        state = {**held.state, "outputs": outputs}
        self._put(model, state)
        self._held[model].outputs = collector if outputs == collector.outputs else None


def _tail(output: dict[str, Any]) -> dict[str, Any]:
    text = output.get("text")
    return (
        {**output, "text": text[-_KEPT_TEXT:]} if isinstance(text, str) and len(text) > _KEPT_TEXT else output
    )

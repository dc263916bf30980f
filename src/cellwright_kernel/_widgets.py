# mypy: allow-untyped-calls
# (ipywidgets and comm are typed only in part.)
"""Widgets of ipywidgets: what their comms say, outputs that `Output` widgets take, and what a page asks of them.

The widgets' state is the kernel's. In Jupyter a page keeps what an `Output` widget shows, and tells the kernel; here
several pages may look, or none, so that it is kept where it arises. Buffers travel as text within the state.
"""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BUFFER", "COMMS", "Comms", "answer", "with_buffers"]

COMMS = frozenset({"comm_open", "comm_msg", "comm_close"})

OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error", "clear_output"})

BUFFER = "cellwright_buffer"
"""The one key of what stands in a state for bytes, which are its value in base64."""

# Beyond a burst, updates pass at a rate that a screen can show; those between are merged into the next one.
BURST = 400.0
PER_SECOND = 100.0
UNIT_BYTES = 4096

KEPT_OUTPUTS = 100
KEPT_TEXT = 100_000


@dataclass(frozen=True)
class Held:
    """A message that waits, and how it is sent."""

    send: Callable[[dict[str, Any]], object]
    message: dict[str, Any]


class Comms:
    """What one kernel's comms say. Not thread-safe by itself: used with the lock of the outputs held."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = BURST
        self._at = clock()
        self._waiting: dict[str, Held] = {}
        self._takers: dict[str, str] = {}
        """The widgets that take outputs, each with the request whose; the newest last."""
        self._sinks: dict[str, list[dict[str, Any]]] = {}
        self._clearing: set[str] = set()

    # Outputs that do not go to the cell ---------------------------------------------------------------------------

    def taker(self, kind: str, parent: Mapping[str, Any]) -> str | None:
        """The widget that takes an output of a request."""
        if kind not in OUTPUTS or not self._takers:
            return None
        asked = parent.get("msg_id")
        return next((widget for widget in reversed(self._takers) if self._takers[widget] == asked), None)

    def sink(self, kind: str, parent: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Where the outputs of a page's request are collected."""
        return self._sinks.get(str(parent.get("msg_id"))) if kind in OUTPUTS else None

    def collect(self, request: str) -> list[dict[str, Any]]:
        """Collect what a request puts out from now on."""
        return self._sinks.setdefault(request, [])

    def collected(self, request: str) -> None:
        self._sinks.pop(request, None)

    def took(self, widget: str, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        """Keep an output with the widget that takes it; what its comm says of that."""
        found = instances().get(widget)
        if found is not None:
            # Not by assignment, which would send all of them again.
            found._trait_values["outputs"] = self._with(  # noqa: SLF001  # traitlets' store
                widget, found.outputs, kind, content
            )
        return {
            "comm_id": widget,
            "data": {"method": "cellwright_output", "type": kind, "content": content},
        }

    def _with(
        self, widget: str, outputs: tuple[Any, ...], kind: str, content: dict[str, Any]
    ) -> tuple[Any, ...]:
        if kind == "clear_output":
            if content.get("wait"):
                self._clearing.add(widget)
                return outputs
            return ()
        if widget in self._clearing:
            self._clearing.discard(widget)
            outputs = ()
        output = {
            "output_type": kind,
            **{name: part for name, part in content.items() if name != "transient"},
        }
        last = outputs[-1] if outputs else {}
        if kind == "stream" and last.get("output_type") == kind and last.get("name") == content["name"]:
            output["text"] = (last["text"] + content["text"])[-KEPT_TEXT:]
            outputs = outputs[:-1]
        return (*outputs, output)[-KEPT_OUTPUTS:]

    # Messages of comms --------------------------------------------------------------------------------------------

    def due(self, message: dict[str, Any], size: int, send: Callable[[dict[str, Any]], object]) -> list[Held]:
        """What is sent now that this message is to be sent: itself, unless it waits, and what waited before it."""
        kind, content = message["header"]["msg_type"], message["content"]
        data = content.get("data") or {}
        self._note_taker(kind, content["comm_id"], data)
        now = self._clock()
        self._tokens = min(BURST, self._tokens + (now - self._at) * PER_SECOND)
        self._at = now
        cost = min(1 + size / UNIT_BYTES, BURST)
        held = Held(send, message)
        before = self._waiting.pop(content["comm_id"], None)
        if kind == "comm_msg" and data.get("method") in ("update", "echo_update"):
            if before is not None:
                state = {**before.message["content"]["data"]["state"], **data["state"]}
                message["content"] = {**content, "data": {**data, "method": "update", "state": state}}
            if self._tokens < cost:
                self._waiting[content["comm_id"]] = held
                return []
            before = None
        self._tokens -= cost
        if self._tokens < -10 * BURST:
            return []  # whoever opens thousands of widgets has them in the kernel
        return [held] if before is None else [before, held]

    def released(self) -> list[Held]:
        """Everything that waits."""
        waiting, self._waiting = list(self._waiting.values()), {}
        return waiting

    def _note_taker(self, kind: str, comm_id: str, data: Mapping[str, Any]) -> None:
        state = data.get("state")
        if kind == "comm_close":
            self._takers.pop(comm_id, None)
        elif isinstance(state, Mapping) and isinstance(state.get("msg_id"), str):
            self._takers.pop(comm_id, None)
            if state["msg_id"]:
                self._takers[comm_id] = state["msg_id"]


def instances() -> Mapping[str, Any]:
    """The widgets that there are, by the ids of their models."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    if module is None:
        return {}
    found: Any = getattr(module, "_instances", None)
    return found if isinstance(found, Mapping) else module.Widget.widgets


# What a page asks.


def answer(
    shell: Any, session: Any, parent: dict[str, Any], *, want: str, model: str = "", data: Any = None
) -> dict[str, Any]:
    """The state of all widgets, or what came of a message to one.

    Raises:
        LookupError: there is no such widget.
    """
    if want == "state":
        return {"models": {model_id: state_of(widget) for model_id, widget in list(instances().items())}}
    import comm

    found = comm.get_comm_manager().get_comm(model)
    if found is None:
        raise LookupError("the kernel no longer has this widget")
    comms, request = session.gate.comms, parent["header"]["msg_id"]
    with session.gate.lock:
        outputs = comms.collect(request)
    message = {**parent, "content": {"comm_id": model, "data": from_page(data)}, "buffers": []}
    try:
        shell.interrupts.code_begins()
        found.handle_msg(message)
    except KeyboardInterrupt:
        stopped = {"ename": "KeyboardInterrupt", "evalue": "", "traceback": ["KeyboardInterrupt"]}
        outputs.append({"type": "error", "content": stopped})
    finally:
        shell.interrupts.code_ended()
        session.release(parent["header"], last=True)
        with session.gate.lock:
            comms.collected(request)
    return {"outputs": outputs}


def state_of(widget: Any) -> dict[str, Any]:
    """The state of a widget as its comm would tell it."""
    take_buffers: Any = sys.modules["ipywidgets.widgets.widget"]._remove_buffers  # noqa: SLF001  # there is no other
    state, paths, buffers = take_buffers(widget.get_state())
    with_buffers(state, paths, buffers)
    return dict(state)


def with_buffers(state: Any, paths: Any, buffers: Any) -> None:
    """Put bytes back into a state from which they were taken for the wire, as text."""
    for path, buffer in zip(paths, buffers, strict=False):
        place = state
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = {BUFFER: base64.b64encode(bytes(buffer)).decode()}


def from_page(value: Any) -> Any:
    """What a page sent, with bytes where there is text for them."""
    if isinstance(value, dict):
        if set(value) == {BUFFER}:
            return memoryview(base64.b64decode(value[BUFFER]))
        return {name: from_page(part) for name, part in value.items()}
    return [from_page(part) for part in value] if isinstance(value, list) else value

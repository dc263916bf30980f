"""One execution as the engine holds it: its record, its outputs so far, and whoever waits for its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio

from cellwright.engine.leavings import LeftFile
from cellwright.engine.records import FINAL_STATES, ExecutionRecord
from cellwright.hosts.protocol import ExecutionState
from cellwright.notebook import OutputCollector

__all__ = ["Execution", "text_of"]


class Execution:
    """A run of a cell that anyone may wait for. It belongs to the engine, not to whoever asked for it."""

    def __init__(self, record: ExecutionRecord, collector: OutputCollector | None = None) -> None:
        self.record = record
        self.collector = collector if collector is not None else OutputCollector()
        self.late: OutputCollector | None = None
        """What was said in its name after its end."""
        self._settled = record.state in FINAL_STATES
        self._expects_files = False
        # Made only while somebody waits: most executions are waited for once or never, and each is kept with its cell.
        self._changed: anyio.Event | None = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def session_id(self) -> str:
        return self.record.session_id

    @property
    def cell_id(self) -> str | None:
        return self.record.cell_id

    @property
    def state(self) -> ExecutionState:
        return self.record.state

    @property
    def ok(self) -> bool:
        return self.record.state == "ok"

    @property
    def done(self) -> bool:
        return self.record.state in FINAL_STATES

    @property
    def generation(self) -> int:
        return self.record.generation

    @property
    def seconds(self) -> float | None:
        return self.record.seconds

    @property
    def error(self) -> dict[str, Any] | None:
        """What the code raised, as ``ename``, ``evalue`` and ``traceback``."""
        return self.record.error

    @property
    def reason(self) -> str | None:
        """Why it did not end by itself, and the setting behind that."""
        return self.record.reason

    @property
    def files(self) -> tuple[LeftFile, ...]:
        """What it left in the working directory; known a moment after its end."""
        return self.record.files

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs so far, as nbformat has them."""
        return self.collector.outputs

    @property
    def late_outputs(self) -> list[dict[str, Any]]:
        """What was said in its name after its end, by a thread of it or by anything else: no part of what it did."""
        return self.late.outputs if self.late is not None else []

    def add_late(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take in a message that came after its end."""
        if self.late is None:
            self.late = OutputCollector(keeps_updates=True)
        self.late.add(kind, content)

    @property
    def text(self) -> str:
        """What a terminal would have shown: streams, plain results and the error's last line."""
        return text_of(self.outputs)

    @property
    def settled(self) -> bool:
        """Whether it has ended, and that is journalled."""
        return self._settled

    async def wait(self, timeout_s: float | None = None) -> Execution:
        """Return when it has ended and that is journalled, or after ``timeout_s`` with it still running."""
        with anyio.move_on_after(timeout_s):
            while not self._settled:
                await self._change()
        return self

    async def wait_for_files(self, timeout_s: float) -> None:
        """Return when it is known what it left in the working directory, or after ``timeout_s``."""
        with anyio.move_on_after(timeout_s):
            while self._expects_files:
                await self._change()

    def expect_files(self) -> None:
        """Somebody will look at what it left."""
        self._expects_files = True

    def files_known(self) -> None:
        self._expects_files = False
        self._tell_change()

    def settle(self) -> None:
        """Release whoever waits; called once the end is in the journal."""
        self._settled = True
        self._tell_change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _tell_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def __repr__(self) -> str:
        return f"<Execution {self.id} {self.state} of cell {self.cell_id}>"


def text_of(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Outputs as a terminal would show them."""
    parts: list[str] = []
    for output in outputs:
        if output["output_type"] == "stream":
            parts.append(_joined(output["text"]))
        elif output["output_type"] == "error":
            parts.append(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
        elif "text/plain" in output.get("data", {}):
            parts.append(_joined(output["data"]["text/plain"]) + "\n")
    return "".join(parts)


def _joined(text: Any) -> str:
    """A text as a file may have it: whole, in lines, or as something else altogether."""
    return "".join(map(str, text)) if isinstance(text, list) else str(text)

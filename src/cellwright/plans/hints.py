"""Asks the fixers about a failed cell that belongs to no plan, and keeps their answer: nothing is changed or run.

The kernel can be asked only until the next cell runs. So a hint is made once, by whoever shows the error first, and is
remembered for all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, proxy

import anyio

from cellwright.engine import Engine, Execution, Session
from cellwright.errors import CellwrightError
from cellwright.plans.failures import Failure, Proposal, failure_of, is_last, unrun_names
from cellwright.plans.fixers import Fixer, propose
from cellwright.plans.runner import diff_of
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_tail

__all__ = ["MAX_HINT_TOKENS", "Hint", "Hints", "hints_of"]

MAX_HINT_TOKENS = 40
"""How long a hint's line is at most."""

_REMEMBERED = 1_000

_MAX_REASON = 500

_ASKED_S = 2.0
"""How long the kernel may take to diagnose an error, while the frontend waits to show it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What may be done about one failed execution."""

    fixer: str
    reason: str
    certain: bool = False
    diff: str | None = None
    """From the cell's source to the proposed one, where there is one."""
    packages: tuple[str, ...] = ()
    """Approved distributions that are missing."""

    @property
    def line(self) -> str:
        """The hint in one line of at most ``MAX_HINT_TOKENS`` tokens, a certain or only change first."""
        room = MAX_HINT_TOKENS * CHARACTERS_PER_TOKEN
        change = _only_change(self.diff)
        line = f"hint: did you mean `{change}`? {self.reason}" if change else f"hint: {self.reason}"
        if change and len(line) > room and len(alone := f"hint: did you mean `{change}`?") <= room:
            return alone
        return cut_tail(line if len(line) <= room or not change else f"hint: {self.reason}", room)

    def as_json(self) -> dict[str, Any]:
        """The hint for programs; a diff only where there is one."""
        found: dict[str, Any] = {"message": self.reason, "fixer": self.fixer, "certain": self.certain}
        if self.diff:
            found["diff"] = self.diff
        if self.packages:
            found["packages"] = list(self.packages)
        return found


def _only_change(diff: str | None) -> str | None:
    """The new line, where a diff only replaces one line by one other."""
    lines = (diff or "").splitlines()
    gone = [line for line in lines if line.startswith("-")]
    new = [line for line in lines if line.startswith("+")]
    return new[0][1:].strip() if len(gone) == len(new) == 1 else None


class Hints:
    """The hints of one engine's executions."""

    def __init__(self, engine: Engine, fixers: Sequence[Fixer] | None = None) -> None:
        # They are kept by engine, and must not keep it.
        self._engine: Engine = proxy(engine)
        self._fixers = tuple(fixers) if fixers is not None else None
        self._known: OrderedDict[str, Hint | None] = OrderedDict()
        self._asked: dict[str, anyio.Event] = {}

    async def of(self, session: Session, execution: Execution) -> Hint | None:
        """The fixers' hint about a failed execution; None where they know nothing, or ``error_hints`` is off."""
        if execution.state != "error" or not self._engine.settings.error_hints:
            return None
        answer = self._asked.get(execution.id)
        if answer is not None:  # who was first was the nearest to the error
            await answer.wait()
        elif execution.id not in self._known and is_last(session, execution):
            self._asked[execution.id] = anyio.Event()
            try:
                # That it was busy, gone or slow is no answer: who asks again may get one.
                with suppress(CellwrightError, TimeoutError):
                    self._known[execution.id] = await self._found(session, execution)
            finally:
                self._asked.pop(execution.id).set()
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known.get(execution.id)

    async def _found(self, session: Session, execution: Execution) -> Hint | None:
        with anyio.fail_after(_ASKED_S):
            diagnosis = await session.diagnose()
        if diagnosis is None:
            return None
        elsewhere = await unrun_names(session, execution.cell_id)
        failure = failure_of(self._engine, session, execution, elsewhere, diagnosis)
        # A long cell may take seconds, for which nobody else should wait.
        proposal = await anyio.to_thread.run_sync(propose, failure, self._fixers)
        return _hint(failure, proposal) if proposal is not None else None


def _hint(failure: Failure, proposal: Proposal) -> Hint:
    # Of several that are as likely, none is what was meant.
    source = proposal.source if not proposal.alternatives else None
    return Hint(
        proposal.fixer,
        cut_tail(proposal.reason, _MAX_REASON),
        certain=proposal.applies,
        diff=(diff_of(failure.source, source) or None) if source is not None else None,
        packages=proposal.packages,
    )


_hints: WeakKeyDictionary[Engine, Hints] = WeakKeyDictionary()


def hints_of(engine: Engine) -> Hints:
    """The hints of an engine, shared by all that show its executions."""
    found = _hints.get(engine)
    if found is None:
        found = _hints[engine] = Hints(engine)
    return found

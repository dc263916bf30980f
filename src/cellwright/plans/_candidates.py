"""Tries what fixers only suggest: each candidate in a branch from before the step, against the step's checks.

The one candidate after which the checks hold is certain. Where several hold, or the checks hold without any, nobody
knows which was meant, and it stays a suggestion; so it does where a branch would cost others their kernel, or a replay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

import anyio

from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError
from cellwright.plans.checks import check_source, output_appears
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.model import Todo

__all__ = ["TryOut", "choose"]

TryOut: TypeAlias = Callable[[Failure, Sequence[Proposal]], Awaitable[Proposal | None]]
"""From a failure and the candidates for it to the one to apply, or to a suggestion that says what was tried."""


async def choose(
    engine: Engine, session: Session, checkpoint: str | None, todo: Todo, proposals: Sequence[Proposal]
) -> Proposal | None:
    """The proposal that is right by the step's checks, now certain; else a suggestion; None where none was tried."""
    if checkpoint is None or await _passes(engine, session, checkpoint, todo, None):
        return None  # what holds before the step proves nothing
    passing = [one for one in proposals if await _passes(engine, session, checkpoint, todo, one.source or "")]
    number = len(proposals)
    if len(passing) == 1:
        told = "Of {number} candidates tried in branches from before the step, only with this one its checks hold."
        alone = "Tried in a branch from before the step: its checks hold."
        right = passing[0]
        tried = told.format(number=number) if number > 1 else alone
        return replace(right, reason=f"{right.reason} {tried}", certain=True)
    first = passing[0] if passing else proposals[0]
    tried = f"{number} tried in branches from before the step: its checks hold with {len(passing) or 'none'} of them."
    return replace(
        first,
        reason=f"{first.reason} {tried}",
        source=first.source if passing else None,
        alternatives=tuple(one.source or "" for one in passing[1:]),
    )


async def _passes(engine: Engine, session: Session, checkpoint: str, todo: Todo, source: str | None) -> bool:
    """Whether a source runs from a checkpoint on, and the step's checks hold then; None runs nothing."""
    async with _branch(engine, session, checkpoint) as branch:
        outputs = []
        if source is not None:
            ran = await (await branch.execute_code(source, timeout_s=todo.timeout_s)).wait()
            if not ran.ok:
                return False
            outputs = ran.outputs
        for check in todo.checks:
            if check.kind == "output":
                holds = output_appears(check, outputs)
            else:
                code = check_source(check, branch.language)
                holds = (await (await branch.execute_code(code, numbered=False)).wait()).ok
            if not holds:
                return False
    return True


@asynccontextmanager
async def _branch(engine: Engine, session: Session, checkpoint: str) -> AsyncIterator[Session]:
    """A session of its own from a checkpoint, deleted with its files at the end."""
    grown: list[Session] = []
    try:
        # Shielded: a branch that is half grown would be nobody's to remove.
        with anyio.CancelScope(shield=True):
            grown.append(await engine.branch_for_trial(session.id, checkpoint))
        yield grown[0]
    finally:
        with anyio.CancelScope(shield=True), suppress(CellwrightError):
            for one in grown:
                await engine.delete(one.id, remove_file=True)

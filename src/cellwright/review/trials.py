"""Tries a cell's text in branches from the state before it: what it puts out, what it leaves, and how long it takes.

A branch has a kernel and files of its own and is gone afterwards. What is tried, and what is made of it, stands in
``reviewer``.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import anyio

from cellwright.engine import Engine, Session
from cellwright.engine.introspection import Fingerprint, Measured
from cellwright.errors import CellwrightError, KernelError
from cellwright.notebook import compare_outputs
from cellwright.notebook.comparison import TOLERANCE
from cellwright.review.results import Offer
from cellwright.review.spots import Rewrite

__all__ = ["ROUNDS", "Refused", "Run", "Trials"]
ROUNDS = 3

# What takes long is run less often: its time says enough.
LONG_S = 10.0

# Following lines takes time of its own, and the cell has its usual limit for the rest.
FOLLOWING_S = 60.0

# What is hardly faster is not worth a change.
WORTH = 0.9


class Refused(Exception):  # no error: what was seen of a text that does not hold
    """A text that is not offered; the message is why."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a cell's text."""

    measured: Measured
    outputs: list[dict[str, Any]]
    values: Mapping[str, Fingerprint]


@dataclass(frozen=True, slots=True)
class Trials:
    """Runs texts of one cell from the state before it."""

    engine: Engine
    session: Session
    checkpoint: str
    cell_id: str
    timeout_s: float
    rounds: int
    expected: Run
    """The cell as it is, when the notebook ran."""

    async def followed(self, source: str) -> Run | None:
        """A run of which the lines are followed; None where it does not come to its end that way.

        Raises:
            Refused: it gives something else than before, so that no text could be compared with it.
        """
        try:
            run = await self._run(source, lines=True)
        except Refused:
            return None
        self._compare(run, Rewrite(source), frozenset(), "the cell itself gives something else each time")
        return run

    async def offer(self, current: str, rewrite: Rewrite, dispensable: frozenset[str], *, by: str) -> Offer:
        """Try a text against the one that there is.

        Raises:
            Refused: it fails, gives something else or is not faster.
        """
        run = await self._run(rewrite.source)
        likeness = self._compare(run, rewrite, dispensable, "it gives something else")
        before: list[float] = []
        after = [run.measured.seconds]
        rounds = self.rounds if self.expected.measured.seconds < LONG_S else 1
        for number in range(rounds):
            if number:
                after.append((await self._run(rewrite.source)).measured.seconds)
            before.append((await self._run(current)).measured.seconds)
        was, now = median(before), median(after)
        if now > was * WORTH:
            raise Refused(f"a rewritten cell gave the same, and took {now:.3g} s instead of {was:.3g} s")
        return Offer(
            source=rewrite.source,
            before=current,
            before_s=was,
            after_s=now,
            rounds=rounds,
            compared=likeness.compared,
            unseen=likeness.unseen,
            by=by,
        )

    def _compare(self, run: Run, rewrite: Rewrite, dispensable: frozenset[str], why: str) -> Likeness:
        outputs = compare_outputs(self.expected.outputs, run.outputs)
        if not outputs.same:
            first = outputs.differences[0]
            raise Refused(f"{why}: {first.output}: {first.why}")
        likeness = likeness_of(
            self.expected.values, run.values, narrowed=rewrite.narrowed, dispensable=dispensable
        )
        if likeness.difference is not None:
            raise Refused(f"{why}: {likeness.difference}")
        return likeness

    async def _run(self, source: str, *, lines: bool = False) -> Run:
        async with self._branch() as branch:
            await branch.measure_next(self.cell_id, lines=lines)
            limit_s = self.timeout_s + FOLLOWING_S if lines else self.timeout_s
            execution = await branch.execute_code(source, timeout_s=limit_s)
            await execution.wait()
            if not execution.ok:
                error = execution.error
                told = f"{error['ename']}: {error['evalue']}" if error else execution.reason or ""
                raise Refused(f"it ended as {execution.state}: {told}"[:300])
            measured = (await branch.profile()).measured
            if measured is None:
                raise KernelError("The kernel did not measure it")
            return Run(measured, execution.outputs, await branch.fingerprints())

    @asynccontextmanager
    async def _branch(self) -> AsyncIterator[Session]:
        grown: list[Session] = []
        try:
            # Shielded: a branch that is half grown would be nobody's to remove.
            with anyio.CancelScope(shield=True):
                grown += [
                    one.session
                    for one in await self.engine.branch(self.session.id, checkpoint=self.checkpoint)
                ]
            yield grown[0]
        finally:
            with anyio.CancelScope(shield=True), suppress(CellwrightError):
                for one in grown:
                    await self.engine.delete(one.id, remove_file=True)


# Whether two kernels hold the same after two texts of one cell, by fingerprints of their variables. Pure.


@dataclass(frozen=True, slots=True)
class Likeness:
    """What was compared, and the first thing that differs."""

    compared: int
    unseen: tuple[str, ...]
    """Names that only their types could be compared of."""
    difference: str | None = None


def likeness_of(
    expected: Mapping[str, Fingerprint],
    got: Mapping[str, Fingerprint],
    *,
    narrowed: Mapping[str, tuple[str, ...]],
    dispensable: frozenset[str],
) -> Likeness:
    """Compare all variables of one kernel with those of another, which may have more.

    ``narrowed`` are frames of which only some columns count; ``dispensable`` are names that need not be there.
    """
    compared, unseen, difference = 0, [], None
    for name, then in expected.items():
        now = got.get(name)
        if now is None:
            found = None if name in dispensable else f"`{name}` is missing"
        else:
            compared += then.known and now.known
            if not (then.known and now.known):
                unseen.append(name)
            found = _difference(name, then, now, narrowed.get(name))
        difference = difference or found
    return Likeness(compared, tuple(unseen), difference)


def _difference(
    name: str, then: Fingerprint, now: Fingerprint, columns: tuple[str, ...] | None
) -> str | None:
    if then.type != now.type:
        return f"`{name}` is {now.type} instead of {then.type}"
    if then.columns is not None and now.columns is not None:
        return _of_frames(name, then, now, columns)
    if then.exact is None or now.exact is None or then.exact == now.exact or then.close == now.close:
        return None
    if then.number is None or now.number is None:
        return f"`{name}` holds something else"
    if math.isclose(then.number, now.number, rel_tol=TOLERANCE):
        return None
    return f"`{name}` is {now.number!r} instead of {then.number!r}"


def _of_frames(name: str, then: Fingerprint, now: Fingerprint, wanted: tuple[str, ...] | None) -> str | None:
    before, after = then.columns or {}, now.columns or {}
    kept = {f"str {column}" for column in wanted} if wanted is not None else set(before)
    if [column for column in before if column in kept] != list(after):
        return f"`{name}` has other columns"
    for column, hashes in after.items():
        if not hashes.same(before[column]):
            return f"`{name}` holds something else in column {column.partition(' ')[2]!r}"
    if then.index is None or now.index is None or then.index.same(now.index):
        return None
    return f"`{name}` has other row labels"

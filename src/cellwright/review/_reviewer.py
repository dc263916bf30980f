"""A review: runs a notebook from the top in a session that nobody keeps, measures each cell, and tries what rules propose.

The notebook, its session and its files stay as they are; ``apply_rewrites`` is what changes a notebook. What rules see
stands in ``hints``, what a spot cost in ``reviewer``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeAlias

import anyio

from cellwright.engine import Engine, Execution, Session
from cellwright.engine.introspection import Fingerprint, Line, Measured, Profile
from cellwright.errors import CellwrightError, CheckpointRefused, KernelError, NotebookError
from cellwright.notebook import Cell, OutputsSet, compare_outputs
from cellwright.notebook.comparison import TOLERANCE
from cellwright.notebook.python_names import python_cell
from cellwright.review._findings import Hint, Kind, MeasuredCell, Offer, Review, Rewrite, Spot
from cellwright.review._pages import Case, Page, names_stored, page_of
from cellwright.review.hints import find_spots

__all__ = ["MIN_SECONDS", "Adviser", "apply_rewrites", "review"]


# Tries a cell's text in branches from the state before it: what it puts out, what it leaves, and how long it
# takes.

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


MIN_SECONDS = 0.1
"""What costs less is not told."""

Adviser: TypeAlias = Callable[[Cell, Hint], Awaitable[str | None]]
"""Asked for a cell's text where no rule has one that holds; None where it has none either."""

Teller: TypeAlias = Callable[[str], Awaitable[None]]


async def review(
    engine: Engine,
    session: Session,
    *,
    min_seconds: float = MIN_SECONDS,
    timeout_s: float | None = None,
    rounds: int = ROUNDS,
    adviser: Adviser | None = None,
    tell: Teller | None = None,
) -> Review:
    """Measure a session's notebook and say what could be faster; ``timeout_s`` is each cell's time.

    A rewritten cell and the one it is for are run ``rounds`` times each, in turns.

    Raises:
        KernelError: no kernel can be had, or none that leaves the session's files alone.
    """
    await session.refresh()
    document = session.document.copy()
    cells = [(number, cell) for number, cell in enumerate(document.cells, 1) if cell.runs]
    async with engine.rehearsal(session.id, document.copy()) as rehearsal:
        limit_s = rehearsal.time_limit(timeout_s)
        work = _Reviewer(engine, rehearsal, cells, min_seconds, limit_s, rounds, adviser)
        reason: str | None = None
        for place, (number, _) in enumerate(cells):
            if tell is not None:
                await tell(f"cell {number} ({place + 1} of {len(cells)})")
            reason = await work.cell(place)
            if reason is not None:
                break
    return work.result(reason)


async def apply_rewrites(session: Session, found: Review, cells: Iterable[str]) -> list[str]:
    """Put rewritten texts into a notebook, and save it. Outputs stay where they are what the rewritten cell puts out.

    Raises:
        NotebookError: a cell has no rewritten text.
        StaleEdit: a cell was edited meanwhile; those before it are changed.
    """
    done: list[str] = []
    for cell_id in cells:
        if cell_id not in found.sources:
            raise NotebookError(
                f"There is no faster text for cell {cell_id!r}",
                hint=f"There is one for: {', '.join(found.sources) or 'none'}",
            )
        await session.edit_cell(cell_id, found.sources[cell_id], expected_version=found.versions.get(cell_id))
        shown, now = session.cell(cell_id).outputs, found.outputs[cell_id]
        if shown and not compare_outputs(list(shown), now).same:
            await session.apply([OutputsSet(cell_id, now, session.cell(cell_id).execution_count)])
        done.append(cell_id)
    await session.save()
    return done


@dataclass(slots=True)
class _Found:
    """A spot with its cost, on its way to a hint."""

    kind: Kind
    spot: Spot
    page: Page
    cost: Cost


@dataclass
class _Reviewer:
    """Goes through the cells of one rehearsal."""

    engine: Engine
    session: Session
    cells: list[tuple[int, Cell]]
    min_seconds: float
    timeout_s: float
    rounds: int
    adviser: Adviser | None
    measured: list[MeasuredCell] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _pages: list[Page] = field(default_factory=list)
    _before: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        self._pages = [self._page(number, cell) for number, cell in self.cells]

    def _page(self, number: int, cell: Cell) -> Page:
        return page_of(cell, number, self.session.language)

    def result(self, reason: str | None) -> Review:
        hints = sorted(self.hints, key=lambda hint: -hint.seconds)
        versions = {cell.id: cell.version for _, cell in self.cells if cell.id in self.sources}
        return Review(
            tuple(self.measured),
            tuple(hints),
            len(self.cells),
            reason,
            self.sources,
            self.outputs,
            versions,
        )

    async def cell(self, place: int) -> str | None:
        """Run a cell and look into it; tells why nothing after it can be run, where that is so."""
        number, cell = self.cells[place]
        checkpoint, refusal = await self._checkpoint(self._pages[place])
        await self.session.measure_next(cell.id)
        execution = await self.session.execute(cell.id, timeout_s=self.timeout_s)
        await execution.wait()
        if execution.state == "died":
            self._note(number, execution, Profile())
            return _why_stopped(number, execution)
        profile = await self.session.profile()
        self._note(number, execution, profile)
        if not execution.ok:
            return None if cell.may_raise else _why_stopped(number, execution)
        await self._look_into(place, execution, profile, checkpoint, refusal)
        if checkpoint is not None:
            await self.session.drop_checkpoint(checkpoint)
        self._before = profile
        return None

    async def _checkpoint(self, page: Page) -> tuple[str | None, str | None]:
        """The state before a cell, or why it cannot be kept."""
        if page.tree is None or not page.tree.body or not page.plain:
            return None, None
        try:
            return (await self.session.checkpoint()).id, None
        except CheckpointRefused as refused:
            return None, refused.message

    def _note(self, number: int, execution: Execution, profile: Profile) -> None:
        measured = profile.measured
        self.measured.append(
            MeasuredCell(
                cell_id=execution.cell_id or "",
                number=number,
                state=execution.state,
                seconds=measured.seconds if measured is not None else execution.seconds or 0.0,
                cpu_s=measured.cpu_s if measured is not None else None,
                memory_bytes=measured.memory_bytes if measured is not None else None,
            )
        )

    async def _look_into(
        self,
        place: int,
        execution: Execution,
        profile: Profile,
        checkpoint: str | None,
        refusal: str | None,
    ) -> None:
        measured = profile.measured
        if measured is None or measured.seconds < self.min_seconds:
            return
        spots = self._spots(place, profile)
        if not spots:
            return
        trials, followed, why = None, None, refusal and f"nothing was tried: {refusal}"
        if checkpoint is not None:
            run = Run(measured, execution.outputs, await self.session.fingerprints())
            trials = Trials(
                self.engine,
                self.session,
                checkpoint,
                self._pages[place].cell_id,
                self.timeout_s,
                self.rounds,
                run,
            )
            try:
                again = await trials.followed(self._pages[place].source)
                followed = again.measured if again is not None else None
            except (Refused, CellwrightError) as refused:
                trials, why = None, f"nothing was tried: {refused}"
        if followed is not None:
            self.measured[-1] = replace(
                self.measured[-1], overhead=followed.seconds / measured.seconds, cut=followed.cut
            )
        found = [
            _Found(kind, spot, page, cost_of(spot, page, measured, followed)) for kind, spot, page in spots
        ]
        dear = [one for one in found if self._is_dear(one)]
        dear.sort(key=lambda one: -one.cost.seconds)
        await self._settle(place, dear, profile, trials, why)

    def _spots(self, place: int, profile: Profile) -> list[tuple[Kind, Spot, Page]]:
        """Spots of the cell, and those in functions of cells above that it may have called."""
        page = self._pages[place]
        own = [(kind, spot, page) for kind, spot in find_spots(self._case(place, page.source, profile))]
        above = [
            (kind, spot, other)
            for number, other in enumerate(self._pages[:place])
            if other.names.defines & page.names.uses
            for kind, spot in find_spots(self._case(number, other.source, profile))
            if spot.scope
        ]
        return own + above

    def _is_dear(self, found: _Found) -> bool:
        repeated = not found.spot.repeats or found.cost.hits != 1
        return found.cost.seconds >= self.min_seconds and repeated

    def _case(self, place: int, source: str, profile: Profile) -> Case:
        number, cell = self.cells[place]
        page = self._pages[place]
        if source != page.source:
            page = self._page(number, replace(cell, source=source))
        return Case(
            page=page,
            above=tuple(self._pages[:place]),
            below=tuple(self._pages[place + 1 :]),
            types=profile.types,
            # What a cell is about to change is known from before it; what it makes itself, from after it.
            frames={**profile.frames, **self._before.frames},
        )

    async def _settle(
        self,
        place: int,
        found: list[_Found],
        profile: Profile,
        trials: Trials | None,
        why: str | None,
    ) -> None:
        """Make hints of spots, the dearest first; each text builds on those that held before it."""
        number, cell = self.cells[place]
        for one in found:
            cost = one.cost
            hint = Hint(
                kind=one.kind.name,
                cell_id=one.page.cell_id,
                number=one.page.number,
                line=one.spot.line,
                what=one.spot.what,
                why=one.kind.why,
                seconds=cost.seconds,
                share=cost.share,
                hits=cost.hits,
                ran_in=number,
                seen=why if one.spot.rewrites else None,
            )
            if trials is not None and one.page.cell_id == cell.id:
                hint = await self._tried(place, one, hint, trials, profile)
            self.hints.append(hint)

    async def _tried(self, place: int, one: _Found, hint: Hint, trials: Trials, profile: Profile) -> Hint:
        """A hint with the first of its texts that holds, or with what was seen of them."""
        cell = self.cells[place][1]
        current = self.sources.get(cell.id, cell.source)
        case = self._case(place, current, profile)
        seen: str | None = None
        options = [(rewrite, "rule") for rewrite in _rewrites(case, one)]
        for rewrite, by in options:
            held, seen = await self._offered(case, current, rewrite, trials, hint, by)
            if held is not None:
                return held
        if self.adviser is not None and (text := await self.adviser(replace(cell, source=current), hint)):
            held, seen = await self._offered(case, current, Rewrite(text), trials, hint, "model")
            if held is not None:
                return held
        return replace(hint, seen=seen)

    async def _offered(
        self, case: Case, current: str, rewrite: Rewrite, trials: Trials, hint: Hint, by: str
    ) -> tuple[Hint | None, str | None]:
        try:
            offer = await trials.offer(current, rewrite, _dispensable(case, rewrite.source), by=by)
        except (Refused, CellwrightError) as refused:
            return None, str(refused)
        self.sources[case.page.cell_id] = offer.source
        self.outputs[case.page.cell_id] = trials.expected.outputs
        return replace(hint, offer=offer), None


def _rewrites(case: Case, one: _Found) -> Iterable[Rewrite]:
    """What the same hint proposes for the same spot in the text that there is by now."""
    found = [spot for spot in one.kind.find(case) if spot.scope == one.spot.scope]
    same = [spot for spot in found if (spot.text, spot.what) == (one.spot.text, one.spot.what)]
    # What was rewritten around it may have changed its words, but not made it another where there is only one.
    chosen = same or (found if len(found) == 1 else [])
    return chosen[0].rewrites if chosen else ()


def _dispensable(case: Case, source: str) -> frozenset[str]:
    """Names that a new text does without and that nobody uses later: a loop's own, mostly."""
    old, new = case.page.tree, python_cell(source).tree
    if old is None or new is None:
        return frozenset()
    gone = names_stored([old]) - names_stored([new])
    return frozenset(
        name
        for name in gone
        if not any(name in page.names.uses or name in page.names.later for page in case.below)
    )


def _why_stopped(number: int, execution: Execution) -> str:
    error = execution.error
    told = f" ({error['ename']}: {error['evalue']})" if error else ""
    why = f": {execution.reason}" if execution.reason else ""
    return f"Cell {number} ended as {execution.state}{told}{why}"


# What a spot in a cell's text cost, by what was measured while the cell ran. Pure.


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a plain run, their share of it, and how often the spot ran."""

    seconds: float
    share: float
    hits: int


def cost_of(spot: Spot, page: Page, plain: Measured, followed: Measured | None) -> Cost:
    """A spot's cost: seconds by the plain run, divided as the lines were in the one that followed them."""
    lines = _lines(page, followed, spot.scope)
    own = [line for line in lines if spot.line <= line.line <= spot.end_line]
    hits = max(
        (line.hits for line in _lines(page, followed) if spot.line <= line.line <= spot.end_line), default=0
    )
    if spot.scope:
        total = followed.seconds if followed is not None else 0.0
        share = min(1.0, _seconds(own) / total) if total > 0 else 0.0
        return Cost(share * plain.seconds, share, hits)
    seconds = _at_the_top(spot, page, plain, lines)
    return Cost(seconds, min(1.0, seconds / plain.seconds) if plain.seconds > 0 else 0.0, hits)


def _at_the_top(spot: Spot, page: Page, plain: Measured, lines: list[Line]) -> float:
    """A top-level statement is timed by itself; of one that holds more than the spot it is the lines' part."""
    statement = next((one for one in _statements(page) if _begin(one) <= spot.line <= _end(one)), None)
    if statement is None:
        return 0.0
    begin, end = _begin(statement), _end(statement)
    whole = sum(one.seconds for one in plain.statements if begin <= one.line <= end)
    if spot.line <= begin and spot.end_line >= end:
        return whole
    around = _seconds([line for line in lines if begin <= line.line <= end])
    own = _seconds([line for line in lines if spot.line <= line.line <= spot.end_line])
    return whole * (own / around) if around > 0 else 0.0


def _statements(page: Page) -> list[ast.stmt]:
    return page.tree.body if page.tree is not None else []


def _begin(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _lines(page: Page, followed: Measured | None, scope: str | None = None) -> list[Line]:
    """The lines of a cell that ran, in one function or in all."""
    found = followed.lines if followed is not None else ()
    return [line for line in found if line.cell_id == page.cell_id and scope in (None, line.scope)]


def _seconds(lines: list[Line]) -> float:
    return sum(line.seconds for line in lines)

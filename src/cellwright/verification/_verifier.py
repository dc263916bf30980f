"""One verification of a session's notebook, from its beginning to its certificate, and who starts and finds them.

It belongs to the engine, not to whoever asked: it goes on when they go away, and anybody may wait for it. The session's
own kernel and files stay as they are, whatever becomes of it. What is run stands in ``rehearsal``, what it means in
``verifier``.
"""

from __future__ import annotations

import ast
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import anyio

import cellwright
from cellwright.engine import Engine, Inputs, Session
from cellwright.engine.introspection import UNKNOWN, recorded_inputs, with_inputs
from cellwright.engine.records import ExecutionRecord, new_verification_id
from cellwright.errors import CellwrightError, UnknownSession
from cellwright.notebook import Cell, CellMetadataSet, Change, NotebookMetadataSet, source_hash
from cellwright.notebook.python_names import names_of, python_cell
from cellwright.verification._certificates import (
    Certificate,
    CertifiedCell,
    CertifiedFinding,
    with_certificate,
)
from cellwright.verification._findings import Finding, find_problems
from cellwright.verification._rehearsal import (
    Applied,
    CheckedCell,
    Volatile,
    applied,
    declared_in,
    declared_rules,
    rehearse,
)

__all__ = ["Verification", "Verifier", "random_sources", "verify"]
VerificationState: TypeAlias = Literal["running", "completed", "stopped"]

_log = logging.getLogger(__name__)


async def verify(
    engine: Engine, session: Session, *, rules: Volatile | None = None, timeout_s: float | None = None
) -> Verification:
    """Verify a session's notebook in the background; ``wait`` for the end.

    ``volatility`` come on top of what the notebook declares to be volatile. ``timeout_s`` is each cell's time.

    Raises:
        NotebookError: what is declared to be volatile cannot be understood.
    """
    return await Verifier(engine).start(session, rules=rules, timeout_s=timeout_s)


class Verifier:
    """Starts verifications, and finds those that are going on. One for an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last: dict[str, Verification] = {}

    def of(self, session_id: str) -> Verification | None:
        """The last one of a session, going on or over."""
        return self._last.get(session_id)

    async def start(
        self, session: Session, *, rules: Volatile | None = None, timeout_s: float | None = None
    ) -> Verification:
        """Begin one, or join the one that is going on; see ``verify``."""
        await session.refresh()
        await session.files_known()
        history = [one.record for one in await self._engine.history(session.id, outputs=False)]
        going_on = self._last.get(session.id)
        if going_on is not None and not going_on.done:
            return going_on
        begun = Verification(self._engine, session, history, rules=rules or Volatile(), timeout_s=timeout_s)
        # One that is over holds its session, which may have been deleted since.
        seen = {one.id for one in self._engine.sessions()}
        self._last = {known: one for known, one in self._last.items() if known in seen or not one.done}
        self._last[session.id] = begun
        self._engine.in_background(begun.run)
        return begun


class Verification:
    """A notebook being run from the top in a clean kernel."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        history: Sequence[ExecutionRecord],
        *,
        rules: Volatile,
        timeout_s: float | None,
    ) -> None:
        self.id = new_verification_id()
        self.session_id = session.id
        self.checked: list[CheckedCell] = []
        """The cells that ran again so far, in order."""
        self.reason: str | None = None
        """Why it did not come to its end."""
        self.certificate: Certificate | None = None
        """What was written into the notebook; none where it was cancelled or never began."""
        self.told = False
        """Whether somebody was told its end."""
        self._engine = engine
        self._document = session.document.copy()
        self.cells: tuple[Cell, ...] = tuple(cell for cell in self._document.cells if cell.runs)
        """All that are to run."""
        self._how, self._declared = _declared(self._document.metadata, self.cells, rules)
        self._left = files_left(history)
        self.findings: tuple[Finding, ...] = find_problems(self._document, history, language=session.language)
        """What is doubtful: known before anything runs; what only the run could tell comes with its end."""
        self._timeout_s = timeout_s
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._began = self._over = time.monotonic()

    @property
    def state(self) -> VerificationState:
        if not self.done:
            return "running"
        return "stopped" if self.reason is not None else "completed"

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    @property
    def verified(self) -> bool:
        """Whether the notebook holds; false until that is known."""
        return self.certificate is not None and self.certificate.verified

    @property
    def over_for_s(self) -> float:
        """How long ago it ended."""
        return time.monotonic() - self._over if self.done else 0.0

    async def wait(self, timeout_s: float | None = None) -> Verification:
        """Return when it has ended and its certificate is written, or after ``timeout_s`` with it still running."""
        with anyio.move_on_after(timeout_s):
            await self._ended.wait()
        return self

    async def cancel(self) -> None:
        """Stop it. Nothing is left of it, and the notebook keeps the certificate it had."""
        self._scope.cancel()
        await self._ended.wait()

    async def run(self) -> None:
        """Do it all; the engine does so in the background, where nothing may be raised."""
        try:
            with self._scope:
                surroundings, tier = await self._rehearse()
                await self._write(surroundings, tier)
            if self._scope.cancelled_caught:
                self.reason = f"It was cancelled after {len(self.checked)} of {len(self.cells)} cells"
        except CellwrightError as error:
            self.reason = str(error)
        except Exception:  # noqa: BLE001  # boundary: one verification that fails must not take the engine with it
            _log.exception("verification_failed session=%s", self.session_id)
            self.reason = "It failed inside Cellwright; look at the log"
        finally:
            self._over = time.monotonic()
            self._ended.set()
        # Once more, since it has ended only now: who looked when the certificate came saw it going on.
        with suppress(UnknownSession):
            self._tell_progress()

    async def _rehearse(self) -> tuple[Inputs, str | None]:
        recorded = {path for cell in self.cells for path in recorded_inputs(cell.metadata)}
        leave_out = frozenset(self._left) - recorded
        surroundings = Inputs()
        opened = self._engine.rehearsal(self.session_id, self._document.copy(), leave_out=leave_out)
        async with opened as session:
            again = rehearse(session, self.cells, self._how, timeout_s=self._timeout_s)
            async with aclosing(again):
                async for checked in again:
                    self.checked.append(checked)
                    self._tell_progress()
            if self.checked and not self.checked[-1].goes_on:
                self.reason = _why_stopped(self.checked[-1])
            if session.state == "active":
                sources = "\n".join(f"import {name}" for name in _modules(self.cells))
                surroundings = await session.inputs(sources, packages=True)
            return surroundings, session.tier

    def _tell_progress(self) -> None:
        about = {
            "verification_id": self.id,
            "done": len(self.checked),
            "total": len(self.cells),
            "state": self.state,
        }
        self._engine.session(self.session_id).tell("notebook.verification.progress", about)

    async def _write(self, surroundings: Inputs, tier: str | None) -> None:
        """Put the certificate into the notebook, and beside each cell what it was seen to read."""
        session = self._engine.session(self.session_id)  # it may have been deleted meanwhile
        found = findings_of_run(self.cells, self.checked, self._left, language=session.language)
        self.findings = (*self.findings, *found)
        outcome = Outcome(
            cells=self.cells,
            checked=tuple(self.checked),
            findings=self.findings,
            reason=self.reason,
            surroundings=surroundings,
            declared=self._declared,
            seconds=time.monotonic() - self._began,
            ended=datetime.now().astimezone(),
            language=session.language,
            tier=tier,
        )
        certificate = certify(outcome)
        with anyio.CancelScope(shield=True):
            await session.refresh()
            changes: list[Change] = [
                NotebookMetadataSet(with_certificate(session.document.metadata, certificate)),
                *self._newly_read(session),
            ]
            told = {
                "verification_id": self.id,
                "verified": certificate.verified,
                "reason": certificate.reason,
            }
            await session.apply(changes, told_as=("notebook.verification.completed", told))
            self.certificate = certificate
            await session.save()

    def _newly_read(self, session: Session) -> list[Change]:
        """What cells read that show just this, where nobody watched when they ran."""
        changes: list[Change] = []
        for one in self.checked:
            known = recorded_inputs(one.cell.metadata) or not one.inputs
            if not one.same or known or one.cell.id not in session.document:
                continue
            now = session.cell(one.cell.id)
            if _shows_the_same(now, one.cell):
                changes.append(CellMetadataSet(now.id, with_inputs(now.metadata, one.read)))
        return changes

    def __repr__(self) -> str:
        return f"<Verification {self.id} {self.state} {len(self.checked)} of {len(self.cells)}>"


def _declared(
    metadata: Mapping[str, object], cells: Sequence[Cell], asked: Volatile
) -> tuple[dict[str, Applied], tuple[Volatile, ...]]:
    """How each cell is compared, and all that was declared."""
    whole = declared_in(metadata, whose="the notebook")
    own = {cell.id: declared_in(cell.metadata, whose=f"cell {cell.id}") for cell in cells}
    how = {cell.id: applied(whole, own[cell.id], asked) for cell in cells}
    return how, (whole, *own.values(), asked)


def _modules(cells: Sequence[Cell]) -> list[str]:
    return sorted({module for cell in cells for module in names_of(cell).modules})


def _shows_the_same(now: Cell, then: Cell) -> bool:
    return now.source == then.source and now.outputs == then.outputs


def _why_stopped(checked: CheckedCell) -> str:
    now = checked.now
    error = f" ({now.error.get('ename')}: {now.error.get('evalue')})" if now.error else ""
    why = f": {now.reason}" if now.reason else ""
    return f"Cell {checked.cell.id} ended as {now.state}{error} in a clean kernel{why}"


# What a run from the top says about a notebook: findings that only it could make, and the certificate. Pure.

_MOST_DIFFERENCES = 5

_MOST_CALLS = 3

_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is known once a run is over."""

    cells: tuple[Cell, ...]
    """All that were to run."""
    checked: tuple[CheckedCell, ...]
    findings: tuple[Finding, ...]
    reason: str | None
    """Why it did not come to its end."""
    surroundings: Inputs
    declared: tuple[Volatile, ...]
    seconds: float
    ended: datetime
    language: str
    tier: str | None


def verified(outcome: Outcome) -> bool:
    """Whether all of it ran and put out the same, on what it was made from."""
    whole = outcome.reason is None and len(outcome.checked) == len(outcome.cells)
    same = all(checked.same for checked in outcome.checked)
    return whole and same and not any(finding.refutes for finding in outcome.findings)


def findings_of_run(
    cells: Sequence[Cell], checked: Sequence[CheckedCell], left: Mapping[str, str | None], *, language: str
) -> list[Finding]:
    """Inputs that are not what they were, files that only the past wrote, and numbers without a seed."""
    found: list[Finding] = []
    for one in checked:
        found += _changed(one)
        found += _left_over(cells, one, left)
        if not one.same and language == "python":
            found += _random(cells, one)
    return found


def files_left(history: Iterable[ExecutionRecord]) -> dict[str, str | None]:
    """Files that a session's own runs wrote, each with the cell that did last; None is code in no cell."""
    left: dict[str, str | None] = {}
    for record in sorted(history, key=lambda record: record.number):
        if not record.undone and not record.rolled_back:
            left |= {file.path: record.cell_id for file in record.files if file.type == "file"}
    return left


def _changed(one: CheckedCell) -> list[Finding]:
    """Of files that it read both times, those that are not what they were."""
    then = recorded_inputs(one.cell.metadata)
    changed = [
        path for path, digest in one.inputs.items() if _is_known(then.get(path)) and then[path] != digest
    ]
    message = "read `{}`, which changed since it put out what it shows"
    return [Finding("changed_input", one.cell.id, message.format(path), (path,)) for path in changed]


def _is_known(digest: str | None) -> bool:
    return digest is not None and digest != UNKNOWN


def _left_over(cells: Sequence[Cell], one: CheckedCell, left: Mapping[str, str | None]) -> list[Finding]:
    places = {cell.id: place for place, cell in enumerate(cells)}
    found = []
    for path in one.inputs:
        if path not in left:
            continue
        writer = left[path]
        if writer is not None and places.get(writer, len(cells)) <= places[one.cell.id]:
            continue  # what it finds there it would have made itself
        who = _writer(writer, places)
        found.append(Finding("hidden_file", one.cell.id, f"read `{path}`, which only {who} wrote", (path,)))
    return found


def _writer(cell_id: str | None, places: Mapping[str, int]) -> str:
    if cell_id is None:
        return "code that is in no cell"
    return f"cell {cell_id} below" if cell_id in places else f"cell {cell_id}, which is deleted,"


def _random(cells: Sequence[Cell], one: CheckedCell) -> list[Finding]:
    sources = random_sources(cells, one.cell.id)
    own = [source.call for source in sources if source.cell_id == one.cell.id]
    others = [source for source in sources if source.cell_id != one.cell.id]
    if own:
        calls = ", ".join(f"`{call}`" for call in own[:_MOST_CALLS])
        return [Finding("random", one.cell.id, f"draws random numbers without a seed ({calls})", tuple(own))]
    if others:
        first = others[0]
        message = f"takes random numbers without a seed from cell {first.cell_id} (`{first.call}`)"
        return [Finding("random", one.cell.id, message, (first.call,))]
    return []


def certify(outcome: Outcome) -> Certificate:
    """The certificate of a run."""
    by_cell = {one.cell.id: one for one in outcome.checked}
    inputs = {path: digest for one in outcome.checked for path, digest in one.inputs.items()}
    return Certificate(
        verified=verified(outcome),
        at=outcome.ended.isoformat(timespec="seconds"),
        seconds=round(outcome.seconds, 3),
        engine=cellwright.__version__,
        cells=tuple(_certified(cell, by_cell.get(cell.id)) for cell in outcome.cells),
        reason=outcome.reason,
        language=outcome.language,
        interpreter=outcome.surroundings.interpreter,
        python=outcome.surroundings.python,
        platform=outcome.surroundings.platform,
        packages=outcome.surroundings.packages,
        inputs=inputs,
        rules=declared_rules(outcome.declared),
        findings=tuple(
            CertifiedFinding(one.kind, one.cell_id, one.message, one.names) for one in outcome.findings
        ),
        tier=outcome.tier,
    )


def _certified(cell: Cell, checked: CheckedCell | None) -> CertifiedCell:
    if checked is None:
        return CertifiedCell(cell.id, source_hash(cell.source), "not_run")
    differences = tuple(
        f"{one.output}: {one.why}"[:_WIDTH] for one in checked.comparison.differences[:_MOST_DIFFERENCES]
    )
    return CertifiedCell(
        cell.id, source_hash(cell.source), checked.now.state, same=checked.same, differences=differences
    )


# Finds random numbers without a seed in a notebook's Python, so that an output that differs can be
# explained. Pure.

_SEEDS = frozenset({"seed", "manual_seed", "set_seed", "set_random_seed", "seed_everything"})

_MAKERS = frozenset({"default_rng", "RandomState", "Random", "Generator", "SeedSequence"})

_ALWAYS_RANDOM = frozenset(
    {"uuid1", "uuid4", "urandom", "token_hex", "token_bytes", "token_urlsafe", "SystemRandom"}
)

_RANDOM_MODULES = ("random", "np.random", "numpy.random", "secrets")

_TORCH = frozenset({"rand", "randn", "randint", "randperm", "normal"})

_BARE = frozenset(
    {"random", "randint", "randrange", "uniform", "gauss", "choice", "choices", "rand", "randn"}
)

_FRAMES = frozenset({"sample", "train_test_split", "shuffle"})


@dataclass(frozen=True, slots=True)
class Randomness:
    """A call that draws without a seed, and the cell that it is in."""

    cell_id: str
    call: str


def random_sources(cells: Sequence[Cell], cell_id: str) -> list[Randomness]:
    """What draws random numbers without a seed and may have to do with what a cell puts out."""
    places = {cell.id: place for place, cell in enumerate(cells)}
    found: list[Randomness] = []
    for place in _leading_to(cells, places[cell_id]):
        seeded = any(_seeds(cell.source) for cell in cells[: place + 1])
        found += [
            Randomness(cells[place].id, call)
            for call, ignores_seeds in _draws(cells[place].source)
            if ignores_seeds or not seeded
        ]
    return list(dict.fromkeys(found))


def _leading_to(cells: Sequence[Cell], place: int) -> list[int]:
    """A cell, and those whose names lead to it."""
    found, ahead = [place], [place]
    while ahead:
        at = ahead.pop()
        names = names_of(cells[at])
        for name in names.uses | names.later:
            given = [other for other in reversed(range(at)) if name in names_of(cells[other]).defines]
            new = [other for other in given[:1] if other not in found]
            found += new
            ahead += new
    return found


def _calls(source: str) -> Iterator[tuple[ast.Call, str]]:
    tree = python_cell(source).tree
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            yield node, _dotted(node.func)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def _seeds(source: str) -> bool:
    return any(name.rpartition(".")[2] in _SEEDS and call.args for call, name in _calls(source))


def _draws(source: str) -> list[tuple[str, bool]]:
    """Calls that draw, each with whether a seed set elsewhere makes no difference to it."""
    found: list[tuple[str, bool]] = []
    for call, name in _calls(source):
        module, _, last = name.rpartition(".")
        if last in _ALWAYS_RANDOM or module == "secrets":
            found.append((name, True))
        elif last in _MAKERS and (last == name or module in _RANDOM_MODULES):
            if not call.args and not call.keywords:
                found.append((name, True))
        elif _is_draw(module, last, call) and last not in _SEEDS:
            found.append((name, False))
    return found


def _is_draw(module: str, last: str, call: ast.Call) -> bool:
    by_itself = not module and last in _BARE
    if by_itself or module in _RANDOM_MODULES or (module == "torch" and last in _TORCH):
        return True
    given = any(keyword.arg in ("random_state", "seed", "rng") for keyword in call.keywords)
    return last in _FRAMES and not given

"""One verification of a session's notebook, from its beginning to its certificate, and who starts and finds them.

It belongs to the engine, not to whoever asked: it goes on when they go away, and anybody may wait for it. The session's
own kernel and files stay as they are, whatever becomes of it. What is run stands in ``rehearsing``, what it means in
``verdicts``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Literal, TypeAlias

import anyio

from cellwright.engine import Engine, Inputs, Session
from cellwright.engine.ids import new_verification_id
from cellwright.engine.introspection import recorded_inputs, with_inputs
from cellwright.engine.records import ExecutionRecord
from cellwright.errors import CellwrightError, UnknownSession
from cellwright.notebook import Cell, CellMetadataSet, Change, NotebookMetadataSet
from cellwright.notebook.python_names import names_of
from cellwright.verification.certificates import Certificate, with_certificate
from cellwright.verification.findings import Finding, find_problems
from cellwright.verification.rehearsing import CheckedCell, rehearse
from cellwright.verification.rules import Applied, Volatile, applied, declared_in
from cellwright.verification.verdicts import Outcome, certify, files_left, findings_of_run

__all__ = ["Verification", "VerificationState", "Verifier", "verify"]

VerificationState: TypeAlias = Literal["running", "completed", "stopped"]
_log = logging.getLogger(__name__)


async def verify(
    engine: Engine, session: Session, *, rules: Volatile | None = None, timeout_s: float | None = None
) -> Verification:
    """Verify a session's notebook in the background; ``wait`` for the end.

    ``rules`` come on top of what the notebook declares to be volatile. ``timeout_s`` is each cell's time.

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
        self._left = files_left(history) if session.mode != "overlay" else {}
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

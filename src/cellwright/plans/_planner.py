"""Makes plans in notebooks, and starts, joins and steers their runs. One for an engine; keeps nothing that the notebooks
do not have, but the runs that are going on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from cellwright.engine import Engine, Session
from cellwright.errors import PlanBusy, PlanError, TooManyCells, UnknownPlan
from cellwright.plans import _machine
from cellwright.plans._cells import new_plan, opening_changes, taken_ids
from cellwright.plans._machine import Event, advance
from cellwright.plans.failures import Adviser
from cellwright.plans.fixers import Fixer
from cellwright.plans.model import Outline, Plan, plan_of
from cellwright.plans.outlines import checked_outline
from cellwright.plans.runner import Fixers, PlanRun, diff_of, missing_cells

__all__ = ["Planner"]


class Planner:
    """Makes, carries out and looks after the plans of an engine's sessions."""

    def __init__(
        self, engine: Engine, *, fixers: Sequence[Fixer] | None = None, advisers: Sequence[Adviser] = ()
    ) -> None:
        """``fixers``, all that there are by default, are asked about a failure first; where none is certain, ``advisers``, such as a model."""
        self._engine = engine
        self._fixers = Fixers(tuple(fixers) if fixers is not None else None, tuple(advisers))
        self._runs: dict[str, PlanRun] = {}
        self._starting = anyio.Lock()

    async def create(self, session: Session, outline: Outline) -> Plan:
        """Put a plan into a session's notebook. Nothing is run.

        Raises:
            PlanError: the notebook has one already, or the outline cannot be carried out.
            TooManyCells: it needs more cells than ``max_cells`` allows.
        """
        await session.refresh()
        if plan_of(session.document.metadata) is not None:
            raise PlanError(
                f"The notebook of session {session.id} has a plan already",
                hint="Go on with it (plan_status shows it), or make a notebook for the other one",
            )
        outline = checked_outline(outline, language=session.language)
        plan = new_plan(outline, session.document)
        if taken := taken_ids(session.document, plan):
            raise PlanError(
                f"The notebook of session {session.id} has a cell {taken[0]!r} already, which the plan would use",
                hint="Delete that cell, and its -text if there is one, or make the plan in another notebook",
            )
        self._refuse_too_many_cells(session, plan)
        await session.apply(opening_changes(session.document, plan, description=outline.description))
        return plan

    def _refuse_too_many_cells(self, session: Session, plan: Plan) -> None:
        limit = self._engine.settings.max_cells
        # Neither the problem nor what the plan writes to explain its steps counts, nor the validation at the end.
        needed = session.document.counted - ("problem" in session.document) + len(plan.todos)
        if needed > limit:
            raise TooManyCells(
                f"With a plan of {len(plan.todos)} steps the notebook has {needed} cells besides what explains them, "
                f"and max_cells allows {limit}",
                hint="Join steps, make two plans of it, or raise CELLWRIGHT_MAX_CELLS",
            )

    def plan(self, session: Session) -> Plan:
        """The plan in a session's notebook, as it is now.

        Raises:
            UnknownPlan: there is none.
        """
        run = self.run_of(session)
        plan = run.plan if run is not None else plan_of(session.document.metadata)
        if plan is None:
            raise UnknownPlan(
                f"The notebook of session {session.id} has no plan",
                hint="plan_create makes one (on the command line: cellwright new --plan FILE)",
            )
        return plan

    def run_of(self, session: Session) -> PlanRun | None:
        """The run that is going on, if one is."""
        run = self._runs.get(session.id)
        return run if run is not None and not run.done else None

    def was_cut_off(self, session: Session) -> bool:
        """Whether the plan says that it is running, and nobody runs it: whoever did so ended half-way."""
        return self.run_of(session) is None and self.plan(session).phase == "running"

    async def pause(self, session_id: str) -> None:
        """Bring the run that is going on to a halt, if one is: its session is about to become another."""
        run = self._runs.get(session_id)
        if run is not None:
            await run.cancel()

    async def start(self, session: Session) -> PlanRun:
        """Run the plan, or go on where it stopped, or join the run that is going on."""
        async with self._starting:
            run = await self._going_on(session)
            if run is not None:
                return run
            await session.refresh()
            plan = self.plan(session)
            if plan.phase == "running":
                return self._launch(session, plan, None)
            begun = _machine.Begun(time.time(), session.runs.count, missing_cells(session, plan))
            return self._launch(session, plan, begun)

    async def fix(self, session: Session, code: str | None = None) -> PlanRun:
        """Give the current step other code, or ask the fixers to fix it; then go on.

        Raises:
            PlanBusy: the plan is running.
            PlanError: nothing is left to do, or nothing has failed that could be fixed.
        """

        def event(plan: Plan) -> Event:
            if code is None:
                return _machine.Asked(time.time())
            current = plan.current
            before = session.cell(current.id).source if current and current.id in session.document else ""
            return _machine.Coded(code, time.time(), session.runs.count, diff_of(before, code) or None)

        return await self._decide(session, event)

    async def skip(self, session: Session, reason: str | None = None) -> PlanRun:
        """Leave the current step, and go on after it; later steps that depend on it are warned about.

        Raises:
            PlanBusy: the plan is running.
            PlanError: nothing is left to do, or it is the validation's turn.
        """

        def event(plan: Plan) -> Event:
            gone = missing_cells(session, plan)
            return _machine.Skipped(reason, time.time(), session.runs.count, gone)

        return await self._decide(session, event)

    async def _decide(self, session: Session, event_for: Callable[[Plan], Event]) -> PlanRun:
        async with self._starting:
            if await self._going_on(session) is not None:
                raise PlanBusy(
                    f"The plan of session {session.id} is running",
                    hint="Wait for it with plan_run, or stop it with kernel_interrupt",
                )
            await session.refresh()
            plan = self.plan(session)
            if plan.phase == "running":  # cut off: first it is brought to a halt
                plan = advance(plan, _machine.Interrupted("Its run was cut off")).plan
            return self._launch(session, plan, event_for(plan))

    async def _going_on(self, session: Session) -> PlanRun | None:
        """The run that can be joined; one whose plan has come to a halt already is waited for."""
        run = self.run_of(session)
        if run is not None and run.plan.phase != "running":
            await run.wait()
            return None
        return run

    def _launch(self, session: Session, plan: Plan, event: Event | None) -> PlanRun:
        limit = self._engine.settings.max_plan_attempts
        begins = advance(plan, event, max_attempts=limit) if event is not None else None
        run = PlanRun(self._engine, session, self._fixers, plan, begins)
        self._runs[session.id] = run
        self._engine.in_background(partial(self._carry_out, run))
        return run

    async def _carry_out(self, run: PlanRun) -> None:
        await run.run()
        if self._runs.get(run.session_id) is run:
            del self._runs[run.session_id]

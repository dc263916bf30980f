"""Every way in which a plan can go on, tried without a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cellwright.errors import PlanError
from cellwright.plans import _machine
from cellwright.plans._machine import CheckResults, Next, Propose, RunCell, WriteCell, advance
from cellwright.plans.model import MAX_RETRIES, VALIDATION_ID, Attempt, Plan, Todo, plan_of, with_plan

MAX_ATTEMPTS = 3
FAILED = Attempt("x-1", "error", 0.1, error_type="KeyError", error="'a'")
OK = Attempt("x-1", "ok", 0.1)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(1, 5))
    ids = [f"todo-{number}" for number in range(1, count + 1)]
    todos = tuple(
        Todo(
            todo_id,
            todo_id,
            code=draw(st.sampled_from(["code", "code", None])),
            depends_on=tuple(draw(st.sets(st.sampled_from(ids[:place])))) if place else (),
        )
        for place, todo_id in enumerate(ids)
    )
    validation = Todo(VALIDATION_ID, "all is well", code="check") if draw(st.booleans()) else None
    return Plan("a problem", todos, validation=validation)


class PlanMachine(RuleBasedStateMachine):
    """Anything that can happen to a plan, in any order that its runner and its callers can bring about."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = Plan("", ())
        self.effects: tuple[_machine.Effect, ...] = ()
        self.count = 0
        self.stops = 0
        self.runs_in_round: dict[str, int] = {}
        self.tries: dict[str, int] = {}

    @initialize(plan=plans())
    def begin_with(self, plan: Plan) -> None:
        self.plan = plan

    def take(self, event: _machine.Event) -> None:
        self._note(advance(self.plan, event, max_attempts=MAX_ATTEMPTS))

    def _note(self, step: Next) -> None:
        before = {todo.id: todo for todo in self.plan.steps}
        for todo in step.plan.steps:
            if todo.tries > before[todo.id].tries:
                self.runs_in_round[todo.id] = 0
        for effect in step.effects:
            if isinstance(effect, RunCell):
                todo = step.plan.step(effect.todo_id)
                is_retry = todo.retries > 0
                if is_retry:
                    self.tries[todo.id] = self.tries.get(todo.id, 0) + 1
                else:
                    self.tries[todo.id] = 0
                    self.runs_in_round[todo.id] = self.runs_in_round.get(todo.id, 0) + 1
                self.count += 1
        self.plan, self.effects = step.plan, step.effects

    @property
    def does(self) -> type[Any] | None:
        return type(self.effects[-1]) if self.effects else None

    # What callers decide

    @precondition(lambda self: not self.effects)
    @rule()
    def begin(self) -> None:
        halted = self.plan
        self.take(_machine.Begun(1.0, self.count))
        if halted.phase == "succeeded":
            assert self.plan == halted
        elif halted.current is not None and halted.phase != "waiting":
            # Continuing takes up exactly the first step that is neither done nor skipped.
            assert self.plan.current is not None
            assert self.plan.current.id == halted.current.id

    @precondition(lambda self: not self.effects and self.plan.current is not None)
    @rule()
    def give_code(self) -> None:
        current = self.plan.current
        assert current is not None
        self.take(_machine.Coded("other", 1.0, self.count))
        assert self.effects == (WriteCell(current.id, "other"), RunCell(current.id))

    @precondition(lambda self: not self.effects)
    @rule()
    def ask_fixers(self) -> None:
        current = self.plan.current
        if current is None or current.status != "failed":
            with pytest.raises(PlanError):
                advance(self.plan, _machine.Asked(1.0))
            return
        self.take(_machine.Asked(1.0))
        assert self.effects == (Propose(current.id),)

    @precondition(lambda self: not self.effects)
    @rule()
    def skip(self) -> None:
        current = self.plan.current
        if current is None or current.id == VALIDATION_ID:
            with pytest.raises(PlanError):
                advance(self.plan, _machine.Skipped(None, 1.0, self.count))
            return
        self.take(_machine.Skipped("by decision", 1.0, self.count))
        skipped = self.plan.step(current.id)
        assert skipped.status == "skipped"
        for todo in self.plan.steps:
            if current.id in todo.depends_on:
                assert todo.warnings

    @precondition(lambda self: self.effects)
    @rule()
    def refuse_decisions_while_running(self) -> None:
        for event in (
            _machine.Begun(1.0, 0),
            _machine.Coded("x", 1.0, 0),
            _machine.Asked(1.0),
            _machine.Skipped(None, 1.0, 0),
        ):
            with pytest.raises(PlanError):
                advance(self.plan, event)

    # What comes of what is done

    @precondition(lambda self: self.does is RunCell)
    @rule()
    def run_well(self) -> None:
        self.take(_machine.Ran(OK))
        assert self.does is CheckResults

    @precondition(lambda self: self.does is CheckResults)
    @rule()
    def pass_checks(self) -> None:
        current = self.plan.current
        assert current is not None
        self.take(_machine.Passed(1.0, self.count))
        assert self.plan.step(current.id).status == "done"

    @precondition(lambda self: self.does in (RunCell, CheckResults))
    @rule(kind=st.sampled_from(["recoverable", "network", "died"]))
    def fail(self, kind: _machine.FailureKind) -> None:
        self.take(_machine.Failed(FAILED, kind, "a suggestion", self.count, 1.0))
        if kind == "recoverable":
            assert self.does is Propose

    @precondition(lambda self: self.does in (RunCell, CheckResults))
    @rule()
    def meet_a_stop(self) -> None:
        current = self.plan.current
        assert current is not None
        self.take(_machine.Failed(FAILED, "unrecoverable", "ask somebody", self.count, 1.0))
        assert (self.plan.phase, self.effects) == ("stopped", ())
        assert self.plan.step(current.id).status == "failed"
        assert self.plan.report is not None
        assert self.plan.report.suggestion == "ask somebody"

    @precondition(lambda self: self.does is Propose)
    @rule(certain=st.booleans())
    def propose(self, certain: bool) -> None:
        current = self.plan.current
        assert current is not None
        used_up = len(current.attempts) >= MAX_ATTEMPTS
        source = "mended" if certain else None
        self.take(
            _machine.Proposed(1.0, self.count, fixer="f", reason="because", source=source, diff="+mended")
        )
        if certain and not used_up:
            assert self.effects == (WriteCell(current.id, "mended"), RunCell(current.id))
        else:
            assert self.plan.phase == "stopped"
            assert self.plan.report is not None
            assert self.plan.report.suggestion.startswith("because")
            assert ("another round" in self.plan.report.suggestion) == certain

    @precondition(lambda self: self.does in (RunCell, CheckResults))
    @rule()
    def fail_and_be_mended_until_nothing_is_left(self) -> None:
        """What a cell that is never right meets; step by step it is rarely come by."""
        while self.does in (RunCell, CheckResults):
            self.take(_machine.Failed(FAILED, "recoverable", "a suggestion", self.count, 1.0))
            self.no_round_has_more_than_three_attempts()
            self.propose(certain=True)
        assert self.plan.phase == "stopped"

    @precondition(lambda self: self.effects)
    @rule()
    def interrupt(self) -> None:
        self.take(_machine.Interrupted())
        assert (self.plan.phase, self.effects) == ("paused", ())

    @rule()
    def survive_a_restart(self) -> None:
        """The plan in the notebook is the whole plan."""
        assert plan_of(with_plan({"other": 1}, self.plan)) == self.plan

    # What always holds

    @invariant()
    def no_round_has_more_than_three_attempts(self) -> None:
        assert all(len(todo.attempts) <= MAX_ATTEMPTS for todo in self.plan.steps)
        assert all(runs <= MAX_ATTEMPTS for runs in self.runs_in_round.values())

    @invariant()
    def no_attempt_is_repeated_more_than_three_times(self) -> None:
        assert all(todo.retries <= MAX_RETRIES for todo in self.plan.steps)
        assert all(tries <= MAX_RETRIES for tries in self.tries.values())

    @invariant()
    def at_most_one_step_runs_and_all_before_it_are_settled(self) -> None:
        statuses = [todo.status for todo in self.plan.steps]
        assert (statuses.count("running") == 1) == (self.plan.phase == "running") == bool(self.effects)
        current = self.plan.current
        if current is not None:
            before = statuses[: self.plan.number(current.id) - 1]
            assert set(before) <= {"done", "skipped"}
            assert set(statuses[len(before) + 1 :]) <= {"pending"}

    @invariant()
    def success_means_that_all_is_done_or_skipped_and_the_validation_passed(self) -> None:
        if self.plan.phase == "succeeded":
            assert all(todo.status in ("done", "skipped") for todo in self.plan.todos)
            assert self.plan.validation is None or self.plan.validation.status == "done"
            assert self.plan.report is None
        if self.plan.phase == "stopped":
            assert self.plan.report is not None

    @invariant()
    def a_cell_is_run_only_where_it_has_code(self) -> None:
        for effect in self.effects:
            if isinstance(effect, RunCell):
                assert self.plan.step(effect.todo_id).cell_id == effect.todo_id


PlanMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)
TestPlanMachine = PlanMachine.TestCase


def test_a_network_error_is_repeated_with_longer_and_longer_pauses_and_then_stops() -> None:
    step = advance(Plan("p", (Todo("todo-1", "a", code="x"),)), _machine.Begun(1.0, 0))
    delays = []
    for _ in range(MAX_RETRIES):
        step = advance(step.plan, _machine.Failed(FAILED, "network", "look at it", 0, 1.0))
        (effect,) = step.effects
        assert isinstance(effect, RunCell)
        delays.append(effect.delay)
    assert delays == [1, 2, 3]
    assert (
        advance(step.plan, _machine.Failed(FAILED, "network", "look at it", 0, 1.0)).plan.phase == "stopped"
    )


def test_a_kernel_that_died_is_tried_once_more_from_its_checkpoint() -> None:
    step = advance(Plan("p", (Todo("todo-1", "a", code="x"),)), _machine.Begun(1.0, 0))
    step = advance(step.plan, _machine.Failed(FAILED, "died", "it died", 0, 1.0))
    assert step.effects == (RunCell("todo-1"),)
    assert advance(step.plan, _machine.Failed(FAILED, "died", "it died", 0, 1.0)).plan.phase == "stopped"


def test_a_fix_by_the_caller_counts_as_a_fix_in_the_report() -> None:
    plan = Plan("p", (Todo("todo-1", "a", code="x"),))
    step = advance(plan, _machine.Begun(1.0, 0))
    step = advance(step.plan, _machine.Failed(FAILED, "unrecoverable", "s", 0, 1.0))
    step = advance(step.plan, _machine.Coded("y", 1.0, 0, "-x\n+y"))
    step = advance(step.plan, _machine.Failed(FAILED, "unrecoverable", "s", 0, 1.0))
    assert step.plan.report is not None
    assert step.plan.report.fixes == 1
    assert step.plan.report.text == (
        "❌ Execution stopped at cell 1\nTODO: a\nError Type: KeyError\nError Message: 'a'\n"
        "Attempted Fixes: 1\nSuggestion: s"
    )


def test_fixers_that_have_nothing_to_say_leave_the_report_as_it_was() -> None:
    step = advance(Plan("p", (Todo("todo-1", "a", code="x"),)), _machine.Begun(1.0, 0))
    stopped = advance(step.plan, _machine.Failed(FAILED, "unrecoverable", "ask somebody", 0, 1.0)).plan
    asked = advance(stopped, _machine.Asked(2.0))
    assert asked.effects == (Propose("todo-1"),)
    assert advance(asked.plan, _machine.Proposed(2.0, 0)).plan.report == stopped.report


def test_a_step_whose_cell_was_deleted_waits_for_code() -> None:
    step = advance(
        Plan("p", (Todo("todo-1", "a", cell_id="todo-1"),)), _machine.Begun(1.0, 0, frozenset({"todo-1"}))
    )
    assert step.plan.phase == "waiting"

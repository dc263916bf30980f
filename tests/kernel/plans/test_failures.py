"""Real failures, really run: each is classed, repaired with the right result, or left alone with a suggestion.

The rows stand in ``failures_table_*``. Each runs as a plan of its own, in a directory of its own, with the fixers that
go by rule: no model is asked. Rows of one fixer and ending, with or without a suggestion, take the same way: the first of
them runs by default, the rest are the matrix. How each error is classed is in ``unit/plans``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.plans import Check, Outline, Plan, Planner, Todo, TodoOutline
from cellwright.plans.error_classes import ERROR_CLASSES
from tests.matrix import one_of_each
from tests.support.plans import failures_table_columns as columns
from tests.support.plans import failures_table_data as data
from tests.support.plans import failures_table_drift as drift
from tests.support.plans import failures_table_meanings as meanings
from tests.support.plans import failures_table_more as more
from tests.support.plans import failures_table_names as names
from tests.support.plans import failures_table_readings as readings
from tests.support.plans import failures_table_stops as stops
from tests.support.plans import failures_table_syntax as syntax
from tests.support.plans import failures_table_traps as traps
from tests.support.plans.failures_rows import Row

pytestmark = pytest.mark.anyio

FAILURES: tuple[Row, ...] = (
    *names.ROWS,
    *data.ROWS,
    *syntax.ROWS,
    *traps.ROWS,
    *more.ROWS,
    *drift.ROWS,
    *stops.ROWS,
)
TEMPTING: tuple[Row, ...] = (*meanings.ROWS, *columns.ROWS, *readings.ROWS)
"""Made so that a tempting repair would be wrong. There is no end to these, so they do not count for what is repaired."""

ROWS = (*FAILURES, *TEMPTING)
PART_REPAIRED = 0.7
PRELOAD = ("pandas",)
ENGINE_SETTINGS = {"plan_backoff_s": 0}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a row."""

    plan: Plan
    source: str
    """The cell's, in the end."""

    @property
    def todo(self) -> Todo:
        return self.plan.todos[-1]

    @property
    def told(self) -> str:
        """Everything about it, for whoever reads why a row failed."""
        attempts = "\n".join(
            f"{attempt.state} {attempt.verdict} {attempt.error_type}: {attempt.error} [{attempt.fixer}] {attempt.diff}"
            for attempt in (*self.todo.earlier, *self.todo.attempts)
        )
        report = self.plan.report.text if self.plan.report is not None else "no report"
        return f"{self.plan.phase}\n{attempts}\n{report}\n{self.plan.notices}\n{self.source}"


async def run_row(engine: Engine, row: Row, directory: Path) -> Outcome:
    for path, content in row.files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(content)
    checks = (Check("expression", row.check),) if row.check is not None else ()
    before = (TodoOutline("What is there before", row.setup),) if row.setup else ()
    failing = TodoOutline("The failing step", row.code, checks, timeout_s=row.timeout_s)
    session = await engine.create(row.name, directory=directory)
    planner = Planner(engine)
    await planner.create(session, Outline(row.name, (*before, failing)))
    plan = (await (await planner.start(session)).wait()).plan
    source = session.cell(plan.todos[-1].id).source
    await engine.delete(session.id)
    return Outcome(plan, source)


@pytest.mark.parametrize(
    "row",
    one_of_each(ROWS, lambda row: (row.fixer, row.ending, bool(row.says)), lambda row: row.name),
)
async def test_a_failure_ends_as_it_must(engine: Engine, tmp_path: Path, row: Row) -> None:
    outcome = await run_row(engine, row, tmp_path / "work")
    attempts = outcome.todo.attempts
    assert attempts[0].verdict == row.verdict, outcome.told
    assert len(attempts) <= 3
    if row.ending == "mended":
        assert outcome.plan.phase == "succeeded", outcome.told
        assert attempts[1].fixer == row.fixer, outcome.told
        assert all(attempt.diff and attempt.reason for attempt in attempts[1:]), "a repair is never silent"
    else:
        assert_left_alone(row, outcome)


def assert_left_alone(row: Row, outcome: Outcome) -> None:
    assert outcome.plan.phase == "stopped", outcome.told
    assert outcome.source == row.code, outcome.told
    assert len(outcome.todo.attempts) == 1, outcome.told
    report = outcome.plan.report
    assert report is not None
    assert report.fixes == 0
    assert report.recoverable == (row.ending == "suggested"), outcome.told
    assert report.suggestion
    assert row.says.lower() in report.suggestion.lower(), outcome.told


def test_the_table_is_large_and_most_of_what_can_be_repaired_is() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 100
    kinds = Counter(row.kind for row in ROWS)
    recoverable = [row for row in FAILURES if row.kind == "recoverable"]
    assert kinds["recoverable"] >= 80
    assert kinds["unrecoverable"] >= 15
    assert sum(row.ending == "mended" for row in recoverable) >= PART_REPAIRED * len(recoverable)


def test_every_row_that_is_to_be_left_alone_is() -> None:
    assert sum(row.ending == "suggested" for row in ROWS) >= 20


def test_nearly_every_class_of_the_table_has_a_real_failure() -> None:
    # What needs a server, or a limit reached on purpose, is tried in `test_classes`.
    untried = {row.name for row in ERROR_CLASSES} - {row.verdict for row in ROWS}
    assert untried == {"http", "http_later", "limit", "check"}

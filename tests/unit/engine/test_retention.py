"""History is bounded by age and size, and what a session needs is never let go."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellwright import Settings
from cellwright.engine import _recovery
from cellwright.engine._background import Retention
from cellwright.engine.journal import Event, Journal, Statement, insert_event
from cellwright.engine.lineage import new_lineage
from cellwright.engine.records import ExecutionRecord, SessionRecord, put_execution, put_session
from cellwright.errors import UnknownExecution
from cellwright.hosts.protocol import ExecutionState

pytestmark = pytest.mark.anyio

DAY_S = 86_400
SAVED = 1_000
"""Whatever has a lower number is in the notebook's file."""


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "journal.db")
    record = SessionRecord("s", "book", "book.ipynb", "python", time.time(), generation=2)
    base = ("INSERT INTO documents VALUES (?,?,?,?,?)", ("s", SAVED, "", "{}", None))
    await journal.write([put_session(record), base])
    yield journal
    await journal.close()


def ran(
    number: int,
    seq: int,
    *,
    days_ago: float = 0,
    state: ExecutionState = "ok",
    size: int = 1,
    generation: int = 1,
) -> list[Statement]:
    """An execution that printed something."""
    at = time.time() - days_ago * DAY_S
    record = ExecutionRecord(f"e{number}", "s", None, number, generation, 1, "source", at, state=state)
    kinds = ("notebook.cell.output", "notebook.cell.completed" if state == "ok" else "notebook.cell.output")
    return [
        put_execution(record),
        *(
            insert_event(Event(seq + place, at, kind, "s", generation, None, record.id, {"text": "x" * size}))
            for place, kind in enumerate(kinds)
        ),
    ]


def kept(journal: Journal) -> tuple[list[str], list[int]]:
    executions = [row[0] for row in journal.read("SELECT id FROM executions ORDER BY number")]
    return executions, [row[0] for row in journal.read("SELECT seq FROM events ORDER BY seq")]


async def look(journal: Journal, **settings: object) -> None:
    values = {"history_days": 90, "max_journal": "1GB"} | settings
    read = Settings.model_validate(values)
    await Retention(journal, {}, days=read.history_days, max_bytes=read.max_journal).look()


async def test_what_is_older_than_it_is_kept_goes_as_a_whole(journal: Journal) -> None:
    await journal.write(ran(1, 10, days_ago=100) + ran(2, 20, days_ago=80) + ran(3, 30))
    await look(journal)
    assert kept(journal) == (["e2", "e3"], [20, 21, 30, 31])


async def test_what_runs_what_is_not_in_the_file_and_the_newest_execution_stay(journal: Journal) -> None:
    runs = ran(1, 10, days_ago=100, state="running")
    unsaved = ran(2, SAVED, days_ago=100)
    await journal.write(runs + unsaved + ran(3, 20, days_ago=100))
    await look(journal)
    assert kept(journal) == (["e1", "e2", "e3"], [10, 11, 20, 21, SAVED, SAVED + 1])


async def test_a_deleted_session_is_forgotten_in_the_end(journal: Journal) -> None:
    long_ago = time.time() - 100 * DAY_S
    await journal.write([insert_event(Event(5, long_ago, "notebook.state.changed", "gone", 1))])
    await look(journal)
    assert kept(journal) == ([], [])


async def test_the_oldest_goes_where_there_is_too_much(journal: Journal) -> None:
    for number in range(1, 41):
        await journal.write(ran(number, 10 * number, size=100_000))
    await look(journal, max_journal="2MB")
    executions, _ = kept(journal)
    assert journal.used_bytes <= 2 * 1024**2
    assert executions == [f"e{number}" for number in range(41 - len(executions), 41)]
    assert executions, "only as much as needed goes"


async def test_a_state_of_which_something_is_gone_is_not_said_to_be_made_again(journal: Journal) -> None:
    await journal.write(ran(1, 10, days_ago=100) + ran(2, 20, generation=2))
    await look(journal)
    record = _recovery.load_session_record(journal, "s")
    assert record is not None
    _recovery.refuse_if_let_go(journal, record, new_lineage(2))
    with pytest.raises(UnknownExecution, match="no longer kept"):
        _recovery.refuse_if_let_go(journal, record, new_lineage(1))

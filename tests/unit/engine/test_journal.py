"""The journal's promises to those who wait for it: each has an answer of its own, and a full disk can be read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellwright.engine.journal import Journal
from cellwright.errors import SaveFailed
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

HOST = ("INSERT INTO hosts VALUES (?,?)", ("one", 7))
NOWHERE = ("INSERT INTO nowhere VALUES (1)", ())


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite")
    yield journal
    await journal.close()


async def test_who_is_cancelled_takes_neither_the_change_nor_anybody_elses_answer(journal: Journal) -> None:
    cancelled, kept = journal.write([HOST]), journal.write([])
    cancelled.cancel()
    with fail_after():
        await journal.flush()
        await kept
    assert journal.read("SELECT * FROM hosts") == [("one", 7)]


async def test_the_last_one_being_cancelled_disconnects_nobody_who_reads(journal: Journal) -> None:
    journal.write([HOST]).cancel()
    with fail_after():
        await journal.catch_up()
        await journal.flush()
    assert journal.read("SELECT * FROM hosts") == [("one", 7)]


async def test_what_cannot_be_written_is_told_to_writers_and_keeps_nobody_from_reading(
    journal: Journal, tmp_path: Path
) -> None:
    with fail_after():
        await journal.write([HOST])
        with pytest.raises(SaveFailed):
            await journal.write([NOWHERE])
        await journal.catch_up()
        with pytest.raises(SaveFailed):
            await journal.flush()
    assert journal.read("SELECT * FROM hosts") == [("one", 7)]
    with sqlite3.connect(tmp_path / "journal.sqlite") as mended:
        mended.execute("CREATE TABLE nowhere (number)")
    mended.close()
    with fail_after():
        while True:
            try:
                await journal.flush()
            except SaveFailed:
                continue
            break
    assert journal.read("SELECT * FROM nowhere") == [(1,)]

"""The journal's promises to those who wait for it: each has an answer of its own, and a full disk can be read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine.journal import Journal
from cellwright.errors import SaveFailed
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

HOST = ("INSERT INTO hosts VALUES (?,?)", ("one", 7))
OTHER_HOST = ("INSERT INTO hosts VALUES (?,?)", ("other", 8))
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


async def test_a_refused_change_is_taken_back_and_never_written(journal: Journal) -> None:
    undone: list[str] = []
    with fail_after():
        with pytest.raises(SaveFailed, match="Nothing was changed"):
            await journal.write([HOST, NOWHERE], undo=lambda: undone.append("refused"))
        assert undone == ["refused"], "nothing is left of it in memory by the time it is told"
        await journal.flush()
        await journal.write([OTHER_HOST], undo=lambda: undone.append("accepted"))
        await journal.catch_up()
    assert undone == ["refused"]
    assert journal.read("SELECT * FROM hosts") == [("other", 8)]


async def test_changes_that_may_build_on_a_refused_one_are_refused_with_it_the_newest_first(
    journal: Journal,
) -> None:
    undone: list[int] = []
    written = [
        journal.write([NOWHERE if number == 1 else HOST], undo=lambda number=number: undone.append(number))
        for number in range(1, 4)
    ]
    with fail_after():
        for future in written:
            with pytest.raises(SaveFailed, match="Nothing was changed"):
                await future
    assert undone == [3, 2, 1]
    assert journal.read("SELECT * FROM hosts") == []


async def test_what_has_happened_is_written_though_a_change_beside_it_is_refused(journal: Journal) -> None:
    undone: list[str] = []
    refused = journal.write([NOWHERE], undo=lambda: undone.append("refused"))
    happened = journal.write([HOST])
    with fail_after():
        await happened
        with pytest.raises(SaveFailed):
            await refused
    assert journal.read("SELECT * FROM hosts") == [("one", 7)]


async def test_a_file_gives_back_what_deleted_rows_leave(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    large = [("INSERT INTO hosts VALUES (?,?)", (f"{number}" + "x" * 10_000, 1)) for number in range(600)]
    await journal.write(large)
    await until(lambda: file.stat().st_size > 6_000_000)
    await journal.write([("DELETE FROM hosts", ())])
    await until(lambda: file.stat().st_size < 2_000_000)
    assert journal.used_bytes < 200_000


async def test_a_file_that_cannot_shrink_is_rewritten_once_and_keeps_every_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    first = Journal(path)
    await first.write([HOST])
    await first.close()
    with sqlite3.connect(path) as old:
        old.execute("PRAGMA journal_mode=DELETE")
        old.execute("PRAGMA auto_vacuum=NONE")
        old.execute("VACUUM")
    old.close()
    journal = Journal(path)
    assert journal.read("PRAGMA auto_vacuum") == [(2,)]
    assert journal.read("SELECT * FROM hosts") == [("one", 7)]
    await journal.close()


@pytest.fixture
def committed_as(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each transaction was brought to the disk, as SQLite carries it out: ``FULL`` or ``NORMAL``."""
    modes: list[str] = []
    mode = ""

    def heard(statement: str) -> None:
        nonlocal mode
        if statement.startswith("PRAGMA synchronous="):
            mode = statement.partition("=")[2]
        elif statement == "COMMIT":
            modes.append(mode)

    class Told(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_trace_callback(heard)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Told))
    return modes


async def test_a_change_is_on_the_disk_when_it_is_answered_and_what_happened_a_moment_later(
    committed_as: list[str], tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    committed_as.clear()
    with fail_after():
        await journal.write([HOST], lasting=True)
        assert committed_as == ["FULL"]
        await journal.write([OTHER_HOST])
        assert committed_as == ["FULL", "NORMAL"]
        await until(lambda: committed_as == ["FULL", "NORMAL", "FULL"])
        await journal.close()

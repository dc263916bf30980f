"""SQL cells of real sessions: inside the walls, within their time, and back with a checkpoint."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Engine, Session
from cellwright.notebook.languages import cell_metadata
from tests.waiting import until

pytestmark = pytest.mark.anyio

LONG = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"


async def run(session: Session, code: str, language: str | None = None, **options: Any) -> Any:
    cell = await session.add_cell(code, metadata=cell_metadata(language=language))
    return await session.run(cell.id, **options)


async def ok(session: Session, code: str, language: str | None = None) -> str:
    execution = await run(session, code, language)
    assert execution.ok, execution.text
    text: str = execution.text
    return text


async def test_tables_and_variables_come_back_with_a_checkpoint(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("go back", directory=tmp_path)
    await ok(session, "import pandas as pd; df = pd.DataFrame({'a': [1, 2, 3]})")
    await ok(session, "CREATE TABLE t AS SELECT * FROM df; SELECT sum(a) FROM range(100000) r(a)", "sql")
    await session.checkpoint("before")
    assert await ok(session, "DELETE FROM t WHERE a < 3; INSERT INTO t SELECT 9", "sql") == (
        "2 rows deleted from t\n1 row inserted into t\n"
    )
    await session.roll_back("before")
    assert (await ok(session, "SELECT sum(t.a) AS s FROM t JOIN df USING (a)", "sql")).split() == [
        "s",
        "0",
        "6",
    ]
    assert (await ok(session, "SELECT count(*) AS n FROM range(3000000)", "sql")).split() == [
        "n",
        "0",
        "3000000",
    ]


async def test_a_sql_cell_that_fails_leaves_no_trace(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("atomic", directory=tmp_path)
    await ok(session, "CREATE TABLE t AS SELECT 1 AS a", "sql")
    failed = await run(session, "INSERT INTO t VALUES (2); SELECT error('no')", "sql", on_error="rollback")
    assert failed.state == "error"
    assert failed.record.rolled_back, failed.record.no_checkpoint
    assert (await ok(session, "SELECT count(*) AS n FROM t", "sql")).split() == ["n", "0", "1"]


async def test_a_query_ends_with_its_time(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("time", directory=tmp_path)
    await ok(session, "CREATE TABLE t AS SELECT 1 AS a", "sql")
    slow = await run(session, LONG, "sql", timeout_s=1)
    assert slow.state == "timeout"
    assert slow.text.startswith("TimeoutError")
    assert (await ok(session, "SELECT a FROM t", "sql")).split() == ["a", "0", "1"]


async def test_a_query_that_is_interrupted_says_so(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("interrupted", directory=tmp_path)
    await ok(session, "CREATE TABLE t AS SELECT 1 AS a", "sql")
    code = f"COPY (SELECT 1) TO 'begun.csv'; {LONG}"
    cell = await session.add_cell(code, metadata=cell_metadata(language="sql"))
    execution = await session.execute(cell.id)
    await until((session.cwd / "begun.csv").exists)
    await session.interrupt()
    assert (await execution.wait()).state == "interrupted"
    assert execution.text.splitlines()[-1] == "KeyboardInterrupt: the query was interrupted"
    assert (await ok(session, "SELECT a FROM t", "sql")).split() == ["a", "0", "1"]


async def test_a_database_in_a_file_comes_back_with_a_checkpoint(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("file", directory=tmp_path)
    await ok(session, "ATTACH 'kept.duckdb' AS kept; CREATE TABLE kept.t AS SELECT 1 AS a", "sql")
    await session.checkpoint("before")
    await ok(session, "INSERT INTO kept.t VALUES (2); CHECKPOINT kept", "sql")
    await session.roll_back("before")
    assert (await ok(session, "SELECT count(*) AS n FROM kept.t", "sql")).split() == ["n", "0", "1"]
    await ok(session, "INSERT INTO kept.t VALUES (3); CHECKPOINT kept; DETACH kept", "sql")
    text = await ok(session, "ATTACH 'kept.duckdb' AS again; SELECT sum(a) AS s FROM again.t", "sql")
    assert text.split() == ["s", "0", "4"]


async def test_no_query_reads_outside_the_walls(engine: Engine, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.csv").write_text("a\n7319064\n")
    session = await engine.create("walls", directory=inside, mode="private")
    await ok(session, "open('data.csv', 'w').write('a\\n1\\n')")
    assert (await ok(session, "SELECT a FROM 'data.csv'", "sql")).split() == ["a", "0", "1"]
    for cell in (f"FROM '{outside}/secret.csv'", f"COPY (SELECT 1) TO '{outside}/new.csv'"):
        refused = await run(session, cell, "sql")
        assert refused.state == "error"
        assert "7319064" not in refused.text
    assert [file.name for file in outside.iterdir()] == ["secret.csv"]


async def test_output_of_a_query_is_capped_as_any(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("cap", directory=tmp_path)
    text = await ok(session, "SELECT repeat('x', 100) AS x FROM range(100000)", "sql")
    assert len(text) < 20_000


async def test_a_sqlite_database_is_read_through_a_frame(engine: Engine, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as database:
        database.execute("CREATE TABLE t (a INTEGER)")
        database.execute("INSERT INTO t VALUES (7)")
    database.close()
    session = await engine.create("sqlite", directory=tmp_path)
    refused = await run(session, "ATTACH 'old.db' (TYPE sqlite)", "sql")
    if refused.ok:  # the extension is installed
        assert (await ok(session, "SELECT a FROM old.t", "sql")).split() == ["a", "0", "7"]
        return
    assert "pandas.read_sql_query(query, sqlite3.connect(path))" in refused.text
    await ok(
        session,
        "import sqlite3, pandas; df = pandas.read_sql_query('SELECT * FROM t', sqlite3.connect('old.db'))",
    )
    assert (await ok(session, "SELECT a FROM df", "sql")).split() == ["a", "0", "7"]


async def test_a_kernel_without_widgets_runs_sql(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("plain", directory=tmp_path)
    await ok(session, "import sys; sys.modules['ipywidgets'] = None")
    assert (await ok(session, "SELECT 41 + 1 AS n", "sql")).split() == ["n", "0", "42"]


async def test_a_file_that_lies_elsewhere_is_found_for_the_asker(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "shops.csv").write_text("shop\nnorth\n")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    session = await engine.create("lost", directory=folder, mode="overlay")
    failed = await run(session, "FROM 'shops.csv'", "sql")
    misspelt = await run(session, "FROM '../shop.csv'", "sql")

    assert failed.error is not None
    assert "Did you mean '../shops.csv'?" in failed.error["evalue"]
    assert misspelt.error is not None
    assert (
        f"Paths begin at the working directory, {session.cwd}. Did you mean '../shops.csv'?"
        in misspelt.error["evalue"]
    )

"""SQL cells in real kernels: what is a table, what is shown, what is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from cellwright.kernels.client import Message
from cellwright.kernels.kernel import Kernel
from tests.matrix import first_of
from tests.waiting import LIMIT_S, fail_after, look_again

pytestmark = pytest.mark.anyio

# What engines and kernels of every version call it to each other.
SQL = "sql"

Run = Callable[..., Awaitable[Any]]

SALES = (
    "import pandas as pd; sales = pd.DataFrame({'region': ['north', 'south', 'north'], 'amount': [3, 4, 5]})"
)
LONG = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"


@pytest.fixture
def sql(kernel: Kernel, run_cell: Run) -> Run:
    async def run(cell: str, **options: Any) -> Any:
        return await run_cell(kernel, cell, language=SQL, **options)

    return run


@pytest.fixture
def python(kernel: Kernel, run_cell: Run) -> Run:
    async def run(cell: str) -> Any:
        return await run_cell(kernel, cell)

    return run


def words(ran: Any) -> list[str]:
    found: list[str] = ran.result.split()
    return found


async def test_a_frame_of_the_session_is_a_table_and_so_is_the_result(python: Run, sql: Run) -> None:
    await python(SALES)
    ran = await sql("SELECT region, sum(amount) AS total FROM sales GROUP BY ALL ORDER BY region;")
    (shown,) = ran.of("execute_result")
    assert "<table" in shown["data"]["text/html"]
    assert words(ran) == ["region", "total", "0", "north", "8", "1", "south", "4"]
    assert (await python("type(_).__name__, int(_['total'].sum())")).result == "('DataFrame', 12)"


async def test_sql_and_python_cells_share_one_count_and_one_history(python: Run, sql: Run) -> None:
    first = await python("1")
    second = await sql("SELECT 2 AS two;")
    third = await python("In[-2], Out[2]['two'].tolist()")
    counts = [ran.reply["execution_count"] for ran in (first, second, third)]
    assert counts == [1, 2, 3]
    assert "[2]" in third.result


@pytest.mark.parametrize(
    "made",
    first_of(
        [
            "import pandas as pd; t = pd.DataFrame({'a': [1, 2]})",
            "import polars as pl; t = pl.LazyFrame({'a': [1, 2]})",
            "import pyarrow as pa; t = pa.table({'a': [1, 2]})",
            "import duckdb; t = duckdb.sql('SELECT unnest([1, 2]) AS a')",
            "t = [{'a': 1, 'b': 'x'}, {'a': 2}]",
            "import numpy as np; t = np.array([(1, 'x'), (2, 'y')], dtype=[('a', 'i4'), ('b', 'U5')])",
            "import pandas as pd; t = pd.Series([1, 2], name='a')",
            "import polars as pl; t = pl.DataFrame({'a': [1, 2]})",
            "t = [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 5}]",
            "import numpy as np; t = np.rec.array([(1, 'x'), (2, 'y')], dtype=[('a', 'i4'), ('b', 'U5')])",
        ],
        6,
    ),
)
async def test_every_kind_of_frame_is_a_table(made: str, python: Run, sql: Run) -> None:
    assert (await python(made)).reply["status"] == "ok"
    assert words(await sql("SELECT max(a) AS most, count(*) AS n FROM t")) == ["most", "n", "0", "2", "2"]


async def test_a_name_means_the_databases_own_table_first_whatever_its_case(python: Run, sql: Run) -> None:
    await python(SALES)
    assert words(await sql("SELECT count(*) AS n FROM Sales")) == ["n", "0", "3"]
    await sql("CREATE TABLE sales AS SELECT * FROM sales LIMIT 1")
    assert words(await sql("SELECT count(*) AS n FROM sales")) == ["n", "0", "1"]
    await sql("DROP TABLE sales")
    assert words(await sql("SELECT count(*) AS n FROM sales")) == ["n", "0", "3"]


async def test_a_view_reads_the_variable_as_it_is_now(python: Run, sql: Run) -> None:
    await python(SALES)
    await sql("CREATE VIEW big AS SELECT * FROM sales WHERE amount > 3")
    await python("sales = sales.assign(amount=9)")
    assert words(await sql("SELECT count(*) AS n FROM big")) == ["n", "0", "3"]


async def test_no_frame_is_kept_alive_by_a_query(python: Run, sql: Run) -> None:
    await python(f"{SALES}; import weakref, gc; still = weakref.ref(sales)")
    await sql("SELECT count(*) FROM sales")
    assert (await python("del sales; gc.collect(); still() is None")).result == "True"


async def test_all_statements_run_and_the_last_result_is_shown(sql: Run) -> None:
    ran = await sql(
        "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2), (3);\n"
        "SELECT 'not; this' AS x; UPDATE t SET a = 0 WHERE a > 1; SELECT sum(a) AS s FROM t; -- the end\n"
        "DELETE FROM t WHERE a = 0; ALTER TABLE t RENAME TO u; DROP TABLE u"
    )
    assert words(ran) == ["s", "0", "1"]
    assert ran.text().splitlines() == [
        "table t created",
        "3 rows inserted into t",
        "2 rows updated in t",
        "2 rows deleted from t",
        "table t altered",
        "table u dropped",
    ]


async def test_rows_that_a_change_returns_are_a_result(sql: Run) -> None:
    ran = await sql("CREATE TABLE t (Count INTEGER); INSERT INTO t VALUES (7) RETURNING Count")
    assert words(ran) == ["Count", "0", "7"]


async def test_a_result_has_the_name_that_the_first_line_asks_for(python: Run, sql: Run) -> None:
    ran = await sql("-- result: totals\nSELECT 41 + 1 AS answer")
    assert words(ran) == ["answer", "0", "42"]
    assert (await python("totals['answer'].tolist()")).result == "[42]"


@pytest.mark.parametrize("name", first_of(["two words", "class", "1st", ""], 1))
async def test_a_result_needs_a_name_that_a_variable_can_have(name: str, sql: Run) -> None:
    ran = await sql(f"-- result: {name}\nCREATE TABLE never (a INTEGER)")
    assert ran.reply["ename"] == "ValueError"
    assert ran.text() == ""


async def test_a_result_that_is_not_there_gets_no_name(sql: Run) -> None:
    ran = await sql("-- result: r\nCREATE TABLE t (a INTEGER)")
    assert ran.reply["evalue"] == "`-- result: r`: no statement of this cell has rows; it did run"


@pytest.mark.parametrize(
    ("missing", "kind"),
    first_of(
        [
            (("pandas",), "<class 'polars.dataframe.frame.DataFrame'>"),
            (("pandas", "polars"), "<class 'pyarrow.lib.Table'>"),
            (("pandas", "polars", "pyarrow"), "<class 'list'>"),
            (("pandas", "pyarrow"), "<class 'polars.dataframe.frame.DataFrame'>"),
        ],
        3,
    ),
)
async def test_a_result_is_a_frame_of_the_library_that_is_there(
    missing: tuple[str, ...], kind: str, python: Run, sql: Run
) -> None:
    await python(f"import sys; sys.modules.update(dict.fromkeys({missing!r}))")
    ran = await sql("-- result: r\nSELECT 1 AS a, 'x' AS b")
    assert ran.reply["status"] == "ok", ran.reply
    assert ran.text("stderr") == ""
    assert (await python("type(r)")).result in {kind, kind.removeprefix("<class '").removesuffix("'>")}


async def test_variables_are_parameters_by_name(python: Run, sql: Run) -> None:
    await python(f"{SALES}; import numpy as np; least, regions = np.int64(4), {{'north'}}")
    ran = await sql("SELECT amount FROM sales WHERE amount >= $least AND list_contains($regions, region)")
    assert words(ran) == ["amount", "0", "5"]
    lost = await sql("SELECT 1;\nSELECT $nothing")
    assert lost.reply["ename"] == "NameError"
    assert lost.reply["evalue"] == (
        "$nothing: there is no variable nothing\n\nline 2: SELECT $nothing\n               ^^^^^^^^"
    )


async def test_an_error_shows_its_place_in_the_cell(python: Run, sql: Run) -> None:
    await python(SALES)
    ran = await sql("-- ü\nSELECT 1; SELECT\n  '日本', amuont\nFROM sales")
    assert ran.reply["ename"] == "BinderException"
    assert ran.reply["evalue"] == (
        'Referenced column "amuont" not found in FROM clause!\nCandidate bindings: "amount", "region"\n\n'
        "line 3:   '日本', amuont\n                  ^^^^^^"
    )
    assert "\n".join(ran.reply["traceback"]) == f"BinderException: {ran.reply['evalue']}"
    assert (await sql("SELECT 1 FROM 日本")).reply["evalue"].endswith("日本\n                      ^^^^")
    (told,) = ran.of("error")
    assert told["ename"] == "BinderException"


async def test_what_cannot_be_parsed_shows_its_place_and_nothing_of_it_runs(sql: Run) -> None:
    ran = await sql("CREATE TABLE t (a INTEGER);\nSELEC 1")
    assert ran.reply["ename"] == "ParserException"
    assert ran.reply["evalue"] == 'syntax error at or near "SELEC"\n\nline 2: SELEC 1\n        ^^^^^'
    assert ran.text() == ""


async def test_a_long_line_is_shown_around_the_error(sql: Run) -> None:
    ran = await sql(f"SELECT {'1 + ' * 100}wrong{' + 1' * 100}")
    line, carets = ran.reply["evalue"].splitlines()[-2:]
    assert line[carets.index("^") :].startswith("wrong")
    assert len(line) < 150


async def test_a_misspelt_table_is_answered_with_the_frames_that_there_are(python: Run, sql: Run) -> None:
    await python(f"{SALES}; number = 7")
    assert "Did you mean sales?" in (await sql("SELECT * FROM salse")).reply["evalue"]
    assert "Did you mean" not in (await sql("SELECT * FROM qqqqqq")).reply["evalue"]
    assert "The variable number is of type int:" in (await sql("SELECT * FROM number")).reply["evalue"]


@pytest.mark.parametrize(
    "cell",
    first_of(
        [
            "INSERT INTO sales VALUES ('x', 1)",
            "UPDATE sales SET amount = 1",
            "CREATE TEMP TABLE sales AS FROM sales",
        ],
        1,
    ),
)
async def test_a_variable_cannot_be_changed_by_sql_and_the_error_says_so(
    cell: str, python: Run, sql: Run
) -> None:
    await python(SALES)
    assert "A variable can be read, not changed" in (await sql(cell)).reply["evalue"]


async def test_a_plan_is_shown_as_text(sql: Run) -> None:
    ran = await sql("EXPLAIN SELECT 42")
    assert "42" in ran.text()
    assert ran.of("execute_result") == []


async def test_files_are_read_and_written_by_path(sql: Run, short_path: Path) -> None:
    (short_path / "data.csv").write_text("a,b\n1,x\n2,y\n")
    assert words(await sql("SELECT sum(a) AS s FROM 'data.csv'")) == ["s", "0", "3"]
    ran = await sql("COPY (SELECT a FROM 'data.csv') TO 'out.parquet'")
    assert ran.text() == "2 rows written to 'out.parquet'\n"
    assert words(await sql("SELECT count(*) AS n FROM read_parquet('out.parquet')")) == ["n", "0", "2"]


@pytest.mark.parametrize(
    ("cell", "kind"),
    first_of(
        [
            ("INSTALL sqlite", "PermissionException"),
            ("FORCE INSTALL sqlite FROM core", "PermissionException"),
            ("ATTACH 'x.db' (TYPE sqlite)", "IOException"),
        ],
        1,
    ),
)
async def test_an_extension_is_never_downloaded(cell: str, kind: str, sql: Run) -> None:
    ran = await sql(cell)
    assert ran.reply["ename"] == kind
    assert "nothing is downloaded. Read the database in a Python cell" in ran.reply["evalue"]


async def test_no_bar_of_progress_is_drawn(sql: Run) -> None:
    assert words(await sql("SELECT current_setting('enable_progress_bar') AS bar"))[-1] == "False"


@pytest.mark.parametrize("way", ["request", "signal"])
async def test_an_interrupt_ends_a_query_and_nothing_else(
    way: str, kernel: Kernel, python: Run, sql: Run, short_path: Path
) -> None:
    written = short_path / f"{way}.csv"
    pid = int((await python("import os; os.getpid()")).result)
    await sql("SET threads = 1")  # with more of them DuckDB does not always look for signals
    replied, replies = anyio.Event(), []

    def hear(message: Message) -> None:
        if message.kind == "execute_reply":
            replies.append(msgspec.json.decode(message.content))
            replied.set()

    kernel.client.on_message = hear
    cell = f"CREATE TABLE kept AS SELECT 1 AS a; COPY ({LONG}) TO '{written}'"
    kernel.client.execute(cell, message_id="long", language=SQL)
    with fail_after():
        while not list(short_path.glob(f"*{written.name}*")):  # it is opened when the query begins
            await look_again()
        if way == "request":
            await kernel.interrupt()
        else:
            os.kill(pid, signal.SIGINT)
        await replied.wait()
    assert replies[0]["ename"] == "KeyboardInterrupt"
    assert replies[0]["traceback"] == ["KeyboardInterrupt: the query was interrupted"]
    assert words(await sql("SELECT a FROM kept")) == ["a", "0", "1"]


async def test_a_broken_transaction_can_be_rolled_back(python: Run, sql: Run) -> None:
    await python(SALES)
    assert (await sql("BEGIN; SELECT * FROM sales; SELECT * FROM nowhere")).reply["status"] == "error"
    assert "ROLLBACK" in (await sql("SELECT * FROM sales")).reply["evalue"]
    await sql("ROLLBACK")
    await python("sales = sales.head(1)")
    assert words(await sql("SELECT count(*) AS n FROM sales")) == ["n", "0", "1"]


async def test_without_duckdb_a_cell_says_how_to_get_it(python: Run, sql: Run) -> None:
    await python("import sys; sys.modules['duckdb'] = None")
    ran = await sql("SELECT 1")
    assert ran.reply["ename"] == "ModuleNotFoundError"
    assert "pip install 'cellwright[sql]'" in ran.reply["evalue"]
    assert 'package_install(["duckdb"])' in ran.reply["evalue"]


async def test_a_kernel_without_sql_cells_loads_none_of_it(python: Run) -> None:
    loaded = await python(
        "import sys; [name for name in sys.modules if 'sql' in name and 'cellwright' in name]"
    )
    assert loaded.result == "[]"
    assert (await python("'duckdb' in sys.modules")).result == "False"


@pytest.mark.parametrize("cell", first_of(["", "-- nothing but words", ";"], 1))
async def test_a_cell_without_statements_is_fine(cell: str, sql: Run) -> None:
    ran = await sql(cell)
    assert ran.reply["status"] == "ok"
    assert ran.outputs == []


@pytest.mark.parametrize(
    ("cell", "expected"),
    first_of(
        [
            ("SELECT am| FROM sales", ["amount"]),
            ("SELECT * FROM sal|", ["sales"]),
            ("SELECT s.| FROM sales AS s", ["region", "amount"]),
            ("SELECT sales.r| FROM sales", ["region"]),
            ("SELECT own.| FROM own", ["x", "two words"]),
            ("SELECT * FROM ow|", ["own", "OWNED", "OWNER"]),
            ("select * from sales ord|", ["order", "ordinality"]),
        ],
        3,
    ),
)
async def test_completion_knows_tables_columns_and_keywords(
    cell: str, expected: list[str], kernel: Kernel, python: Run, sql: Run
) -> None:
    await python(SALES)
    await sql('CREATE TABLE own (x INTEGER, "two words" INTEGER)')
    asked = {"code": cell.replace("|", ""), "cursor_pos": cell.index("|"), "language": SQL}
    found = await kernel.client.request("complete_request", asked, timeout_s=LIMIT_S)
    assert [match.strip('"') for match in found["matches"]] == expected
    assert (
        asked["code"][found["cursor_start"] : found["cursor_end"]]
        == cell[: cell.index("|")].rsplit(maxsplit=1)[-1].rsplit(".", maxsplit=1)[-1]
    )


async def test_a_value_is_a_table_to_sql_unless_a_variable_has_its_name(
    python: Run, sql: Run, short_path: Path
) -> None:
    (short_path / ".cellwright" / "values").mkdir(parents=True, exist_ok=True)
    records = {"version": 1, "kind": "value", "value": [{"a": 1}, {"a": 2}]}
    (short_path / ".cellwright" / "values" / "rows.json").write_text(json.dumps(records))
    count = "SELECT count(*) AS n FROM rows"
    assert (await sql(count)).result.split() == ["n", "0", "2"]
    await python("from cellwright_kernel import put\nrows = [{'a': 1}]\nput('more', rows)")
    assert (await sql(count)).result.split() == ["n", "0", "1"]
    ran = await sql("SELECT a FROM more")
    assert ran.result.split() == ["a", "0", "1"]

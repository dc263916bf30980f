from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright import Engine
from cellwright.errors import PlanError
from cellwright.plans import Outline, Plan, Planner
from cellwright.plans.data_files import chosen_file, column_of, described
from cellwright.plans.drafts import HEAD_BYTES, data_files, draft
from cellwright.plans.outlines import checked_outline

PRELOAD = ("pandas", "matplotlib.pyplot")
SEED = "analyze CSV data and create visualizations"
SEVEN = [
    "Import required libraries",
    "Load CSV file",
    "Explore data structure",
    "Clean data",
    "Create summary statistics",
    "Generate visualizations",
    "Save results",
]
ORDERS = b"date,region,units,price\n2024-01-02,north,3,9.5\n2024-01-03,south,,8\n2024-01-03,north,4,9.25\n"


def _steps(outline: Outline) -> list[str]:
    return [todo.description for todo in outline.todos]


def _kinds(path: str, head: bytes) -> dict[str, str]:
    return {column.name: column.kind for column in described(path, head).columns}


# Which steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [(), ("orders.csv",)])
def test_the_common_problem_gets_the_seven_common_steps(files: tuple[str, ...]) -> None:
    outline = draft(SEED, files=files, heads={"orders.csv": ORDERS})
    assert _steps(outline) == SEVEN
    assert outline.draft
    assert outline.problem == SEED
    assert checked_outline(outline) == outline


@pytest.mark.parametrize(
    ("problem", "called_for"),
    [
        ("clean the data in orders.csv", SEVEN[4:5]),
        ("average price by region", SEVEN[4:5]),
        ("plot units over time", SEVEN[5:6]),
        ("Zeichne ein Diagramm der Verkäufe", SEVEN[5:6]),
        ("Werte die Daten aus: Mittelwert und Grafik", SEVEN[4:6]),
        ("résumé statistique et graphique des ventes", SEVEN[4:6]),
        ("分析销售数据并绘制图表", SEVEN[4:6]),
        ("売上データのグラフ", SEVEN[5:6]),
        ("매출 데이터 분석", SEVEN[4:5]),
        ("figure out what happened", SEVEN[4:5]),
    ],
)
def test_the_problems_words_call_for_statistics_and_charts(problem: str, called_for: list[str]) -> None:
    outline = draft(problem, files=["orders.csv"], heads={"orders.csv": ORDERS})
    assert _steps(outline) == [*SEVEN[:4], *called_for, SEVEN[6]]


def test_without_a_data_file_loading_is_left_to_the_caller_and_nothing_else_is() -> None:
    outline = draft("analyse the excel data")
    load = outline.todos[1]
    assert load.description == "Load Excel file"
    assert load.code is None
    assert "frame named `df`" in load.explanation
    assert all(todo.code for todo in outline.todos if todo is not load)


def test_several_files_that_could_be_meant_are_named_and_none_is_taken() -> None:
    load = draft("analyse the data", files=["a.csv", "b.csv"]).todos[1]
    assert load.code is None
    assert "`a.csv`, `b.csv`" in load.explanation


def test_a_problem_that_is_not_about_data_gets_steps_for_the_caller_to_fill_in() -> None:
    outline = draft("find the first hundred primes")
    assert [todo.code for todo in outline.todos] == [None] * 4
    assert outline.draft


def test_a_draft_needs_a_problem() -> None:
    with pytest.raises(PlanError):
        draft("  \n")


# Which file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "files", "chosen"),
    [
        ("what is in it", ["x.csv", "notes.txt"], "x.csv"),
        ("look at data/b.csv", ["data/a.csv", "data/b.csv"], "data/b.csv"),
        ("look at B.CSV", ["a.csv", "b.csv"], "b.csv"),
        ("look at old_sales.csv", ["sales.csv", "old_sales.csv"], "old_sales.csv"),
        ("sales by region", ["customers.csv", "sales_2024.csv"], "sales_2024.csv"),
        ("the json, please", ["a.csv", "b.json"], "b.json"),
        ("the csv, please", ["a.csv", "c.csv", "b.json"], None),
        ("look at sales.csv", ["../sales.csv", "../data/b.csv"], "../sales.csv"),
        ("again", ["a.csv", "results/cleaned.csv", ".cache/b.csv"], "a.csv"),
    ],
)
def test_the_file_that_is_named_or_the_only_one_is_chosen(
    problem: str, files: list[str], chosen: str | None
) -> None:
    assert chosen_file(problem, files)[0] == chosen


def test_only_data_files_that_are_nobodys_results_are_worth_reading() -> None:
    listed = ["b.CSV", "a.parquet", "x.py", "results/c.csv", ".d/e.csv", "../f.csv"]
    assert data_files(listed) == ["../f.csv", "a.parquet", "b.CSV"]


# What a head tells -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "separator", "encoding", "decimal"),
    [
        (b"a,b\n1,2\n", ",", "utf-8", "."),
        (b"a;b\n1,5;2\n3,5;4\n", ";", "utf-8", ","),
        (b"a\tb\n1\t2\n", "\t", "utf-8", "."),
        (b'a|b\n"x, y"|2\n', "|", "utf-8", "."),
        ("\ufeffa,b\n1,2\n".encode(), ",", "utf-8-sig", "."),
        ("a,b\n1,é\n".encode("utf-16"), ",", "utf-16", "."),
        ("a,b\n1,café\n".encode("cp1252"), ",", "cp1252", "."),
        ("a,b\n1,é".encode()[:-1], ",", "utf-8", "."),
    ],
)
def test_separator_encoding_and_decimal_mark_are_seen(
    head: bytes, separator: str, encoding: str, decimal: str
) -> None:
    seen = described("x.csv", head)
    assert (seen.separator, seen.encoding, seen.decimal) == (separator, encoding, decimal)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("price", ["1.5", "", "2", "NA"], "number"),
        ("price", [*["1"] * 18, "unknown"], "number"),
        ("price", ["1", "unknown"], "category"),
        ("paid", ["3", "4"], "number"),
        ("number of rooms", ["3", "4"], "number"),
        ("order_id", ["3", "4"], "label"),
        ("customerId", ["3", "4"], "label"),
        ("batch", ["007", "012"], "label"),
        ("Year", ["1999", "2024"], "year"),
        ("member", ["0", "1", "1", "0", "1"], "category"),
        ("day", ["2024-01-02", "2024-01-03T10:00:00Z"], "date"),
        ("day", ["31.12.2024", "1.2.2024"], "date"),
        ("day", ["12/31/2024", "02/01/2024"], "date"),
        ("day", ["01/02/2024", "02/01/2024"], "text"),
        ("region", ["north", "south", "north", "east"], "category"),
        ("name", [f"person {number}" for number in range(20)], "text"),
        ("note", ["x" * 100, "x" * 100], "text"),
        ("nothing", ["", "NA"], "text"),
    ],
)
def test_a_columns_kind_is_seen_by_its_values(name: str, values: list[str], kind: str) -> None:
    assert column_of(name, values).kind == kind


def test_dates_that_can_be_read_in_two_ways_stay_text_and_the_draft_says_so() -> None:
    outline = draft("sum up", files=["x.csv"], heads={"x.csv": b"day,n\n01/02/2024,1\n03/04/2024,2\n"})
    assert "`day` could have the day or the month first" in outline.todos[3].explanation
    assert "to_datetime" not in (outline.todos[3].code or "")


def test_columns_named_in_the_problem_come_first() -> None:
    head = b"shop,region,weight,price\na,n,1,2\nb,s,2,3\na,s,3,4\n"
    code = draft("average prices by region", files=["x.csv"], heads={"x.csv": head}).todos[4].code or ""
    assert code.startswith('measures = ["price", "weight"]')
    assert 'df.groupby("region")' in code


def test_a_file_longer_than_its_head_is_read_in_one_piece_so_that_its_columns_are_of_one_type() -> None:
    code = [
        draft("sum up", files=["x.csv"], heads={"x.csv": b"n\n" + b"1\n" * lines}).todos[1].code or ""
        for lines in (3, HEAD_BYTES)
    ]
    assert ["low_memory=False" in text for text in code] == [False, True]


def test_a_dollar_sign_in_a_chart_begins_no_formula() -> None:
    code = draft("plot it", files=["x.csv"], heads={"x.csv": b"a $,b $\n1,2\n3,4\n"}).todos[4].code or ""
    assert r"title='b \\$ against a \\$'" in code


@given(st.binary(max_size=200), st.sampled_from(["x.csv", "x.tsv", "x.json", "x.jsonl", "x.db", "x.xlsx"]))
def test_whatever_a_file_holds_the_draft_is_a_plan_whose_code_is_python(head: bytes, name: str) -> None:
    outline = draft(SEED, files=[name], heads={name: head})
    assert checked_outline(outline) == outline
    for todo in (*outline.todos, outline.validation):
        assert todo is not None
        compile(todo.code or "", todo.description, "exec")


_odd = st.text(st.sampled_from("ab\"'\\\n$ {}é"), min_size=1, max_size=8)


@given(st.lists(_odd, min_size=1, max_size=5), _odd)
def test_whatever_the_columns_are_called_the_code_is_python(names: list[str], path: str) -> None:
    records = [{name: number for number, name in enumerate(names)} for _ in range(3)]
    name = f"{path}.json"
    outline = draft(SEED, files=[name], heads={name: json.dumps(records).encode()})
    for todo in outline.todos:
        compile(todo.code or "", todo.description, "exec")


# Whether it runs -------------------------------------------------------------------------------------------------


def _messy_csv() -> bytes:
    rows = ["id, Date ,Region,units sold ,price $ ($US),note,empty"]
    choice = random.Random(7)
    for number in range(200):
        day = f"2024-{choice.randint(1, 12):02}-{choice.randint(1, 28):02}" if number % 9 else ""
        region = choice.choice(["north", " south", "east ", "", "$west$"])
        units = choice.choice(["3", "7", "", "12", "NA"]) if number != 50 else "unknown"
        rows.append(f'{number},{day},{region},{units},{choice.random() * 100:.2f},"said ""hi"", left",')
    return "\n".join([*rows, rows[5], rows[5], ",,,,,,"]).encode()


def _german_csv() -> bytes:
    rows = ["Datum;Stadt;Menge;Preis in €"]
    rows += [
        f"{day}.0{day % 9 + 1}.2024;{'Köln' if day % 2 else 'München'};{day};{day},5" for day in range(1, 29)
    ]
    return "\r\n".join([*rows, "5.5.2024;Köln;k. A.;viel"]).encode("cp1252")


def _database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute('CREATE TABLE "the orders" (day TEXT, region TEXT, amount REAL)')
    values = [("2024-01-01", "north", 3.5), ("2024-01-02", None, None), ("2024-01-02", "south", 4.0)]
    connection.executemany('INSERT INTO "the orders" VALUES (?, ?, ?)', values)
    connection.commit()
    connection.close()


DATA: dict[str, bytes] = {
    "orders.csv": ORDERS,
    "messy.csv": _messy_csv(),
    "verkauf.csv": _german_csv(),
    "wide.tsv": (
        "\t".join(f"c{n}" for n in range(30)) + "\n" + ("\t".join(["1.5"] * 30) + "\n") * 3
    ).encode(),
    "bare.csv": b"1,2.5,a\n2,3.5,b\n3,,a\n",
    "words.csv": b"name,colour\nana,red\nbob,blue\ncid,red\ndan,\neva,red\nfay,blue\n",
    "texts.csv": b"title\n" + b"".join(f"a long text {n}\n".encode() for n in range(40)),
    "twice.csv": b"a,a,\n1,2,3\n4,5,6\n",
    "years.csv": b"year,people\n2020,5\n2021,7\n2022,9\n",
    "zones.csv": b"at,n\n2024-01-01T00:00:00Z,1\n2024-01-01T00:00:00+02:00,2\n2024-03-01T00:00:00.5Z,3\n",
    "long.csv": b"n,kind\n"
    + b"".join(b"%d,%s\n" % (n, b"ab"[n % 2 :][:1]) for n in range(20_000))
    + b"x,b\n",
    "list.json": json.dumps(
        [{"day": "2024-05-01", "n": 1, "kind": "a"}, {"day": None, "n": 2.5, "kind": "b"}]
    ).encode(),
    "deep.json": json.dumps(
        {"ok": True, "items": [{"n": 1, "of": {"x": [1, 2]}}, {"n": 2, "of": {}}]}
    ).encode(),
    "lines.jsonl": b'{"n": 1, "tags": ["a"]}\n{"n": 2, "tags": []}\n{"n": 1, "tags": ["a"]}\n',
    "shop.db": b"",
}


async def _carried_out(engine: Engine, folder: Path, problem: str) -> tuple[Plan, list[str]]:
    """The plan that came of a draft for this folder, and whatever was put out on stderr."""
    names = [path.name for path in folder.iterdir()]
    heads = {name: (folder / name).read_bytes()[:HEAD_BYTES] for name in names}
    outline = draft(problem, files=names, heads=heads)
    planner, session = Planner(engine), await engine.create(problem, directory=folder)
    try:
        await planner.create(session, outline)
        plan = (await (await planner.start(session)).wait()).plan
        outputs = [output for cell in session.cells if cell.kind == "code" for output in cell.outputs]
    finally:
        await engine.delete(session.id)
    return plan, [str(output["text"]) for output in outputs if output.get("name") == "stderr"]


# One file of each reader runs by default; what else a file may hold is the matrix.
EACH_FILE = [
    name if name in {"orders.csv", "list.json", "shop.db"} else pytest.param(name, marks=pytest.mark.matrix)
    for name in DATA
]


@pytest.mark.anyio
@pytest.mark.parametrize("name", EACH_FILE)
async def test_a_draft_runs_to_its_end_at_once_and_without_warnings(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    if name.endswith(".db"):
        _database(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(DATA[name])
    plan, complaints = await _carried_out(engine, tmp_path, SEED)
    assert plan.phase == "succeeded", plan.report and plan.report.text
    assert [len(todo.attempts) for todo in plan.steps] == [1] * len(plan.steps)
    assert complaints == []
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {
        "cleaned.csv",
        "summary.csv",
        "charts.png",
    }


@pytest.mark.anyio
async def test_cleaning_keeps_numbers_dates_and_gaps_and_drops_what_is_repeated(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "messy.csv").write_bytes(_messy_csv())
    plan, _ = await _carried_out(engine, tmp_path, "clean messy.csv")
    assert plan.phase == "succeeded"
    lines = (tmp_path / "results" / "cleaned.csv").read_text().splitlines()
    assert lines[0] == "id,Date,Region,units sold,price $ ($US),note"
    assert len(lines) == 1 + 200
    assert not any("unknown" in line or " south" in line for line in lines)


@pytest.mark.anyio
async def test_decimal_commas_and_foreign_letters_come_out_as_they_are(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "verkauf.csv").write_bytes(_german_csv())
    plan, _ = await _carried_out(engine, tmp_path, "Auswertung der Daten nach Stadt")
    assert plan.phase == "succeeded"
    lines = (tmp_path / "results" / "cleaned.csv").read_text().splitlines()
    assert lines[1] == "2024-02-01,Köln,1.0,1.5"
    assert lines[-1] == "2024-05-05,Köln,,"

from __future__ import annotations

import json
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.errors import ChartRefused, FileRefused, FileTooLarge, NoSuchFile
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.visuals import visualize

pytestmark = pytest.mark.anyio

RECORDS = [
    {"month": month, "revenue": revenue, "cost": revenue // 2}
    for month, revenue in [("Jan", 10_000), ("Feb", 12_000), ("Mar", 15_000), ("Apr", 18_000)]
]
CSV = "month,revenue,cost\n" + "".join(f"{one['month']},{one['revenue']},{one['cost']}\n" for one in RECORDS)
COLUMNS = {name: [record[name] for record in RECORDS] for name in ("month", "revenue", "cost")}
PNG = b"\x89PNG"


@pytest.fixture
def here(request: pytest.FixtureRequest) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)


@pytest.fixture
def shelf(engine: Engine, here: str) -> Path:
    root = DataDirectory.of(engine).root / here
    root.mkdir(parents=True)
    return root


def manifest_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "visualization_manifest.json").read_text())  # type: ignore[no-any-return]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def options(**more: Any) -> dict[str, Any]:
    return {"x": "month", "y": "revenue", "title": "Monthly revenue", **more}


@pytest.mark.parametrize(
    ("data", "ending"), [(RECORDS, "json"), (COLUMNS, "json"), (CSV, "csv"), (json.dumps(RECORDS), "json")]
)
async def test_inline_data_is_drawn_and_kept_with_a_manifest_that_draws_the_same_again(
    engine: Engine, shelf: Path, here: str, data: Any, ending: str
) -> None:
    made = await visualize(engine, data, type="bar_chart", options=options(), working_dir=here)
    (shown,) = made.shown
    assert shown.picture.png is not None
    assert shown.picture.png.startswith(PNG)
    assert "Mar" in shown.picture.digest
    assert (shown.id, shown.data_file) == ("monthly_revenue", f"{here}/monthly_revenue.{ending}")
    assert made.manifest == f"{here}/visualization_manifest.json"
    assert manifest_of(shelf) == {
        "version": "1.0",
        "outputs": [
            {
                "id": "monthly_revenue",
                "type": "bar_chart",
                "title": "Monthly revenue",
                "dataFile": f"monthly_revenue.{ending}",
                "config": {"xColumn": "month", "yColumn": "revenue"},
            }
        ],
    }
    again = await visualize(engine, file=made.manifest)
    assert again.shown[0].picture.digest == shown.picture.digest


async def test_a_file_is_drawn_where_it_lies_and_is_not_copied(
    engine: Engine, shelf: Path, here: str
) -> None:
    (shelf / "sales.csv").write_text(CSV)
    made = await visualize(
        engine, file=f"{here}/sales.csv", type="line", options={"x": "month", "y": ["revenue", "cost"]}
    )
    assert made.shown[0].data_file == f"{here}/sales.csv"
    assert manifest_of(shelf)["outputs"][0]["dataFile"] == "sales.csv"
    assert names_in(shelf) == ["sales.csv", "visualization_manifest.json"]


async def test_a_file_from_elsewhere_is_copied_to_the_working_directory(
    engine: Engine, shelf: Path, here: str
) -> None:
    (shelf / "sales.csv").write_text(CSV)
    made = await visualize(
        engine, file=f"{here}/sales.csv", type="table", options={"id": "sales"}, working_dir=f"{here}/report"
    )
    assert made.shown[0].data_file == f"{here}/report/sales.csv"
    assert (shelf / "report" / "sales.csv").read_text() == CSV
    assert made.shown[0].picture.png is None
    assert "<table" in (made.shown[0].picture.html or "")


async def test_what_is_kept_takes_no_more_room_than_there_is(engine: Engine, shelf: Path, here: str) -> None:
    with (shelf / "large").open("wb") as large:
        large.truncate(engine.settings.max_session_disk)
    with pytest.raises(FileTooLarge, match="max_session_disk"):
        await visualize(engine, [{"a": 1, "b": 2}], working_dir=here)
    assert [path.name for path in shelf.iterdir()] == ["large"]


async def test_a_file_of_a_session_is_drawn_and_copied(engine: Engine, shelf: Path, here: str) -> None:
    session = await engine.create("a session with data", mode="private")
    cell = await session.add_cell(f"open('mine.csv', 'w').write({CSV!r})")
    await session.run(cell.id)
    made = await visualize(
        engine,
        file="mine.csv",
        session_id=session.id,
        type="scatter",
        options={"x": "cost", "y": "revenue"},
        working_dir=here,
    )
    assert made.shown[0].picture.type == "scatter"
    assert (shelf / PurePath(made.shown[0].data_file).name).read_text() == CSV


async def test_the_same_id_is_replaced_and_another_appended(engine: Engine, shelf: Path, here: str) -> None:
    draw = partial(visualize, engine, RECORDS, working_dir=here)
    await draw(type="bar_chart", options=options())
    await draw(type="pie_chart", options={"label": "month", "value": "revenue", "title": "Shares"})
    await draw(type="line_chart", options=options(y="cost"))
    outputs = manifest_of(shelf)["outputs"]
    assert [(one["id"], one["type"]) for one in outputs] == [
        ("monthly_revenue", "line_chart"),
        ("shares", "pie_chart"),
    ]
    assert outputs[0]["config"]["yColumn"] == "cost"


async def test_what_nobody_named_replaces_nothing_but_itself(engine: Engine, shelf: Path, here: str) -> None:
    draw = partial(visualize, engine, type="table", working_dir=here)
    ids = [(await draw(data)).shown[0].id for data in (RECORDS, CSV, RECORDS)]
    assert ids == ["table", "table_2", "table"]
    assert [one["dataFile"] for one in manifest_of(shelf)["outputs"]] == ["table.json", "table_2.csv"]


async def test_what_is_not_ours_is_not_overwritten(engine: Engine, shelf: Path, here: str) -> None:
    (shelf / "monthly_revenue.json").write_text("somebody's")
    faulty = {"id": "theirs", "type": "nonsense", "dataFile": "x.csv", "note": 1}
    (shelf / "visualization_manifest.json").write_text(json.dumps({"version": "1.0", "outputs": [faulty]}))
    made = await visualize(engine, RECORDS, type="bar", options=options(), working_dir=here)
    assert made.shown[0].data_file == f"{here}/monthly_revenue_2.json"
    assert (shelf / "monthly_revenue.json").read_text() == "somebody's"
    assert manifest_of(shelf)["outputs"][0] == faulty


async def test_a_broken_manifest_is_left_as_it_is(engine: Engine, shelf: Path, here: str) -> None:
    (shelf / "visualization_manifest.json").write_text('{"version": "1.0", "outputs": [')
    with pytest.raises(ChartRefused, match=r"line 1, column 32.*another workingDir"):
        await visualize(engine, RECORDS, options=options(), working_dir=here)
    assert names_in(shelf) == ["visualization_manifest.json"]


async def test_calls_at_the_same_time_lose_none_of_their_outputs(
    engine: Engine, shelf: Path, here: str
) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(24):
            named = options(title=f"Chart {number}")
            tasks.start_soon(
                partial(visualize, engine, RECORDS, type="table", options=named, working_dir=here)
            )
    assert {one["id"] for one in manifest_of(shelf)["outputs"]} == {f"chart_{number}" for number in range(24)}


@pytest.mark.parametrize(
    ("data", "kind", "asked", "said"),
    [
        (
            RECORDS,
            "bar_chart",
            {"y": "revnue"},
            "no column 'revnue' in the data; it has month, revenue, cost",
        ),
        (RECORDS, "bar_chart", {"x": "monht"}, "did you mean 'month'"),
        (RECORDS, "barchart3d", {}, "there is no type 'barchart3d'.*types are table, .*line_chart"),
        (RECORDS, "bar_chart", {"maxRow": 3}, "did you mean .maxRows"),
        ("month,revenue\n", "bar_chart", {}, "no rows"),
        ([], "bar_chart", {}, "the data: it is an empty list"),
        ("", "bar_chart", {}, "the data: it is empty"),
        ({}, "table", {}, "neither a list of records nor an object of columns"),
        ("a,b\n1,2,3\n", "table", {}, "line 2 has 3 fields, the header has 2"),
        ([{"a": object()}], "table", {}, "cannot be written as JSON"),
        (None, "table", {}, "give one of data, file and manifest"),
    ],
)
async def test_what_cannot_be_drawn_is_told_and_leaves_nothing_behind(
    engine: Engine, shelf: Path, here: str, data: Any, kind: str, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(ChartRefused, match=said):
        await visualize(engine, data, type=kind, options=asked, working_dir=here)
    assert names_in(shelf) == []


@pytest.mark.parametrize("name", ["../settings.toml", "/etc/passwd", "link.csv", "hard.csv", "sub/../../x"])
async def test_a_file_outside_is_refused(engine: Engine, shelf: Path, here: str, name: str) -> None:
    secret = engine.settings.root / f"secret-{here}.csv"
    secret.write_text(CSV)
    (shelf / "link.csv").symlink_to(secret)
    (shelf / "hard.csv").hardlink_to(secret)
    file = name if name.startswith("/") else f"{here}/{name}"
    with pytest.raises(FileRefused):
        await visualize(engine, file=file, type="table")
    with pytest.raises(FileRefused):
        await visualize(engine, RECORDS, options=options(), working_dir="../elsewhere")


async def test_a_file_that_is_not_there_is_told(
    engine: Engine, shelf: Path, here: str
) -> None:  # the directory is there
    with pytest.raises(NoSuchFile, match=r"nothing\.csv"):
        await visualize(engine, file=f"{here}/nothing.csv", type="table")


async def test_a_file_that_is_no_text_is_told_with_the_next_step(
    engine: Engine, shelf: Path, here: str
) -> None:
    (shelf / "sales.parquet").write_bytes(b"PAR1\x15\x00\x15")
    with pytest.raises(ChartRefused, match=r"sales.parquet is no text.*to_csv"):
        await visualize(engine, file=f"{here}/sales.parquet", type="table")


async def test_a_whole_manifest_is_drawn_and_its_faults_are_told(
    engine: Engine, shelf: Path, here: str
) -> None:
    (shelf / "revenue_data.csv").write_text(CSV)
    chart = {
        "id": "chart",
        "type": "bar_chart",
        "dataFile": "revenue_data.csv",
        "config": {"xColumn": "month"},
    }
    wrong = {"id": "wrong", "type": "bar_chart", "dataFile": "revenue_data.csv", "config": {"yColumn": "no"}}
    gone = {"id": "gone", "type": "table", "dataFile": "gone.csv"}
    made = await visualize(
        engine, manifest={"version": "1.0", "outputs": [chart, wrong, gone]}, working_dir=here
    )
    assert [one.id for one in made.shown] == ["chart"]
    assert made.problems[0].startswith("outputs[1].config.yColumn: there is no column 'no'")
    assert made.problems[1].startswith("outputs[2].dataFile: ")
    assert manifest_of(shelf)["outputs"] == [chart]

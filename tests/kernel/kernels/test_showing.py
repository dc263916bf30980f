"""``show`` leaves a manifest that the charts' reader takes, one for each cell that shows something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.charts._manifest import read_manifest
from cellwright.charts.data_files import read_table

pytestmark = pytest.mark.anyio

FRAME = "import pandas as pd\nfrom cellwright_kernel import show\nsales = pd.DataFrame({'month': ['Jan', 'Feb'], 'units': [1, 2]})\n"


@pytest.fixture
async def place(server: Any, launch_on: Any, tmp_path: Path, run_cell: Any) -> AsyncIterator[Any]:
    """Runs code in a kernel whose working directory is empty, and gives that directory."""
    kernel = await launch_on(server, cwd=tmp_path)

    async def run(code: str) -> Any:
        return await run_cell(kernel, FRAME + code)

    run.path = tmp_path  # type: ignore[attr-defined]
    yield run
    await kernel.stop(grace_s=0)


def outputs(path: Path) -> list[dict[str, Any]]:
    content = (path / "visualization_manifest.json").read_bytes()
    read = read_manifest(content)
    assert not read.problems
    held: list[dict[str, Any]] = json.loads(content)["outputs"]
    assert len(read.outputs) == len(held)
    return held


async def test_one_line_writes_data_and_manifest(place: Any) -> None:
    ran = await place("show(sales, 'bar', x='month', y='units', title='Units sold!', y_label='pieces')")
    assert ran.reply["status"] == "ok", ran.outputs
    assert ran.outputs == []
    assert outputs(place.path) == [
        {
            "id": "units-sold",
            "type": "bar_chart",
            "title": "Units sold!",
            "dataFile": "charts/units-sold.csv",
            "config": {"xColumn": "month", "yColumn": "units", "yLabel": "pieces"},
        }
    ]
    assert (place.path / "charts/units-sold.csv").read_text() == "month,units\nJan,1\nFeb,2\n"


async def test_calls_of_one_cell_add_up_and_the_next_begins_anew(place: Any) -> None:
    await place("show(sales); show(sales, 'table'); show(sales, id='a'); show(sales, 'pie', id='a')")
    assert [(each["id"], each["type"]) for each in outputs(place.path)] == [
        ("chart-1", "auto"),
        ("chart-2", "table"),
        ("a", "pie_chart"),
    ]
    await place("show(sales, title='Next')")
    assert [each["id"] for each in outputs(place.path)] == ["next"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("show(sales, 'bra')", "there is no type 'bra', did you mean 'bar'"),
        (
            "show(sales, x='mnth')",
            "xColumn: there is no column 'mnth', did you mean 'month'?; there are month, units",
        ),
        ("show(3)", "int has no columns to show"),
        ("show(sales, id='..')", "no letter or digit"),
    ],
)
async def test_what_cannot_be_shown_is_refused_by_name(place: Any, code: str, error: str) -> None:
    ran = await place(code)
    assert error in ran.reply["evalue"]
    assert not (place.path / "visualization_manifest.json").exists()


async def test_texts_that_look_like_numbers_stay_texts(place: Any) -> None:
    await place("show(pd.DataFrame({'zip': ['01', '02'], 'n': [1, 2]}))")
    (output,) = outputs(place.path)
    assert output["dataFile"].endswith(".json")
    table = read_table((place.path / output["dataFile"]).read_bytes(), output["dataFile"])
    assert [column.kind for column in table.columns] == ["text", "number"]


async def test_a_million_rows_are_reduced_with_notice_and_sums_stay_exact(place: Any) -> None:
    ran = await place(
        "big = pd.DataFrame({'k': ['a', 'b'] * 500_000, 'n': range(1_000_000)})\n"
        "show(big, 'scatter', x='n', y='n', id='s'); show(big, 'bar', x='k', y='n', id='b')\n"
        "show(big, 'pie', label='k', id='p'); show(big, max_rows=10, id='m')"
    )
    assert ran.reply["status"] == "ok", ran.outputs
    notices = [output["config"]["notice"] for output in outputs(place.path)]
    assert notices[0] == "18,868 of 1,000,000 rows, spread evenly: every 53rd"
    assert notices[1] == "sum over 1,000,000 rows"
    assert notices[2] == "count over 1,000,000 rows"
    assert (place.path / "charts/b.csv").read_text() == "k,n\na,249999500000\nb,250000000000\n"
    assert (place.path / "charts/p.csv").read_text() == "k,count\na,500000\nb,500000\n"
    assert len((place.path / "charts/m.csv").read_text().splitlines()) <= 11


async def test_graphs_are_shown_as_graphs(place: Any) -> None:
    await place("show({'nodes': ['a', 'b'], 'links': [('a', 'b')]})")
    (output,) = outputs(place.path)
    assert (output["type"], output["dataFile"]) == ("graph", "charts/chart-1.json")
    held = json.loads((place.path / "charts/chart-1.json").read_text())
    assert held["links"] == [{"source": "a", "target": "b"}]

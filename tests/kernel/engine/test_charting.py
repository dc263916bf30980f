"""Charts among a cell's outputs: what a manifest in the working directory becomes, and what somebody asks to see."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine
from cellwright.charts import Renderer
from cellwright.engine import Execution, Session
from cellwright.engine.charts import VEGA_LITE, charts_left
from cellwright.errors import ChartRefused, NoSuchData
from cellwright.sandbox.policy import Mode
from cellwright.sandbox.workspace import Workspace

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n"
SALES = "month,revenue\\nJan,10\\nFeb,12\\n"
BAR = {
    "id": "revenue",
    "type": "bar_chart",
    "title": "Revenue",
    "dataFile": "sales.csv",
    "config": {"xColumn": "month", "yColumn": "revenue"},
}


def leave(*outputs: dict[str, Any]) -> str:
    """Code that leaves a manifest and a file of data."""
    manifest = json.dumps({"version": "1.0", "outputs": list(outputs)})
    return (
        f"open('sales.csv', 'w').write('{SALES}')\n"
        f"n = open('visualization_manifest.json', 'w').write({manifest!r})"
    )


async def run(session: Session, source: str) -> Execution:
    cell = await session.add_cell(source)
    return await session.run(cell.id)


def charts(execution: Execution) -> list[dict[str, Any]]:
    return [
        output for output in execution.outputs if "chart" in output.get("metadata", {}).get("cellwright", {})
    ]


def complaints(execution: Execution) -> str:
    return "".join(output["text"] for output in execution.outputs if output.get("name") == "stderr")


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    return await engine.create("charts", directory=tmp_path)


@pytest.mark.parametrize("mode", ["overlay", "private", "direct"])
async def test_a_manifest_becomes_an_output_that_everybody_can_see(
    engine: Engine, tmp_path: Path, mode: Mode
) -> None:
    (tmp_path / "pyproject.toml").touch()
    session = await engine.create("charts", directory=tmp_path, mode=mode)
    execution = await run(session, leave(BAR))
    [chart] = charts(execution)

    assert base64.b64decode(chart["data"]["image/png"]).startswith(PNG)
    assert chart["data"][VEGA_LITE]["title"]["text"] == ["Revenue"]
    assert "revenue" in chart["data"]["text/plain"]
    assert session.cell(str(execution.cell_id)).outputs == tuple(execution.outputs)


@pytest.mark.parametrize("mode", ["overlay", "direct"])
async def test_no_link_leads_out_of_the_working_directory(tmp_path: Path, mode: Mode) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    (outside / "work").mkdir(parents=True)
    (outside / "work" / "visualization_manifest.json").write_text('{"version": "1.0", "outputs": []}')
    (project / "deep").mkdir(parents=True)
    place = Workspace(mode, str(project / "deep" / "work"), str(project), str(tmp_path / "state"))
    top = Path(place.written, "deep") if mode == "overlay" else project / "linked"
    top.parent.mkdir(parents=True, exist_ok=True)
    top.symlink_to(outside)
    if mode == "direct":
        place = replace(place, cwd=str(project / "linked" / "work"))
    async with Renderer() as renderer:
        [complaint] = await charts_left(place, renderer)
    assert "visualization_manifest.json" in complaint.content["text"]
    assert complaint.kind == "stream"


async def test_charts_come_back_with_the_history(session: Session, engine: Engine) -> None:
    execution = await run(session, leave(BAR))

    assert charts(engine.execution(execution.id)) == charts(execution)


async def test_a_manifest_is_shown_by_the_cell_that_wrote_it_and_by_no_other(session: Session) -> None:
    await run(session, leave(BAR))
    other = await run(session, "1")
    again = await run(session, leave(BAR))

    assert charts(other) == []
    assert len(charts(again)) == 1


async def test_a_manifest_that_lay_there_before_is_nobody_s(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "visualization_manifest.json").write_text(json.dumps({"version": "1.0", "outputs": [BAR]}))
    session = await engine.create("old", directory=tmp_path)

    assert [output["output_type"] for output in (await run(session, "1")).outputs] == ["execute_result"]


async def test_one_bad_output_is_named_and_leaves_the_others(session: Session) -> None:
    wrong = BAR | {"id": "wrong", "config": {"xColumn": "month", "yColumn": "revnue"}}
    missing = BAR | {"id": "missing", "dataFile": "nowhere.csv"}
    climbing = BAR | {"id": "climbing", "dataFile": "../../etc/passwd"}
    execution = await run(session, leave(BAR, wrong, missing, climbing))

    assert len(charts(execution)) == 1
    told = complaints(execution)
    assert "outputs[1].config.yColumn" in told
    assert "did you mean 'revenue'" in told
    assert "outputs[2].dataFile" in told
    assert "nowhere.csv" in told
    assert "outputs[3].dataFile" in told
    assert "climbs" in told


async def test_a_manifest_that_is_no_json_is_told_with_its_place(session: Session) -> None:
    execution = await run(session, "n = open('visualization_manifest.json', 'w').write('{\"version\": ')")

    assert execution.ok
    assert "line 1" in complaints(execution)


async def test_a_planted_link_shows_nothing_of_the_host(
    session: Session, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("host") / "secret.csv"
    secret.write_text("name,count\nTOP-SECRET,1\n")
    plant = f"import os\nos.symlink({str(secret)!r}, 'planted.csv')\n"
    execution = await run(session, plant + leave(BAR | {"dataFile": "planted.csv"}))

    assert charts(execution) == []
    assert "TOP-SECRET" not in json.dumps(execution.outputs)
    assert "planted.csv" in complaints(execution)


async def test_a_million_rows_become_a_chart_of_bounded_size_that_says_so(session: Session) -> None:
    source = (
        "with open('sales.csv', 'w') as file:\n"
        "    file.write('month,revenue\\n')\n"
        "    file.writelines(f'{n},{n % 97}\\n' for n in range(1_000_000))\n"
    )
    manifest = leave(BAR | {"type": "line_chart"}).partition("\n")[2]
    [chart] = charts(await run(session, source + manifest))

    assert len(json.dumps(chart["data"][VEGA_LITE])) < 1_000_000
    assert "1,000,000" in chart["data"]["text/plain"]


async def test_one_line_shows_a_frame(session: Session) -> None:
    source = "import pandas as pd\nfrom cellwright_kernel import show\n"
    source += "frame = pd.DataFrame({'day': [1, 2, 3], 'sold': [3, 1, 2]})\n"
    execution = await run(session, source + "show(frame, 'line_chart', x='day', y='sold', title='Sold')")
    [chart] = charts(execution)

    assert chart["data"][VEGA_LITE]["title"]["text"] == ["Sold"]


async def test_a_cell_s_result_is_drawn_as_fits_it(session: Session) -> None:
    execution = await run(
        session,
        "import pandas as pd\npd.DataFrame({'when': pd.date_range('2026-01-01', periods=9), 'n': range(9)})",
    )
    visual = await session.visualize(execution.cell_id)

    assert visual.picture.type == "line_chart"
    assert visual.picture.png is not None
    assert visual.picture.png.startswith(PNG)
    assert visual.held.type == "pandas.DataFrame"


async def test_sums_are_exact_however_many_rows_there_are(session: Session) -> None:
    await run(
        session,
        "import pandas as pd, numpy as np\n"
        "big = pd.DataFrame({'k': np.tile(['a', 'b'], 250_000), 'n': np.arange(500_000)})",
    )
    options = {"type": "bar_chart", "x": "k", "y": "n"}
    visual = await session.visualize(variable="big", form="chart", options=options)

    assert "124,999,750,000" in visual.picture.digest  # the sum of all


async def test_what_is_asked_for_wrongly_is_told_by_name(session: Session) -> None:
    await run(session, "rows = [{'a': 1, 'b': 2}]")
    with pytest.raises(ChartRefused, match=r"xColumn.*'c'"):
        await session.visualize(variable="rows", options={"x": "c"})
    with pytest.raises(NoSuchData, match="did you mean 'rows'"):
        await session.visualize(variable="row")
    with pytest.raises(ChartRefused, match="type"):
        await session.visualize(variable="rows", options={"type": "hologram"})


async def test_links_are_drawn_as_a_graph(session: Session) -> None:
    await run(session, "g = {'nodes': [{'id': 'a'}, {'id': 'b'}], 'links': [{'source': 'a', 'target': 'b'}]}")
    visual = await session.visualize(variable="g", form="graph")

    assert visual.picture.type == "graph"
    assert "2 nodes, 1 link" in visual.picture.digest

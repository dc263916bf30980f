"""Charts looked over by rule: matplotlib and manifests on real kernels, other specs as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cellwright import Engine, Execution, Session
from cellwright.agent.evidence.charts import (
    Issue,
    apart,
    apart_without_red_green,
    chart_issues,
    issues_of,
    pictures,
)
from cellwright.agent.evidence.numbers import rests_on_output, trace_numbers
from cellwright.agent.evidence.outputs import gather
from tests.kernel.engine.conftest import end_host, open_at
from tests.matrix import first_of
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

BEGIN = "fig, ax = plt.subplots()\n"
NAMED = "ax.set_title('Sales'); ax.set_xlabel('day'); ax.set_ylabel('sales (EUR)')\n"


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("critic")
    async with open_at(root, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture(scope="module")
async def session(engine: Engine) -> Session:
    session = await engine.create("charts")
    imports = (
        "import numpy as np, pandas as pd, matplotlib.pyplot as plt\nfrom cellwright_kernel import show\n"
    )
    imports += "plt.rcParams['figure.dpi'] = 50"
    assert (await session.run((await session.add_cell(imports)).id)).ok
    return session


async def ran(session: Session, source: str) -> Execution:
    cell = await session.add_cell(source)
    execution = await session.run(cell.id)
    assert execution.ok, execution.text
    return execution


async def looked_over(engine: Engine, session: Session, source: str) -> list[str]:
    execution = await ran(session, source)
    issues = chart_issues(engine, [execution.id])
    assert all(issue.cell_id == execution.cell_id and issue.fix for issue in issues)
    return [issue.what for issue in issues]


@pytest.mark.parametrize(
    ("drawing", "issues"),
    first_of(
        [
            (NAMED + "ax.plot([1, 2, 3], [3, 5, 4])", []),
            (NAMED + "ax.plot([1, 2, 3], label='a'); ax.plot([3, 2, 1], label='b'); ax.legend()", []),
            (NAMED + "ax.bar(['a', 'b'], [1, 2]); ax.axhline(1.5)", []),
            (NAMED + "ax.errorbar([1, 2, 3], [1, 2, 3], yerr=0.1, capsize=3)", []),
            (NAMED + "ax.boxplot([[1, 2, 3], [2, 3, 9]])", []),
            (NAMED + "ax.scatter([1, 2, 3], [1, 2, 3]); ax.plot([1, 2, 3], [1, 2, 3])", []),
            (NAMED + "ax.hist(np.arange(100) % 7)", []),
            ("ax.set_title('Shares'); ax.pie([1, 2, 3], labels=['a', 'b', 'c'])", []),
            (
                "ax.plot([1, 2, 3])",
                ["it has no title", "its x axis has no label", "its y axis has no label"],
            ),
            (
                NAMED + "ax.plot([1, 2, 3]); ax.plot([3, 2, 1])",
                ["it has 2 series and no legend"],
            ),
            (
                NAMED
                + "ax.plot([1, 2, 3], 'C0', label='a'); ax.plot([3, 2, 1], 'C0', label='b'); ax.legend()",
                ["colours of its series cannot be told apart (a and b)"],
            ),
            (
                NAMED
                + "ax.plot([1, 2, 3], 'C0', label='a'); ax.plot([3, 2, 1], 'C0--', label='b'); ax.legend()",
                [],
            ),
            (
                NAMED + "ax.plot([1, 2, 3], c='#cc4422', label='a')\n"
                "ax.plot([3, 2, 1], c='#7d7511', label='b'); ax.legend()",
                ["some people cannot tell its colours apart"],
            ),
            (NAMED + "ax.plot([], [])", ["it is empty: there is nothing in its data"]),
            (NAMED, ["it is empty: there is nothing in its data"]),
            (NAMED + "ax.plot([1, 2, 3], [np.nan] * 3)", ["all of its values are missing"]),
            (
                NAMED
                + "ax.plot([1, 2, 3], label='a'); ax.plot([1, 2, 3], [np.nan] * 3, label='b'); ax.legend()",
                ["a series has no values (b)"],
            ),
            (NAMED + "ax.plot([1], [2])", ["its line has a single point, and cannot be seen"]),
            (
                NAMED + "ax.bar([f'name {n}' for n in range(90)], range(90))",
                ["90 names stand along its x axis, and overlap"],
            ),
            (
                NAMED + "ax.scatter([1, 2, 3], [1, 2, 3], c=[5, 6, 7])",
                ["its points have colours, and nothing says what they mean"],
            ),
            (NAMED + "fig.colorbar(ax.scatter([1, 2, 3], [1, 2, 3], c=[5, 6, 7]))", []),
        ],
        10,
    ),
)
async def test_a_figure_is_looked_over(
    engine: Engine, session: Session, drawing: str, issues: list[str]
) -> None:
    assert await looked_over(engine, session, f"{BEGIN}{drawing}\nplt.show()") == issues


async def test_labels_of_one_panel_speak_for_those_that_share_its_axis(
    engine: Engine, session: Session
) -> None:
    source = (
        "fig, (one, two) = plt.subplots(2, sharex=True)\nfig.suptitle('Both')\n"
        "one.plot([1, 2, 3]); two.plot([1, 2, 3])\ntwo.set_xlabel('day'); one.set_ylabel('n')\nplt.show()"
    )
    assert await looked_over(engine, session, source) == ["panel 2: its y axis has no label"]


async def test_a_chart_of_a_manifest_is_looked_over(engine: Engine, session: Session) -> None:
    frame = "frame = pd.DataFrame({'day': [1, 2, 1, 2], 'city': list('aabb'), 'sold': [3, 5, 4, 6]})\n"
    good = "show(frame, 'line_chart', x='day', y='sold', group_by='city', title='Sold')"
    assert await looked_over(engine, session, frame + good) == []
    one = "show(frame[:1], 'line_chart', x='day', y='sold', title='One', id='one')"
    assert await looked_over(engine, session, one) == ["its line has a single point, and cannot be seen"]
    undrawn = await looked_over(
        engine, session, "show(frame[:0], 'line_chart', x='day', y='sold', id='none')"
    )
    assert len(undrawn) == 1
    assert undrawn[0].startswith("a chart could not be drawn: ")
    assert "no rows" in undrawn[0]


async def test_the_critic_sees_charts_at_a_size_worth_its_tokens(engine: Engine, session: Session) -> None:
    first = await ran(session, f"{BEGIN}{NAMED}ax.plot([1, 2, 3]); fig.set_size_inches(20, 10)\nplt.show()")
    second = await ran(session, "show(frame, 'bar_chart', x='city', y='sold', title='Bars', id='bars')")
    seen = await pictures(engine, [first.id, second.id])
    assert len(seen) == 2
    for picture in seen:
        assert picture.startswith(b"\x89PNG")
        width = int.from_bytes(picture[16:20], "big")
        assert 100 < width <= engine.settings.image_pixels
    assert await pictures(engine, [first.id, second.id], most=1) == seen[1:]


# Specs of others -----------------------------------------------------------------------------------------------------


def output_with(**spec: Any) -> dict[str, Any]:
    spec = {"title": "T", "mark": "line", "encoding": CHANNELS, "data": {"values": ROWS}} | spec
    return {
        "output_type": "display_data",
        "data": {"application/vnd.vegalite.v5+json": spec},
        "metadata": {},
    }


ROWS = [{"day": day, "n": day * 2, "s": name} for day in range(1, 4) for name in "ab"]
X, Y = {"field": "day", "type": "quantitative"}, {"field": "n", "type": "quantitative"}
S = {"field": "s", "type": "nominal"}
CHANNELS = {"x": X, "y": Y}


@pytest.mark.parametrize(
    ("spec", "issues"),
    [
        ({}, []),
        ({"encoding": CHANNELS | {"color": S}}, []),
        ({"data": {"name": "d"}, "datasets": {"d": ROWS}}, []),
        ({"data": {"url": "x.csv"}}, []),
        ({"mark": "arc", "encoding": {"theta": Y, "color": S}}, []),
        ({"title": None}, ["it has no title"]),
        ({"encoding": {"x": X | {"title": None}, "y": Y}}, ["its x axis has no label"]),
        ({"encoding": {"x": X, "y": Y | {"axis": {"title": ""}}}}, ["its y axis has no label"]),
        ({"encoding": CHANNELS | {"color": S | {"legend": None}}}, ["it has 2 series and no legend"]),
        (
            {"encoding": CHANNELS | {"color": S | {"scale": {"range": ["#ff0000", "#fe0000"]}}}},
            ["colours of its series cannot be told apart (a and b)"],
        ),
        (
            {
                "encoding": CHANNELS | {"color": S},
                "data": {"values": [row | {"s": f"s{n:02}"} for n in range(12) for row in ROWS]},
            },
            ["colours of its series cannot be told apart (s00 and s10)"],
        ),
        ({"data": {"values": []}}, ["it is empty: there is nothing in its data"]),
        ({"data": {"values": [row | {"n": None} for row in ROWS]}}, ["all of its values are missing"]),
        ({"data": {"values": ROWS[:1]}}, ["its line has a single point, and cannot be seen"]),
        (
            {
                "mark": "bar",
                "encoding": {"x": X | {"type": "nominal"}, "y": Y},
                "data": {"values": [{"day": n, "n": n} for n in range(3000)]},
            },
            ["3,000 names stand along its x axis, and overlap"],
        ),
        (
            {
                "mark": None,
                "layer": [
                    {"mark": {"type": "line", "color": colour}, "encoding": {"y": Y}} for colour in "ab"
                ],
            },
            ["it has 2 series and no legend"],
        ),
        (
            {"mark": None, "hconcat": [{"mark": "bar"}, {"mark": "bar", "encoding": {"y": None}}]},
            ["panel 2: its y axis has no label"],
        ),
    ],
)
def test_a_spec_is_looked_over(spec: dict[str, Any], issues: list[str]) -> None:
    assert [issue.what for issue in issues_of("c", [output_with(**spec)])] == issues


async def test_a_spec_without_a_picture_is_drawn(engine: Engine, session: Session) -> None:
    spec = output_with()["data"]
    execution = await ran(session, f"display({spec!r}, raw=True)")
    assert len(await pictures(engine, [execution.id])) == 1


def test_charts_of_one_cell_are_told_apart() -> None:
    assert issues_of("c", [output_with(), output_with(title=None)]) == [
        Issue("c", "chart 2 of the cell: it has no title", ".properties(title='what it shows')")
    ]


def test_colours_are_as_far_apart_as_they_look() -> None:
    assert apart("#ffffff", "#000000") == pytest.approx(1.0, abs=0.01)
    assert apart("#f00", "#ff0000ff") == 0
    assert (apart("#0072b2", "#e08e0b") or 0) > 0.2
    assert apart("red", "#ff0000") is None
    assert apart_without_red_green("nothing", "#ff0000") is None
    red, olive = "#cc4422", "#7d7511"
    assert (apart_without_red_green(red, olive) or 1) < (apart(red, olive) or 0) / 3


# Evidence ------------------------------------------------------------------------------------------------------------


async def test_numbers_are_traced_to_what_a_session_put_out(engine: Engine) -> None:
    session = await engine.create("evidence")
    await ran(session, "import pandas as pd\nprint('mean', 12.3456)")
    failed = await session.run((await session.add_cell("print(777)\n1 / 0")).id)
    assert not failed.ok
    table = await ran(session, "pd.DataFrame({'city': ['Oslo', 'Rome'], 'n': [4812, 9355]})")
    chart = "from cellwright_kernel import show\nshow({'a': [1, 2, 3], 'b': [31.25, 32.5, 35.75]}, 'line_chart', x='a', y='b')"
    await ran(session, chart)
    evidence = await gather(
        engine, session, question="Over 500?", replies=[("run_script", "result: 66.6")], since=0.0
    )
    text = "The mean is 12.35, Rome has 9,355, it rose to 32.5 from 66.6, over 500; not 777."
    traced = trace_numbers(text, evidence)
    assert traced.untraced == ("777",)
    sources = {number.text: number.source for number in traced.numbers}
    assert sources["9,355"] == f"cell {table.cell_id}"
    assert sources["66.6"] == "run_script"
    assert [number.text for number in traced.numbers if number.given] == ["500"]
    later = await gather(engine, session, since=table.record.queued_at + 1e6)
    assert trace_numbers("9,355", later).untraced == ()
    assert rests_on_output("It is 11.5.", later) is not None


async def test_what_ran_before_a_branch_bears_numbers_out_on_it(engine: Engine) -> None:
    session = await engine.create("a branch's trunk")
    await ran(session, "print(31415)")
    branch = (await engine.branch(session.id))[0].session
    evidence = await gather(engine, branch)
    assert trace_numbers("It is 31,415.", evidence).untraced == ()

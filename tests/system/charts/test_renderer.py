"""The process that draws: what it gives, what it refuses, and that nothing ends with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from cellwright.charts import Config, Output, Picture, Renderer, RendererLimits, ThemeName
from cellwright.errors import ChartRefused, DrawingFailed, SpecRefused
from cellwright_kernel.tables import Column, Table
from tests.matrix import each_with_one
from tests.support.charts.making import SALES, output
from tests.waiting import fail_after, look_again, until

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n"
PLAIN: dict[str, Any] = {
    "data": {"values": [{"a": 1, "b": 2}]},
    "mark": "point",
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}
# An expression that looks for a match in more ways than there is time.
ENDLESS: dict[str, Any] = {
    **PLAIN,
    "transform": [{"calculate": f"test(/^(a+)+$/, '{'a' * 60}b')", "as": "c"}],
}


def width(png: bytes) -> int:
    return int.from_bytes(png[16:20], "big")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_an_output_becomes_a_picture_a_spec_and_a_digest(
    shared_renderer: Renderer, theme: ThemeName
) -> None:
    picture = await shared_renderer.chart(
        output(x_column="month", y_columns=("revenue",)), SALES, theme=theme
    )
    assert picture.png is not None
    assert picture.png.startswith(PNG)
    assert picture.spec is not None
    assert picture.spec["usermeta"]["cellwright"]["theme"] == theme
    assert "highest 15 (Mar)" in picture.digest


async def test_a_table_of_a_kernel_is_drawn_as_a_file_is(shared_renderer: Renderer) -> None:
    table = Table((Column("a", "text"), Column("b", "number")), (("x", 1), ("y", 2)), 2)
    picture = await shared_renderer.chart(Output("v", "auto"), table)
    assert (picture.type, picture.png is not None) == ("bar_chart", True)


async def test_a_table_is_html_for_people_and_a_digest_for_agents(shared_renderer: Renderer) -> None:
    picture = await shared_renderer.chart(output("table", columns=("month",)), SALES)
    assert (picture.type, picture.png, picture.spec) == ("table", None, None)
    assert picture.html is not None
    assert "Jan" in picture.html
    assert "revenue" not in picture.html
    assert "month" in picture.digest


async def test_a_picture_is_no_wider_than_asked(shared_renderer: Renderer) -> None:
    wide = await shared_renderer.draw({**PLAIN, "width": 800}, scale=2)
    narrow = await shared_renderer.draw({**PLAIN, "width": 800}, scale=2, max_width=500)
    assert width(wide) > 1_600
    assert 490 <= width(narrow) <= 500


async def test_specs_of_others_are_drawn_in_both_languages(shared_renderer: Renderer) -> None:
    vega = {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "width": 50,
        "height": 50,
        "marks": [{"type": "rect"}],
    }
    for spec in (PLAIN, vega, {**PLAIN, "$schema": "https://vega.github.io/schema/vega-lite/v5.json"}):
        assert (await shared_renderer.draw(spec)).startswith(PNG)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({**PLAIN, "data": {"url": "https://example.com/x.json"}}, "data.url: data is not fetched"),
        ({**PLAIN, "data": {"url": "data:text/csv,a"}}, "data.url: data is not fetched"),
        ({"layer": [PLAIN, {**PLAIN, "data": {"url": "file:///etc/passwd"}}]}, "layer[1].data.url"),
        (
            {**PLAIN, "transform": [{"lookup": "a", "from": {"data": {"url": "x"}}}]},
            "transform[0].from.data.url",
        ),
        ({**PLAIN, "mark": "image"}, "mark: pictures inside of a chart are not drawn"),
        ({**PLAIN, "mark": {"type": "image", "url": "x"}}, "mark.url"),
        ({"marks": [{"type": "image"}]}, "marks[0].mark: pictures"),
        ({**PLAIN, "width": 1e9}, "width: 1000000000.0 is not between"),
        ({"mark": 7}, "The spec cannot be drawn"),
    ],
)
async def test_what_a_spec_may_not_ask_for_is_refused_by_its_path(
    shared_renderer: Renderer, spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(SpecRefused) as refused:
        await shared_renderer.draw(spec)
    assert told in refused.value.message


async def test_data_may_be_called_anything(shared_renderer: Renderer) -> None:
    rows = [{"url": "https://example.com", "type": "image"}]
    assert await shared_renderer.draw({**PLAIN, "data": {"values": rows}})
    assert await shared_renderer.draw({**PLAIN, "data": {"name": "d"}, "datasets": {"d": rows}})


async def test_letters_that_end_the_library_are_left_out(shared_renderer: Renderer) -> None:
    rows = [{"a\x07": "x\x00\x1b\ufffe", "b": 1}]
    encoding = {"x": {"field": "a\x07", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}}
    await shared_renderer.draw(PLAIN)
    first = shared_renderer.pid
    assert await shared_renderer.draw(
        {"data": {"values": rows}, "mark": "bar", "encoding": encoding, "title": "\x08"}
    )
    assert shared_renderer.pid == first


async def test_every_problem_of_an_output_comes_with_the_refusal(shared_renderer: Renderer) -> None:
    with pytest.raises(ChartRefused) as refused:
        await shared_renderer.chart(output(x_column="a", y_columns=("b",)), SALES)
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "outputs[0].config.xColumn",
        "outputs[0].config.yColumn",
    ]


async def test_a_file_that_cannot_be_read_is_told_with_its_field(shared_renderer: Renderer) -> None:
    with pytest.raises(ChartRefused, match=r"^outputs\[0\].dataFile: sales.csv: line 2 has 1 fields"):
        await shared_renderer.chart(output(), b"a,b\n1\n")


async def test_one_process_draws_everything_but_for_too_many_who_wait_and_ends_with_its_renderer() -> None:
    refused = []
    async with Renderer(RendererLimits(waiting=2)) as renderer:

        async def ask() -> None:
            try:
                await renderer.draw(PLAIN)
            except DrawingFailed as error:
                refused.append(error.message)

        assert renderer.pid is None
        await ask()
        first = renderer.pid
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(ask)
        assert renderer.pid == first is not None
    assert refused == ["3 charts wait to be drawn already"] * 3
    assert not psutil.pid_exists(first)


async def test_a_process_that_was_killed_between_charts_is_started_again(shared_renderer: Renderer) -> None:
    await shared_renderer.draw(PLAIN)
    first = shared_renderer.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: shared_renderer.pid is None)
    assert (await shared_renderer.draw(PLAIN)).startswith(PNG)
    assert shared_renderer.pid != first


async def test_a_chart_whose_process_is_killed_in_the_middle_is_drawn_by_the_next(
    shared_renderer: Renderer,
) -> None:
    await shared_renderer.draw(PLAIN)
    first = shared_renderer.pid
    assert first is not None
    rows = "".join(f"{number},{number % 977}\n" for number in range(400_000))
    drawn: list[Picture] = []

    async def draw() -> None:
        drawn.append(await shared_renderer.chart(output("line_chart"), f"x,y\n{rows}".encode()))

    busy = psutil.Process(first)
    before = sum(busy.cpu_times()[:2])
    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(draw)
            while sum(busy.cpu_times()[:2]) < before + 0.1:
                await look_again()
            os.kill(first, signal.SIGKILL)
    assert drawn[0].png is not None
    # It was drawn before where the killer came late.
    await until(lambda: shared_renderer.pid != first)


async def test_what_takes_too_long_is_ended_and_the_next_chart_is_drawn() -> None:
    async with Renderer(RendererLimits(time_s=1)) as renderer:
        with pytest.raises(DrawingFailed, match="not drawn within 1 s"):
            await renderer.draw(ENDLESS)
        assert renderer.pid is None
    async with Renderer() as renderer:
        assert (await renderer.draw(PLAIN)).startswith(PNG)


async def test_what_needs_too_much_memory_ends_its_process_and_no_other() -> None:
    hungry = {**PLAIN, "data": {"sequence": {"start": 0, "stop": 3e8}}}
    async with Renderer(RendererLimits(memory_bytes=3 << 28)) as renderer:
        with pytest.raises(DrawingFailed, match=r"memory|not drawn within"):
            await renderer.draw(hungry)
        assert (await renderer.draw(PLAIN)).startswith(PNG)


async def test_a_caller_who_goes_away_leaves_no_answer_for_the_next(shared_renderer: Renderer) -> None:
    await shared_renderer.draw(PLAIN)
    with anyio.move_on_after(0.05) as scope:
        await shared_renderer.draw(ENDLESS)
    assert scope.cancelled_caught
    picture = await shared_renderer.chart(output(), SALES)
    assert picture.type == "bar_chart"


async def test_a_process_that_nobody_needs_ends() -> None:
    async with Renderer(RendererLimits(idle_s=0.2)) as renderer:
        await renderer.draw(PLAIN)
        await until(lambda: renderer.pid is None)
        assert (await renderer.draw(PLAIN)).startswith(PNG)


@pytest.mark.parametrize(
    "deed",
    [
        "open(sys.argv[1]).read()",
        "open(sys.argv[1] + '.new', 'w')",
        "socket.socket().connect(('127.0.0.1', 9))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "subprocess.run(['/bin/true'], check=True); open(sys.argv[1])",
    ],
    ids=["reads", "writes", "connects", "sends", "reads-in-a-child"],
)
async def test_the_process_has_neither_network_nor_files_of_anybody(tmp_path: Path, deed: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    code = f"import socket, subprocess, sys\nfrom cellwright_kernel.confinement import confine\nconfine(4 << 30)\n{deed}"
    done = await anyio.run_process([sys.executable, "-c", code, str(secret)], check=False)
    assert done.returncode == 1
    assert b"PermissionError" in done.stderr or b"Operation not supported" in done.stderr


async def test_letters_without_a_font_are_told(shared_renderer: Renderer) -> None:
    """Few machines have a font for Adlam; one that has draws it, and has nothing to tell."""
    picture = await shared_renderer.chart(output(), "name,value\n\U0001e900\U0001e901,1\nplain,2\n".encode())
    assert any("no font for" in notice for notice in picture.notices) == ("no font for" in picture.digest)
    plain = await shared_renderer.chart(output(), SALES)
    assert not plain.notices


async def test_a_page_that_listens_hears_nothing_from_a_chart(shared_renderer: Renderer) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0)
        port = listening.getsockname()[1]
        # An address that no part of the spec has as such.
        spec = {
            "$schema": "https://vega.github.io/schema/vega/v5.json",
            "width": 20,
            "height": 20,
            "marks": [
                {
                    "type": "text",
                    "encode": {
                        "update": {
                            "text": {"value": f"http://127.0.0.1:{port}/x.png"},
                            "href": {"value": f"http://127.0.0.1:{port}"},
                        }
                    },
                }
            ],
        }
        await shared_renderer.draw(spec)
        with pytest.raises(BlockingIOError):
            listening.accept()


HOSTILE = {
    "emoji": "😀,1\n👩‍👩‍👧,2\n🇩🇪,3\n",
    "right-to-left": "שלום,1\nمرحبا,2\n",
    "wide": "漢字,1\nかな,2\n",
    "markup": "<script>alert(1)</script>,1\n&amp;,2\n",
    "quotes": '"""it\'s""",1\n\\n,2\n',
    "huge": "a,1e299\nb,-1e299\nc,1\n",
    "tiny": "a,5e-324\nb,1e-320\n",
    "alike": "a,5\nb,5\n",
    "beyond": f"a,{'9' * 400}\nb,1\n",
    "control": "\x01\x02,1\n\x7f,2\n",
    "long": f"{'word ' * 60},1\n{'x' * 400},2\n",
}


TYPES = ["bar_chart", "line_chart", "pie_chart", "scatter", "box", "histogram", "heatmap", "graph"]


@pytest.mark.parametrize(("name", "type_"), each_with_one(list(HOSTILE), TYPES))
async def test_hostile_values_are_drawn_or_refused_by_their_field(
    shared_renderer: Renderer, name: str, type_: Any
) -> None:
    asked = Output("a", type_, "x.csv", "Títle 😀 عنوان 題", Config(), "outputs[0]")
    refused = ""
    try:
        picture = await shared_renderer.chart(asked, f"name,value\n{HOSTILE[name]}".encode())
    except ChartRefused as error:
        refused = error.message
    if refused:
        assert refused.startswith("outputs[0].config.")
    else:
        assert picture.png is not None
        assert picture.png.startswith(PNG)
        assert json.dumps(picture.spec, allow_nan=False)

"""Widgets of a real kernel: their state in the engine, what is sent to them, what `Output` takes, what the file keeps."""

from __future__ import annotations

import json

import pytest

from cellwright import Engine
from cellwright.errors import KernelBusy, KernelGone
from cellwright.notebook.widgets import reached, states_saved, view_of, with_widgets_as_text
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

FORM = """
import ipywidgets as w
size, out, button = w.IntSlider(3, description="size"), w.Output(), w.Button(description="go")
picture = w.Image(value=b"GIF89a")
def moved(change):
    with out:
        print("now", size.value)
size.observe(moved, "value")
def pressed(_):
    print("pressed", size.value)
    1 / 0
button.on_click(pressed)
w.VBox([size, out, button, picture])
"""


async def test_widgets_are_known_used_and_saved(engine: Engine) -> None:
    session = await engine.create("widgets")
    cell = await session.add_cell(FORM)
    with fail_after():
        ran = await (await session.execute(cell.id)).wait()
        assert ran.ok, ran.error
        view = view_of(ran.outputs[0])
        assert view is not None
        states = dict(await session.widgets.all())
        shown = {states[model]["_model_name"]: model for model in reached(states, [view])}
        assert {"VBoxModel", "IntSliderModel", "OutputModel", "ButtonModel", "LayoutModel"} <= set(shown)
        assert states[shown["ImageModel"]]["value"] == {"cellwright_buffer": "R0lGODlh"}

        # A page moves the slider: its observer prints into the output widget, and only there.
        slider, taker = shown["IntSliderModel"], shown["OutputModel"]
        before = session.widgets.number
        await session.widgets.send(slider, {"method": "update", "state": {"value": 7}}, cell_id=cell.id)
        await until(lambda: "now 7" in json.dumps(session.widgets.now(taker)))
        assert session.widgets.now(slider)["value"] == 7
        assert {slider, taker} <= (await session.widgets.changes(before))[1]
        assert ran.late_outputs == []
        # The kernel has the same, for whoever reads it there and for pages of a later engine.
        read = await (await session.execute((await session.add_cell("out.outputs[0]['text']")).id)).wait()
        assert "now 7" in read.text

        # What a button's code prints and raises elsewhere is told apart from the cell's outputs.
        await session.widgets.send(
            shown["ButtonModel"], {"method": "custom", "content": {"event": "click"}}, cell_id=cell.id
        )
        assert [one["output_type"] for one in ran.late_outputs] == ["stream", "error"]
        assert ran.late_outputs[0]["text"] == "pressed 7\n"
        assert ran.late_outputs[1]["ename"] == "ZeroDivisionError"

        # The file has the state as other programs read it.
        await session.save()
        saved = json.loads(session.path.read_text())["metadata"]
        assert states_saved(saved)[slider]["value"] == 7
        image = saved["widgets"]["application/vnd.jupyter.widget-state+json"]["state"][shown["ImageModel"]]
        assert image["buffers"] == [{"encoding": "base64", "path": ["value"], "data": "R0lGODlh"}]
        assert "value" not in image["state"]
        # Who can only read has the values in a widget's place.
        [shown, taken] = with_widgets_as_text(ran.outputs, saved)
        assert (shown["data"]["text/plain"], taken["text"]) == ("size: 7", "now 7\n")


async def test_widgets_are_seen_while_a_cell_runs_and_gone_with_their_kernel(engine: Engine) -> None:
    session = await engine.create("busy widgets")
    with fail_after():
        waiting = await session.add_cell(
            "import ipywidgets as w; bar = w.IntProgress(1); display(bar); bar.value = 5; import threading; threading.Event().wait()"
        )
        running = await session.execute(waiting.id)
        await until(lambda: any(view_of(one) for one in running.outputs))
        bar = next(filter(None, map(view_of, running.outputs)))
        await until(lambda: (session.widgets.now(bar) or {}).get("value") == 5)
        with pytest.raises(KernelBusy):
            await session.widgets.send(bar, {"method": "update", "state": {"value": 1}}, cell_id=waiting.id)
        await session.interrupt()
        await running.wait()
        await session.restart()
        assert dict(await session.widgets.all()) == {}
        with pytest.raises(KernelGone):
            await session.widgets.send(bar, {"method": "update", "state": {}}, cell_id=waiting.id)

        # As it last was, it is kept and saved beside the widgets of the next kernel.
        other = await session.add_cell("import ipywidgets as w; w.IntSlider(2)")
        shown = await (await session.execute(other.id)).wait()
        [slider] = filter(None, map(view_of, shown.outputs))
        await until(lambda: slider in session.widgets.kept())
        assert session.widgets.kept()[bar]["value"] == 5
        await session.save()
        saved = states_saved(json.loads(session.path.read_text())["metadata"])
        assert (saved[bar]["value"], saved[slider]["value"]) == (5, 2)


async def test_updates_that_come_too_fast_are_merged_and_a_later_engine_asks_the_kernel(
    open_here: OpenEngine,
) -> None:
    async with open_here() as first:
        session = await first.create("fast")
        source = "import ipywidgets as w\nbar = w.IntProgress(0, max=2_000)\ndisplay(bar)\nfor n in range(2_001): bar.value = n"
        cell = await session.add_cell(source)
        with fail_after():
            ran = await (await session.execute(cell.id)).wait()
            bar = next(filter(None, map(view_of, ran.outputs)))
            await until(lambda: (session.widgets.now(bar) or {}).get("value") == 2_000)
        assert session.widgets.number < 1_500
        session_id = session.id
    async with open_here() as second:
        session = second.session(session_id)
        with fail_after():
            assert dict(await session.widgets.all())[bar]["value"] == 2_000

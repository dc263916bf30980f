"""Plugins that do what they should not: each is named with its reason and left out, and the rest goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.plugins.environments import PluginPlace, plugin_place
from tests.system.daemon.conftest import Pump

FORMAT = """
from cellwright.formats.model import Format, Written
CELLWRIGHT_API = 1
def write(document, writing):
    {body}
PLUGIN = Format("x", "text/plain", (".x",), write)
"""
TOOL = """
from cellwright.plugins.ports import Tool
CELLWRIGHT_API = 1
{before}
def {name}({arguments}) -> object:
    "Does something."
    {body}
PLUGIN = Tool({name}, timeout_s=5)
"""
CHART = """
from cellwright.charts.kinds import ChartKind, Drawing, Encodings
CELLWRIGHT_API = 1
def build(encodings, readings, theme):
    {body}
PLUGIN = ChartKind(build, lambda shape, config: Encodings())
"""
DIGEST = """
import time
CELLWRIGHT_API = 1
class Thing:
    pass
def tell(thing):
    {body}
"""
GOOD = FORMAT.format(body="return Written(b'good')")
OTHERS = {
    "raises_at_import": ("raise OSError('no disk')\n", "Its import raised OSError: no disk"),
    "hangs_at_import": ("import time\ntime.sleep(1000)\n", "It was not imported within"),
    "ends_the_process": ("import os\nos._exit(3)\n", "It ended the process that imported it (exit code 3)"),
    "gives_junk": ("CELLWRIGHT_API = 1\nPLUGIN = {}\n", "It gives a dict, and no Format"),
    "is_old": (GOOD.replace("API = 1", "API = 0"), "It is for version 0 of plugins, and this is version 1"),
    "says_no_version": (GOOD.replace("CELLWRIGHT_API", "OTHER"), "does not say which version it is for"),
    "leaves_a_thread": (
        f"import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,), daemon=True, name='mine').start()\n{GOOD}",
        "Its import left 1 thread(s) running: mine",
    ),
    "prints": (f"print('hello')\n{GOOD}", "Its import wrote 6 bytes to standard output"),
    "patches": (f"import json\njson.dumps = lambda *_, **__: ''\n{GOOD}", "Its import replaced json.dumps"),
    "patches_ours": (
        f"from cellwright.notebook import Document\nDocument.copy = lambda self: self\n{GOOD}",
        "Its import replaced cellwright.notebook.document.Document.copy",
    ),
    "has_nothing": ("CELLWRIGHT_API = 1\n", "There is no 'PLUGIN' in has_nothing"),
}
DIGESTS = {
    "sulks": "raise OSError('no words')",
    "dreams": "time.sleep(1_000)",
    "babbles": "return [thing]",
}
TOOLS = {
    "huge_schema": (
        TOOL.format(
            before="from typing import Literal\nMany = Literal[tuple(f'value {n}' for n in range(3000))]",
            name="huge_schema",
            arguments="one: Many",
            body="return one",
        ),
        "tokens of every client's context; at most 1,000",
    ),
    "strange_type": (
        TOOL.format(before="", name="strange_type", arguments="one: bytes", body="return one"),
        "Its argument one is of type <class 'bytes'>",
    ),
    "looks_around": (
        f"open('/etc/passwd').read()\n{TOOL.format(before='', name='looks_around', arguments='', body='pass')}",
        "PermissionError",
    ),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginPlace]:
    with plugin_place(tmp_path_factory.mktemp("hostile")) as made:
        for name, (source, _) in OTHERS.items():
            made.add(name, {"formats": f"{name} = {name}:PLUGIN"}, source)
        for name, (source, _) in TOOLS.items():
            made.add(name, {"tools": f"{name} = {name}:PLUGIN"}, source)
        made.add(
            "clashes",
            {"formats": "ipynb = clashes:PLUGIN", "tools": "calculator = clashes_tool:PLUGIN"},
            GOOD,
        )
        tool = TOOL.format(before="", name="calculator", arguments="", body="return 1")
        (made.packages / "clashes_tool.py").write_text(tool)
        for name, body in DIGESTS.items():
            made.add(name, {"digests": f"{name}.Thing = {name}:tell"}, DIGEST.format(body=body))
        made.add("nameless", {"digests": "nameless = nameless:tell"}, DIGEST.format(body="pass"))
        made.add("good", {"formats": "good = good:PLUGIN"}, GOOD)
        made.add("fails", {"formats": "fails = fails:PLUGIN"}, FORMAT.format(body="return 1 / 0"))
        made.add("torn", {"chart_types": "torn = torn:PLUGIN"}, CHART.format(body="raise OSError('torn')"))
        outside = "return Drawing({'data': {'url': 'http://127.0.0.1:1/x.csv'}, 'mark': 'bar'}, 'x', ())"
        made.add("outside", {"chart_types": "outside = outside:PLUGIN"}, CHART.format(body=outside))
        made.add("lies", {"formats": "lies = lies:PLUGIN"}, FORMAT.format(body="return 'text'"))
        loops = TOOL.format(before="", name="loops", arguments="", body="while True: pass").replace(
            "_s=5", "_s=1"
        )
        made.add("loops", {"tools": "loops = loops:PLUGIN"}, loops)
        circle = TOOL.format(
            before="", name="circle", arguments="", body="a = []; a.append(a); return a[0] and object()"
        )
        made.add("circle", {"tools": "circle = circle:PLUGIN"}, circle)
        yield made


def test_each_is_named_with_its_reason_and_what_it_does_at_work_is_counted(hostile: PluginPlace) -> None:
    listed = hostile.listed()
    for name, (_, reason) in (OTHERS | TOOLS).items():
        (entry,) = (one for one in listed.values() if one["distribution"] == name.replace("_", "-"))
        assert reason in (entry["refused"] or ""), name
    assert listed["clashes/formats:ipynb"]["refused"] == "cellwright has formats:ipynb already"
    assert listed["good/formats:good"]["refused"] is None

    client = hostile.client("--toolset", "all")
    _said(client, "notebook_create", name="among bad plugins")
    assert "42" in _said(client, "cell_add_and_run", code="6 * 7")
    # The first list came from the record, which knows no plugins; by now the daemon answers.
    names = {tool["name"] for tool in client.answer(client.ask("tools/list"))["result"]["tools"]}
    assert "loops" in names
    assert not names & TOOLS.keys()
    for _ in range(3):
        assert "The plugin formats:fails raised ZeroDivisionError" in _said(
            client, "notebook_export", format="fails"
        )
    assert "There is no format 'fails'" in _said(client, "notebook_export", format="fails")
    for _ in range(3):
        assert "The plugin formats:lies returned str, and not Written" in _said(
            client, "notebook_export", format="lies"
        )
    _meets_bad_charts(client)
    _meets_bad_digests(client)
    assert "did not end in time" in _said(client, "loops")
    assert "not JSON serializable" in _said(client, "circle")
    assert "good" in _said(client, "notebook_export", format="good")
    assert "42" in _said(client, "cell_add_and_run", code="6 * 7")

    listed = hostile.listed()
    at_work = {
        "fails/formats:fails": "raised",
        "lies/formats:lies": "returned",
        "loops/tools:loops": "did not end",
        "dreams/digests:dreams.Thing": "did not end within 2 s",
    }
    for plugin, how in at_work.items():
        assert listed[plugin]["refused"].startswith(f"It was taken out for how it failed: it {how}")
    assert listed["sulks/digests:sulks.Thing"]["refused"] is None  # it failed once
    assert "is called 'nameless'" in listed["nameless/digests:nameless"]["refused"]
    assert hostile.run("plugins", "enable", "fails").returncode == 0
    assert hostile.run("plugins", "disable", "formats:good").returncode == 0
    listed = hostile.listed()
    assert listed["fails/formats:fails"]["refused"] is None
    assert "It is disabled" in listed["good/formats:good"]["refused"]


def _meets_bad_charts(client: Pump) -> None:
    _said(client, "cell_add_and_run", code="rows = [{'a': 1, 'b': 2}, {'a': 3, 'b': 4}]")

    def drawn(kind: str) -> str:
        return _said(client, "cell_visualize", variable="rows", options={"type": kind})

    for _ in range(3):
        assert "The plugin chart_types:torn raised OSError: torn" in drawn("torn")
    assert "there is no type 'torn'" in drawn("torn")
    assert "data is not fetched from addresses" in drawn("outside")
    assert "table" in drawn("table")


def _meets_bad_digests(client: Pump) -> None:
    for name in DIGESTS:
        for _ in range(2):
            told = _said(client, "cell_add_and_run", code=f"import {name}\n{name}.Thing()")
            assert f"<{name}.Thing" in told


def _said(client: Pump, tool: str, **arguments: Any) -> str:
    """A tool's reply or its error."""
    result = client.answer(client.begin(tool, **arguments))["result"]
    return "\n".join(block["text"] for block in result["content"])

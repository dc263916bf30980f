"""The example, one plugin of each kind, is what the command writes; installed from its wheel it works, and goes again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.plugins.skeleton import SkeletonRefused, write_package
from tests.support.plugins.environments import ROOT, PluginPlace, plugin_place
from tests.system.daemon.conftest import Pump
from tests.waiting import LIMIT_S

EXAMPLE = ROOT / "examples" / "plugin"
IDS = {
    "approval_rules:precious", "chart_types:strip", "dialects:careful", "digests:acme_dice.dice.Die", "error_classes:quota",
    "fixers:old_name", "formats:outline", "hosts:nearby", "languages:dice", "providers:parrot", "templates:example", "tools:roll",
}  # fmt: skip


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginPlace]:
    root = tmp_path_factory.mktemp("example")
    package, _ = write_package("acme-dice", root)
    with plugin_place(root) as made:
        _uv("build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, str(package))
        (wheel,) = (package / "dist").glob("*.whl")
        _uv("pip", "install", "--quiet", "--no-deps", "--python", str(made.python), str(wheel))
        yield made


def _uv(*arguments: str) -> None:
    command = [str(Path(sys.executable).parent / "uv"), "--offline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr


def _said(client: Pump, named: str, **arguments: Any) -> str:
    answer = client.answer(client.ask("tools/call", name=named, arguments=arguments))
    if "error" in answer:
        return str(answer["error"]["message"])
    return "\n".join(block["text"] for block in answer["result"]["content"])


def test_the_command_writes_the_example_under_another_name(tmp_path: Path) -> None:
    directory, files = write_package("acme-dice", tmp_path)
    for file in files:
        source = EXAMPLE / str(file.relative_to(directory)).replace("acme_dice", "cellwright_example")
        text = file.read_text().replace("acme_dice", "cellwright_example")
        assert text.replace("acme-dice", "cellwright-example") == source.read_text()
    assert len(files) == sum(path.is_file() for path in EXAMPLE.rglob("*") if path.suffix != ".pyc")
    for name in ("acme-dice", "Acme", "../up", "cellwright"):
        with pytest.raises(SkeletonRefused):
            write_package(name, tmp_path)


def test_one_of_each_kind_works_where_it_is_installed_and_leaves_nothing(example: PluginPlace) -> None:
    listed = example.listed()
    assert {one["plugin"] for one in listed.values()} == IDS
    assert [one["refused"] for one in listed.values()] == [None] * len(IDS)
    assert all(one["import_ms"] for one in listed.values())
    assert listed["acme-dice/tools:roll"]["tokens"] > 0

    client = example.client("--toolset", "core")
    session = client.call("notebook_create", name="dice")["session_id"]
    assert "roll(sides, times): Roll dice" in _said(client, "toolset_enable", toolset="plugins")
    assert len(json.loads(_said(client, "roll", sides=2, times=3))) == 3
    assert "a die has at least two sides" in _said(client, "roll", sides=1)
    _said(client, "cell_add", session_id=session, code="# Chapter", type="markdown")
    outline = _said(client, "toolset_enable", tool="notebook_export", arguments={"format": "outline"})
    assert "# Chapter" in outline
    failed = _said(client, "cell_add_and_run", code="class A:\n    fetch = 1\nA().fetch_all()")
    assert "`fetch_all` is called `fetch` now" in failed
    _runs_cells_of_dice(example, client, session)
    _draws_strips(example, client, session)
    _tells_of_dice(client, session)
    _keeps_what_is_precious(example, client, session)
    there = client.call("notebook_create", name="there", host="nearby")["session_id"]
    assert "42" in _said(client, "cell_add_and_run", session_id=there, code="6 * 7")

    assert json.loads(example.run("tool", "roll", "sides=2", "times=2").stdout)[0] in (1, 2)
    exported = example.run("export", session, "--to", "outline")
    assert "# Chapter" in exported.stdout, exported.stderr
    asked = example.run("ask", "--model", "parrot:polly", "Is anybody there?")
    assert "You said: " in asked.stdout, asked.stderr
    begun = example.data("new", "--template", "dice")
    assert "dice" in example.run("templates", "list").stdout
    assert "random.randint" in example.run("export", begun["session_id"], "--to", "script").stdout
    careful = example.client("--dialect", "careful")
    _said(careful, "notebook_list")
    names = {tool["name"] for tool in careful.answer(careful.ask("tools/list"))["result"]["tools"]}
    assert "notebook_create" in names
    assert "notebook_delete" not in names

    _uv("pip", "uninstall", "--quiet", "--python", str(example.python), "acme-dice")
    assert example.run("daemon", "stop", "--kernels").returncode == 0
    assert example.listed() == {}
    again = example.client("--toolset", "all")
    assert "There is no tool 'roll'" in _said(again, "roll")
    assert "42" in _said(again, "notebook_create", name="after") + _said(
        again, "cell_add_and_run", code="6 * 7"
    )


def _keeps_what_is_precious(example: PluginPlace, client: Pump, session: str) -> None:
    precious = client.call("notebook_create", name="precious")["session_id"]
    assert "what is precious is kept" in _said(client, "notebook_delete", session_id=precious)
    assert "what is precious is kept" in example.run("session", "delete", precious).stderr
    # Where the settings would allow it, a person is to be asked, and nobody is there.
    refused = _said(
        client,
        "toolset_enable",
        tool="package_install",
        arguments={"packages": ["numpy"], "session_id": session},
    )
    assert "packages are chosen by people here" in refused
    assert "nobody is there to ask" in refused


def _tells_of_dice(client: Pump, session: str) -> None:
    code = "from acme_dice.dice import Die\nDie(20, [3, 4])"
    added = client.call("cell_add", session_id=session, code=code)["cell_id"]
    told = _said(client, "cell_execute", session_id=session, cell_id=added)
    assert "die of 20 sides, rolled 2 times, 7 in all" in told
    assert "object at 0x" not in told


def _draws_strips(example: PluginPlace, client: Pump, session: str) -> None:
    rolls = "rolls = [{'by': name, 'rolled': n} for name in 'ab' for n in (1, 4, 6)]"
    _said(client, "cell_add_and_run", session_id=session, code=rolls)
    asked = {"session_id": session, "variable": "rolls", "options": {"type": "strip plot"}}
    result = client.answer(client.ask("tools/call", name="cell_visualize", arguments=asked))["result"]
    told, picture = result["content"]
    assert "strip: rolled by by\n6 values of 2 names" in told["text"]
    assert picture["type"] == "image"
    (example.place.root / "work" / "rolls.csv").write_text("by,rolled\na,1\nb,6\n")
    drawn = example.run("visualize", "rolls.csv", "--type", "strip")
    assert "2 values of 2 names" in drawn.stdout, drawn.stderr


def _runs_cells_of_dice(example: PluginPlace, client: Pump, session: str) -> None:
    _said(client, "cell_add_and_run", session_id=session, code="attack = 3d1 + 2", language="dice")
    added = example.data("session", "add", session, "defence = 4d1", "--language", "rolls")["cell_id"]
    _said(client, "cell_execute", session_id=session, cell_id=added)
    assert "209" in _said(client, "cell_add_and_run", session_id=session, code="attack * 41 + defence")


def test_the_core_runs_without_any_plugin(tmp_path: Path) -> None:
    with plugin_place(tmp_path) as bare:
        # Python is one of ours as well: alone, it is enough.
        assert bare.run("plugins", "disable", "cellwright").returncode == 0
        assert bare.run("plugins", "enable", "languages:python").returncode == 0
        client = bare.client("--toolset", "all")
        _said(client, "notebook_create", name="bare")
        assert "42" in _said(client, "cell_add_and_run", code="6 * 7")
        assert "There is no format 'html'" in _said(client, "notebook_export", format="html")
        assert "There is no host 'slurm'" in _said(client, "notebook_create", name="x", host="slurm")

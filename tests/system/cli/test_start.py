"""What the command line is before any command: how little it loads, where one is, and other systems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.cli._catalogue import COMMANDS
from tests.system.daemon.conftest import Place

LIGHT = """
import sys
sys.argv = ["cellwright", *{arguments!r}]
from cellwright.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
LOADED = """
import sys
from cellwright.cli._commands import function_named
from cellwright.cli._daemon_line import daemon_paths
daemon_paths()
for command in {commands}:
    function_named(command)
print(*sys.modules)
"""
ELSEWHERE = """
import io, json, runpy, sys
import pydantic_settings  # the standard library itself looks for files of the system that it was built for
for name in ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
sys.platform = {platform!r}
found = {{}}
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["cellwright", *arguments]
    sys.stdout, sys.stderr, code = io.StringIO(), io.StringIO(), None
    try:
        runpy.run_module("cellwright", run_name="__main__")
    except SystemExit as end:
        code = end.code
    found[" ".join(arguments)] = [code, sys.stdout.getvalue(), sys.stderr.getvalue()]
import cellwright
from cellwright import CellwrightError, Settings
try:
    cellwright.open_engine
except CellwrightError as error:
    found["open_engine"] = [error.code, "", str(error)]
sys.__stdout__.write(json.dumps(found))
"""


def test_help_and_the_overview_load_no_library(tmp_path: Path) -> None:
    """What people ask most costs next to nothing, because it loads next to nothing."""
    environment = {**os.environ, "CELLWRIGHT_STORAGE": str(tmp_path)}
    for arguments in ((), ("--help",), ("help", "--all"), ("exec", "--help"), ("--version",)):
        code = LIGHT.format(arguments=arguments)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
        )
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
        heavy = {"typer", "pydantic", "anyio", "asyncio", "rich", "msgspec", "dataclasses", "typing"}
        assert heavy & loaded <= {"typing"}, arguments


def test_a_command_that_asks_the_daemon_loads_no_library_that_it_can_do_without() -> None:
    """What a command imports is most of its processor time."""
    code = LOADED.format(
        commands=["list", "show", "exec", "checkpoint", "host list", "audit show", "tool calc"]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"typer", "click", "pydantic", "rich", "mcp", "starlette", "psutil", "tomllib", "nbformat"}
    assert heavy & {name.partition(".")[0] for name in done.stdout.split()} == set()


def test_templates_are_listed_and_notebooks_exported_without_engine_and_pages(tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STORAGE": str(tmp_path)}
    (tmp_path / "a.md").write_text("# Sum\n\n```python\n1 + 1\n```\n")
    heavy = {"pydantic", "mcp", "cellwright.engine", "cellwright.formats._html", "cellwright.formats._pdf"}
    for arguments in (("templates", "list"), ("export", "a.md", "--to", "script")):
        done = subprocess.run(
            [sys.executable, "-c", LIGHT.format(arguments=arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
        )
        assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
        assert heavy & set(done.stderr.split()) == set(), arguments


def test_alone_it_says_where_one_is_and_what_to_do_next(place: Place) -> None:
    alone = place.run()
    assert (alone.returncode, "not running" in alone.stdout) == (0, True), alone.stderr
    assert "cellwright install claude-code" in alone.stdout
    work = place.root / "work"
    (work / "a.plan.md").write_text("# Sum\n\n## TODO: Add\n\n```python\n1 + 1\n```\n")
    made = place.run("new", "--plan", "a.plan.md", "--json")
    assert made.returncode == 0, made.stderr
    session = json.loads(made.stdout)["session_id"]
    told = place.run().stdout
    assert "1 active" in told
    assert f"{session}  its plan has not run yet" in told
    assert f"cellwright plan run {session}" in told
    assert place.run("plan", "run", session).returncode == 0
    told = place.run().stdout
    assert "Needs you" not in told
    assert f"cellwright show {session}" in told


def test_asking_the_daemon_one_thing_loads_no_client_of_its_tools(tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STORAGE": str(tmp_path)}
    code = LIGHT.format(arguments=("daemon", "status"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (1, "not running\n"), done.stderr
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"anyio", "asyncio", "pydantic", "rich", "msgspec"} & loaded == set()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_on_other_systems_every_command_says_what_to_run_instead_and_the_library_imports(
    platform: str,
) -> None:
    asked = [[], ["mcp"], ["suspend", "s-1"], ["--version"], ["--help"], *(name.split() for name in COMMANDS)]
    code = ELSEWHERE.format(platform=platform)
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    found = json.loads(done.stdout)
    for name, (exit_code, _, said) in found.items():
        if name == "--version":
            assert (exit_code, said) == (0, "")
            continue
        assert "docker run " in said, name
        assert "Traceback" not in said
        assert exit_code == {"--help": 0, "open_engine": "not_linux"}.get(name, 3), name
    assert found["list"][2].rstrip().partition("`")[2].partition("`")[0].endswith(" list")
    assert "--tty" not in found["mcp"][2]
    assert "docker exec cellwright cellwright ui --no-open" in found["ui"][2]
    assert "Give the client the command `docker run " in found["install"][2]

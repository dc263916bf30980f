"""Packages, files and the network from the command line: a real daemon, data on stdout, `--json` everywhere."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from cellwright.cli._examination import EXTRAS
from cellwright.sandbox.tiers import LOSSES, UNSAFE_BANNER
from tests.kernel.sandbox.test_packages import make_wheel
from tests.system.daemon.conftest import Place, place_in


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place in a project, whose code may reach a network where nobody is and install one package."""
    wheels = tmp_path_factory.mktemp("wheels")
    make_wheel(wheels, "small-tool", "1.0")
    variables = {
        "UV_FIND_LINKS": str(wheels),
        "UV_OFFLINE": "1",
        "CELLWRIGHT_APPROVED_PACKAGES": '["small-tool"]',
        "CELLWRIGHT_NETWORK": "allow",
    }
    with place_in(tmp_path_factory.mktemp("opened"), **variables) as place:
        (place.root / "work" / "pyproject.toml").touch()
        yield place


def test_packages_files_and_network_of_a_session(opened: Place) -> None:
    session = opened.run("new", "surroundings").stdout.strip()
    listed = opened.run("list").stdout
    assert "overlay" in listed
    assert " TIER " in listed.splitlines()[0]

    added = opened.run("packages", "add", session, "small-tool", "json")
    assert added.stdout.splitlines() == ["small-tool==1.0", "json: already there"], added.stderr
    refused = opened.run("packages", "add", session, "smalltool")
    assert refused.returncode == 1
    assert "small-tool" in refused.stderr
    used = opened.run(
        "exec", session, "--code", "import small_tool; open('left.txt', 'w').write('hi' + '\\n' * 50_000)"
    )
    assert used.returncode == 0, used.stderr

    files = json.loads(opened.run("files", "list", session, "--json").stdout)
    assert [one["path"] for one in files["files"]] == ["notebooks/left.txt"]
    diff = opened.run("files", "diff", session).stdout
    assert ("+hi" in diff, diff.count("\n+")) == (True, 50_001), "all of it"
    applied = opened.run("files", "apply", session, "notebooks/left.txt")
    assert applied.stdout == "added: notebooks/left.txt\n", applied.stderr
    assert (opened.root / "work" / "notebooks" / "left.txt").read_text().startswith("hi\n")
    opened.run("exec", session, "--code", "open('Makefile', 'w').write('all:')")
    rest = opened.run("files", "apply", session)
    assert rest.stdout == ""
    assert "skipped: notebooks/Makefile is for a person to bring over by its name" in rest.stderr
    named = opened.run("files", "apply", session, "notebooks/Makefile")
    assert named.stdout == "added: notebooks/Makefile\n", named.stderr

    code = "import urllib.request\ntry: urllib.request.urlopen('http://elsewhere.example/')\nexcept OSError as e: print(e)"
    assert "network_allow" in opened.run("exec", session, "--code", code).stdout
    requests = json.loads(opened.run("logs", "--network", session, "--json").stdout)["requests"]
    assert [(one["host"], one["verdict"]) for one in requests] == [("elsewhere.example", "refused")]
    assert "refused" in opened.run("logs", "--network", session).stdout


def test_show_tells_where_the_code_runs_and_how_well_it_is_confined(opened: Place) -> None:
    created = json.loads(opened.run("new", "shown", "--json").stdout)
    named = Path(created["path"]).stem  # by its notebook's name, as a person would
    lines = dict(line.split(maxsplit=1) for line in opened.run("show", named).stdout.splitlines()[:7])
    assert lines["mode"] == "overlay"
    assert lines["host"] == "local"
    for name in ("session_id", "path", "cwd", "interpreter", "tier"):
        assert lines[name] == created[name], name
    told = json.loads(opened.run("show", named, "--json").stdout)
    assert told["session"] == {name: created[name] for name in lines}
    assert told["cells"]
    assert "mode" not in opened.run("show", created["session_id"], "problem").stdout, "one cell is only that"


def test_an_unconfined_daemon_is_warned_of_on_stderr_and_data_stay_data(place: Place) -> None:
    started = place.run("daemon", "start", "--unsafe-no-sandbox")
    assert started.returncode == 0, started.stderr
    place.ready()
    assert "unsafe_no_sandbox" in place.run("daemon", "status").stdout
    created = place.run("new", "open to all")
    session = created.stdout.strip()
    assert created.stderr.startswith(UNSAFE_BANNER)
    ran = place.run("exec", session, "--code", "print('hi')")
    assert (ran.stdout, ran.stderr.count("UNSAFE")) == ("hi\n", 1)
    for arguments in (("show", session), ("list",), ("logs", session), ("show", session, "--json")):
        done = place.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(UNSAFE_BANNER), arguments
        assert UNSAFE_BANNER not in done.stdout.split("\n")[0] or "--json" in arguments
    exported = place.run("export", session, "-o", "out.ipynb")
    assert exported.stderr.startswith(UNSAFE_BANNER)
    nbformat.validate(nbformat.read(place.root / "work" / "out.ipynb", as_version=4))
    assert UNSAFE_BANNER in place.run("show", "s-none").stderr


def test_a_notebook_that_is_exported_by_its_name_holds_no_note(opened: Place) -> None:
    created = json.loads(opened.run("new", "by name", "--json").stdout)
    done = opened.run("export", Path(created["path"]).stem)
    assert created["session_id"] in done.stderr, "the note"
    nbformat.validate(nbformat.reads(done.stdout, as_version=4))


def test_a_daemon_that_confines_code_cannot_be_asked_not_to(shared: Place) -> None:
    for arguments in (("daemon", "start"), ("serve", "--port", "0", "--detach")):
        refused = shared.run(*arguments, "--unsafe-no-sandbox")
        assert refused.returncode == 3
        assert "cellwright daemon stop" in refused.stderr


@pytest.mark.matrix  # `test_daemon` has the server, `mcp/test_surroundings` the banner
def test_a_client_may_start_an_unconfined_server(place: Place) -> None:
    pump = place.pump("--in-process", "--unsafe-no-sandbox")
    pump.initialize()
    reply = pump.answer(pump.begin("notebook_list"))["result"]
    assert reply["content"][0]["text"] == UNSAFE_BANNER
    assert pump.finish() == 0


def test_doctor_tells_why_a_tier_is_lower_and_shows_what_stands_in_brackets(place: Place) -> None:
    place.environment |= {
        "CELLWRIGHT_SANDBOX_NAMESPACES": "false",
        "CELLWRIGHT_STORAGE": str(place.root / "[state]"),
        "COLUMNS": "4000",
    }
    shown = place.run("doctor")
    told = shown.stdout
    marks = [line[0] for line in told.splitlines() if line[0] in "✗○✓"]
    assert marks == sorted(marks, key="✗○✓".index), "what is wrong or missing comes first"
    assert ("limit max_sessions" in told, "--all" in shown.stderr) == (False, True)
    assert f"{place.root}/[state]" in told
    (found,) = [line for line in told.splitlines() if "tier C" in line]
    assert "because: namespaces were not to be used" in found
    for loss in LOSSES["C"]:
        assert loss in found


def test_limits_modes_and_odd_files_from_the_command_line(opened: Place) -> None:
    made = opened.run("new", "narrow", "--limit", "processes=40", "--limit", "memory=256MB", "--json")
    about = json.loads(made.stdout)
    session = about["session_id"]
    assert about["limits"] == {"memory": "256MB", "processes": 40}, made.stderr
    assert "limits: memory 256MB" in opened.run("show", session).stdout
    wide = opened.run("new", "wide", "--limit", "memory=1GB")
    assert wide.returncode == 1
    assert "max_session_memory allows 512MB" in wide.stderr
    assert json.loads(opened.run("new", "here", "--mode", "direct", "--json").stdout)["mode"] == "direct"

    original = opened.root / "work" / "notebooks" / "-rf"
    original.write_text("before")
    code = "open('-rf', 'w').write('ours'); open('new\\nline', 'w').write('odd')"
    assert opened.run("exec", session, "--code", code).returncode == 0
    listed = opened.run("files", "list", session).stdout
    assert len(listed.splitlines()) == 3
    assert '"notebooks/new\\nline"' in listed
    original.write_text("a person's")
    refused = opened.run("files", "apply", session, "notebooks/-rf")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert original.read_text() == "a person's"
    forced = opened.run("files", "apply", "--force", session, "--", "notebooks/-rf")
    assert forced.stdout == "changed: notebooks/-rf\n", forced.stderr
    assert original.read_text() == "ours"


@pytest.mark.matrix  # the limits are above, `test_run` has the folder
def test_run_takes_limits_and_works_in_the_notebooks_folder(opened: Place) -> None:
    notebook = opened.root / "work" / "limited.ipynb"
    code = (
        "import resource\nopen('here.txt', 'w').close()\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[0])"
    )
    cell = {
        "cell_type": "code",
        "id": "a",
        "metadata": {},
        "source": code,
        "outputs": [],
        "execution_count": None,
    }
    notebook.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    done = opened.run("run", str(notebook), "--limit", "processes=40", "--json")
    told = json.loads(done.stdout)
    assert (told["mode"], told["limits"]) == ("direct", {"processes": 40}), done.stderr
    assert (notebook.parent / "here.txt").exists()
    assert '"40\\n"' in notebook.read_text()
    wrong = opened.run("run", str(notebook), "--limit", "speed=1")
    assert wrong.returncode == 3
    assert "There are: memory" in wrong.stderr


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What ``doctor`` finds where sessions are to go to a SLURM that nobody has configured, by what it looked at."""
    said = (
        "res_nsearch error: Unknown host, DNS SRV lookup failed, Could not establish a configuration source"
    )
    with place_in(tmp_path_factory.mktemp("examined"), CELLWRIGHT_RUN_MODE="slurm") as place:
        sbatch = place.root / "commands" / "sbatch"
        sbatch.parent.mkdir()
        sbatch.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        sbatch.chmod(0o755)
        place.environment["PATH"] = f"{sbatch.parent}:{os.environ['PATH']}"
        found = json.loads(place.run("doctor", "--json").stdout)
    return {finding["what"]: finding for finding in found}


def test_doctor_looks_at_every_extra_and_all_that_it_brings(findings: dict[str, dict[str, str]]) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "all"}
    looked_at = {extra: len(modules) for extra, modules, _ in EXTRAS} | {"typescript": 1}
    assert looked_at == {name: len(needs) for name, needs in extras.items()}
    (every,) = project["optional-dependencies"]["all"]
    in_all = [extra for extra, _, _ in EXTRAS if extra in re.findall(r"\w+", every)]
    assert {findings[f"extra {extra}"]["verdict"] for extra in in_all} == {"ok"}


def test_doctor_tells_the_tier_that_sessions_have_and_what_it_loses(
    findings: dict[str, dict[str, str]], shared: Place
) -> None:
    found = findings["isolation"]
    assert found["verdict"] == "ok"
    tier, _, rest = found["detail"].removeprefix("tier ").partition("; ")
    assert tier == json.loads(shared.run("new", "confined as told", "--json").stdout)["tier"]
    for loss in LOSSES[tier]:
        assert loss in rest


def test_doctor_tries_this_machine_wherever_sessions_go(findings: dict[str, dict[str, str]]) -> None:
    assert findings["fork server"]["verdict"] == "ok", findings["fork server"]


def test_doctor_says_that_slurm_is_installed_and_not_configured(findings: dict[str, dict[str, str]]) -> None:
    assert findings["slurm"]["verdict"] == "missing", findings["slurm"]
    assert "not configured" in findings["slurm"]["detail"]

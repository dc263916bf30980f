"""The container file's steps, carried out in a Debian root; what a session gets inside, with and without the profile."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import cellwright
from tests.support.project.roots import ROOT, Image, build, debian, fresh, run_step

Require = Callable[[str, bool, str], None]
# Debian and the packages come over the network, and it is minutes: `make test-matrix` runs these.
pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, require: Require) -> Image:
    base = debian("trixie", require)
    return build(ROOT / "Dockerfile", base, tmp_path_factory.mktemp("stages"))


def _tier(image: Image, *, filtered: bool) -> str:
    done = image.start("doctor", "--json", filtered=filtered)
    assert "isolation" in done.stdout, done.stdout + done.stderr
    found: str = next(one["detail"] for one in json.loads(done.stdout) if one["what"] == "isolation")
    return found


def test_the_image_holds_this_release_and_starts_as_an_ordinary_user(image: Image) -> None:
    assert image.start("--version").stdout.strip() == cellwright.__version__
    assert image.run("id", "-u").stdout.strip() == "1000"
    assert image.command[0] == "serve"


def test_the_default_profile_gives_tier_c_and_without_it_there_is_tier_b(image: Image) -> None:
    assert "tier C" in _tier(image, filtered=True)
    assert "tier B" in _tier(image, filtered=False)


@pytest.mark.parametrize("filtered", [True, False], ids=["default profile", "security-opt"])
def test_a_cell_runs_in_the_container(image: Image, *, filtered: bool) -> None:
    code = "import pandas\nprint(pandas.Series([40, 2]).sum())"
    done = image.start("exec", "--once", "--code", code, filtered=filtered)
    assert (done.returncode, done.stdout.strip()) == (0, "42"), done.stderr


ASKING = """
import http.client, json, subprocess, sys
command = ["cellwright", "serve", "--host", "0.0.0.0", "--port", "0", "--detach", "--json"]
opened = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
port = int(opened["mcp"].rpartition(":")[2].partition("/")[0])
for name in sys.argv[1:]:
    # An address of the container's own: as what the engine forwards comes in.
    connection = http.client.HTTPConnection("127.0.0.2", port, timeout=60)
    connection.request("GET", "/mcp", headers={"Host": name})
    print(connection.getresponse().status)
"""


def test_a_published_port_is_answered_under_the_names_that_are_used_outside(image: Image) -> None:
    names = ("localhost:8765", "127.0.0.1:9000", "elsewhere.example")
    # Inside, since a container's processes end with its first. Without a token 401 is as far as one gets.
    done = image.run("python", "-c", ASKING, *names)
    assert done.stdout.split() == ["401", "401", "421"], done.stderr


def test_the_development_container_is_ready_after_its_own_commands(tmp_path: Path, require: Require) -> None:
    root = fresh(debian("trixie", require), tmp_path / "root")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.rstrip("\0").split("\0"):
        file = root.root / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, file)
    inside = replace(root, workdir="/workspace")
    described = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    for command in (described["onCreateCommand"], described["postCreateCommand"]):
        run_step(inside, command.replace("sudo ", ""))
    checked = inside.run(".venv/bin/python", "-m", "pytest", "-q", "tests/unit/notebook/test_merge.py")
    assert checked.returncode == 0, checked.stdout[-2000:]

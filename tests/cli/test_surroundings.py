"""Packages, files and the network from the command line: a real daemon, data on stdout, `--json` everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.daemon.conftest import Place
from tests.sandbox.test_packages import make_wheel


@pytest.fixture
def opened(place: Place, tmp_path: Path) -> Place:
    """A place in a project, whose code may reach a network where nobody is and install one package."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "small-tool", "1.0")
    (place.root / "work" / "pyproject.toml").touch()
    place.environment |= {
        "UV_FIND_LINKS": str(wheels),
        "UV_NO_INDEX": "1",
        "CELLWRIGHT_APPROVED_PACKAGES": '["small-tool"]',
        "CELLWRIGHT_NETWORK": "allow",
    }
    return place


def test_packages_files_and_network_of_a_session(opened: Place) -> None:
    session = opened.run("new", "surroundings").stdout.strip()
    listed = opened.run("list").stdout
    assert "overlay" in listed
    assert "tier " in listed

    added = opened.run("packages", "add", session, "small-tool", "json")
    assert added.stdout.splitlines() == ["small-tool==1.0", "json: already there"], added.stderr
    refused = opened.run("packages", "add", session, "smalltool")
    assert refused.returncode == 1
    assert "small-tool" in refused.stderr
    used = opened.run("exec", session, "--code", "import small_tool; open('left.txt', 'w').write('hi')")
    assert used.returncode == 0, used.stderr

    files = json.loads(opened.run("files", "list", session, "--json").stdout)
    assert [one["path"] for one in files["files"]] == ["notebooks/left.txt"]
    assert "+hi" in opened.run("files", "diff", session).stdout
    applied = opened.run("files", "apply", session, "notebooks/left.txt")
    assert applied.stdout == "added: notebooks/left.txt\n", applied.stderr
    assert (opened.root / "work" / "notebooks" / "left.txt").read_text() == "hi"

    code = "import urllib.request\ntry: urllib.request.urlopen('http://elsewhere.example/')\nexcept OSError as e: print(e)"
    assert "network_allow" in opened.run("exec", session, "--code", code).stdout
    requests = json.loads(opened.run("logs", "--network", session, "--json").stdout)["requests"]
    assert [(one["host"], one["verdict"]) for one in requests] == [("elsewhere.example", "refused")]
    assert "refused" in opened.run("logs", "--network", session).stdout

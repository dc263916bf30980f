"""The container file's steps, carried out in a Debian root; what a session gets inside, with and without the profile."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

import cellwright
from tests.support.project.roots import ROOT, Image, build, debian
from tests.waiting import LIMIT_S

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
    image.start("daemon", "stop")


def test_a_published_port_is_answered_under_the_names_that_are_used_outside(image: Image) -> None:
    opened = image.start("serve", "--host", "0.0.0.0", "--port", "0", "--detach", "--json")  # noqa: S104
    assert opened.returncode == 0, opened.stderr
    port = urlsplit(json.loads(opened.stdout)["mcp"]).port
    # An address of the container's own: as what the engine forwards comes in.
    for name, status in (("localhost:8765", 200), ("127.0.0.1:9000", 200), ("elsewhere.example", 421)):
        connection = http.client.HTTPConnection("127.0.0.2", port, timeout=LIMIT_S)
        connection.request("GET", "/enter", headers={"Host": name})
        assert connection.getresponse().status == status
        connection.close()
    image.start("daemon", "stop")

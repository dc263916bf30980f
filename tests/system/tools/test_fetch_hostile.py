"""Hostile fetches: each refused with its reason, and each one that a client without the guard falls for.

They run in a network of their own in which every address, public or not, leads to one server (``hostile_world``).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.support.tools.hostile_cases import CASES, HOSTS, PUBLIC, Case

CANARY = "the canary sings"
LIMIT = 1_000_000
NEEDED = 40
REBINDING = "a name that leads elsewhere the second time"
REFUSED = [case for case in CASES if case.name != REBINDING]
_IN_NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount"]


@pytest.fixture(scope="module")
def tried(require: Require) -> dict[str, dict[str, Any]]:
    """What came of every case, with the guard and without."""
    able = shutil.which("ip") and shutil.which("unshare")
    if able:
        able = subprocess.run([*_IN_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
    require("a network namespace", bool(able), "apt install iproute2 util-linux, and allow user namespaces")
    order = json.dumps({"hosts": HOSTS, "cases": [case.as_data() for case in CASES]})
    world = Path(__file__).with_name("hostile_world.py")
    done = subprocess.run(
        [*_IN_NAMESPACES, sys.executable, str(world)],
        input=order,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return results


def test_there_are_enough_of_them() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= NEEDED


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_hostile_fetch_is_refused_with_its_reason(case: Case, tried: dict[str, dict[str, Any]]) -> None:
    result = tried[case.name]
    assert case.reason in result.get("refused", ""), result
    assert result["hint"]
    # Of redirects without end each one was allowed; every other case ends with what was wrong with it.
    stopped = {"allowed"} if "/loop" in case.url else {"refused", "malformed", "cut", "failed"}
    assert result["verdict"] in stopped


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_the_guard_it_succeeds_or_explodes(case: Case, tried: dict[str, dict[str, Any]]) -> None:
    plain = tried[case.name]["plain"]
    if match := re.fullmatch(r"(?:decoded|took|went on) (\d+) (?:bytes|times)", plain):
        # More than would be taken, later than would be waited for, or further than would be gone.
        assert int(match[1]) > _bound(case), plain
    else:
        assert CANARY in plain, plain
        assert "injected" in plain or "njected" not in case.url


def test_a_name_that_leads_elsewhere_the_second_time_is_looked_up_once(
    tried: dict[str, dict[str, Any]],
) -> None:
    assert tried[REBINDING]["said"] == f"{CANARY} at {PUBLIC}"
    assert f"{CANARY} at 10.9.9.9" in tried[REBINDING]["plain"]


def _bound(case: Case) -> int:
    if "/loop" in case.url:
        return 10
    small = ("/headers", "/slow/", "/lengths", "/bomb/empty-members")
    return 0 if any(part in case.url for part in small) else LIMIT

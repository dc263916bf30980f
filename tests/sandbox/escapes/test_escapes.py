"""Every attempt fails in every tier and every way to start a kernel, as root and as an ordinary user; and every attempt
succeeds where nothing confines it.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Require

from .more_attempts import ATTEMPTS, Attempt

RUNNING = Path(__file__).with_name("running.py")
NOBODY = 65534
RUN_TIMEOUT_S = 900
USERS = ("me", "nobody") if os.getuid() == 0 else ("me",)
LAUNCHERS = ("fork", "spawn")


@functools.cache
def results(user: str, tier: str, launcher: str) -> dict[str, Any]:
    """What came of the whole table; run once for all tests of the same kind."""
    options = {"tier": tier, "launcher": launcher, "only": []}
    command, environment, uid = _program(user, tier)
    done = subprocess.run(
        [*command, str(RUNNING), json.dumps(options)],
        env=environment,
        user=uid,
        group=uid,
        extra_groups=[] if uid is not None else None,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"the table could not be run:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _program(user: str, tier: str) -> tuple[list[str], dict[str, str], int | None]:
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    uid = None if user == "me" else NOBODY
    # Without namespaces root's kernels run as a user who must be able to reach the interpreter.
    if uid is None and not (tier == "C" and os.getuid() == 0):
        return [sys.executable], environment, None
    python = _system_python()
    environment |= {
        "PYTHONPATH": f"{sysconfig.get_paths()['purelib']}:{Path(__file__).parents[3] / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return [python], environment, uid


def _system_python() -> str:
    return f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def _name(attempt: Attempt) -> str:
    return attempt.name.replace(" ", "_")


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", ["B", "C"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=_name)
def test_it_fails_when_confined(
    user: str, tier: str, launcher: str, attempt: Attempt, require: Require
) -> None:
    _require_other_python(user, tier, require)
    if tier not in attempt.tiers:
        pytest.skip("not promised in this tier; see docs/security.md")
    found = results(user, tier, launcher)
    assert found["tier"] == tier or (tier == "B" and found["tier"] == "A")
    assert not found[attempt.name]["escaped"], found[attempt.name]


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=_name)
def test_it_succeeds_when_nothing_confines_it(
    user: str, launcher: str, attempt: Attempt, require: Require
) -> None:
    _require_other_python(user, "none", require)
    if attempt.root and (user != "me" or os.getuid() != 0):
        pytest.skip("only root could do that")
    found = results(user, "none", launcher)
    assert found[attempt.name]["escaped"], found[attempt.name]


def _require_other_python(user: str, tier: str, require: Require) -> None:
    if user == "nobody" or (tier == "C" and os.getuid() == 0):
        require(_system_python(), Path(_system_python()).exists(), f"install Python {sys.version_info.minor}")

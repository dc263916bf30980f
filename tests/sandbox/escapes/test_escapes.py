"""Every attempt fails in every tier and every way to start a kernel, as root and as an ordinary user; and every attempt
succeeds where nothing confines it.
"""

from __future__ import annotations

import os
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Require
from tests.sandbox.programs import RUN_TIMEOUT_S, require_other_python, run_program

from .deno_attempts import DENO
from .more_attempts import ATTEMPTS, Attempt

USERS = ("me", "nobody") if os.getuid() == 0 else ("me",)
LAUNCHERS = ("fork", "spawn", "beside")
PROGRAMS_AT_A_TIME = 4
Results = Callable[[str, str, str], dict[str, Any]]
Tables = dict[str, list[str]]
"""The names of attempts, by the launcher."""
DENO_PROGRAM = Path(sysconfig.get_path("scripts"), "deno")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """What came of a whole table; a user's in a tier share a program, and some of those run at a time: they mostly wait."""
    wanted: dict[tuple[str, str], Tables] = defaultdict(lambda: defaultdict(list))
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path:
            user, tier, launcher, attempt = _trial_of(item.callspec.params)
            if _why_not(user, tier, launcher, attempt) is None:
                wanted[user, tier][launcher].append(attempt.name)
    with ThreadPoolExecutor(PROGRAMS_AT_A_TIME) as pool:
        running = {of: pool.submit(_run_tables, *of, tables) for of, tables in wanted.items()}
        yield lambda user, tier, launcher: running[user, tier].result()[launcher]
        for program in running.values():
            program.cancel()


def _trial_of(parameters: dict[str, Any]) -> tuple[str, str, str, Attempt]:
    """The user, tier, launcher and attempt of a test, by its parameters."""
    tier, launcher = parameters.get("tier", "none"), parameters.get("launcher", "deno")
    return parameters["user"], tier, launcher, parameters["attempt"]


def _why_not(user: str, tier: str, launcher: str, attempt: Attempt) -> str | None:
    """Why something is not to be tried, if it is not."""
    if launcher in ("beside", "deno") and not DENO_PROGRAM.exists():
        return "there is no Deno"
    if launcher == "beside" and tier == "C":
        return "there is no Deno in this tier; see docs/security.md"
    if tier == "none" and attempt.root and (user != "me" or os.getuid() != 0):
        return "only root could do that"
    if tier not in ("none", *attempt.tiers):
        return "not promised in this tier; see docs/security.md"
    return None


def _run_tables(user: str, tier: str, tables: Tables) -> dict[str, Any]:
    return run_program(user, tier, {"tables": tables, "deno": str(DENO_PROGRAM)})


def _require_all(user: str, tier: str, launcher: str, attempt: Attempt, require: Require) -> None:
    """What is tried in Deno, or beside it, needs it."""
    require_other_python(user, tier, require)
    if launcher in ("beside", "deno"):
        require("Deno", DENO_PROGRAM.exists(), "pip install deno")
    if reason := _why_not(user, tier, launcher, attempt):
        pytest.skip(reason)


def _name(attempt: Attempt) -> str:
    return attempt.name.replace(" ", "_")


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", ["B", "C"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=_name)
def test_it_fails_when_confined(
    user: str, tier: str, launcher: str, attempt: Attempt, require: Require, results: Results
) -> None:
    _require_all(user, tier, launcher, attempt, require)
    found = results(user, tier, launcher)
    assert found["tier"] == tier or (tier == "B" and found["tier"] == "A")
    assert not found[attempt.name]["escaped"], found[attempt.name]


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=_name)
def test_it_succeeds_when_nothing_confines_it(
    user: str, launcher: str, attempt: Attempt, require: Require, results: Results
) -> None:
    _require_all(user, "none", launcher, attempt, require)
    found = results(user, "none", launcher)
    assert found[attempt.name]["escaped"], found[attempt.name]


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", ["B", "none"])
@pytest.mark.parametrize("attempt", DENO, ids=_name)
def test_in_typescript_it_fails_when_confined_and_succeeds_when_not(
    user: str, tier: str, attempt: Attempt, require: Require, results: Results
) -> None:
    _require_all(user, tier, "deno", attempt, require)
    found = results(user, tier, "deno")
    assert found["tier"] == tier or (tier == "B" and found["tier"] == "A")
    assert found[attempt.name]["escaped"] == (tier == "none"), found[attempt.name]

"""Every attempt fails in every tier and every way to start a kernel, as root and as an ordinary user; and every attempt
succeeds where nothing confines it.
"""

from __future__ import annotations

import os
import sysconfig
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
TABLES_AT_A_TIME = 4
Results = Callable[[str, str, str], dict[str, Any]]
DENO_PROGRAM = Path(sysconfig.get_path("scripts"), "deno")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """What came of a whole table; each that is needed is run once, some at a time since they mostly wait."""
    wanted = dict.fromkeys(
        _table_of(item.callspec.params)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    )
    with ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
        running = {table: pool.submit(_run_table, *table) for table in wanted}
        yield lambda *table: running[table].result()
        for table in running.values():
            table.cancel()


def _table_of(parameters: dict[str, Any]) -> tuple[str, str, str]:
    """The user, tier and launcher of a test, by its parameters."""
    return parameters["user"], parameters.get("tier", "none"), parameters.get("launcher", "deno")


def _run_table(user: str, tier: str, launcher: str) -> dict[str, Any]:
    return run_program(user, tier, {"launcher": launcher, "only": [], "deno": str(DENO_PROGRAM)})


def _require_main_kernel(launcher: str, tier: str, require: Require) -> None:
    """What is tried beside another kernel needs that one, which is Deno."""
    if launcher == "beside":
        require("Deno", DENO_PROGRAM.exists(), "pip install deno")
        if tier == "C":
            pytest.skip("there is no Deno in this tier; see docs/security.md")


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
    require_other_python(user, tier, require)
    _require_main_kernel(launcher, tier, require)
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
    user: str, launcher: str, attempt: Attempt, require: Require, results: Results
) -> None:
    require_other_python(user, "none", require)
    _require_main_kernel(launcher, "none", require)
    if attempt.root and (user != "me" or os.getuid() != 0):
        pytest.skip("only root could do that")
    found = results(user, "none", launcher)
    assert found[attempt.name]["escaped"], found[attempt.name]


@pytest.mark.timeout(RUN_TIMEOUT_S)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("tier", ["B", "none"])
@pytest.mark.parametrize("attempt", DENO, ids=_name)
def test_in_typescript_it_fails_when_confined_and_succeeds_when_not(
    user: str, tier: str, attempt: Attempt, require: Require, results: Results
) -> None:
    require("Deno", DENO_PROGRAM.exists(), "pip install deno")
    require_other_python(user, tier, require)
    if tier == "none" and attempt.root and (user != "me" or os.getuid() != 0):
        pytest.skip("only root could do that")
    found = results(user, tier, "deno")
    assert found["tier"] == tier or (tier == "B" and found["tier"] == "A")
    assert found[attempt.name]["escaped"] == (tier == "none"), found[attempt.name]

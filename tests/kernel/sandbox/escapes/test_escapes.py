"""Every attempt fails in every tier and every way to start a kernel, as root and as an ordinary user; and every attempt
succeeds where nothing confines it.

Each attempt has a representative place where it is confined (see ``trials``); all others are in the matrix. Where
nothing confines them a few attempts stand for all: they show that an attempt which fails would be seen to succeed.
"""

from __future__ import annotations

import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.support.sandbox.escapes.attempts import Attempt
from tests.support.sandbox.escapes.deno_attempts import DENO
from tests.support.sandbox.escapes.more_attempts import ATTEMPTS
from tests.support.sandbox.escapes.trials import (
    CONFINED,
    CONFINED_DENO,
    UNCONFINED,
    UNCONFINED_DENO,
    Place,
    trials_of,
)
from tests.support.sandbox.programs import RUN_TIMEOUT_S, require_other_python, run_program

PROGRAMS_AT_A_TIME = 4
ONE_CONTROL_IN = 16
Results = Callable[[Place], dict[str, Any]]
Tables = dict[str, list[str]]
"""The names of attempts, by the launcher."""
DENO_PROGRAM = Path(sysconfig.get_path("scripts"), "deno")
NEEDS_DENO = ("beside", "deno")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    """The outcomes of all selected attempts at a place.

    A user's attempts in a tier share a program, and some programs run at a time: they mostly wait.
    """
    wanted: dict[tuple[str, str], Tables] = defaultdict(lambda: defaultdict(list))
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path:
            place, attempt = item.callspec.params["place"], item.callspec.params["attempt"]
            if place.launcher not in NEEDS_DENO or DENO_PROGRAM.exists():
                wanted[place.user, place.tier][place.launcher].append(attempt.name)
    with ThreadPoolExecutor(PROGRAMS_AT_A_TIME) as pool:
        running = {of: pool.submit(_run_tables, *of, tables) for of, tables in wanted.items()}
        yield lambda place: running[place.user, place.tier].result()[place.launcher]
        for program in running.values():
            program.cancel()


def _run_tables(user: str, tier: str, tables: Tables) -> dict[str, Any]:
    return run_program(user, tier, {"tables": tables, "deno": str(DENO_PROGRAM)})


def _trials(
    attempts: tuple[Attempt, ...], places: tuple[Place, ...], *, one_in: int = 1
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("place", "attempt"),
        [
            pytest.param(
                trial.place,
                trial.attempt,
                id=f"{trial.attempt.name.replace(' ', '_')}-{trial.place}",
                marks=() if trial.representative else pytest.mark.matrix,
            )
            for trial in trials_of(attempts, places, one_in=one_in)
        ],
    )


def _outcome(place: Place, attempt: Attempt, require: Require, results: Results) -> dict[str, Any]:
    """What came of the attempt, in the tier that was asked for."""
    require_other_python(place.user, place.tier, require)
    if place.launcher in NEEDS_DENO:
        require("Deno", DENO_PROGRAM.exists(), "pip install deno")
    found = results(place)
    assert found["tier"] == place.tier or (place.tier == "B" and found["tier"] == "A")
    outcome: dict[str, Any] = found[attempt.name]
    return outcome


@pytest.mark.timeout(RUN_TIMEOUT_S)
@_trials(ATTEMPTS, CONFINED)
def test_it_fails_when_confined(place: Place, attempt: Attempt, require: Require, results: Results) -> None:
    outcome = _outcome(place, attempt, require, results)
    assert not outcome["escaped"], outcome


@pytest.mark.timeout(RUN_TIMEOUT_S)
@_trials(ATTEMPTS, UNCONFINED, one_in=ONE_CONTROL_IN)
def test_it_succeeds_when_nothing_confines_it(
    place: Place, attempt: Attempt, require: Require, results: Results
) -> None:
    outcome = _outcome(place, attempt, require, results)
    assert outcome["escaped"], outcome


@pytest.mark.timeout(RUN_TIMEOUT_S)
@_trials(DENO, CONFINED_DENO)
def test_in_typescript_it_fails_when_confined(
    place: Place, attempt: Attempt, require: Require, results: Results
) -> None:
    outcome = _outcome(place, attempt, require, results)
    assert not outcome["escaped"], outcome


@pytest.mark.timeout(RUN_TIMEOUT_S)
@_trials(DENO, UNCONFINED_DENO, one_in=ONE_CONTROL_IN)
def test_in_typescript_it_succeeds_when_nothing_confines_it(
    place: Place, attempt: Attempt, require: Require, results: Results
) -> None:
    outcome = _outcome(place, attempt, require, results)
    assert outcome["escaped"], outcome

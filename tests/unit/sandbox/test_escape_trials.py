"""The representatives of the escapes leave no attempt out, and no place where kernels run."""

from __future__ import annotations

from collections import Counter

import pytest

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


@pytest.mark.parametrize(
    ("attempts", "places"),
    [(ATTEMPTS, CONFINED), (ATTEMPTS, UNCONFINED), (DENO, CONFINED_DENO), (DENO, UNCONFINED_DENO)],
    ids=["confined", "unconfined", "confined Deno", "unconfined Deno"],
)
def test_each_attempt_has_one_representative_and_each_place_has_some(
    attempts: tuple[Attempt, ...], places: tuple[Place, ...]
) -> None:
    chosen = [trial for trial in trials_of(attempts, places) if trial.representative]
    assert Counter(trial.attempt.name for trial in chosen) == Counter(attempt.name for attempt in attempts)
    assert {trial.place for trial in chosen} == set(places)
    assert all(trial.place.promises(trial.attempt) for trial in chosen)

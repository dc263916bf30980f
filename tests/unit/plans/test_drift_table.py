from __future__ import annotations

import pytest

from cellwright.plans.fixers._drift_table import KEYWORDS, MODULES, NAMES, POSITIONS, VALUES
from tests.support.plans.drift_rows import problems

INSTALLED = ("matplotlib", "numpy", "pandas", "scipy", "sklearn")
"""Libraries of the development environment, which `make lock UPGRADE=--upgrade` keeps new; seaborn is fetched elsewhere."""


@pytest.mark.parametrize("library", INSTALLED)
def test_in_the_installed_release_every_old_name_is_gone_and_every_new_one_is_there(library: str) -> None:
    assert problems(library) == []


def test_no_row_is_about_a_library_that_nothing_proves() -> None:
    rows = (*NAMES, *KEYWORDS, *POSITIONS, *VALUES, *MODULES)
    assert {row.library for row in rows} <= {*INSTALLED, "seaborn"}  # type: ignore[attr-defined]  # all have it

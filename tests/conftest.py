"""What every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Callable

import hypothesis
import pytest

# A neighbour's load must not fail a property: time is measured in benchmarks/, never in a test.
hypothesis.settings.register_profile("cellwright", deadline=None)
hypothesis.settings.load_profile("cellwright")

Require = Callable[[str, bool, str], None]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Kernels speak through zmq's asyncio sockets, so asyncio is the one event loop to test on."""
    return "asyncio"


@pytest.fixture(scope="session")
def require() -> Require:
    """Call ``require("the R kernel", found, "apt install r-cran-irkernel")`` before using what may be missing.

    A missing component fails the test in CI, which must have everything, and skips it elsewhere, with the reason.
    """

    def check(component: str, present: bool, how_to_add: str) -> None:  # noqa: FBT001  # reads as a sentence
        if present:
            return
        reason = f"NOT TESTED: {component} is missing. To add it: {how_to_add}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return check

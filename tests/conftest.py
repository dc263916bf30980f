"""What every test may ask for."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from tests.waiting import scaled

from cellwright.formats.grammars import leave_out_address_grammars

# A neighbour's load must not fail a property: time is measured in benchmarks/, never in a test.
# Sixty examples, where a test names no number of its own: there are over a hundred properties, and two processors.
hypothesis.settings.register_profile(
    "cellwright",
    deadline=None,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("cellwright")

# Collecting makes a million objects that live to the end: looking through them for garbage is in vain, now and later.
gc.disable()

# Two seconds of every process that collects, for what no test is about.
leave_out_address_grammars()

# There may be an `sbatch` on this machine, and the default would be to ask it for nodes.
os.environ["CELLWRIGHT_RUN_MODE"] = "local"

# Real clusters and real servers, for whoever asks for one.
pytest_plugins = ["servers.fixtures", "slurm.fixtures"]

# A process takes one file after another: the longest must not be the last, with the other processes done.
LONGEST_FIRST = (
    "engine/test_checkpoint_model.py",
    "plans/test_failures.py",
    "corpus/test_same_outputs_as_nbclient.py",
    "lab/test_lab.py",
    "agent/wires/test_wires.py",
    "agent/test_asking.py",
    "project/test_docs.py",
    "daemon/test_plan_survival.py",
    "daemon/test_daemon.py",
    "jupyter/test_hub.py",
    "charts/test_any_table.py",
    "cli/test_surroundings.py",
    "plans/test_drafting.py",
    "jupyter/test_contract.py",
    "tools/test_calculator_hostile.py",
    "engine/test_survival.py",
    "plans/test_survival.py",
    "engine/test_model.py",
    "cli/test_returns.py",
    "lab/test_command.py",
    "charts/test_renderer.py",
    "servers/test_servers.py",
    "tools/test_runs.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The outer guard: what hangs without a limit of its own."""
    if config.option.timeout is None and not config.getini("timeout"):
        config.option.timeout = scaled(150)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which they are taken; within a file the order stays."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    root = Path(__file__).parent
    items.sort(key=lambda item: places.get(item.path.relative_to(root).as_posix(), len(places)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    # Libraries complain of what is still there at the end.
    gc.unfreeze()


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

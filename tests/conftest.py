"""What every test may ask for."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import hypothesis
import pytest

from cellwright.formats.grammars import leave_out_address_grammars
from tests.waiting import scaled

# A neighbour's load must not fail a property: time is measured in benchmarks/, never in a test.
# Twelve examples, where a test names no number of its own: each run draws others, and there are a hundred properties.
hypothesis.settings.register_profile(
    "cellwright",
    deadline=None,
    max_examples=12,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("cellwright")

# Collecting makes many objects that live to the end: looking through them for garbage is in vain.
gc.disable()

# Two seconds of every process that collects, for what no test is about.
leave_out_address_grammars()

# There may be an `sbatch` on this machine, and the default would be to ask it for nodes.
os.environ["CELLWRIGHT_RUN_MODE"] = "local"

# What takes all that it may is to take no share of this machine, which others test on too.
os.environ["CELLWRIGHT_MAX_SESSION_MEMORY"] = "512MB"

TESTS = Path(__file__).parent
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"}
"""What Python's audit calls the ways to start a process."""

_unit_test: str | None = None
"""The test that runs now, where it is one of the unit lane."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The outer guard: what hangs without a limit of its own. And that our plugins are registered as they stand here."""
    _refuse_old_installation()
    if config.option.timeout is None and not config.getini("timeout"):
        config.option.timeout = scaled(150)


def _refuse_old_installation() -> None:
    """Entry points are read from what is installed, which an edited ``pyproject.toml`` does not change."""
    stated = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]["entry-points"]
    wanted = {(group, name, value) for group, points in stated.items() for name, value in points.items()}
    installed = {(one.group, one.name, one.value) for one in distribution("cellwright").entry_points}
    if missing := sorted(wanted - installed):
        pytest.exit(
            f"The installed entry points are older than pyproject.toml, which has {missing[0]}: run `make`, or "
            "`.venv/bin/uv pip install --no-deps --no-build-isolation --editable .`",
            returncode=4,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its lane, the folder that it is in."""
    for item in items:
        item.add_marker(item.path.relative_to(TESTS).parts[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Know which unit test runs."""
    global _unit_test  # noqa: PLW0603  # an audit hook cannot be taken out again
    _unit_test = item.nodeid if item.get_closest_marker("unit") is not None else None
    try:
        return (yield)
    finally:
        _unit_test = None


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    """Fail a unit test that starts a process; others' programs, such as git, are not ours."""
    if _unit_test is None or event not in STARTS:
        return
    started = str(arguments[0])
    if event == "os.fork" or any(name in started for name in ("python", "deno", "chromium")):
        raise AssertionError(f"{_unit_test} starts a process ({started or event}): move it to another lane")


sys.addaudithook(_refuse_processes)


def pytest_collection_finish() -> None:
    gc.enable()


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

    def check(component: str, present: bool, how_to_add: str) -> None:
        if present:
            return
        reason = f"NOT TESTED: {component} is missing. To add it: {how_to_add}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    return check

"""The cluster as a fixture, for the lane of its tests and whatever else imports it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.slurm.cluster import MISSING_HINT, Cluster, missing_programs


@pytest.fixture(scope="session")
def cluster(require: Callable[[str, bool, str], None]) -> Iterator[Cluster]:
    """A SLURM cluster of three nodes, up for the whole run. A test that breaks it also asks for ``mended``."""
    missing = missing_programs()
    require(f"SLURM ({', '.join(missing)})", not missing, MISSING_HINT)
    cluster = Cluster()
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def mended(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with no jobs and every node back after the test."""
    yield cluster
    cluster.restore()

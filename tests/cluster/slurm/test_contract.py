"""The contract of hosts, inside an allocation of a real SLURM cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.engine.conftest import end_host
from tests.support.hosts.contract import *  # noqa: F403  # the suite
from tests.support.hosts.contract import Abode, abode_at
from tests.support.slurm.cluster import Cluster
from tests.waiting import scaled

# `test_inside`, `test_steps` and `faults` run what is peculiar to allocations; this machine's host has the suite by default.
pytestmark = [pytest.mark.anyio, pytest.mark.matrix]


@pytest.fixture(scope="module")
def abode(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abode]:
    root = tmp_path_factory.mktemp("slurm")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in cluster.env.items():
            environment.setenv(name, value)
        shape = {"slurm_mem": "3000M", "slurm_cpus": 2, "slurm_time": "30"}
        yield abode_at(root, "slurm", **shape, slurm_wait_s=min(280, scaled(60)))
    cluster.restore()
    for storage in ("state", "other"):
        end_host(root / storage)

"""A SLURM cluster of three nodes, and allocations with a host in them, for the tests of this lane."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm.cluster import Cluster
from tests.support.slurm.fixtures import cluster, mended
from tests.support.slurm.lent import Lender

__all__ = ["cluster", "lend", "mended"]


@pytest.fixture
def lend(mended: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lender]:  # a fixture
    """Ask for an allocation with a host in it."""
    for name, value in mended.env.items():
        monkeypatch.setenv(name, value)
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/var/tmp", ignore_cleanup_errors=True) as storage:
        yield Lender(mended, Path(storage))

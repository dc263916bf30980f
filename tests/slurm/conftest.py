"""What tests of hosts in allocations share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm.cluster import Cluster
from slurm.lent import Lender


@pytest.fixture
def lend(mended: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lender]:
    """Ask for an allocation with a host in it."""
    for name, value in mended.env.items():
        monkeypatch.setenv(name, value)
    with tempfile.TemporaryDirectory(prefix="cw-", dir="/var/tmp", ignore_cleanup_errors=True) as storage:
        yield Lender(mended, Path(storage))

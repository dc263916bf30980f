"""How a host is told to whoever chooses one."""

from __future__ import annotations

import pytest

from cellwright.cli._allocations import show_hosts
from cellwright.engine.providers import HostInfo
from cellwright.hosts.protocol import GpuUse, Resources
from cellwright.mcp.tools.hosts import about_host


def test_a_hosts_gpus_are_told_with_their_memory_as_far_as_the_driver_tells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gpus = (
        GpuUse("/dev/nvidia2", "NVIDIA H200", 2 << 30, 140 << 30),
        GpuUse("/dev/dri/renderD129"),
    )
    resources = Resources("node7", 8, 1.5, 2**33, 2**30, "A", gpus)
    told = about_host(HostInfo("slurm:gpu-1", "slurm", "ready", resources=resources))
    assert told["gpus"] == [
        {"device": "/dev/nvidia2", "name": "NVIDIA H200", "memory_mb": 143_360, "memory_used_mb": 2_048},
        {"device": "/dev/dri/renderD129"},
    ]
    show_hosts([told])
    line = capsys.readouterr().out
    assert "GPU NVIDIA H200 2.0 of 140.0 GiB; GPU /dev/dri/renderD129" in line
    without = about_host(HostInfo("local", "local", "ready", resources=Resources("here", 2, 0, 1, 0)))
    assert "gpus" not in without

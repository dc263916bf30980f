"""What of a machine's, a container's or a job's memory one session may have where no setting says."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from cellwright.assembly import engine_options
from cellwright.hosts import server
from cellwright.hosts.server import MemoryUse, machine_memory
from cellwright.sandbox.policy import (
    LEAST_SHARE,
    Narrowing,
    memory_lost,
    memory_share,
    narrowed,
    refuse_wider,
    with_memory,
)
from cellwright.settings import Settings
from cellwright.slurm import inside

GB, MB = 1 << 30, 1 << 20


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of cgroups, on a machine with 64 GB of which 16 are in use."""
    for module, name in ((server, "_CGROUP"), (inside, "_GROUPS")):
        monkeypatch.setattr(module, name, tmp_path)
    machine = psutil.virtual_memory()._replace(total=64 * GB, available=48 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    return tmp_path


def limit(group: Path, limit: str, used: int, cached: int = 0) -> None:
    group.mkdir(parents=True, exist_ok=True)
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")


def test_a_session_gets_half_of_what_is_left_and_never_less_than_the_floor() -> None:
    assert memory_share(24 * GB, 4 * GB) == 10 * GB
    assert memory_share(24 * GB, 24 * GB) == LEAST_SHARE
    assert memory_share(256 * MB, 0) == 256 * MB, "but no more than there is"
    assert memory_share(24 * GB + 12345, 0) % MB == 0


def test_a_container_or_service_around_us_counts_where_it_is_smaller(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine_memory() == MemoryUse(64 * GB, 16 * GB)
    own = "0::/user.slice/our.service/leaf\n"
    real = Path.read_text

    def read_text(path: Path, *arguments: str, **options: str) -> str:
        return own if str(path) == "/proc/self/cgroup" else real(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    limit(groups / "user.slice/our.service/leaf", "max", 3 * GB)
    limit(groups / "user.slice/our.service", str(8 * GB), 6 * GB, cached=2 * GB)
    assert machine_memory() == MemoryUse(8 * GB, 4 * GB)
    limit(groups / "user.slice", str(128 * GB), 1)
    assert machine_memory().total == 8 * GB, "a limit above the machine's is none"
    limit(groups, str(4 * GB), 0)
    assert machine_memory() == MemoryUse(4 * GB, GB, around=0.5), "and as full as the machine is"
    limit(groups, str(50 * GB), 97 * GB // 2)
    limit(groups / "user.slice/our.service", str(GB), GB // 10)
    least = machine_memory()
    assert least.total == GB, "what one session may have is a share of what has the least left"
    assert least.fraction == pytest.approx(0.97), "and nothing starts in a container that is full"


def test_a_job_has_what_its_group_or_slurm_says(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_found", lambda: [(groups / "job_7", server.V2)])
    granted = {"SLURM_MEM_PER_NODE": "8192"}
    assert inside.job_limit({}) is None
    assert inside.job_memory({}) == MemoryUse(64 * GB, 16 * GB), "all of the machine"
    assert inside.job_memory(granted) == MemoryUse(8 * GB, 2 * GB)
    assert inside.job_limit({"SLURM_MEM_PER_CPU": "2048", "SLURM_CPUS_ON_NODE": "3"}) == 6 * GB
    assert inside.job_limit({"SLURM_MEM_PER_NODE": "0"}) is None, "which is all of the node"
    limit(groups / "job_7", str(10 * GB), 2 * GB)
    assert inside.job_memory(granted) == MemoryUse(10 * GB, 2 * GB)
    assert memory_share(10 * GB, 2 * GB) == 4 * GB


def test_auto_is_left_to_the_host_and_a_number_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELLWRIGHT_MAX_SESSION_MEMORY")
    policy = engine_options(Settings()).host.policy
    assert policy is not None
    assert with_memory(policy, 10 * GB).memory_bytes == 10 * GB
    refuse_wider(policy, Narrowing(memory_bytes=2 * GB))
    own = narrowed(policy, Narrowing(memory_bytes=2 * GB))
    assert with_memory(own, 10 * GB).memory_bytes == 2 * GB
    assert with_memory(own, GB).memory_bytes == GB, "never more than the host's share"
    [lost] = memory_lost(own, with_memory(own, GB))
    assert lost.startswith("1024MB of memory instead of the 2048MB asked for")
    assert memory_lost(own, with_memory(own, 2 * GB)) == memory_lost(policy, with_memory(policy, GB)) == ()
    said = engine_options(Settings(max_session_memory="300MB")).host.policy  # type: ignore[arg-type]  # as people write it
    assert said is not None
    assert (said.memory_bytes, said.memory_auto) == (300 * MB, False)

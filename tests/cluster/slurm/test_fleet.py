"""Which allocation the next kernel goes to, and what becomes of old ones; nothing here needs a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.engine.hosts import called_place
from cellwright.engine.records import Batch, SessionRecord, put_session
from cellwright.errors import HostCannot, HostUnreachable, NotApproved, SlurmFailed
from cellwright.hosts.local import NoTransport
from cellwright.slurm import commands
from cellwright.slurm._allocations import AllocationOptions, Allocations
from cellwright.slurm._directories import Allocation, AllocationDirectories
from cellwright.slurm._shapes import Shape
from cellwright.slurm._states import AllocationState, Ended, Ending, Pending, Running
from cellwright.slurm.commands import SlurmCommands
from cellwright.slurm.provider import SlurmFleet, lasts, only_allocation
from tests.kernel.engine.conftest import OpenEngine, host_process, open_here
from tests.waiting import LIMIT_S

__all__ = ["open_here"]

pytestmark = pytest.mark.anyio
NOW = 1_000_000.0


def allocation(state: AllocationState, directory: Path = Path("/nowhere"), **more: object) -> Allocation:
    values = {"key": "a-1", "name": "a", "shape": Shape(memory="4G"), "submitted_at": NOW, "warn_s": 60}
    return Allocation(directory=str(directory), state=state, **(values | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        (Running("n1"), True),
        (Running("n1", ends_at=NOW + 61), True),
        (Running("n1", ends_at=NOW + 60), False),
        (Running("n1", suspended=True), False),
        (Pending("Priority"), False),
        (Ending(), False),
        (Ended("cancelled"), False),
    ],
)
def test_only_an_allocation_that_runs_and_lasts_takes_kernels(state: AllocationState, takes: bool) -> None:
    assert lasts(allocation(state), now=NOW) is takes


def test_where_none_is_named_one_that_is_ending_is_meant_only_where_there_is_no_other() -> None:
    ending = allocation(Ending(), key="a-1", name="default")
    next_one = allocation(Pending("None"), key="a-2", name="default")
    assert only_allocation([ending, next_one]) is next_one
    assert only_allocation([ending]) is ending


async def anything(_words: str) -> None:
    pass


def fleet_at(
    directory: Path,
    kernel_bytes: int | None = None,
    approve: Callable[[str], Awaitable[None]] = anything,
) -> SlurmFleet:
    absent = SlurmCommands({"PATH": "/nonexistent"}, os.getuid())
    return SlurmFleet(
        Allocations(directory, absent, AllocationOptions(python="python3")),
        shape=Shape(),
        way=lambda _, key: NoTransport(key),
        kernels=lambda _: 0,
        expiring=set,
        kernel_bytes=kernel_bytes,
        wait_s=0,
        approve=approve,
    )


async def test_no_allocation_is_asked_for_that_is_not_approved(tmp_path: Path) -> None:
    async def refuse(words: str) -> None:
        raise NotApproved(words, "ada refused it", hint="Ask her")

    with pytest.raises(NotApproved, match="ask SLURM for an allocation"):
        await fleet_at(tmp_path, approve=refuse).choose(None)


@pytest.mark.parametrize(
    ("memory", "kernel", "fit"),
    [("4G", 512 << 20, 8), ("4G", None, None), (None, 1, None), ("100M", 1 << 30, 1)],
)
def test_capacity_is_what_the_memory_holds(
    tmp_path: Path, memory: str | None, kernel: int | None, fit: int | None
) -> None:
    found = fleet_at(tmp_path, kernel).capacity(allocation(Running("n1"), shape=Shape(memory=memory)))
    assert found == (float("inf") if fit is None else fit)


async def test_what_ended_long_ago_is_forgotten_and_what_ended_lately_is_not(tmp_path: Path) -> None:
    shelf, now = AllocationDirectories(tmp_path), time.time()
    for name, days in (("old", 8), ("new", 1)):
        key, directory = shelf.reserve(name)
        seen = now - days * 86_400
        shelf.write(allocation(Ended("completed"), directory, key=key, name=name, seen_at=seen))
    fleet = fleet_at(tmp_path)
    await fleet.allocations.load()
    await fleet._forget_the_old()  # what running it does first
    assert [one.name for one in fleet.allocations.all(ended=True)] == ["new"]
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("host", "on", "called"),
    [
        ("slurm", "slurm:gpu-2-1a2b3c4d", "slurm:gpu-2"),
        ("jupyter:lab/some-kernel", "local", "jupyter:lab"),
        ("local", "local", "local"),
    ],
)
def test_session_says_its_host_by_the_name_that_calls_take(host: str, on: str, called: str) -> None:
    record = SessionRecord("s-1", "a", "/a.ipynb", "python", NOW, host=host, on=on)
    assert called_place(record) == called


async def test_without_slurm_at_hand_its_sessions_are_out_of_reach_and_others_work(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    async with open_here() as engine:
        with pytest.raises(HostCannot, match="no SLURM here"):
            await engine.create("There", host="slurm")
        session = await engine.create("Here", host="local", directory=tmp_path)
        there = replace(session.record, id="s-there", host="slurm", on="slurm:a-1", kernel_id="s-there.1")
        batch = Batch(statements=[put_session(there)])
        base = session.context.file.base_row("s-there")
        batch.statements.append(base)
        await session.context.services.recorder.commit(batch)  # as if its allocation were still there
    async with open_here() as engine:
        lost = engine.session("s-there")
        assert lost.state == "active"
        with pytest.raises(HostUnreachable, match="cannot be reached now"):
            await lost.execute_code("1")
        assert (await (await engine.session(session.id).execute_code("1 + 1")).wait()).ok


def put_sbatch(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an ``sbatch`` that does this, whatever it is asked."""
    programs = directory / "commands"
    programs.mkdir()
    (programs / "sbatch").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


async def test_on_a_login_node_nothing_runs_until_a_session_asks_for_this_machine(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_sbatch(tmp_path, "exit 1", monkeypatch)
    async with open_here(run_mode="auto") as engine:
        assert str(engine.hosts.host_name(None)) == "slurm"
        assert host_process(tmp_path / "state") is None
        session = await engine.create("Here", host="local", directory=tmp_path)
        assert host_process(tmp_path / "state") is not None
        assert session.state == "active"
    async with open_here(run_mode="auto") as engine:
        assert (await (await engine.session(session.id).execute_code("1 + 1")).wait()).ok


UNCONFIGURED = """cat >&2 <<'END'
sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
sbatch: error: fetch_config: DNS SRV lookup failed
sbatch: error: _establish_config_source: failed to fetch config
sbatch: fatal: Could not establish a configuration source
END
exit 1"""


async def test_where_slurm_is_installed_and_not_configured_sessions_run_here_and_hosts_say_why(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_sbatch(tmp_path, UNCONFIGURED, monkeypatch)
    # One that does not say so in time counts as configured.
    monkeypatch.setattr(commands, "_CONFIGURED_S", LIMIT_S)
    async with open_here(run_mode="auto", slurm_command_timeout_s=LIMIT_S) as engine:
        session = await engine.create("Here", directory=tmp_path)
        assert (await (await session.execute_code("1 + 1")).wait()).ok
        (here,) = await engine.hosts.list()
        assert "SLURM is installed here and not configured" in here.detail
        with pytest.raises(SlurmFailed, match="configuration source"):
            await engine.create("There", host="slurm", directory=tmp_path)


async def test_who_has_an_allocation_has_slurm_whatever_its_client_says(
    open_here: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_sbatch(tmp_path, UNCONFIGURED, monkeypatch)
    shelf = AllocationDirectories(tmp_path / "state" / "allocations")
    key, directory = shelf.reserve("a")
    shelf.write(allocation(Pending("Priority"), directory, key=key, job_id=7))
    async with open_here(run_mode="auto") as engine:
        assert str(engine.hosts.host_name(None)) == "slurm"

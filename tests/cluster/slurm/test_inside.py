"""The host inside an allocation: found, spoken with, warned, and ended in order."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import anyio
import pytest

from cellwright.errors import HostPending, HostStartError
from cellwright.hosts import protocol
from cellwright.hosts._event_log import read_events
from cellwright.slurm._directories import expectation, read_expectation, write_expectation
from cellwright.slurm._shapes import Shape
from cellwright.slurm.inside import Job, job_of
from tests.support.slurm.lent import ENVIRONMENT, SMALL, Lender, options
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

SIXTY = """
import pathlib, time
for n in range(60):
    print(n, flush=True)
    while n == 4 and not pathlib.Path({gate!r}).exists():
        time.sleep(0.01)
"""
WHOLE_CLUSTER = Shape(time="5", extra=("--exclusive", "--nodelist=a1"))


def test_what_slurm_tells_a_job_is_read_from_its_environment() -> None:
    told = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n7", "SLURM_CPUS_ON_NODE": "8"}
    assert job_of(told) == Job(12, 0, "n7", 8)
    assert job_of({**told, "SLURM_RESTART_COUNT": "2"}).restarts == 2


def test_outside_of_a_job_it_does_not_run() -> None:
    with pytest.raises(HostStartError, match="inside a SLURM job only"):
        job_of({})


async def test_code_runs_on_the_allocations_node(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        node = await host.run("k", "import socket; print(socket.gethostname())")
        assert node.strip() == lent.about["node"]
        assert lent.about["node"] in lent.cluster.nodes


async def test_what_the_host_says_of_itself_is_complete_and_private(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        about = lent.about
        assert about["job_id"] == lent.allocation.job_id
        assert host.found is not None
        assert about["incarnation"] == host.found.incarnation
        assert about["pid"] == host.found.pid
        ends = lent.cluster.run("squeue", "--noheader", "--jobs", lent.job_id, "--format", "%e").stdout
        assert about["ends_at"] > 0
        assert ends.strip() != "N/A"
        for path in (lent.way.paths.current, Path(about["socket"])):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(about["socket"]).parent.stat().st_mode) == 0o700


async def test_the_first_step_starts_before_anybody_has_reached_the_host(lend: Lender) -> None:
    lent = await lend(expected=expectation(options(standby=1), ENVIRONMENT))
    await lent.steps_become("kernel")
    assert stat.S_IMODE(lent.way.paths.expected.stat().st_mode) == 0o600
    async with lent.attached(options(standby=1)) as host:
        await host.start("k")
        assert await host.run("k", "print(6 * 7)") == "42\n"


def test_nothing_secret_is_expected_and_nothing_strange_believed(tmp_path: Path) -> None:
    expected = expectation(options(), {"PATH": "/bin", "OMP_NUM_THREADS": "2", "API_TOKEN": "hush"})
    assert expected.environment == {"PATH": "/bin", "OMP_NUM_THREADS": "2"}
    write_expectation(tmp_path / "expected.json", expected)
    assert read_expectation(tmp_path / "expected.json") == expected
    (tmp_path / "expected.json").write_text('{"options": {}}')
    assert read_expectation(tmp_path / "expected.json") is None
    assert read_expectation(tmp_path / "absent.json") is None


async def test_a_host_that_has_not_started_yet_is_pending(lend: Lender) -> None:
    lent = await lend(Shape(time="5", extra=("--begin=now+1hour",)))
    with pytest.raises(HostPending, match="pending"):
        await lent.way.connect()
    assert await lent.way.end() is None


async def test_who_attaches_again_gets_what_was_said_meanwhile(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        gate = Path(host.cwd) / "gate"
        execution_id = await host.submit("k", SIXTY.format(gate=str(gate)), timeout_s=600)
        await host.printed_at_least(execution_id, 5)
        taken = list(host.events)
    gate.touch()
    async with lent.attached(since=taken[-1].seq) as host:
        await host.finished(execution_id)
        host.events[:0] = taken
        assert host.printed(execution_id).split() == [str(n) for n in range(60)]


async def test_warning_reaches_kernels_that_live_and_those_that_start_later(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        lent.cluster.run("scancel", "--signal=USR1", "--batch", lent.job_id)
        expiring = await host.told(protocol.Expiring)
        assert expiring.ends_at == lent.about["ends_at"]
        await host.start("later")
        with fail_after():
            while {event.kernel_id for event in host.events if isinstance(event.body, protocol.Expiring)} != {
                "k",
                "later",
            }:
                await anyio.sleep(0.01)


async def test_slurm_itself_sends_the_warning_before_the_time_limit(lend: Lender) -> None:
    lent = await lend(Shape(cpus=1, memory="600M", time="20"), warn_s=240)
    async with lent.attached() as host:
        await host.start("k")
        # It has less from now on than it is to be warned of.
        lent.cluster.end_soon(lent.job_id, minutes=2)
        asked = ("squeue", "--noheader", "--jobs", lent.job_id, "--format", "%e")
        ends = lent.cluster.run(*asked, env={"SLURM_TIME_FORMAT": "%s"}).stdout
        assert (await host.told(protocol.Expiring)).ends_at == float(ends)


async def test_idle_allocation_stays_by_default_and_goes_where_that_is_set(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached(options(idle_s=0.4)):
        pass
    assert "its program ended" in await lent.ended()
    assert not lent.way.paths.current.exists()


async def test_idle_allocation_that_nobody_ever_came_to_goes_where_that_is_set(lend: Lender) -> None:
    lent = await lend(expected=expectation(options(idle_s=0.4), ENVIRONMENT))
    assert "its program ended" in await lent.ended()


async def test_idle_allocation_without_a_setting_is_still_there(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        await host.call(protocol.StopKernel("k"), type(None))
    async with lent.attached() as host:
        assert await host.call(protocol.Ping(), type(None)) is None


async def test_cancelled_job_tells_what_it_cut_short_and_closes_its_journal(lend: Lender) -> None:
    lent = await lend(SMALL)
    async with lent.attached() as host:
        await host.start("k")
        await host.submit("k", "print('begun', flush=True)\nimport time; time.sleep(100)")
        await host.told(protocol.Output)
        incarnation = lent.about["incarnation"]
        lent.cluster.run("scancel", lent.job_id)
        assert "it was cancelled" in await lent.ended()
    events = list(read_events(lent.way.paths.journal(incarnation)))
    ends = [event.body for event in events if isinstance(event.body, protocol.Finished)]
    assert [end.state for end in ends] == ["died"]
    assert f"Job {lent.job_id} on" in str(ends[0].reason)
    assert isinstance(events[-1].body, protocol.KernelDied)
    assert events[-1].body.expected
    assert not json.loads(json.dumps(lent.steps()))

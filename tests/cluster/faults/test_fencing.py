"""Whose turn it is: a later host of the same allocation is the one that counts, and the earlier one ends."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from cellwright.errors import HostPending
from cellwright.hosts import protocol
from cellwright.hosts._event_log import read_events
from cellwright.slurm._directories import Claim, Fence
from tests.support.slurm.lent import Lender
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio


def test_before_anybody_claims_nobody_counts(tmp_path: Path) -> None:
    assert Fence(tmp_path).latest() is None


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_latest_start_counts_whoever_came_first(tmp_path: Path, order: tuple[int, ...]) -> None:
    claims = [Claim(9, 0, "f"), Claim(10, 0, "a"), Claim(10, 1, "0")]
    fence = Fence(tmp_path)
    for number in order:
        fence.claim(claims[number])
    assert fence.latest() == claims[-1]


def test_claim_that_comes_too_late_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    assert fence.claim(Claim(10, 1, "b"))
    assert not fence.claim(Claim(10, 0, "a"))
    assert fence.latest() == Claim(10, 1, "b")


def test_of_two_hosts_of_one_start_exactly_one_counts(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    fence.claim(Claim(10, 0, "a"))
    fence.claim(Claim(10, 0, "b"))
    assert fence.latest() == Claim(10, 0, "b")


def test_what_is_no_claim_is_left_out(tmp_path: Path) -> None:
    fence = Fence(tmp_path)
    fence.claim(Claim(10, 0, "a"))
    (tmp_path / "fence" / ".nfs0001").touch()
    (tmp_path / "fence" / "zzz").touch()
    assert fence.latest() == Claim(10, 0, "a")


def test_host_that_comes_after_a_later_one_does_not_even_start(tmp_path: Path) -> None:
    directory = tmp_path / "allocations" / "one"
    Fence(directory).claim(Claim(12, 3, "a"))
    environment = {**os.environ, "SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "2"}
    command = [sys.executable, "-m", "cellwright.slurm.inside", str(directory)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 1
    assert "fenced" in done.stderr
    assert list((directory / "host").iterdir()) == []


async def test_host_that_is_overtaken_ends_its_kernels_and_itself(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        await host.submit("k", "print('begun', flush=True)\nimport time; time.sleep(100)")
        await host.told(protocol.Output)
        about = lent.about
        Fence(lent.way.paths.storage).claim(Claim(about["job_id"], about["restarts"] + 1, "a"))
        with fail_after():
            await host.connection.lost.wait()
    assert "ended" in await lent.ended()
    events = list(read_events(lent.way.paths.journal(about["incarnation"])))
    ends = [event.body for event in events if isinstance(event.body, protocol.Finished)]
    assert "a later host has taken over" in str(ends[0].reason)
    # It is not its to remove any more.
    assert lent.about == about


async def test_engine_does_not_attach_to_a_host_that_was_overtaken(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached():
        pass
    about = lent.about
    Fence(lent.way.paths.storage).claim(Claim(about["job_id"], about["restarts"] + 1, "a"))
    with pytest.raises(HostPending, match="its host is starting"):
        await lent.way.connect()


async def test_requeued_job_has_another_host_with_a_journal_of_its_own(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        assert await host.run("k", "print('first life')") == "first life\n"
        first = lent.about
        # We ask for none; a site's administrator, or a node's failure, may all the same.
        lent.cluster.run("scontrol", "update", f"JobId={lent.job_id}", "Requeue=1")
        lent.cluster.run("scontrol", "requeue", lent.job_id)
        with fail_after():
            await host.connection.lost.wait()
    # SLURM lets a requeued job wait for two minutes by itself. Less will do, but not none: a node refuses what begins in
    # the very second in which it ended there.
    sooner = ("scontrol", "update", f"JobId={lent.job_id}", "StartTime=now+5seconds")
    with fail_after(60):
        while lent.cluster.run(*sooner, check=False).returncode != 0:
            await anyio.sleep(0.1)
        while not lent.followed(first["incarnation"]):
            await lent.allocations.look()
            await anyio.sleep(0.1)
    async with lent.attached() as host:
        assert lent.about["restarts"] == 1
        assert host.found is not None
        assert host.found.kernels == ()
    kept = [event.body for event in read_events(lent.way.paths.journal(first["incarnation"]))]
    assert isinstance(kept[-1], protocol.KernelDied)

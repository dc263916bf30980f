"""Allocations on a real cluster: asked for, told, ended, and found again by whoever comes after."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import pytest

from cellwright.errors import LimitReached, ShapeRefused, SlurmFailed, UnknownHost
from cellwright.hosts.local import NoTransport
from cellwright.slurm._allocations import AllocationOptions, Allocations
from cellwright.slurm._directories import Allocation
from cellwright.slurm._shapes import Shape
from cellwright.slurm._states import Ended, Ending, Pending, Running, state_text
from cellwright.slurm.commands import SlurmCommands
from cellwright.slurm.provider import SlurmFleet, host_name
from tests.support.slurm.cluster import Cluster
from tests.waiting import fail_after, scaled

pytestmark = pytest.mark.anyio

SMALL = Shape(cpus=1, memory="200M", time="5")
WHOLE_NODE = Shape(time="5", extra=("--exclusive",))
Make = Callable[..., Allocations]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "allocations"


@pytest.fixture
def make(mended: Cluster, place: Path, tmp_path: Path) -> Make:
    """Make what a process has, over the same directory; its jobs run ``script`` instead of a host."""

    def make(
        script: str = "exec sleep 600", *, env: dict[str, str] | None = None, **options: object
    ) -> Allocations:
        template = tmp_path / "template.sh"
        template.write_text(f"#!/bin/bash\n{script}\n: {{{{host}}}}\n")
        commands = SlurmCommands(
            {**os.environ, **mended.env, **(env or {})}, os.getuid(), timeout_s=scaled(60)
        )
        chosen = AllocationOptions(python="/absent", template=template, poll_s=1)
        return Allocations(place, commands, replace(chosen, **options))  # type: ignore[arg-type]

    return make


async def reach(allocations: Allocations, key: str, *states: type) -> Allocation:
    """Look until it is in one of these states."""
    with fail_after():
        while True:
            await allocations.look()
            found = allocations.find(key)
            if isinstance(found.state, states):
                return found


async def test_started_allocation_runs_with_what_was_asked_for(make: Make, mended: Cluster) -> None:
    allocations = make()
    asked = await allocations.start("gpu", replace_shape(SMALL, partition="high", extra=("--comment=hello",)))
    assert isinstance(asked.state, Pending)
    running = await reach(allocations, "gpu", Running)
    assert isinstance(running.state, Running)
    assert running.state.node in mended.nodes
    assert running.state.ends_at is not None
    job = mended.job(str(asked.job_id))
    assert job["JobName"] == "cellwright-gpu"
    assert job["Partition"] == "high"
    assert job["Requeue"] == "0"
    assert job["TimeLimit"] == "00:05:00"
    assert job["Comment"] == "hello"


async def test_directory_is_private_and_has_the_record_and_the_log(make: Make) -> None:
    allocations = make("echo begun")
    key = (await allocations.start("default", SMALL)).key
    found = await reach(allocations, key, Ended)
    directory = Path(found.directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700
    record = json.loads((directory / "allocation.json").read_bytes())
    assert record["job_id"] == found.job_id
    assert record["state"]["type"] == "ended"
    assert found.log.read_text() == "begun\n"


async def test_callers_secrets_do_not_reach_the_job(make: Make, mended: Cluster) -> None:
    allocations = make("env > seen", env={"CELLWRIGHT_TOKEN": "s3cret-token"})
    found = await allocations.start("default", SMALL)
    await reach(allocations, "default", Ended)
    environment = (Path(found.directory) / "seen").read_text()
    assert "PATH=" in environment
    assert "s3cret-token" not in environment
    told = mended.run("scontrol", "show", "job", str(found.job_id)).stdout
    assert "s3cret-token" not in told


async def test_stop_ends_it_and_says_that_it_was_cancelled(make: Make) -> None:
    allocations = make()
    await allocations.start("default", SMALL)
    await reach(allocations, "default", Running)
    # Also while SLURM still says that it runs.
    assert not (await allocations.stop("default")).lasting
    found = await reach(allocations, "default", Ended)
    assert isinstance(found.state, Ended)
    assert found.state.cause == "cancelled"
    assert allocations.all() == []
    assert [one.name for one in allocations.all(ended=True)] == ["default"]


async def test_stop_takes_a_waiting_one_out_of_the_queue(make: Make) -> None:
    allocations = make()
    await allocations.start("huge", Shape(cpus=4_000, time="5"))
    found = await allocations.stop("huge")
    assert isinstance(found.state, Ended)
    assert found.state.cause == "cancelled"


@pytest.mark.parametrize(
    ("script", "cause", "words"),
    [
        ("exit 3", "failed", "its program failed (exit code 3:0)"),
        ("exit 0", "completed", "its program ended"),
        ("exec python3 -c 'x = bytearray(600 * 2**20)'", "out_of_memory", "it ran out of memory"),
    ],
)
async def test_end_is_told_with_its_cause(make: Make, script: str, cause: str, words: str) -> None:
    allocations = make(script)
    await allocations.start("default", SMALL)
    found = await reach(allocations, "default", Ended)
    assert isinstance(found.state, Ended)
    assert found.state.cause == cause
    assert words in state_text(found.state, now=0).text


async def test_preemption_is_told_as_such(make: Make, mended: Cluster) -> None:
    allocations = make()
    await allocations.start("low", replace_shape(SMALL, partition="main"))
    await reach(allocations, "low", Running)
    mended.submit("sleep 600", "--nodes=3", "--exclusive", "--partition=high")
    found = await reach(allocations, "low", Ended)
    assert isinstance(found.state, Ended)
    assert found.state.cause == "preempted"


async def test_waiting_one_is_told_with_its_place_and_reason(make: Make, mended: Cluster) -> None:
    for _ in range(len(mended.nodes)):
        mended.submit("sleep 600", "--exclusive", "--time=5")
    allocations = make()
    await allocations.start("first", WHOLE_NODE)
    await allocations.start("second", WHOLE_NODE)
    with fail_after():
        while True:
            await allocations.look()
            states = [allocations.find(name).state for name in ("first", "second")]
            if [getattr(state, "position", None) for state in states] == [1, 2]:
                break
    second = states[1]
    assert isinstance(second, Pending)
    assert "place 2 in the queue" in state_text(second, now=0).text
    with fail_after():  # the scheduler works estimates out in a round of its own
        while not (isinstance(state := allocations.find("first").state, Pending) and state.estimated_start):
            await allocations.look()


async def test_what_no_node_has_is_told_with_the_next_step(make: Make) -> None:
    allocations = make()
    await allocations.start("huge", Shape(cpus=4_000, time="5"))
    with fail_after():
        while True:
            await allocations.look()
            told = state_text(allocations.find("huge").state, now=0)
            if told.hint:
                break
    assert "fewer --cpus" in told.hint


# Limits and names ----------------------------------------------------------------------------------------------------


async def test_starting_the_same_again_finds_the_one_there_is(make: Make) -> None:
    allocations = make()
    first = await allocations.start("default", SMALL)
    assert (await allocations.start("default", SMALL)).key == first.key
    with pytest.raises(ShapeRefused, match=r"another shape.*--name"):
        await allocations.start("default", WHOLE_NODE)


async def test_one_more_than_the_setting_is_refused(make: Make) -> None:
    allocations = make(max_allocations=1)
    await allocations.start("one", SMALL)
    with pytest.raises(LimitReached, match="slurm_max_allocations") as refusal:
        await allocations.start("two", SMALL)
    assert refusal.value.setting == "slurm_max_allocations"
    await allocations.stop("one")
    await reach(allocations, "one", Ended)
    await allocations.start("two", SMALL)


@pytest.mark.parametrize("name", ["", "4711", "a b", "../x", "-x", "x" * 41])
async def test_name_that_could_be_mistaken_is_refused(make: Make, name: str) -> None:
    with pytest.raises(ShapeRefused, match="cannot be called"):
        await make().start(name, SMALL)


async def test_unknown_name_is_answered_with_those_there_are(make: Make) -> None:
    allocations = make()
    with pytest.raises(UnknownHost, match=r"no allocation 'gpu'.*cellwright host start"):
        allocations.find("gpu")
    await allocations.start("cpu", SMALL)
    with pytest.raises(UnknownHost, match="There is cpu"):
        allocations.find("gpu")


async def test_refused_submission_leaves_nothing(make: Make, place: Path) -> None:
    allocations = make()
    with pytest.raises(SlurmFailed, match="Invalid partition"):
        await allocations.start("default", replace_shape(SMALL, partition="absent"))
    assert list(place.iterdir()) == []
    assert allocations.all(ended=True) == []


async def test_forgotten_one_leaves_nothing_and_a_living_one_is_not_forgotten(
    make: Make, place: Path
) -> None:
    allocations = make("exit 0")
    key = (await allocations.start("default", SMALL)).key
    await allocations.forget(key)
    assert (place / key).is_dir()
    await reach(allocations, "default", Ended)
    await allocations.forget(key)
    assert not (place / key).exists()


# Whoever comes after -------------------------------------------------------------------------------------------------


async def test_next_process_finds_what_the_last_one_started(make: Make) -> None:
    started = await make().start("default", SMALL)
    allocations = make()
    await allocations.load()
    assert allocations.find("default").job_id == started.job_id
    assert isinstance((await reach(allocations, "default", Running)).state, Running)
    assert (await allocations.start("default", SMALL)).job_id == started.job_id


@pytest.mark.parametrize("damage", ["number", "record"])
async def test_job_whose_number_was_never_written_down_is_adopted(make: Make, damage: str) -> None:
    started = await make().start("default", SMALL)
    record = Path(started.directory) / "allocation.json"
    if damage == "record":
        record.write_text("{")
    else:
        known = json.loads(record.read_bytes())
        del known["job_id"]
        record.write_text(json.dumps({**known, "state": {"type": "submitting"}}))
    allocations = make()
    await allocations.load()
    found = await reach(allocations, started.key, Running)
    assert (found.job_id, found.name) == (started.job_id, "default")
    assert json.loads(record.read_bytes())["job_id"] == started.job_id


def lose_the_answer(directory: Path, instead: str = "") -> dict[str, str]:
    """An environment in which sbatch does what it is asked, or ``instead``, and its answer is lost."""
    lossy = directory / "bin" / "sbatch"
    lossy.parent.mkdir()
    said = "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received"
    did = instead or f'{shutil.which("sbatch")} "$@"'
    lossy.write_text(f"#!/bin/sh\n{did} > /dev/null\necho '{said}' >&2\nexit 1\n")
    lossy.chmod(0o755)
    return {"PATH": f"{lossy.parent}:{os.environ['PATH']}"}


async def test_job_that_was_taken_while_the_answer_was_lost_is_found(make: Make, tmp_path: Path) -> None:
    allocations = make(env=lose_the_answer(tmp_path))
    with pytest.raises(SlurmFailed, match="Zero Bytes"):
        await allocations.start("default", SMALL)
    assert (await reach(allocations, "default", Running)).job_id is not None


async def test_stop_of_one_whose_number_is_not_known_yet_says_that_nothing_was_ended(
    make: Make, tmp_path: Path
) -> None:
    allocations = make(env=lose_the_answer(tmp_path, instead=":"))
    with pytest.raises(SlurmFailed, match="Zero Bytes"):
        await allocations.start("default", SMALL)
    with pytest.raises(SlurmFailed, match=r"nothing was ended.*again in a minute"):
        await allocations.stop("default")


async def test_job_that_slurm_forgot_ended_for_a_reason_nobody_knows(make: Make) -> None:
    started = await make("exit 0").start("default", SMALL)
    record = Path(started.directory) / "allocation.json"
    record.write_text(record.read_text().replace(f'"job_id": {started.job_id}', '"job_id": 99999999'))
    allocations = make()
    await allocations.load()
    found = await reach(allocations, "default", Ended)
    assert isinstance(found.state, Ended)
    assert found.state.cause == "unknown"


async def test_one_that_is_submitted_while_slurm_answers_is_not_taken_for_gone(
    make: Make, tmp_path: Path
) -> None:
    real, asked, go_on = shutil.which("squeue"), tmp_path / "asked", tmp_path / "go-on"
    for fifo in (asked, go_on):
        os.mkfifo(fifo)
    slow = tmp_path / "bin" / "squeue"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\nsaid=$({real} "$@")\n[ -p {asked} ] && echo > {asked} && read x < {go_on}\necho "$said"\n'
    )
    slow.chmod(0o755)
    allocations = make(env={"PATH": f"{slow.parent}:{os.environ['PATH']}"})
    await allocations.start("first", SMALL)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(allocations.look)
        await anyio.to_thread.run_sync(asked.read_text)
        asked.unlink()
        await allocations.start("second", SMALL)
        await anyio.to_thread.run_sync(go_on.write_text, "\n")
    assert allocations.find("second").alive
    assert isinstance((await reach(allocations, "second", Running)).state, Running)


# A controller that is away -------------------------------------------------------------------------------------------


async def test_silent_controller_changes_nothing_and_is_told(make: Make, mended: Cluster) -> None:
    allocations = make()
    await allocations.start("default", SMALL)
    await reach(allocations, "default", Running)
    mended.stop_controller()
    assert not await allocations.look()
    assert isinstance(allocations.find("default").state, Running)
    assert allocations.stale_since is not None
    assert "controller" in str(allocations.trouble)
    mended.start_controller()
    with fail_after():
        while not await allocations.look():
            pass
    assert allocations.stale_since is None
    assert allocations.trouble is None
    assert isinstance(allocations.find("default").state, Running)


async def test_watch_tells_each_change_once(make: Make, mended: Cluster) -> None:
    allocations = make()
    told, seen = anyio.create_memory_object_stream[Allocation](100)

    async def changed(allocation: Allocation, before: Allocation | None) -> None:
        assert before is None or before.state != allocation.state
        await told.send(allocation)

    allocations.listen(changed)
    kinds = []
    async with anyio.create_task_group() as tasks, told, seen:
        tasks.start_soon(allocations.watch)
        started = await allocations.start("default", SMALL)
        with fail_after():
            async for allocation in seen:
                kinds.append(type(allocation.state))
                if isinstance(allocation.state, Running):
                    mended.run("scancel", str(started.job_id))
                if isinstance(allocation.state, Ended):
                    break
        tasks.cancel_scope.cancel()
    assert [kinds.count(kind) for kind in (Running, Ended)] == [1, 1]


def replace_shape(shape: Shape, **changes: object) -> Shape:
    return msgspec.structs.replace(shape, **changes)


async def anything(_words: str) -> None:
    pass


def fleet_of(allocations: Allocations, kernels: dict[str, int]) -> SlurmFleet:
    """A fleet in which each allocation of ``SMALL`` has room for one kernel."""
    return SlurmFleet(
        allocations,
        shape=SMALL,
        way=lambda _, key: NoTransport(key),
        kernels=lambda host: kernels.get(host, 0),
        expiring=set,
        kernel_bytes=200 << 20,
        wait_s=60,
        approve=anything,
    )


async def test_full_allocation_gets_one_more_beside_it_that_its_name_finds_again(make: Make) -> None:
    allocations = make()
    full = await allocations.start("gpu", SMALL)
    fleet = fleet_of(allocations, {host_name(full): 1})
    chosen = await fleet.choose("gpu")
    assert [one.name for one in allocations.all()] == ["gpu", "gpu-2"]
    assert chosen == host_name(allocations.find("gpu-2"))
    assert await fleet.choose("gpu") == chosen
    later = make()
    await later.load()
    assert await fleet_of(later, {host_name(full): 1}).choose("gpu") == chosen
    assert len(allocations.all()) == 2


async def test_name_of_one_that_is_ending_is_given_to_the_next(make: Make, mended: Cluster) -> None:
    allocations = make()
    first = await allocations.start("gpu", SMALL)
    running = (await reach(allocations, first.key, Running)).state
    assert isinstance(running, Running)
    # It does not end while nobody tells its node to.
    mended.kill_slurmd(running.node)
    await allocations.stop("gpu")
    assert isinstance(allocations.find(first.key).state, Ending)
    chosen = await fleet_of(allocations, {}).choose("gpu")
    assert chosen == host_name(allocations.find("gpu"))
    assert [one.name for one in allocations.all() if one.lasting] == ["gpu"]

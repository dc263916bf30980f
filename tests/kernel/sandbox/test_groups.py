"""Kernels in cgroups of their own: which one was given to us, what is written there, and real ones made and removed.

The limits themselves need the controllers of version 2, which a machine may not have: see ``tests.support.sandbox.tier_a``.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cellwright import Settings, open_engine
from cellwright.errors import KernelStartError
from cellwright.kernels import (
    ForkServer,
    Isolation,
    KernelLaunch,
    KernelspecLauncher,
    OutputLimits,
    prepare_interpreter,
)
from cellwright.sandbox import cgroups
from cellwright.sandbox.cgroups import HOME, Groups, Refusal, open_groups
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.tiers import SOFT_CPUS
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from tests.conftest import Require
from tests.matrix import first_of
from tests.waiting import LIMIT_S, UNHURRIED, fail_after, look_again

LIMITS = OutputLimits(max_bytes=1_000_000, max_messages=25_000)


def test_this_machine_is_told_its_tier_with_the_reason_it_is_no_higher() -> None:
    found = try_isolation()
    if found.tier == "B":
        assert found.groups is None
        (reason,) = found.reasons
        assert "cgroup" in reason
        assert found.remedies
    else:
        assert (found.tier == "A") == (found.groups is not None)


@pytest.fixture
def given_group(require: Require) -> Iterator[Path]:
    """A group that was given to this process alone, for as long as the test takes."""
    found = cgroups.own_group(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    above = Path(found[0]) if found is not None else Path("/nowhere")
    usable = os.access(above, os.W_OK) and os.access(above / "cgroup.procs", os.W_OK)
    require("a cgroup v2 hierarchy that this user may change", usable, "run the tests as root")
    directory = above / f"cellwright-test-{os.getpid()}"
    directory.mkdir()
    os.setxattr(directory, "user.delegate", b"1")
    (directory / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield directory
    finally:
        (above / "cgroup.procs").write_text(str(os.getpid()))
        for child in [path for path in directory.iterdir() if path.is_dir()]:
            child.rmdir()
        directory.rmdir()


@pytest.fixture
def groups(given_group: Path) -> Groups:
    # The controllers are beside the point here: which there are depends on the machine.
    opened = open_groups(required=())
    assert isinstance(opened, Groups), opened
    assert opened.directory == given_group
    return opened


def _children(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_dir()}


def _group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1].rpartition("/")[2]


def test_the_host_and_its_company_move_to_a_leaf_and_the_probe_leaves_nothing(given_group: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as company:
        opened = open_groups(required=())
        assert isinstance(opened, Groups), opened
        assert _children(given_group) == {HOME}
        assert (_group_of(os.getpid()), _group_of(company.pid)) == (HOME, HOME)
        again = open_groups(required=())
        assert isinstance(again, Groups)
        assert again.directory == given_group
        company.kill()


def test_controllers_that_were_not_given_are_missed(given_group: Path) -> None:
    refused = open_groups(required=("no_such",))
    assert isinstance(refused, Refusal)
    assert f"{given_group} was not given no_such" in refused.reason
    assert _group_of(os.getpid()) == given_group.name


def test_a_group_ends_everything_in_it_and_goes(groups: Groups) -> None:
    group = groups.make(Policy())
    # What it starts before it is in the group would stay outside.
    program = "read go; sleep 600 & sleep 600 & wait"
    with subprocess.Popen(["/bin/sh", "-c", program], stdin=subprocess.PIPE) as process:
        group.add(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.pid in group.pids
        assert group.remove()
        assert process.wait(LIMIT_S) == -9
    assert not group.path.exists()
    assert group.remove()


def test_groups_of_hosts_that_are_gone_are_swept_and_others_are_left(groups: Groups) -> None:
    living = groups.make(Policy())
    mine = cgroups.owner_of(living.path.name)
    assert mine is not None
    ghosts = [replace(mine, started=mine.started + 1), replace(mine, pid=2**22 + 1)]
    others = [replace(mine, namespace=1, pid=2**22 + 1)]
    for owner in (*ghosts, *others):
        (groups.directory / cgroups.group_name(owner, 1)).mkdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as left:
        (groups.directory / cgroups.group_name(ghosts[0], 1) / "cgroup.procs").write_text(str(left.pid))
        groups.sweep()
        assert left.wait(LIMIT_S) == -9
    assert _children(groups.directory) == {HOME, living.path.name, cgroups.group_name(others[0], 1)}
    assert living.remove()


# Real kernels in them -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def _running(launcher: ForkServer | KernelspecLauncher) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        yield
        tasks.cancel_scope.cancel()


def _launch(directory: Path, name: str = "k") -> KernelLaunch:
    storage = directory / f"w-{name}"
    work = storage / PRIVATE
    place = Workspace(mode="private", cwd=str(work), project=None, storage=str(storage))
    prepare_storage(place)
    return KernelLaunch(name, directory / name, work, {}, LIMITS, workspace=place)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name is short enough for unix sockets."""
    with tempfile.TemporaryDirectory(prefix="cw-") as directory:
        yield Path(directory)


async def _fork_server(directory: Path, isolation: Isolation, **options: Any) -> ForkServer:
    defaults: dict[str, Any] = {"preload": (), "environment": os.environ, "standby": 0}
    return ForkServer(
        await prepare_interpreter(None, cache=directory),
        directory=directory / "f",
        limits=LIMITS,
        start_timeout_s=LIMIT_S,
        isolation=isolation,
        **{**defaults, **options},
    )


def _boxed(groups: Groups | None, **limits: Any) -> Isolation:
    return Isolation("A", Policy(**limits), groups=groups)


@pytest.mark.anyio
async def test_a_kernels_whole_tree_is_in_its_group_and_goes_with_it(
    groups: Groups, short_path: Path
) -> None:
    server = await _fork_server(short_path, _boxed(groups))
    async with _running(server):
        with fail_after():
            kernel = await server.launch(_launch(short_path))
        (name,) = _children(groups.directory) - {HOME}
        tree = [kernel.process.pid, *kernel.process.descendants()]
        assert {_group_of(pid) for pid in tree} == {name}
        assert len(tree) == 3  # the monitor, the reaper, the kernel
        assert _group_of(server.pid or 0) == HOME
        with fail_after():
            await kernel.stop(grace_s=5)
        assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_kernel_that_stands_by_has_its_group_and_keeps_it(groups: Groups, short_path: Path) -> None:
    server = await _fork_server(short_path, _boxed(groups), standby=1)
    async with _running(server):
        with fail_after():
            while not server.standing_by:
                await look_again()
            (name,) = _children(groups.directory) - {HOME}
            kernel = await server.launch(_launch(short_path))
        assert kernel.started_by == "standby"
        assert _group_of(kernel.process.pid) == name
    assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_killing_a_kernel_ends_all_that_is_in_its_group(groups: Groups, short_path: Path) -> None:
    server = await _fork_server(short_path, _boxed(groups))
    async with _running(server):
        with fail_after():
            kernel = await server.launch(_launch(short_path))
        (name,) = _children(groups.directory) - {HOME}
        # It is nobody's child that the kernel could be found by: only the group knows of it.
        with subprocess.Popen(["/bin/sleep", "600"]) as elsewhere:
            (groups.directory / name / "cgroup.procs").write_text(str(elsewhere.pid))
            kernel.process.kill_tree("for the test")
            assert elsewhere.wait(LIMIT_S) == -9
        with fail_after():
            assert (await kernel.wait()).cause == "killed"
        assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_spawned_kernels_whole_tree_is_in_its_group_and_goes_with_it(
    groups: Groups, short_path: Path
) -> None:
    launcher = KernelspecLauncher(
        "python3", environment={}, start_timeout_s=LIMIT_S, isolation=_boxed(groups)
    )
    async with _running(launcher):
        with fail_after():
            kernel = await launcher.launch(_launch(short_path))
        (name,) = _children(groups.directory) - {HOME}
        tree = [kernel.process.pid, *kernel.process.descendants()]
        assert {_group_of(pid) for pid in tree} == {name}
        assert len(tree) == 3
    assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_kernel_that_does_not_come_to_be_leaves_no_group(groups: Groups, short_path: Path) -> None:
    isolation = replace(_boxed(groups), packages=str(short_path / "nowhere"))
    server = await _fork_server(short_path, isolation)
    async with _running(server):
        with pytest.raises(KernelStartError), fail_after():
            await server.launch(_launch(short_path))
        assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_fork_that_is_refused_leaves_no_group(groups: Groups, short_path: Path) -> None:
    thread = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    (short_path / "threaded.py").write_text(thread)
    environment = {**os.environ, "PYTHONPATH": str(short_path)}
    server = await _fork_server(short_path, _boxed(groups), preload=("threaded",), environment=environment)
    async with _running(server):
        with pytest.raises(KernelStartError, match="2 threads"), fail_after():
            await server.launch(_launch(short_path))
        assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_program_that_cannot_be_started_leaves_no_group(groups: Groups, short_path: Path) -> None:
    launcher = KernelspecLauncher(
        "python3", environment={}, start_timeout_s=LIMIT_S, isolation=_boxed(groups)
    )
    async with _running(launcher):
        with pytest.raises(KernelStartError, match="needs a workspace"), fail_after():
            await launcher.launch(replace(_launch(short_path), workspace=None))
        assert _children(groups.directory) == {HOME}


@pytest.mark.anyio
async def test_a_group_that_cannot_be_made_is_a_start_that_failed(groups: Groups, short_path: Path) -> None:
    elsewhere = Groups(groups.directory / "gone", frozenset())
    server = await _fork_server(short_path, _boxed(elsewhere))
    async with _running(server):
        with pytest.raises(KernelStartError, match="group could not be made"), fail_after():
            await server.launch(_launch(short_path))


@pytest.mark.anyio
@pytest.mark.parametrize("way", first_of(["forked", "spawned"], 1))
async def test_without_groups_a_share_is_whole_processors(
    way: str, short_path: Path, require: Require
) -> None:
    available = os.sched_getaffinity(0)
    require("a second processor", len(available) > 1, "use a machine that has two")
    isolation = replace(_boxed(None, cpus=0.5), tier="B")
    launcher: ForkServer | KernelspecLauncher = (
        await _fork_server(short_path, isolation)
        if way == "forked"
        else KernelspecLauncher("python3", environment={}, start_timeout_s=LIMIT_S, isolation=isolation)
    )
    async with _running(launcher):
        with fail_after():
            kernels = [await launcher.launch(_launch(short_path, name)) for name in ("a", "b")]
        own = [os.sched_getaffinity(kernel.process.descendants()[-1]) for kernel in kernels]
        assert [len(cpus) for cpus in own] == [1, 1]
        assert own[0] != own[1]
        assert os.sched_getaffinity(0) == available


@pytest.mark.anyio
async def test_a_session_is_told_that_its_share_of_the_processors_is_soft(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, storage=tmp_path / "state", max_session_cpus=0.5, **UNHURRIED)
    async with open_engine(settings) as engine:
        with engine.subscribe() as events, fail_after():
            session = await engine.create("share", mode="private")
            losses = [event.data["losses"] async for event in _until_active(events)][-1]
        assert (SOFT_CPUS in losses) == (session.tier != "A")
        told = await (await session.execute_code("import os; print(len(os.sched_getaffinity(0)))")).wait()
        assert int(told.text) == (1 if session.tier != "A" else len(os.sched_getaffinity(0)))
        await engine.close(stop_host=True)


async def _until_active(events: Any) -> AsyncIterator[Any]:
    async for event in events:
        if event.data.get("session") == "active" and "losses" in event.data:
            yield event
            return

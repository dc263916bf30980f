"""The line to the process beside a kernel: how a box ends with its kernel, and how it outlives it when it is held."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cellwright.errors import KernelGone, KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import prepare_interpreter
from cellwright.kernels.kernel import Kernel, KernelLaunch
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.tiers import Tier
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from tests.conftest import Require
from tests.kernel.kernels.conftest import LIMITS
from tests.support.sandbox.programs import require_other_python, run_as_nobody
from tests.waiting import LIMIT_S, fail_after, until

pytestmark = pytest.mark.anyio

ORPHAN = """
import os, signal
first = os.fork()
if first == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.pause()
os.waitpid(first, 0)
"""
WATCHED = """
import os, signal, sys
from cellwright_kernel import _lockdown as lockdown
lockdown.accompany(lockdown.Lifelines(int(sys.argv[1]), int(sys.argv[2])), [2])
print(os.getpid(), flush=True)
signal.pause()
"""

Launch = Callable[[], Any]


@pytest.fixture(scope="module", params=[None, "B", "C"])
async def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ForkServer]:
    tier: Tier | None = request.param
    if tier == "C" and os.getuid() == 0:
        pytest.skip("run as an ordinary user by the last test of this file")
    directory = tmp_path_factory.mktemp("b")
    server = ForkServer(
        await prepare_interpreter(None, cache=directory),
        preload=(),
        environment=os.environ,
        standby=0,
        directory=directory / "f",
        limits=LIMITS,
        start_timeout_s=LIMIT_S,
        isolation=Isolation(tier, Policy()) if tier is not None else None,
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def launched(server: ForkServer, directory: Path) -> AsyncIterator[Kernel]:
    work = directory / PRIVATE
    place = None
    if server.isolation is not None:
        place = Workspace(mode="private", cwd=str(work), project=None, storage=str(directory))
        prepare_storage(place)
    else:
        work.mkdir()
    with fail_after():
        kernel = await server.launch(KernelLaunch("k", directory / "k", work, {}, LIMITS, workspace=place))
    try:
        yield kernel
    finally:
        await kernel.stop(grace_s=0)


async def test_a_box_that_is_not_held_ends_as_its_kernel_ended(
    server: Any, run_cell: Any, tmp_path: Path
) -> None:
    async with launched(server, tmp_path) as kernel:
        await run_cell(kernel, ORPHAN)
        below = kernel.process.descendants()
        kernel.client.execute("os._exit(5)", message_id="m")
        with fail_after():
            ended = await kernel.wait()
        assert (ended.cause, ended.code) == ("exit", 5)
        assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


async def test_a_box_that_is_held_outlives_its_kernel_and_tells_every_end(
    server: Any, run_cell: Any, tmp_path: Path
) -> None:
    async with launched(server, tmp_path) as kernel:
        ends: list[tuple[int, int]] = []
        assert kernel.line is not None
        kernel.line.on_end = lambda pid, code: ends.append((pid, code))
        before = set(kernel.process.descendants())
        seen_as = int((await run_cell(kernel, f"{ORPHAN}\nos.getpid()")).result)
        (orphan,) = set(kernel.process.descendants()) - before
        with fail_after():
            await kernel.line.hold()
        kernel.client.execute("os._exit(5)", message_id="m")
        await until(lambda: ends)
        assert ends == [(seen_as, 5)]
        assert kernel.process.exit is None
        os.kill(orphan, signal.SIGKILL)
        await until(lambda: len(ends) > 1)
        assert ends[1][1] == -signal.SIGKILL


async def test_ending_a_held_box_ends_all_that_is_in_it(server: Any, run_cell: Any, tmp_path: Path) -> None:
    async with launched(server, tmp_path) as kernel:
        await run_cell(kernel, ORPHAN)
        below = kernel.process.descendants()
        assert kernel.line is not None
        with fail_after():
            await kernel.line.hold()
            kernel.line.end()
            ended = await kernel.wait()
        assert (ended.cause, ended.code) == ("exit", 0)
        assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


async def test_a_box_whose_kernel_has_ended_cannot_be_held(server: Any, tmp_path: Path) -> None:
    async with launched(server, tmp_path) as kernel:
        assert kernel.line is not None
        os.kill(kernel.process.pid, signal.SIGKILL)
        await until(lambda: kernel.process.exit)
        with fail_after(), pytest.raises(KernelGone):
            await kernel.line.hold()
        kernel.line.end()


async def test_an_answer_goes_to_whoever_asked_also_when_one_gave_up(server: Any, tmp_path: Path) -> None:
    async with launched(server, tmp_path) as kernel:
        line = kernel.line
        assert line is not None
        os.kill(kernel.process.pid, signal.SIGSTOP)
        with anyio.move_on_after(0.05):
            await line._ask({"unknown": True})  # which is refused, when it can be answered
        os.kill(kernel.process.pid, signal.SIGCONT)
        with fail_after():
            await line.hold()


async def test_without_namespaces_no_box_grows_below(server: Any, tmp_path: Path) -> None:
    if server.isolation is not None and server.isolation.stands_by:
        pytest.skip("it has them; see tests/kernel/sandbox/test_nesting.py")
    lifeline_read, lifeline_write = os.pipe()
    async with launched(server, tmp_path) as kernel:
        assert kernel.line is not None
        with fail_after(), pytest.raises(KernelStartError, match="no namespaces"):
            await kernel.line.grow([], saved=None, lifeline_fd=lifeline_read)
    os.close(lifeline_read)
    os.close(lifeline_write)


@pytest.mark.parametrize("held", [False, True])
def test_a_supervisor_ends_everything_with_its_host(*, held: bool) -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lifeline_read, lifeline_write = os.pipe()
    with (
        mine,
        subprocess.Popen(
            [sys.executable, "-c", WATCHED, str(theirs.fileno()), str(lifeline_read)],
            pass_fds=[theirs.fileno(), lifeline_read],
            stdout=subprocess.PIPE,
        ) as process,
    ):
        theirs.close()
        os.close(lifeline_read)
        assert process.stdout is not None
        kernel = int(process.stdout.readline())
        mine.settimeout(LIMIT_S)
        if held:
            mine.send(b'{"hold": true}')
            assert mine.recv(100) == b'{"ok": true}'
        os.close(lifeline_write)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        assert not Path(f"/proc/{kernel}").exists()


@pytest.mark.matrix  # `sandbox/test_nesting` and the escapes are run by one
@pytest.mark.skipif(os.getuid() != 0, reason="this is the ordinary user")
@pytest.mark.parametrize(
    "tests", ["outlives or grows_below", pytest.param("not ordinary_user", marks=pytest.mark.matrix)]
)
def test_the_same_as_an_ordinary_user(require: Require, tests: str) -> None:
    require_other_python("nobody", "C", require)
    run_as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests, __file__])

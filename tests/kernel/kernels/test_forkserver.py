"""The fork server: what it survives, what survives it, and what standing by means."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from cellwright.errors import KernelStartError
from cellwright.kernels import processes
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import Interpreter
from cellwright.kernels.kernel import OutputLimits
from cellwright.kernels.processes import reap_strangers
from cellwright.kernels.programs import own_script
from cellwright_kernel import descendants
from tests.waiting import LIMIT_S, fail_after, look_again, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(server: ForkServer) -> AsyncIterator[ForkServer]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server
        tasks.cancel_scope.cancel()


async def standing_by(server: ForkServer, number: int) -> None:
    await until(lambda: server.standing_by >= number)


async def test_a_module_that_cannot_be_preloaded_is_reported(server: Any) -> None:
    assert list(server.preload_failures) == ["no_such_module"]
    assert "ModuleNotFoundError" in server.preload_failures["no_such_module"]


async def test_a_launch_takes_the_kernel_that_stands_by_and_another_takes_its_place(
    make_server: Any, launch_on: Any, run_cell: Any
) -> None:
    async with serving(await make_server(standby=1)) as server:
        await standing_by(server, 1)
        kernel = await launch_on(server)
        # At once: after a quiet moment another one would stand by.
        assert (await launch_on(server)).started_by == "fork"
        assert kernel.started_by == "standby"
        assert (await run_cell(kernel, "1 + 1")).result == "2"
        await standing_by(server, 1)


async def test_the_first_kernel_waits_for_no_warming_and_the_second_has_all_of_it(
    make_server: Any, launch_on: Any, run_cell: Any
) -> None:
    what_errors_need = "import sys; 'executing' in sys.modules"
    async with serving(await make_server(standby=0)) as server:
        first, second = await launch_on(server), await launch_on(server)
        assert (await run_cell(first, what_errors_need)).result == "False"
        assert (await run_cell(second, what_errors_need)).result == "True"


async def test_a_kernel_that_died_standing_by_is_not_given_out(make_server: Any, launch_on: Any) -> None:
    async with serving(await make_server(standby=1)) as server:
        await standing_by(server, 1)
        waiting = server._standby.waiting[0]
        os.kill(waiting.process.pid, signal.SIGKILL)
        with fail_after():
            await waiting.wait()
        assert (await launch_on(server)).process.pid != waiting.process.pid


async def test_kernels_outlive_their_fork_server_and_their_ends_are_still_known(
    make_server: Any, launch_on: Any, run_cell: Any
) -> None:
    async with serving(await make_server(standby=0)) as server:
        first, second = await launch_on(server), await launch_on(server)
        await run_cell(first, "x = 'kept'")
        os.kill(server.pid or 0, signal.SIGKILL)
        with fail_after():
            await server.died.wait()
        assert (await run_cell(first, "x")).result == "'kept'"
        with pytest.raises(KernelStartError, match="has ended"):
            await launch_on(server)
        first.client.execute("import os; os._exit(5)", message_id="m")
        with fail_after():
            ended = await first.wait()
            assert (ended.cause, ended.code) == ("exit", 5)
            await second.stop(grace_s=10)


async def test_what_a_kernel_leaves_behind_without_a_fork_server_can_be_reaped(
    make_server: Any, launch_on: Any, run_cell: Any
) -> None:
    async with serving(await make_server(standby=0)) as other:
        kernel = await launch_on(other)
        code = "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True); child.pid"
        child = int((await run_cell(kernel, code)).result)
        os.kill(other.pid or 0, signal.SIGKILL)
        with fail_after():
            await other.died.wait()
            os.kill(kernel.process.pid, signal.SIGKILL)
            await kernel.wait()
            while _runs(child):  # it becomes ours once whoever was above it has ended
                reap_strangers()
                await look_again()


@pytest.mark.matrix  # `test_a_killed_host_takes_everything_with_it`
async def test_cancelling_a_fork_server_ends_everything_it_started(make_server: Any, launch_on: Any) -> None:
    async with serving(await make_server(standby=1)) as server:
        kernel = await launch_on(server)
        await standing_by(server, 1)
        pids = [server.pid, kernel.process.pid, server._standby.waiting[0].process.pid]
    # What a slow fork server does not end ends without it.
    await until(lambda: not any(_runs(pid) for pid in pids))
    assert not kernel.directory.exists()
    assert not server._directory.exists()


async def test_bad_requests_are_refused_and_the_next_one_is_served(server: Any, launch_on: Any) -> None:
    channel = server._channel
    with pytest.raises(KernelStartError, match="5 descriptors, not 0"):
        await channel.fork({"connection_file": "x", "max_bytes": 1, "max_messages": 1}, (), timeout_s=LIMIT_S)
    with pytest.raises(KernelStartError, match="KeyError"):
        await channel.fork({}, (0, 0, 0, 0, 0), timeout_s=LIMIT_S)
    socket.send_fds(channel._socket, [b"not json"], [])
    await (await launch_on(server)).stop(grace_s=0)


async def test_a_kernel_that_cannot_start_says_what_it_printed(server: Any, short_path: Path) -> None:
    directory = short_path / "broken"
    (directory / "s-1").mkdir(parents=True)  # where its first socket should be
    with (
        fail_after(),
        pytest.raises(KernelStartError, match=r"(?s)exited by itself.*printed last.*ZMQError"),
    ):
        await server._fork(directory, "fork")
    assert not directory.exists()


async def test_a_fork_server_that_does_not_answer_is_a_start_error(make_server: Any, launch_on: Any) -> None:
    server = await make_server(standby=0)
    async with serving(server):
        os.kill(server.pid, signal.SIGSTOP)
        server._start_timeout_s = 0.2
        with pytest.raises(KernelStartError, match=r"did not answer within 0.2 s"):
            await launch_on(server)
        os.kill(server.pid, signal.SIGCONT)
        server._start_timeout_s = 60
        kernel = await launch_on(server)  # and the fork that nobody waited for was ended
        await until(lambda: set(descendants.children_of(server.pid)) == {kernel.process.pid})


async def test_an_interpreter_without_ipykernel_is_a_start_error_with_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no kernels in this house' >&2\nexit 1\n")
    python.chmod(0o755)
    server = ForkServer(
        Interpreter(python, "project"),
        preload=(),
        environment={},
        standby=0,
        directory=tmp_path / "f",
        limits=OutputLimits(1_000, 100),
        start_timeout_s=LIMIT_S,
    )
    async with anyio.create_task_group() as tasks:
        with pytest.raises(KernelStartError, match="no kernels in this house"):
            await tasks.start(server.run)


def test_what_is_asked_of_a_fork_server_is_answered_before_it_has_warmed_up(tmp_path: Path) -> None:
    host_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with host_end:
        with server_end:
            host_end.send(b'{"op": "nonsense", "id": 1}')
            command = [sys.executable, own_script("__main__.py"), "--channel", str(server_end.fileno())]
            server = subprocess.Popen(command, cwd=tmp_path, pass_fds=[server_end.fileno()])
        told = [msgspec.json.decode(host_end.recv(1 << 18))["op"] for _ in range(3)]
    assert told == ["ready", "refused", "warm"]
    assert server.wait() == 0


STARTED_IN_PLACE = """
import json, os, sys
from pathlib import Path
from cellwright_kernel import _forkserver as forkserver
forkserver.preload([])
list(forkserver.warming())
before = set(sys.modules)
from cellwright_kernel import _kernelapp as kernelapp
Path("c.json").write_text(json.dumps(kernelapp.connection_at(sys.argv[1], "key")))
kernelapp.build_app("c.json", profile="p", max_bytes=1_000, max_messages=10).initialize([])
Path("imported").write_text(" ".join(set(sys.modules) - before))
os._exit(0)
"""


def test_a_kernel_has_nothing_left_to_import_when_it_starts(short_path: Path) -> None:
    directory = short_path / "place"
    directory.mkdir()
    subprocess.run([sys.executable, "-c", STARTED_IN_PLACE, "s"], cwd=directory, check=True)
    assert (directory / "imported").read_text() == ""


FIRST_COLUMN_ERROR = """
import sys
from cellwright_kernel import _forkserver as forkserver
forkserver.preload(["pandas"])
list(forkserver.warming())
import pandas
from IPython.core.ultratb import AutoFormattedTB
parsed = []
sys.addaudithook(lambda event, given: parsed.append(str(given[1])) if event == "compile" else None)
try:
    pandas.DataFrame({"a": [1]})["other"]
except KeyError:
    AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())
print(*[name for name in parsed if "pandas" in name])
"""


def test_the_first_error_in_preloaded_pandas_parses_none_of_its_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_COLUMN_ERROR], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


async def test_a_kernel_carries_no_debugger_but_code_may_import_one(kernel: Any, run_cell: Any) -> None:
    carried = "import sys; [name for name in sys.modules if 'debugpy' in name or 'pydevd' in name]"
    assert (await run_cell(kernel, carried)).result == "[]"
    assert (await run_cell(kernel, "import debugpy; debugpy.__name__")).result == "'debugpy'"


async def test_a_directory_too_long_for_sockets_is_told(server: Any, tmp_path: Path) -> None:
    with pytest.raises(KernelStartError, match="may have 107"):
        await server._fork(tmp_path / ("x" * 100), "fork")


async def test_memory_is_counted_for_the_whole_tree(kernel: Any, run_cell: Any) -> None:
    before = kernel.process.memory_bytes()
    await run_cell(kernel, "held = bytearray(100_000_000)")
    alone = kernel.process.memory_bytes()
    assert alone - before > 60_000_000
    child = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {!r}], stdout=-1); p.stdout.read(1)"
    await run_cell(
        kernel,
        child.format("x = bytearray(100_000_000); print(1, flush=True); import time; time.sleep(1000)"),
    )
    assert kernel.process.memory_bytes() - alone > 60_000_000


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is."""
    threads = [thread.read_bytes() for thread in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(thread.rpartition(b")")[2].split()[0] == b"T" for thread in threads)


async def test_memory_of_a_kernel_that_does_nothing_is_counted_once(
    kernel: Any, run_cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    exact = processes._proportional_bytes
    monkeypatch.setattr(processes, "_proportional_bytes", lambda pid: counted.append(pid) or exact(pid))
    # The first of them only waits for the others: a thread of theirs may have something to do.
    tree = [kernel.process.pid, *kernel.process.descendants()]
    for pid in tree:
        os.kill(pid, signal.SIGSTOP)
    await until(lambda: all(map(is_stopped, tree)))
    first = kernel.process.last_memory_bytes()
    assert sorted(counted) == sorted(tree)
    counted.clear()
    assert (kernel.process.last_memory_bytes(), counted) == (first, [])
    for pid in tree:
        os.kill(pid, signal.SIGCONT)
    await run_cell(kernel, "held = bytearray(100_000_000)")
    assert kernel.process.last_memory_bytes() - first > 60_000_000


HOST = """
import os, sys, anyio
from pathlib import Path
from cellwright.kernels import processes
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import prepare_interpreter
from cellwright.kernels.kernel import KernelLaunch, OutputLimits

async def main(directory):
    limits = OutputLimits(1_000_000, 1_000)
    interpreter = await prepare_interpreter(None, cache=directory)
    server = ForkServer(interpreter, preload=(), environment=os.environ, standby=0, directory=directory / "f",
        limits=limits, start_timeout_s=60)
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        kernel = await server.launch(KernelLaunch("k", directory / "k", directory, {}, limits))
        kernel.client.on_message = lambda m: m.kind == "stream" and print(m.content.decode(), flush=True)
        kernel.client.execute(sys.argv[2], message_id="m")
        print(server.pid, kernel.process.pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main, Path(sys.argv[1]))
"""


async def test_a_killed_host_takes_everything_with_it(short_path: Path) -> None:
    # The daemon has left the kernel's group and session, and the kernel holds the interpreter's lock for good.
    busy = """
import ctypes, subprocess
print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, flush=True)
ctypes.PyDLL(None).pause()
"""
    directory = short_path / "host"
    directory.mkdir()
    command = [sys.executable, "-c", HOST, str(directory), busy]
    with fail_after():
        async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None) as host:
            assert host.stdout is not None
            said = ""
            while said.count("\n") < 2:
                said += (await host.stdout.receive()).decode()
            pids = [int(number) for number in re.findall(r"\d+", said)]
            host.kill()
        assert len(pids) == 3
        while any(_runs(pid) for pid in pids):
            await look_again()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

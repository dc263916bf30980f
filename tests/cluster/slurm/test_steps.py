"""Each kernel a job step of its own: with its memory, warm before it is needed, gone when it is."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from cellwright.hosts import protocol
from cellwright.kernels.processes import ExitOutput
from cellwright.kernels.programs import own_script
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.workspace import PRIVATE, Workspace
from cellwright.slurm._shapes import Shape
from cellwright.slurm._steps import (
    MEGABYTE,
    ROOM,
    StepMemory,
    step_command,
    step_environment,
    step_memory,
)
from cellwright_kernel.step import HEADER, put, task_variables
from tests.marked import wait_until_buried
from tests.support.slurm.lent import SMALL, Attached, Lender, Lent, options
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

MEMORY_LIMIT = """
from pathlib import Path
for line in Path('/proc/self/cgroup').read_text().splitlines():
    number, controllers, path = line.split(':', 2)
    for name in (f'/sys/fs/cgroup/memory{path}/memory.limit_in_bytes', f'/sys/fs/cgroup{path}/memory.max'):
        if ('memory' in controllers or not controllers) and Path(name).exists():
            print(Path(name).read_text().strip())
"""


# Without a cluster ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "job", "expected"),
    [
        (512 * MEGABYTE, 4096 * MEGABYTE, 512 * MEGABYTE + ROOM),
        (512 * MEGABYTE, None, 512 * MEGABYTE + ROOM),
        (512 * MEGABYTE, 600 * MEGABYTE, None),
        (None, 4096 * MEGABYTE, None),
    ],
)
def test_step_has_the_sessions_memory_and_room_for_its_fork_server(
    session: int | None, job: int | None, expected: int | None
) -> None:
    assert step_memory(session, job) == expected


def test_step_is_not_told_what_the_job_set_for_its_own() -> None:
    told = {
        "SLURM_JOB_ID": "1",
        "SLURM_MEM_PER_NODE": "2000",
        "SLURM_MEM_PER_CPU": "5",
        "SLURM_CPUS_PER_TASK": "2",
    }
    assert step_environment({**told, "PATH": "/bin"}) == {"SLURM_JOB_ID": "1", "PATH": "/bin"}


def test_step_shares_processors_and_has_its_own_memory() -> None:
    command = step_command(Path("/run/s"), 3, 700 * MEGABYTE, 4)
    assert {"--overlap", "--mem=700M", "--cpus-per-task=4"} <= set(command)
    assert "--mem=0M" in step_command(Path("/run/s"), 3, None, 4)


def test_descriptors_get_the_numbers_that_the_program_expects() -> None:
    code = (
        "import os, sys\nsys.path[:0] = [sys.argv[1]]\nfrom step import put\n"
        "a, b = os.pipe()\nc, d = os.pipe()\nos.write(b, b'one'); os.write(d, b'two')\n"
        # Each has the number that the other is to get.
        "put([a, c], [c, a])\nprint(os.read(c, 9), os.read(a, 9))"
    )
    package = str(Path(own_script("step.py")).parent)
    done = subprocess.run([sys.executable, "-c", code, package], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b'one' b'two'"
    assert put is not None


def test_step_becomes_the_program_with_its_descriptors_and_environment(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        task = {"SLURM_STEP_ID": "3", "CUDA_VISIBLE_DEVICES": "1", "SLURM_JWT": "secret", "PATH": "/nowhere"}
        command = [sys.executable, "-I", "-S", own_script("step.py"), str(tmp_path / "s"), "7"]
        step = subprocess.Popen(command, env=task)
        line, _ = listener.accept()
        with line:
            assert struct.unpack("!I", line.recv(4)) == (7,)
            read, write = os.pipe()
            code = "import os,signal;os.write(33, f'{dict(os.environ)} {os.getcwd()} {signal.getsignal(15)}'.encode())"
            request = (
                b'{"command": ["%s", "-I", "-c", "%s"], "environment": {"A": "b", "CUDA_VISIBLE_DEVICES": "0"}, "cwd": "/", "numbers": [33], '
                b'"own_session": true}' % (sys.executable.encode(), code.encode())
            )
            socket.send_fds(line, [HEADER.pack(len(request), 1)], [write])
            line.sendall(request)
            os.close(write)
        assert step.wait() == 0
        told = os.read(read, 10_000).decode()
        os.close(read)
    environment = ast.literal_eval(told[: told.rindex("}") + 1])
    assert environment["A"] == "b"
    assert environment["CUDA_VISIBLE_DEVICES"] == "1", "what the step was given, not what its host has"
    assert not environment.keys() & {"SLURM_JWT", "PATH"}, "no secret, and nothing that is the host's to say"
    assert task_variables(environment) == {"SLURM_STEP_ID": "3", "CUDA_VISIBLE_DEVICES": "1"}
    assert told.endswith("/ 1")  # SIG_IGN


def test_step_that_nobody_has_a_program_for_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        step = subprocess.Popen([sys.executable, "-I", "-S", own_script("step.py"), str(tmp_path / "s"), "7"])
        listener.accept()[0].close()
        assert step.wait() == 0


async def test_what_srun_says_of_memory_is_the_limit_behind_an_end() -> None:
    words = ExitOutput()
    memory = StepMemory(os.getpid(), 700 * MEGABYTE, words)
    assert memory.limit_behind(-signal.SIGKILL) is None
    os.write(words.write_fd, b"srun: error: n1: task 0: Out Of Memory\n")
    hit = memory.limit_behind(-signal.SIGKILL)
    assert hit is not None
    assert "700 MB" in hit.message
    assert hit.setting == "max_session_memory"
    words.close()


# On a cluster -----------------------------------------------------------------------------------------------------


async def test_every_kernel_is_a_step_and_its_step_ends_with_it(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        for name in ("a", "b", "c"):
            await host.start(name)
        await lent.steps_become("attach", "kernel", "kernel", "kernel")
        for name in ("a", "b"):
            await host.call(protocol.StopKernel(name), type(None))
        await lent.steps_become("attach", "kernel")
        assert await host.run("c", "print(6 * 7)") == "42\n"


async def test_a_confined_cell_sees_its_steps_variables_and_half_of_the_allocations_memory(
    lend: Lender,
) -> None:
    lent = await lend(SMALL)
    policy = Policy(memory_bytes=None, memory_auto=True)
    async with lent.attached(options(policy=policy)) as host:
        await host.start("a", place=_private(lent, "a"))
        seen = await host.run(
            "a", "import os, json; print(json.dumps({k: v for k, v in os.environ.items() if 'SLURM' in k}))"
        )
        variables = json.loads(seen)
        assert variables["SLURM_JOB_ID"] == lent.job_id
        assert variables["SLURM_STEP_ID"].isdecimal()
        assert {"SLURM_PROCID", "SLURM_CPUS_ON_NODE", "SLURM_NODELIST", "SLURMD_NODENAME"} <= variables.keys()
        # More than the 512 MB that every session once had, less than the 2,000 MB of all.
        assert await host.run("a", "x = bytearray(700_000_000); print(len(x))") == "700000000\n"
        execution_id = await host.submit("a", "y = bytearray(1_400_000_000)")
        assert (await host.finished(execution_id)).state == "error"


async def test_steps_stand_by_and_the_next_session_takes_one(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached(options(standby=1)) as host:
        await lent.steps_become("attach", "kernel")
        await _warm(host)
        await lent.steps_become("attach", "kernel", "kernel")


async def _warm(host: Attached) -> None:
    """Start kernels until one was there before it was asked for: how soon a step is warm is nobody's promise."""
    pause_s = 0.5
    with fail_after():
        while (await host.start("k")).started_by != "standby":
            await host.call(protocol.StopKernel("k"), type(None))
            await anyio.sleep(pause_s)
            pause_s *= 2


@pytest.mark.matrix  # `test_survival` has it, seen by the engine
async def test_one_kernel_out_of_memory_is_told_so_and_the_others_go_on(lend: Lender) -> None:
    lent = await lend()
    # No process of it takes more than the limit: they do together.
    policy = Policy(memory_bytes=300 * MEGABYTE, processes=None)
    async with lent.attached(options(policy=policy)) as host:
        for name in ("greedy", "modest"):
            await host.start(name, place=_private(lent, name))
        execution_id = await host.submit(
            "greedy",
            "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = b'x' * (150 << 20)\n        time.sleep(1000)\ntime.sleep(1000)",
        )
        end = await host.finished(execution_id)
        died = await host.told(protocol.KernelDied)
        assert end.state == "died"
        assert died.cause == "limit"
        assert "max_session_memory" in died.message
        assert await host.run("modest", "print('alive')") == "alive\n"
        await lent.steps_become("attach", "kernel")


async def test_without_a_limit_of_its_own_a_kernel_runs_out_of_the_jobs_memory_alone(lend: Lender) -> None:
    lent = await lend(SMALL)
    async with lent.attached() as host:
        for name in ("greedy", "modest"):
            await host.start(name)
        execution_id = await host.submit("greedy", "x = bytearray(3000 << 20)")
        assert (await host.finished(execution_id)).state == "died"
        died = await host.told(protocol.KernelDied)
        assert died.cause == "limit"
        assert "ran out of the job's memory" in died.message
        assert await host.run("modest", "print('alive')") == "alive\n"


async def test_session_with_a_limit_of_its_own_has_a_step_of_that_size(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached(options(policy=Policy(memory_bytes=512 * MEGABYTE))) as host:
        await host.start("usual", place=_private(lent, "usual"))
        narrow = Policy(memory_bytes=128 * MEGABYTE)
        await host.start("narrow", place=_private(lent, "narrow"), policy=narrow)
        assert host.found is not None
        sizes = {
            _step_limit(kernel.pid)
            for kernel in (await host.call(protocol.Status(), protocol.Attached)).kernels
        }
        assert sizes == {512 * MEGABYTE + ROOM, 128 * MEGABYTE + ROOM}


async def test_checkpoint_goes_on_in_the_step_of_its_kernel(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        await host.run("k", "x = 1")
        await host.call(protocol.Freeze("k", "cp"), protocol.CheckpointStatus)
        await host.run("k", "x = 2")
        await host.call(protocol.RollBack("k", "cp", "k2"), protocol.KernelReady)
        assert await host.run("k2", "print(x)") == "1\n"
        await lent.steps_become("attach", "kernel")
        await host.call(protocol.StopKernel("k2"), type(None))
        await lent.steps_become("attach")


@pytest.mark.matrix  # `test_every_kernel_is_a_step_and_its_step_ends_with_it`
async def test_twenty_kernels_fit_into_one_allocation(lend: Lender) -> None:
    lent = await lend()
    names = [f"k{number}" for number in range(20)]
    async with lent.attached() as host:
        async with anyio.create_task_group() as starting:
            for name in names:
                starting.start_soon(host.start, name)
        assert [await host.run(name, f"print('{name}')") for name in names] == [f"{name}\n" for name in names]
        await lent.steps_become("attach", *["kernel"] * 20)


async def test_killed_host_leaves_no_step_and_no_job(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached(options(standby=1)) as host:
        await host.start("k")
        pid = int(await host.run("k", "import os; print(os.getpid())"))
        os.kill(lent.about["pid"], signal.SIGKILL)
        await host.connection.lost.wait()
    assert "ended" in await lent.ended()
    await lent.steps_become()
    assert await anyio.to_thread.run_sync(wait_until_buried, pid)


async def test_next_host_on_a_node_clears_away_what_a_killed_one_left(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        killed = lent.about
        os.kill(killed["pid"], signal.SIGKILL)
        await host.connection.lost.wait()
    await lent.ended()
    left = Path(killed["socket"]).parent
    assert left.is_dir()
    lent = await lend(Shape(time="5", extra=(f"--nodelist={killed['node']}",)))
    async with lent.attached():
        assert not left.exists()
        assert Path(lent.about["socket"]).is_socket()


async def test_programs_that_code_starts_obey_when_they_are_told_to_end(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("k")
        code = """
import multiprocessing, os, signal, subprocess, time
child = subprocess.Popen(['sleep', '100'])
child.terminate()
print(child.wait(60))
forked = multiprocessing.get_context('fork').Process(target=time.sleep, args=(100,))
forked.start()
forked.terminate()
forked.join(60)
print(forked.exitcode)
os.kill(os.getpid(), signal.SIGTERM)
print('still here')
"""
        assert (await host.run("k", code)).split("\n")[:3] == ["-15", "-15", "still here"]


@pytest.mark.matrix  # the confined one, below, does, too
async def test_typescript_runs_in_a_step_and_ends_with_it(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached() as host:
        await host.start("ts", protocol.DenoKernel())
        assert await host.run("ts", "console.log(6 * 7)") == "42\n"
        await lent.steps_become("attach", "kernel")
        await host.call(protocol.StopKernel("ts"), type(None))
        await lent.steps_become("attach")


async def test_confined_typescript_runs_in_a_step(lend: Lender) -> None:
    lent = await lend()
    async with lent.attached(options(policy=Policy())) as host:
        ready = await host.start("ts", protocol.DenoKernel(), place=_private(lent, "ts"))
        assert ready.tier in ("B", "C")
        assert await host.run("ts", "console.log(6 * 7)") == "42\n"


def _private(lent: Lent, name: str) -> Workspace:
    directory = Path(lent.allocation.directory).parent.parent / "sessions" / name
    return Workspace("private", str(directory / PRIVATE), None, str(directory))


def _step_limit(pid: int) -> int:
    """The memory limit of the step that a process is in: of its own group, or the one above."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        step = re.match(r"(.*/job_\d+/step_\d+)", path)
        if step is not None and "memory" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/memory{step[1]}/memory.limit_in_bytes").read_text())
        if step is not None and not controllers:
            return int(Path(f"/sys/fs/cgroup{step[1]}/memory.max").read_text())
    raise AssertionError("it is in no step")

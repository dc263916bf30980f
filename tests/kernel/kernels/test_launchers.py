"""Other ways to a kernel: installed kernelspecs, and a project's own interpreter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright.errors import KernelError, KernelStartError
from cellwright.kernels import _interpreters
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import find_project_python, prepare_interpreter
from cellwright.kernels._kernelspecs import KernelspecLauncher
from cellwright.kernels.kernel import OutputLimits
from tests.waiting import LIMIT_S, fail_after, look_again

pytestmark = pytest.mark.anyio


async def test_an_installed_kernelspec_runs_and_ends_with_its_tree(launch_on: Any, run_cell: Any) -> None:
    launcher = KernelspecLauncher("python3", environment=os.environ, start_timeout_s=LIMIT_S)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        kernel = await launch_on(launcher, environment={"COLOUR": "red"})
        assert kernel.started_by == "spawn"
        assert kernel.language["name"] == "python"
        assert (await run_cell(kernel, "import os; os.environ['COLOUR']")).result == "'red'"
        code = "import subprocess; child = subprocess.Popen(['sleep', '1000'], start_new_session=True); child.pid"
        child = int((await run_cell(kernel, code)).result)
        begun = anyio.Event()
        kernel.client.on_message = lambda message: begun.set() if message.kind == "stream" else None
        kernel.client.execute("print('begun', flush=True)\nwhile True: pass", message_id="m")
        with fail_after():
            await begun.wait()
            await kernel.interrupt()
        assert (await run_cell(kernel, "1")).result == "1"
        with pytest.raises(KernelError, match="fork server"):
            await kernel.inspect(timeout_s=1)
        with fail_after():
            await kernel.stop(grace_s=10)
            while _runs(child):
                await look_again()
        assert not kernel.directory.exists()
        tasks.cancel_scope.cancel()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_spawned_kernel_that_dies_is_explained(launch_on: Any) -> None:
    launcher = KernelspecLauncher("python3", environment=os.environ, start_timeout_s=LIMIT_S)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        kernel = await launch_on(launcher)
        kernel.process.signal(signal.SIGKILL)
        with fail_after():
            assert (await kernel.wait()).signal == signal.SIGKILL
        tasks.cancel_scope.cancel()


async def test_a_kernel_of_a_folder_that_never_answers_is_ended_and_its_words_are_told(
    launch_on: Any, tmp_path: Path
) -> None:
    (tmp_path / "kernel.json").write_text(
        '{"argv": ["sh", "-c", "echo I will not speak >&2; exec sleep 1000"], "display_name": "m", "language": "x"}'
    )
    # Where it did not even get to speak in so little time, it has more.
    for start_s in (1, 30):
        launcher = KernelspecLauncher("mute", str(tmp_path), environment=os.environ, start_timeout_s=start_s)
        async with anyio.create_task_group() as tasks:
            await tasks.start(launcher.run)
            with pytest.raises(KernelStartError, match=f"within {start_s} s") as told:
                await launch_on(launcher)
            tasks.cancel_scope.cancel()
        if spoken := "I will not speak" in str(told.value):
            break
    assert spoken


async def test_a_folder_without_a_kernel_is_named(launch_on: Any, tmp_path: Path) -> None:
    launcher = KernelspecLauncher("lost", str(tmp_path), environment=os.environ, start_timeout_s=LIMIT_S)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        with pytest.raises(KernelStartError, match=f"{tmp_path}/kernel.json cannot be read"):
            await launch_on(launcher)
        tasks.cancel_scope.cancel()


async def test_an_unknown_kernel_lists_the_installed_ones_and_the_command(launch_on: Any) -> None:
    launcher = KernelspecLauncher("julia", environment=os.environ, start_timeout_s=LIMIT_S)
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        with pytest.raises(KernelStartError, match=r"python3.*Pkg.add"):
            await launch_on(launcher)
        tasks.cancel_scope.cancel()


def test_the_nearest_project_environment_is_found(tmp_path: Path) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_project_python(below) == python
    assert find_project_python(Path("/")) is None


async def test_a_project_without_ipykernel_gets_a_layer_and_stays_untouched(
    short_path: Path, tmp_path: Path, launch_on: Any, run_cell: Any, require: Any
) -> None:
    require("uv", _interpreters._find_uv() is not None, "pip install uv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    python = tmp_path / ".venv" / "bin" / "python"
    packages = next((tmp_path / ".venv" / "lib").glob("python*/site-packages"))
    (packages / "decorator.py").write_text("__version__ = 'the project has its own'")
    before = sorted(tmp_path.rglob("*"))
    interpreter = await prepare_interpreter(python, cache=short_path / "cache")
    assert interpreter.origin == "project"
    assert len(interpreter.layers) == 1
    again = await prepare_interpreter(python, cache=short_path / "cache")
    assert again == interpreter
    server = ForkServer(
        interpreter,
        preload=(),
        environment=os.environ,
        standby=0,
        directory=short_path / "layered",
        limits=OutputLimits(1_000_000, 1_000),
        start_timeout_s=LIMIT_S,
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        kernel = await launch_on(server)
        asked = "import sys, importlib.util as u; sys.prefix, [u.find_spec(n) is not None for n in ('cellwright', 'anyio')]"
        assert (
            " ".join((await run_cell(kernel, asked)).result.split())
            == f"('{tmp_path / '.venv'}', [False, False])"
        )
        asked = "import decorator; decorator.__version__"
        assert (await run_cell(kernel, asked)).result == "'the project has its own'"
        tasks.cancel_scope.cancel()
    after = [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts]
    assert after == before
    shutil.rmtree(short_path / "cache")


async def test_without_uv_the_error_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    python = tmp_path / ".venv" / "bin" / "python"
    monkeypatch.setattr(_interpreters, "_find_uv", lambda: None)
    with pytest.raises(KernelStartError, match="pip install uv"):
        await prepare_interpreter(python, cache=tmp_path / "cache")


async def test_a_broken_interpreter_is_told(tmp_path: Path) -> None:
    with pytest.raises(KernelStartError, match="does not run"):
        await prepare_interpreter(tmp_path / "python", cache=tmp_path)


async def test_a_program_that_is_no_python_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    with pytest.raises(KernelStartError, match="does not answer as Python does"):
        await prepare_interpreter(python, cache=tmp_path)

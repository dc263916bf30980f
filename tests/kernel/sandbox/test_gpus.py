"""GPUs in a sandbox: with a device that stands for one everywhere, and by the driver where there is a real one."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from cellwright.hosts.launchers import Launchers
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import prepare_interpreter
from cellwright.kernels.kernel import Kernel, KernelLaunch
from cellwright.sandbox.gpus import find_gpus
from cellwright.sandbox.policy import Narrowing, Policy
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from tests.kernel.engine.conftest import open_at
from tests.kernel.kernels.conftest import LIMITS
from tests.support.kernels.denohouse import OPTIONS
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio

PROBE = Path(__file__).parents[2] / "support" / "gpu_probe.py"
LOOK = """
import errno, fcntl, json, mmap, os, sys
told = {"dev": sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))}
told["visible"] = os.environ.get("CUDA_VISIBLE_DEVICES")
for name in ("nvidia1", "full"):
    try:
        with open(f"/dev/{name}", "r+b", buffering=0) as device:
            try:
                fcntl.ioctl(device, 0xC0204601, bytes(32))
            except OSError as error:
                told[name] = errno.errorcode[error.errno]
    except OSError as error:
        told[name] = f"open {errno.errorcode[error.errno]}"
try:
    mmap.mmap(-1, 4096).close()
    told["shared"] = True
except OSError:
    told["shared"] = False
json.dump(told, sys.stdout)
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ForkServer]:
    """Kernels on a machine with two GPUs, of which the setting names the second."""
    machine = tmp_path / "machine"
    (machine / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        # Answers requests with ENOTTY, if it is asked at all.
        (machine / "dev" / name).symlink_to("/dev/null")
    server = ForkServer(
        await prepare_interpreter(None, cache=tmp_path),
        preload=(),
        environment={"PATH": os.environ["PATH"]},
        standby=0,
        directory=tmp_path / "f",
        limits=LIMITS,
        start_timeout_s=LIMIT_S,
        isolation=Isolation("B", Policy(gpus="1"), gpus=find_gpus("1", {}, root=str(machine))),
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def launched(
    server: ForkServer, directory: Path, policy: Policy | None = None
) -> AsyncIterator[Kernel]:
    place = Workspace(mode="private", cwd=str(directory / PRIVATE), project=None, storage=str(directory))
    prepare_storage(place)
    launch = KernelLaunch("k", directory / "k", Path(place.cwd), {}, LIMITS, workspace=place, policy=policy)
    with fail_after():
        kernel = await server.launch(launch)
    try:
        yield kernel
    finally:
        await kernel.stop(grace_s=0)


async def look(run_cell: Any, kernel: Kernel) -> dict[str, Any]:
    ran = await run_cell(kernel, LOOK)
    told: dict[str, Any] = json.loads(ran.text())
    return told


async def test_a_session_has_the_chosen_devices_and_one_without_has_none(
    server: ForkServer, run_cell: Any, tmp_path: Path
) -> None:
    async with launched(server, tmp_path / "with") as kernel:
        told = await look(run_cell, kernel)
    assert told["dev"] == ["nvidia-uvm", "nvidia1", "nvidiactl"]
    assert told["visible"] == "0", "libraries count what they see"
    assert told["nvidia1"] == "ENOTTY", "a request reaches the device"
    assert told["full"] == "EACCES", "and no other device"
    assert told["shared"], "as a driver's library needs it"
    async with launched(server, tmp_path / "without", Policy(gpus="off")) as kernel:
        told = await look(run_cell, kernel)
    assert (told["dev"], told["nvidia1"], told["shared"]) == ([], "open ENOENT", False)
    assert told["visible"] is None


async def test_a_start_looks_for_devices_only_where_a_kind_of_kernel_is_new(tmp_path: Path) -> None:
    # A look for what is called so raises.
    options = msgspec.structs.replace(OPTIONS, policy=Policy(gpus="unheard of"))
    async with anyio.create_task_group() as tasks:
        launchers = Launchers(tasks, runtime=tmp_path / "runtime", cache=tmp_path / "cache")
        with pytest.raises(ValueError, match="unheard of"):
            await launchers.isolation(options)
        (seen,) = await launchers.seen_layers(["layer"], options)
    assert Path(seen).name == "layer"


async def test_a_cell_computes_on_a_real_gpu_and_a_session_without_sees_none(open_root: Path) -> None:
    if not any("nvidia" in name for name in find_gpus("auto", os.environ).names):
        pytest.skip(
            "NOT TESTED: no NVIDIA GPU that this user may use is in /dev; run it on a machine with one"
        )
    code = PROBE.read_text()
    async with open_at(open_root, max_session_memory="auto") as engine:
        session = await engine.create("gpu", mode="private")
        ran = await (await session.execute_code(code, timeout_s=LIMIT_S)).wait()
        told = json.loads(ran.text)
        assert told["ok"], (told, ran.reason)
        session = await engine.create("none", mode="private", limits=Narrowing(gpus="off"))
        ran = await (await session.execute_code(code, timeout_s=LIMIT_S)).wait()
        told = json.loads(ran.text)
        assert not told["ok"]
        assert "cuInit" in told["error"] or "libcuda" in told["error"]
        assert told["devices"] == []
        await engine.close(stop_host=True)

"""A session's processes are limited, and without namespaces not by what else its user runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.conftest import Require

NOBODY = 65534
# A user with many processes of their own, who may have none of them counted against a session.
BUSY_USER = """
import subprocess, sys, tempfile
from pathlib import Path
import anyio
from cellwright import Settings, open_engine

async def main(root):
    (root / "state").mkdir(mode=0o711)
    settings = Settings(root=root, storage=root / "state", standby_kernels=0, sandbox_namespaces=False, max_session_processes=40)
    async with open_engine(settings, ephemeral=False) as engine:
        session = await engine.create("busy", mode="private")
        for number in (20, 200):
            code = (
                "import threading, time\\n"
                # Memory would not last for so many of the usual stacks, and is not what is looked at.
                "threading.stack_size(256 << 10)\\n"
                "stop = threading.Event()\\n"
                f"for _ in range({number}): threading.Thread(target=stop.wait, daemon=True).start()\\n"
                f"time.sleep(0 if {number} == 20 else 600)\\n"
                "stop.set()\\n"
            )
            execution = await (await session.execute_code(code, timeout_s=240)).wait()
            print(session.tier, execution.state, "max_session_processes" in (execution.reason or ""))
        await engine.close(stop_host=True)

with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
    others = [subprocess.Popen(["sleep", "600"]) for _ in range(100)]
    try:
        anyio.run(main, Path(directory))
    finally:
        for other in others:
            other.kill()
            other.wait()
"""


def test_a_busy_user_has_a_sessions_processes_all_the_same_and_no_more(require: Require) -> None:
    program, environment, uid = sys.executable, dict(os.environ), None
    if os.getuid() == 0:
        program, uid = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}", NOBODY
        require(program, Path(program).exists(), f"install Python {sys.version_info.minor}")
        packages = f"{sysconfig.get_paths()['purelib']}:{Path(__file__).parents[3] / 'src'}"
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [program, "-c", BUSY_USER],
        env=environment | {"HOME": "/nonexistent", "CELLWRIGHT_RUN_MODE": "local"},
        user=uid,
        group=uid,
        extra_groups=[] if uid is not None else None,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["C ok False", "C died True"]

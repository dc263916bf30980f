"""Runs ``escapes/running.py``: a session in a tier of choice, as this user or as nobody, in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import pytest

from cellwright.kernels import LibraryCaches
from cellwright.settings.paths import cache_base
from tests.conftest import Require
from tests.waiting import scaled

__all__ = ["RUN_TIMEOUT_S", "require_other_python", "run_as_nobody", "run_program"]

RUNNING = Path(__file__).with_name("escapes") / "running.py"
NOBODY = 65534
RUN_TIMEOUT_S = scaled(300)


def run_program(user: str, tier: str, options: dict[str, Any]) -> dict[str, Any]:
    """What it printed; ``user`` is ``me`` or ``nobody``, ``tier`` B, C or none."""
    command, environment, uid = _program(user, tier)
    with _COPYING:
        caches = _library_caches().name
    done = subprocess.run(
        [*command, str(RUNNING), json.dumps({"tier": tier, "deno": "deno", "caches": caches, **options})],
        env=environment,
        user=uid,
        group=uid,
        extra_groups=[] if uid is not None else None,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"the table could not be run:\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


_COPYING = Lock()


@functools.cache
def _library_caches() -> tempfile.TemporaryDirectory[str]:
    """What this machine has of libraries' caches, for every user to copy into a new home.

    To make them there takes as long as most of what is tried.
    """
    kept = LibraryCaches(Path(cache_base(), "libraries"))
    kept.shown()
    copies = tempfile.TemporaryDirectory(prefix="cw-caches-")
    Path(copies.name).chmod(0o755)
    for cache in anyio.run(kept.make, Path(sys.executable), [sysconfig.get_path("purelib")]):
        shutil.copytree(cache, Path(copies.name, cache.name))
    return copies


def run_as_nobody(arguments: list[str]) -> None:
    """Run Python as a user who is nobody, with a temporary directory of its own; fails if that does."""
    command, environment, uid = _program("nobody", "C")
    with tempfile.TemporaryDirectory(prefix="cwn-") as own:
        Path(own).chmod(0o777)
        environment |= {"TMPDIR": own, "XDG_RUNTIME_DIR": own, "HOME": own}
        done = subprocess.run(
            [*command, *arguments],
            env=environment,
            user=uid,
            group=uid,
            extra_groups=[],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        pytest.fail(f"as nobody it failed:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}")


def require_other_python(user: str, tier: str, require: Require) -> None:
    """Where kernels run as another user than this one, they need an interpreter that everybody can reach."""
    if user == "nobody" or (tier == "C" and os.getuid() == 0):
        require(
            _system_python(), Path(_system_python()).exists(), f"install Python 3.{sys.version_info.minor}"
        )


def _program(user: str, tier: str) -> tuple[list[str], dict[str, str], int | None]:
    # Deno lies beside our own interpreter, which is not the one that nobody uses.
    environment = {
        "PATH": f"/usr/bin:/bin:{sysconfig.get_path('scripts')}",
        "LANG": "C.UTF-8",
        "CELLWRIGHT_RUN_MODE": "local",
        "CELLWRIGHT_MAX_SESSION_MEMORY": "512MB",
        "CELLWRIGHT_TEST_TIMEOUT_FACTOR": f"{scaled(1):g}",
    }
    uid = None if user == "me" else NOBODY
    # Without namespaces root's kernels run as a user who must be able to reach the interpreter.
    if uid is None and not (tier == "C" and os.getuid() == 0):
        return [sys.executable], environment, None
    environment |= {
        "PYTHONPATH": f"{sysconfig.get_paths()['purelib']}:{Path(__file__).parents[3] / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return [_system_python()], environment, uid


def _system_python() -> str:
    return f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"

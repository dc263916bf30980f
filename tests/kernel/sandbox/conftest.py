"""What tests of whole sessions in their boxes share."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cellwright.hosts import local
from tests.conftest import Require
from tests.kernel.kernels.conftest import run_cell

__all__ = ["let_others_in", "open_root", "opened_root", "run_cell"]


@pytest.fixture(scope="package", autouse=True)
def _hosts_are_programs() -> Iterator[None]:
    """Also where tests that fork them ran before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "subprocess", subprocess)
        yield


@contextmanager
def opened_root() -> Iterator[Path]:
    """A directory that every user can get to: without namespaces root's sessions, which run as others, must."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        Path(directory).chmod(0o755)
        Path(directory, "state").mkdir(mode=0o711)
        patch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.fixture
def open_root() -> Iterator[Path]:
    with opened_root() as root:
        yield root


def let_others_in(root: Path, require: Require) -> None:
    """Give sessions in this directory an interpreter that every user can get to.

    Without namespaces root's kernels run as other users, who do not get to an interpreter in root's home.
    """
    above = [*Path(sys.base_prefix).parents, *Path(sys.prefix).parents]
    if os.getuid() != 0 or all(directory.stat().st_mode & 0o001 for directory in above):
        return
    python = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
    require(str(python), python.exists(), f"install Python {sys.version_info.major}.{sys.version_info.minor}")
    environment = root / ".venv"
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(sysconfig.get_paths()["purelib"])

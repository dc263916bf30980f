"""The rows about seaborn, which is no package of the development environment, against its newest release."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import Require

LIMIT_S = 300
ROOT = Path(__file__).parents[3]

# The rows about the installed libraries are compared by default: unit/plans/test_drift_table.py.
pytestmark = pytest.mark.matrix


def test_in_the_newest_seaborn_every_old_name_is_gone_and_every_new_one_is_there(
    tmp_path: Path, require: Require
) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(tmp_path),
        "seaborn",
    ]
    got = subprocess.run(pip, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    require("the package index", got.returncode == 0, f"let pip reach one: {got.stderr[-200:]}")
    (wheel,) = tmp_path.glob("seaborn-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "seaborn")
    compare = [sys.executable, "-m", "tests.support.plans.drift_rows", "seaborn"]
    path = os.pathsep.join([str(tmp_path / "seaborn"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "MPLCONFIGDIR": str(tmp_path)}
    said = subprocess.run(
        compare, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (said.returncode, said.stderr) == (0, "")

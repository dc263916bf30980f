"""Runs a script as ``python script`` would, in a process that has imported what scripts use: a fork's function."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path


def run(script: Path, directory: Path, environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    with open(os.devnull) as nothing:  # no file of anybody's
        os.dup2(nothing.fileno(), 0)
    runpy.run_path(str(script), run_name="__main__")

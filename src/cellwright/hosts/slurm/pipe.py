"""The pipe to the host in a job, by the path that an engine of an earlier version runs it by, without any package."""

from __future__ import annotations

import runpy
from pathlib import Path

if __name__ == "__main__":
    runpy.run_path(str(Path(__file__).parents[2] / "slurm" / "pipe.py"), run_name="__main__")

"""The host inside a job, by the name that jobs submitted by an earlier version call it by."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("cellwright.slurm.inside", run_name="__main__", alter_sys=True)

"""The process that becomes ``ruff format``: a notebook on standard input, the formatted one on standard output.

It closes what it can before, and has neither network nor files of its own. Run as ``python -m cellwright.tools.formatter``.
"""

from __future__ import annotations

import os
import resource

from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]  # it brings no types

from cellwright_kernel.confinement import confine

_CPU_S = 15

_MEMORY = 512 << 20


def main() -> None:
    """Confine this process and go on as ruff."""
    ruff = os.fsdecode(find_ruff_bin())
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 1))
    confine(_MEMORY)
    options = ["format", "--isolated", "--no-cache", "--stdin-filename", "cell.ipynb", "-"]
    os.execve(ruff, [ruff, *options], {"RAYON_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()

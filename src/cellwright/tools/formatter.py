"""The process that becomes ``ruff format`` or ``deno fmt``: source on standard input, the formatted one on standard output.

It closes what it can before, and has neither network nor files of its own. Run as
``python -m cellwright.tools.formatter ruff``, or with ``deno PROGRAM LANGUAGE``; ruff gets a notebook.
"""

from __future__ import annotations

import os
import resource
import sys

from cellwright_kernel.confinement import confine

_CPU_S = 15

_RUFF_MEMORY = 512 << 20

# It sets up V8, which reserves more than it uses.
_DENO_MEMORY = 2 << 30

_EXTENSIONS = {"typescript": "ts", "javascript": "js"}


def main() -> None:
    """Confine this process and go on as the formatter."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 1))
    if sys.argv[1] == "deno":
        _become_deno(*sys.argv[2:])
    else:
        _become_ruff()


def _become_ruff() -> None:
    from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]  # an extra, without types

    ruff = os.fsdecode(find_ruff_bin())
    confine(_RUFF_MEMORY)
    options = ["format", "--isolated", "--no-cache", "--stdin-filename", "cell.ipynb", "-"]
    os.execve(ruff, [ruff, *options], {"RAYON_NUM_THREADS": "1"})


def _become_deno(deno: str, language: str) -> None:
    confine(_DENO_MEMORY, programs=[deno])
    options = ["fmt", "--quiet", "--no-config", "--ext", _EXTENSIONS[language], "-"]
    os.execve(deno, [deno, *options], {"DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": "/nonexistent"})


if __name__ == "__main__":
    main()

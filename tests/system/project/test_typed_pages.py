"""The README and the first tutorial work as typed: their commands run in order, in a bare shell, and print what they show.

A block behind a comment that begins with `not run` is left out; the comment says why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.daemon.connect import stop
from cellwright.daemon.paths import DaemonPaths
from tests.waiting import LIMIT_S, UNHURRIED_VARIABLES

ROOT = Path(__file__).parents[3]
TYPED = re.compile(
    r"(?P<not_run><!-- not run[^\n]*-->\n)?^```console\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL
)
NAMES = re.compile(r"\b[sc]-[a-z0-9]{7}\b")
END = "--- end of a command"


def _commands(page: Path) -> list[tuple[str, list[str]]]:
    """What is typed, each with the lines that are shown below it."""
    commands: list[tuple[str, list[str]]] = []
    for match in TYPED.finditer(page.read_text()):
        for line in [] if match["not_run"] else match["block"].splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif line != "…":
                commands[-1][1].append(line)
    return commands


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/first-notebook.md"])
def test_page_works_as_typed(page: str, tmp_path: Path) -> None:
    commands = _commands(ROOT / page)
    assert len(commands) > 5
    home = tmp_path / "home"
    work = home / "work"
    work.mkdir(parents=True)
    environment = {
        **UNHURRIED_VARIABLES,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "LANG": "C.UTF-8",
        "CELLWRIGHT_STORAGE": str(tmp_path / "state"),
        "CELLWRIGHT_STANDBY_KERNELS": "0",
    }
    script = "\n".join(f"{command}\necho '{END}'" for command, _ in commands)
    try:
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10 * LIMIT_S,
            check=False,
        )
        printed = done.stdout.split(END)
        assert done.returncode == 0, f"`{commands[len(printed) - 1][0]}` failed\n{done.stderr[-2000:]}"
        for (command, shown), out in zip(commands, printed, strict=False):
            lines = NAMES.sub("ID", out).splitlines()
            missing = [line for line in shown if NAMES.sub("ID", line) not in lines]
            assert not missing, f"`{command}` printed\n{out}\nand not {missing}"
    finally:
        stop(DaemonPaths(str(tmp_path / "state")), kernels=True)

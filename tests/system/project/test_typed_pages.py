"""The README and the first tutorial work as typed: their commands run in order, in a bare shell, and print what they show.

A block behind a comment that begins with `not run` is left out; the comment says why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
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


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home that has never seen Cellwright, whose daemon ends with the test."""
    (tmp_path / "work").mkdir()
    yield tmp_path
    stop(DaemonPaths(str(tmp_path / "state")), kernels=True)


def _environment(home: Path, *programs: Path, **more: str) -> dict[str, str]:
    """The environment of a shell that finds ``programs`` before the system's."""
    return {
        **UNHURRIED_VARIABLES,
        "HOME": str(home),
        "PATH": os.pathsep.join([*map(str, programs), os.defpath]),
        "LANG": "C.UTF-8",
        "BROWSER": "true",
        "CELLWRIGHT_STORAGE": str(home / "state"),
        "CELLWRIGHT_STANDBY_KERNELS": "0",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        **more,
    }


def _type(commands: list[tuple[str, list[str]]], home: Path, environment: dict[str, str]) -> None:
    """Have one shell run the commands up to the first that fails, and look for the lines that the page shows."""
    script = "\n".join(f"{command}\necho '{END}'" for command, _ in commands)
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=home / "work",
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


def test_the_first_tutorial_works_as_typed(home: Path) -> None:
    commands = _commands(ROOT / "docs" / "tutorials" / "first-notebook.md")
    assert len(commands) > 5
    _type(commands, home, _environment(home, Path(sys.executable).parent))


def test_the_readme_works_as_typed_from_a_wheel_for_who_has_only_uv(home: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home / "wheels")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    tools = home / "tools"
    tools.mkdir()
    for tool in ("uv", "uvx"):
        (tools / tool).symlink_to(Path(sys.executable).with_name(tool))
    # Where packages come from, and where they are kept, belongs to the machine.
    kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
    environment = _environment(home, tools, home / ".local" / "bin", **kept)
    # Our locked versions are what the package cache has, and what stays the same from day to day.
    environment |= {
        "UV_FIND_LINKS": str(home / "wheels"),
        "UV_CONSTRAINT": str(ROOT / "requirements" / "dev.txt"),
        "UV_PYTHON": sys.executable,
    }
    _type(_commands(ROOT / "README.md"), home, environment)


# The same commands once more, without what only a wheel can lack.
@pytest.mark.matrix
def test_the_readme_works_as_typed_from_a_clone(home: Path) -> None:
    commands = [
        # What `make demo` has installed; `uvx` would fetch what is published.
        (re.sub(r"^uvx ('cellwright\[[^ ]*'|cellwright)", "cellwright", command), shown)
        for command, shown in _commands(ROOT / "README.md")
        if not command.startswith("uv tool install")
    ]
    _type(commands, home, _environment(home, Path(sys.executable).parent))

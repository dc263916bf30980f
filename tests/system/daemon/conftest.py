"""Real daemons, pumps and clients, each in a directory of its own; whatever is started is ended with the test."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellwright.daemon.connect import ask, connect, read_about, stop
from cellwright.daemon.paths import DaemonPaths
from tests.kernel.engine.conftest import host_process
from tests.support.daemon.forking import run_forked
from tests.waiting import LIMIT_S, UNHURRIED_VARIABLES, scaled, wait_until

COMMAND = [sys.executable, "-c", "from cellwright.cli import main; main()"]
CLIENT = {"name": "test", "version": "1"}
LONG_WAIT_MS = min(int(scaled(60_000)), 280_000)
"""For calls that hand back what still runs after a while: no test here wants that."""


def wait_for_file(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Return as soon as a file is there that something which a process has asked for makes."""

    def there() -> bool:
        # In this order: what it made before it ended counts.
        ended = process.poll() is not None
        assert path.exists() or not ended, f"it ended before there was {path}"
        return path.exists()

    wait_until(there)


def run_command(
    *arguments: str, cwd: Path, env: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    return run_forked(arguments, cwd=cwd, env=env, given=given, limit_s=scaled(50))


@dataclass
class Place:
    """A user's directory with a storage directory, and everything that was started for it."""

    root: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def storage(self) -> Path:
        return self.root / "state"

    @property
    def paths(self) -> DaemonPaths:
        return DaemonPaths(str(self.storage))

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.root / "work",
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return run_command(*arguments, cwd=self.root / "work", env=self.environment, given=given)

    def start_daemon(self) -> None:
        """Start what the first client would start, at a tenth of the processor time."""
        assert self.run("daemon", "start").returncode == 0

    def pump(self, *arguments: str) -> Pump:
        return Pump(self.start("mcp", *arguments))

    def status(self) -> dict[str, Any]:
        connection = connect(self.paths)
        assert connection is not None, "no daemon is running"
        with connection:
            return ask(connection, "status")

    def ready(self) -> dict[str, Any]:
        """The daemon's status once it is warm."""
        wait_until(lambda: self.status()["state"] == "ready")
        return self.status()

    def daemon(self) -> psutil.Process:
        return psutil.Process(read_about(self.paths)["pid"])

    def daemons(self) -> list[psutil.Process]:
        """Every daemon of this place that lives: they all have its lock open."""
        with suppress(OSError), open(self.paths.lock) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return []
        return [
            process
            for process in psutil.process_iter(["open_files", "status"])
            if any(file.path == self.paths.lock for file in process.info["open_files"] or ())
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait(LIMIT_S)
        stop(self.paths, kernels=True)
        for process in self.daemons():
            # It may end between being found and being ended.
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(LIMIT_S)
        host = host_process(self.storage)
        if host is not None:
            with suppress(psutil.NoSuchProcess):
                host.terminate()
                host.wait(LIMIT_S)


class Pump:
    """An MCP client that speaks through ``cellwright mcp``, one message at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._ids = itertools.count(1)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        # One that has ended already says so by what it wrote and by its code, which whoever asks looks at next.
        with suppress(BrokenPipeError):
            os.write(self.process.stdin.fileno(), json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the pump ended: {self.errors()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, method: str, **params: Any) -> int:
        """Send a request without waiting for its answer; its id."""
        ident = next(self._ids)
        self.send({"id": ident, "method": method, "params": params})
        return ident

    def answer(self, ident: int) -> dict[str, Any]:
        while (message := self.read()).get("id") != ident or "method" in message:
            pass
        return message

    def initialize(self, version: str = "2025-06-18") -> dict[str, Any]:
        ident = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)
        result: dict[str, Any] = self.answer(ident)["result"]
        self.send({"method": "notifications/initialized"})
        return result

    def begin(self, tool: str, **arguments: Any) -> int:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and give back its data."""
        result = self.answer(self.begin(tool, **arguments))["result"]
        assert not result.get("isError"), result
        data: dict[str, Any] = json.loads(result["content"][-1]["text"])
        return data

    def finish(self) -> int:
        """Close the client's side, as a client that is done does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(LIMIT_S)

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


def names_of(processes: list[psutil.Process]) -> list[str]:
    """What they are called; some end while they are asked."""
    names = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            names.append(process.name())
    return names


def files_with(root: Path, text: str) -> list[Path]:
    """Every file that holds it. Others are at work there: what goes meanwhile is passed over."""
    found = []
    for directory, _, names in os.walk(root):
        for path in (Path(directory, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and text.encode() in path.read_bytes():
                    found.append(path)
    return found


@contextmanager
def place_in(root: Path, **variables: str) -> Iterator[Place]:
    for name in ("work", "home"):
        (root / name).mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CELLWRIGHT_", "XDG_", "PYTHONDONTWRITEBYTECODE"))
    }
    environment = {
        **kept,
        "HOME": str(root / "home"),
        # Hosts fill it for libraries, half a second of processor time each: once for all homes, as for all of a user's.
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "CELLWRIGHT_STORAGE": str(root / "state"),
        "CELLWRIGHT_STANDBY_KERNELS": "0",
        **UNHURRIED_VARIABLES,
        # There may be an `sbatch` on this machine, and the default would be to ask it for nodes.
        "CELLWRIGHT_RUN_MODE": "local",
        "CELLWRIGHT_MAX_SESSION_MEMORY": "512MB",
        **variables,
    }
    place = Place(root, environment)
    try:
        yield place
    finally:
        place.end()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of a test's own, for tests that kill things."""
    with place_in(tmp_path) as place:
        yield place


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One place with a warm daemon for all tests of a process that leave it usable."""
    with place_in(tmp_path_factory.mktemp("shared"), CELLWRIGHT_MAX_SESSIONS="500") as place:
        place.start_daemon()
        place.ready()
        yield place

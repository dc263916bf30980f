"""A server of other people as a process: started in a directory of its own, ready when it answers, ended whole.

Knows no kind of server (see kinds and hub). It listens on the loopback, wants a token, and keeps port, token and
files over a restart. Whatever it started carries a mark in its environment and ends with it, orphans too.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from tests.marked import kill_and_wait, marked, wait_until_buried
from tests.waiting import LIMIT_S, PACE_S, scaled

ENVIRONMENT = Path(__file__).parents[3] / ".venv" / "servers"
PYTHON = ENVIRONMENT / "bin" / "python"
MARK = "CELLWRIGHT_TEST_SERVER"
# Before all other packages of every server.
QUICK = Path(__file__).with_name("quick")
READY_LIMIT_S = int(scaled(60))
# What would make a server find somebody else's settings or packages.
FOREIGN = ("JUPYTER", "PYTHON", "VIRTUAL_ENV", "KG_", "IPYTHON", "CELLWRIGHT_")


class ServerBrokenError(Exception):
    """The server did not start, or answered with an error. Holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind of server is started. ``ready`` is the path that answers as soon as it serves."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    ready: str


@dataclass(slots=True)
class Server:
    """A running server. ``root`` is where its notebooks are, ``home`` holds everything else of it."""

    home: Path
    port: int
    token: str
    recipe: Recipe
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        file = self.home / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.root.mkdir(parents=True, exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        places = {
            "HOME": self.home / "user",
            "JUPYTER_CONFIG_DIR": self.home / "config",
            "JUPYTER_DATA_DIR": self.home / "data",
            "JUPYTER_RUNTIME_DIR": self.home / "runtime",
            "IPYTHONDIR": self.home / "ipython",
        }
        for place in places.values():
            place.mkdir(exist_ok=True)
        environment = {
            **inherited,
            **{name: str(place) for name, place in places.items()},
            "PATH": os.pathsep.join([str(PYTHON.parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": str(QUICK),
            MARK: str(self.home),
            **self.recipe.environment,
        }
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.recipe.argv,
                env=environment,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._await_ready(self._process)

    def kill(self) -> None:
        """Kill -9 the server and all that it started, as if its machine were gone.

        Raises:
            ServerBrokenError: what has ended is still in the list of processes.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        # One that was about to start another may have done so.
        killed: list[int] = []
        while pids := list(marked(MARK, str(self.home))):
            for pid in pids:
                kill_and_wait(pid)
            killed += pids
        # A hub that is started again asks for its people's servers by number.
        if left := [pid for pid in killed if not wait_until_buried(pid)]:
            raise ServerBrokenError(f"nobody buries {left}, which have ended")

    def restart(self) -> None:
        """The same address, token and files; kernels do not survive."""
        self.kill()
        self.start()

    def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """Ask the server over REST; returns the decoded answer, or None where there is none.

        Raises:
            ServerBrokenError: it refused.
        """
        request = urllib.request.Request(  # noqa: S310  # the loopback
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token or self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
                said = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise ServerBrokenError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(said) if said else None

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = monotonic() + READY_LIMIT_S
        while not self._answers():
            if process.poll() is not None or monotonic() > deadline:
                tail = "\n".join(self.log.splitlines()[-30:])
                self.kill()
                raise ServerBrokenError(f"{' '.join(self.recipe.argv)} is not ready:\n{tail}")
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PACE_S)

    def _answers(self) -> bool:
        try:
            self.request("GET", self.recipe.ready)
        except (OSError, ServerBrokenError, http.client.HTTPException):
            return False
        return True


def new_token() -> str:
    return secrets.token_hex(16)


def free_ports(count: int) -> list[int]:
    """Ports that nobody else gets while this process lives; they stay those of the server over its restarts.

    A port that is bound, and not listened on, is given to no one who takes any; a server that asks for it gets it, since
    both say that they share it.
    """
    ports = []
    for _ in range(count):
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        ports.append(held.getsockname()[1])
        # It is the process's from here on, and goes with it.
        held.detach()
    return ports

"""The world that code must not reach: secrets, listeners, a victim process, another session's folder. All real."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.support.sandbox.escapes.attempts import Attempt
from tests.waiting import wait_until

__all__ = ["World"]

CROWD = 180
VICTIM = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(600)"


@dataclass
class World:
    """Everything around one session, in a directory of its own."""

    base: Path
    confined: bool
    token: str = field(default_factory=lambda: secrets.token_hex(12))
    listeners: list[socket.socket] = field(default_factory=list)
    victim: subprocess.Popen[bytes] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def open(self) -> None:
        for name in (
            "outside",
            "home/.ssh",
            "home/.cache/uv",
            "home/.ipython/profile_default/startup",
            "storage/packages/layer",
            "jupyter/kernels",
            "other",
            "environment",
            "project/.git/hooks",
            "sockets",
            "run",
        ):
            (self.base / name).mkdir(parents=True)
        for name in ("outside/secret", "home/.ssh/id", "storage/state-secret", "other/secret"):
            (self.base / name).write_text(self.token)
        (self.base / "other" / f"named-{self.token}").touch()
        self._listen()
        places = {
            name: str(self.base / name) for name in ("outside", "home", "storage", "other", "environment")
        }
        self.facts |= places
        self.facts |= {
            "packages": str(self.base / "storage/packages/layer"),
            "kernelspecs": str(self.base / "jupyter/kernels"),
        }
        self.facts |= {"secret": str(self.base / "outside/secret"), "bait": str(self.base / "outside/bait")}
        self.reset(self.base / "project")

    def reset(self, workdir: Path) -> None:
        """Put right whatever an attempt that succeeded has changed, and remove the files that it left to the next one."""
        self._unmount()
        bait = self.base / "outside" / "bait"
        bait.unlink(missing_ok=True)
        bait.write_text("untouched")
        bait.chmod(0o600)
        os.utime(bait, (1e9, 1e9))
        for planted in self._planted():
            shutil.rmtree(planted, ignore_errors=True)
            planted.unlink(missing_ok=True)
        for leftover in workdir.glob("*"):
            if leftover.suffix != ".ipynb" and leftover.name not in (".git", "notebooks"):
                shutil.rmtree(leftover, ignore_errors=True)
                leftover.unlink(missing_ok=True)
        while self._heard():
            pass
        if self.victim is None or self.victim.poll() is not None or self._altered():
            self._new_victim()

    def _unmount(self) -> None:
        while os.path.ismount(self.base / "outside"):
            subprocess.run(["umount", str(self.base / "outside")], check=True)

    def close(self) -> None:
        self._unmount()
        for listener in self.listeners:
            listener.close()
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()

    def escaped(self, attempt: Attempt, output: str, root: int) -> bool:  # noqa: C901, PLR0911  # one for each of the closed set
        """Whether an attempt succeeded; ``root`` is the process below which the session runs."""
        bait = self.base / "outside" / "bait"
        match attempt.seen:
            case "token":
                return self.token in output
            case "said":
                return "ESCAPED" in output
            case "changed":
                return bait.read_text() != "untouched"
            case "missing":
                return not bait.exists()
            case "heard":
                return self._heard()
            case "planted":
                return any(self._planted())
            case "reached":
                return self._reached()
            case "dead":
                return self.victim is not None and self._ends(self.victim)
            case "altered":
                status = bait.stat()
                return (status.st_mode & 0o777, status.st_mtime) != (0o600, 1e9) or self._altered()
            case "crowd":
                return self._crowded(root)

    def _crowded(self, root: int) -> bool:
        """Whether there are too many processes; where they are only watched, still after somebody looked."""
        process = psutil.Process(root)
        if not self.confined:
            return len(process.children(recursive=True)) > CROWD
        try:
            wait_until(lambda: len(process.children(recursive=True)) <= CROWD, limit_s=5)
        except TimeoutError:
            return True
        return False

    def touched(self) -> bool:
        """Whether anything is other than it was, whatever has been tried."""
        bait = self.base / "outside" / "bait"
        status = bait.stat() if bait.exists() else None
        as_it_was = (
            status is not None
            and bait.read_text() == "untouched"
            and (status.st_mode & 0o777, status.st_mtime) == (0o600, 1e9)
        )
        dead = self.victim is None or self._ends(self.victim)
        return not as_it_was or dead or self._altered() or self._heard() or bool(self._planted())

    def _listen(self) -> None:
        tcp = socket.create_server(("127.0.0.1", 0))
        tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
        udp = socket.socket(type=socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self.listeners = [tcp, tcp6, udp]
        for key, kind in (
            ("unix", socket.SOCK_STREAM),
            ("other_socket", socket.SOCK_STREAM),
            ("dgram", socket.SOCK_DGRAM),
        ):
            listener = socket.socket(socket.AF_UNIX, kind)
            self.facts[key] = str(self.base / "sockets" / key)
            listener.bind(self.facts[key])
            if kind == socket.SOCK_STREAM:
                listener.listen()
            self.listeners.append(listener)
        abstract = socket.socket(socket.AF_UNIX)
        self.facts |= {name: f"cw-{secrets.token_hex(6)}" for name in ("abstract", "free_abstract")}
        abstract.bind("\0" + self.facts["abstract"])
        abstract.listen()
        self.listeners.append(abstract)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.facts["free"] = free.getsockname()[1]
        self.facts |= {
            "tcp": tcp.getsockname()[1],
            "tcp6": tcp6.getsockname()[1],
            "udp": udp.getsockname()[1],
        }

    def _heard(self) -> bool:
        ready, _, _ = select.select(self.listeners, [], [], 0.05)
        for listener in ready:
            if listener.type == socket.SOCK_DGRAM:
                listener.recv(100)
            else:
                listener.accept()[0].close()
        return bool(ready)

    def _reached(self) -> bool:
        addresses: list[tuple[int, Any]] = [
            (socket.AF_INET, ("127.0.0.1", self.facts["free"])),
            (socket.AF_UNIX, "\0" + self.facts["free_abstract"]),
        ]
        for family, address in addresses:
            with contextlib.suppress(OSError), socket.socket(family) as connection:
                connection.settimeout(1)
                connection.connect(address)
                return True
        return False

    def _planted(self) -> list[Path]:
        return [
            Path(directory) / name
            for directory, directories, files in os.walk(self.base)
            for name in (*directories, *files)
            if name.startswith("planted") and Path(directory) != self.base / "project"
        ]

    def _new_victim(self) -> None:
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()
        environment = {"VICTIM_SECRET": self.token, "PATH": "/usr/bin"}
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", VICTIM, self.token],
            cwd=self.base / "outside",
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert self.victim.stdout is not None
        self.victim.stdout.read(2)
        self.facts["victim"] = self.victim.pid

    def _altered(self) -> bool:
        assert self.victim is not None
        process = psutil.Process(self.victim.pid)
        limited = process.rlimit(psutil.RLIMIT_NOFILE)[0] == 77
        return process.nice() == 19 or limited or (os.cpu_count() != 1 and process.cpu_affinity() == [0])

    def _ends(self, victim: subprocess.Popen[bytes]) -> bool:
        # Where nothing confines code it certainly ends.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return victim.wait(0.3 if self.confined else 60) == -signal.SIGKILL
        return False

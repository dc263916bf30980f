"""Servers that connections lead to, on loopback ports, each as an ordinary user in a directory of its own.

Debian's PostgreSQL and MariaDB, and an S3 store (moto) from the environment of servers. What they hold is made here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.server import PYTHON, free_ports

__all__ = [
    "MARIADB",
    "POSTGRESQL",
    "SECRET",
    "TRACKER",
    "Served",
    "mariadb",
    "object_store",
    "postgresql",
    "tracker",
]

SECRET = "s3cr:t/P@ss&word-91ab"  # noqa: S105  # of servers that live as long as their tests
"""The password of every server: letters that an address, a header and JSON write in ways of their own."""

TRACKER = (sys.executable, str(Path(__file__).with_name("tracker.py")))
"""An MCP server, as a command."""
_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
POSTGRESQL = _PROGRAMS[-1].parent if _PROGRAMS else None
MARIADB = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_NOBODY = 65534
_ROWS = ", ".join(f"({n}, 'c{n % 3}', {n}.50, '2026-01-{n % 28 + 1:02d}')" for n in range(1, 201))
_SCHEMA = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR(20), total NUMERIC(10, 2), day DATE);\n"
    f"INSERT INTO orders VALUES {_ROWS};\n"
)


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs: its address without and with the credential, and what it wrote."""

    address: str
    user: str
    log: Path


@contextmanager
def postgresql() -> Iterator[Served]:
    """PostgreSQL with the table ``orders``, for the user ``ann``, who may write."""
    assert POSTGRESQL is not None
    with _home() as home:
        (home / "password").write_text(SECRET)
        data = str(home / "data")
        _done(
            [
                f"{POSTGRESQL}/initdb",
                "-D",
                data,
                "-U",
                "ann",
                "-A",
                "scram-sha-256",
                "--pwfile",
                f"{home}/password",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
            home,
        )
        single = [f"{POSTGRESQL}/postgres", "--single", "-D", data, "postgres"]
        # Its own prompt takes a line for a statement.
        _done(single, home, given="".join(line + "\n" for line in _SCHEMA.splitlines()))
        (port,) = free_ports(1)
        serve = [f"{POSTGRESQL}/postgres", "-D", data, "-p", str(port), "-k", str(home), "-F"]
        serve += ["-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=8MB", "-c", "max_connections=20"]
        with _running(serve, home, "ready to accept connections", end=signal.SIGINT) as log:
            yield Served(f"127.0.0.1:{port}/postgres", "ann", log)


@contextmanager
def mariadb() -> Iterator[Served]:
    """MariaDB with the table ``shop.orders``, for the user ``ann``, who may write."""
    assert MARIADB is not None
    with _home() as home:
        own = ["--no-defaults", f"--datadir={home}/data", "--skip-log-bin", f"--socket={home}/m.sock"]
        _done(
            ["mariadb-install-db", *own, "--skip-test-db", "--auth-root-authentication-method=normal"], home
        )
        quoted = SECRET.replace("'", "''")
        begun = "CREATE DATABASE shop; USE shop;\n" + _SCHEMA
        begun += f"CREATE USER ann@'%' IDENTIFIED BY '{quoted}';\nGRANT ALL ON shop.* TO ann@'%';\n"
        (port,) = free_ports(1)
        serve = [MARIADB, *own, f"--port={port}", "--bind-address=127.0.0.1"]
        serve += ["--character-set-server=utf8mb4", "--innodb-buffer-pool-size=8M", "--skip-name-resolve"]
        with _running(serve, home, "ready for connections") as log:
            _done(["mariadb", "--no-defaults", f"--socket={home}/m.sock", "--user=root"], home, given=begun)
            yield Served(f"127.0.0.1:{port}/shop", "ann", log)


@contextmanager
def object_store() -> Iterator[Served]:
    """An S3 store with the bucket ``lake``."""
    with _home() as home:
        (port,) = free_ports(1)
        serve = [str(PYTHON), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with _running(serve, home, "Running on", as_nobody=False) as log:
            yield Served(f"http://127.0.0.1:{port}", "ann", log)


@contextmanager
def tracker() -> Iterator[Served]:
    """An MCP server at an address, for who has the token."""
    with _home() as home:
        (port,) = free_ports(1)
        with _running(
            [*TRACKER, str(port)], home, "Uvicorn running", as_nobody=False, TRACKER_TOKEN=SECRET
        ) as log:
            yield Served(f"http://127.0.0.1:{port}/mcp", "ann", log)


@contextmanager
def _home() -> Iterator[Path]:
    """A directory of a server's own, below no directory that its user could not pass through."""
    with tempfile.TemporaryDirectory(prefix="cw-served-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        if os.geteuid() == 0:
            os.chown(home, _NOBODY, _NOBODY)
        yield home


def _as_user(home: Path, *, as_nobody: bool = True) -> dict[str, object]:
    """No database server runs as root."""
    drops = as_nobody and os.geteuid() == 0
    user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if drops else {}
    path = f"{os.environ.get('PATH', '/usr/bin')}:/usr/sbin"
    return {
        "cwd": home,
        "env": {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        **user,
    }


def _done(command: Sequence[str], home: Path, *, given: str = "") -> None:
    options = _as_user(home)
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    ended = run(command, input=given, capture_output=True, text=True, check=False, **options)
    assert ended.returncode == 0, f"{command[0]}: {ended.stdout[-2_000:]}{ended.stderr[-2_000:]}"


@contextmanager
def _running(
    command: Sequence[str],
    home: Path,
    says: str,
    *,
    end: signal.Signals = signal.SIGTERM,
    as_nobody: bool = True,
    **variables: str,
) -> Iterator[Path]:
    """The server from when it says that it serves, to its end."""
    log = home / "server.log"
    start: Callable[..., subprocess.Popen[str]] = subprocess.Popen
    options = _as_user(home, as_nobody=as_nobody)
    options["env"] = {**options["env"], **variables}  # type: ignore[dict-item]  # it is a dict
    with log.open("w") as kept:
        server = start(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            **options,
        )  # fmt: skip
        assert server.stdout is not None
        try:
            for line in server.stdout:
                kept.write(line)
                kept.flush()
                if says in line:
                    break
            else:
                raise AssertionError(f"{command[0]} ended: {log.read_text()[-3_000:]}")
            yield log
        finally:
            server.send_signal(end)
            rest, _ = server.communicate()
            kept.write(rest)

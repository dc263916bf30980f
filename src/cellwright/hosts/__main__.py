"""The host as a process: ``python -m cellwright.hosts STORAGE``. Started by ``local``, never by a person."""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import logging
import os
import shutil
import signal
import sys
import uuid
from pathlib import Path

import anyio

from cellwright.hosts.local import HostPaths, make_private
from cellwright.hosts.server import Host
from cellwright.rlimits import limit_own_memory, raise_file_limit

_log = logging.getLogger(__name__)

_LOG_BYTES = 1_000_000


def main() -> int:
    paths = HostPaths(Path(sys.argv[1]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.exception("another host owns %s", paths.storage)
        return 1
    if paths.log.stat().st_size > _LOG_BYTES:
        os.truncate(paths.log, 0)
    raise_file_limit()
    limit_own_memory()
    # All there is goes with the process: looking for garbage first is in vain.
    atexit.register(gc.freeze)
    anyio.run(_serve, paths)
    return 0


async def _serve(paths: HostPaths) -> None:
    incarnation = uuid.uuid4().hex[:16]
    shutil.rmtree(paths.runtime, ignore_errors=True)
    runtime = make_private(paths.runtime)
    host = Host(
        incarnation=incarnation, journal=paths.journal(incarnation), runtime=runtime, cache=paths.cache
    )
    listener = await anyio.create_unix_listener(paths.socket, mode=0o600)
    about = {"pid": os.getpid(), "incarnation": incarnation, "socket": str(paths.socket)}
    _write(paths.current, about)
    async with anyio.create_task_group() as tasks, listener:
        tasks.start_soon(_stop_on_signal, host)
        _say_ready(about)
        await host.serve(listener)
        tasks.cancel_scope.cancel()
    paths.current.unlink(missing_ok=True)
    shutil.rmtree(runtime, ignore_errors=True)


def _write(path: Path, about: dict[str, object]) -> None:
    """All at once, for whoever reads it meanwhile."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(about))
    new.replace(path)


async def _stop_on_signal(host: Host) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            host.stop()


def _say_ready(about: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(about) + "\n")
    sys.stdout.flush()
    # Nobody reads after that line; a print in some library must not end the host with a broken pipe.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())

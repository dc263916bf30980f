"""Functions in processes of their own that need not import what they use: forks of one process that has.

An interpreter that imports the engine takes most of a second, which a test that kills a hundred of them has no use
for. A fork's stdout and stderr are the test's to read; it may be killed like any process. What it inherits is a fresh
process with modules and nothing else: no thread, no loop, nothing of the test.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import IO, Any

from tests.waiting import LIMIT_S

# What takes long to import. `pytest` is there since each fork imports its parent's main module. The functions are in
# modules that need no more than this: each fork imports the one it is for.
IMPORTED = [
    "pytest",
    "anyio._backends._asyncio",
    "cellwright.assembly",
    "cellwright.plans",
    "cellwright.tools.calculator",
    "pint",
]


@dataclass(frozen=True)
class Fork:
    """A process that was started, and what it says."""

    process: Any
    out: IO[str]
    errors: IO[str]

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> int:
        """Its exit code, a signal's as a negative number, once it has ended."""
        self.process.join(LIMIT_S)
        assert self.process.exitcode is not None, "it goes on"
        return int(self.process.exitcode)

    def said_wrong(self) -> str:
        """What it wrote to stderr."""
        self.errors.seek(0)
        return self.errors.read()


@contextmanager
def forked(function: Callable[..., None], *arguments: Any) -> Iterator[Fork]:
    """Run a module's function; whatever goes on at the end is killed."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    read, write = os.pipe()
    with os.fdopen(read) as out, tempfile.TemporaryFile("w+") as errors:
        with Connection(write) as stdout, Connection(os.dup(errors.fileno())) as stderr:
            process = context.Process(target=_speak, args=(stdout, stderr, function, arguments))
            process.start()
        fork = Fork(process, out, errors)
        try:
            yield fork
        finally:
            fork.kill()
            fork.end()
            process.close()


def _speak(stdout: Connection, stderr: Connection, function: Callable[..., None], arguments: Any) -> None:
    for stream, number in ((stdout, 1), (stderr, 2)):
        os.dup2(stream.fileno(), number)
        stream.close()
    function(*arguments)

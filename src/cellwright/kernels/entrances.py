"""Ways into the lockdown for programs that are kernels: the command, and a process that waits there before it is needed.

What is told to such a process is ``spawning``'s; what it does then is ``cellwright_kernel.confined``'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from cellwright.kernels.boxlines import BoxLine
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.pipeclient import Pipes
from cellwright.kernels.programs import Program, Programs, Started, own_script

__all__ = ["Entrance", "Telling", "entrance_command"]


class Telling:
    """Standard input of a process that is told once what to do."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe2(os.O_CLOEXEC)

    def handed_over(self) -> None:
        """The process has its end by now."""
        os.close(self.fd)

    def tell(self, request: dict[str, Any] | None) -> None:
        """Say it, whatever became of the process: its end is noticed and explained elsewhere."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._write_fd, "wb") as written:
            written.write(msgspec.json.encode(request))
        self._write_fd = -1

    def close(self) -> None:
        if self._write_fd >= 0:
            os.close(self._write_fd)
            self._write_fd = -1


class Entrance:
    """A process that waits to be told what to become, and as how confined: half of a kernel's start is over by then."""

    process: Started

    def __init__(self, *, noise: re.Pattern[str] | None = None) -> None:
        """``noise`` is what the program will always say and nobody wants to read."""
        self.line, self.pipes, self.last_words = BoxLine(), Pipes(), LastWords(noise=noise)
        self.streams = self.pipes.theirs
        """What will be its standard input and output, by its own numbers."""
        self.telling = Telling()

    async def open(self, programs: Programs) -> None:
        """Start it.

        Raises:
            OSError: it could not be started, and nothing is left open.
            KernelStartError: the same, and why.
        """
        try:
            self.process = await programs.open(
                Program(
                    entrance_command(self.line.fd),
                    {},
                    Path("/"),
                    stdin=self.telling.fd,
                    stdout=self.last_words.write_fd,
                    stderr=self.last_words.write_fd,
                    fds=[self.line.fd, *self.streams, *programs.tie_fds],
                    own_session=False,
                )
            )
        except BaseException:
            self.telling.handed_over()
            self._let_go()
            raise
        self.telling.handed_over()
        self.line.handed_over()
        self.pipes.handed_over()
        self.last_words.handed_over()

    @property
    def is_waiting(self) -> bool:
        return self.process.is_running

    def close(self) -> None:
        """End it, where nobody had a use for it."""
        self.telling.close()
        self.process.kill()
        self.process.finish(0)
        self._let_go()

    def _let_go(self) -> None:
        self.telling.close()
        self.line.abandon()
        self.pipes.close()
        self.last_words.close()


def entrance_command(control_fd: int) -> list[str]:
    """What to run in order to be told over standard input what to become."""
    return [sys.executable, "-I", "-S", own_script("__main__.py"), "--confine", str(control_fd)]

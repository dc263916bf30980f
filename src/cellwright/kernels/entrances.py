"""Ways into the lockdown for programs that are kernels: the command, and a process that waits there before it is needed.

What is told to such a process is ``spawning``'s; what it does then is ``cellwright_kernel.confined``'s.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import cellwright_kernel
from cellwright.kernels.boxlines import BoxLine
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.pipeclient import Pipes

__all__ = ["Entrance", "entrance_command", "own_script"]


class Entrance:
    """A process that waits to be told what to become, and as how confined: half of a kernel's start is over by then."""

    def __init__(self, *, noise: re.Pattern[str] | None = None) -> None:
        """``noise`` is what the program will always say and nobody wants to read."""
        self.line, self.pipes, self.last_words = BoxLine(), Pipes(), LastWords(noise=noise)
        self.streams = self.pipes.theirs
        """What will be its standard input and output, by its own numbers."""
        self.process = subprocess.Popen(
            entrance_command(self.line.fd),
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=self.last_words.write_fd,
            stderr=self.last_words.write_fd,
            pass_fds=[self.line.fd, *self.streams],
        )
        self.line.handed_over()
        self.pipes.handed_over()
        self.last_words.handed_over()

    @property
    def is_waiting(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End it, where nobody had a use for it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.line.abandon()
        self.pipes.close()
        self.last_words.close()


def entrance_command(control_fd: int) -> list[str]:
    """What to run in order to be told over standard input what to become."""
    return [sys.executable, "-I", "-S", own_script("__main__.py"), "--confine", str(control_fd)]


def own_script(name: str) -> str:
    """A script of the package that runs beside kernels."""
    return str(Path(cellwright_kernel.__file__).with_name(name))

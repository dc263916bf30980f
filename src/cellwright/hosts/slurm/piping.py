"""The login side of ``pipe``: a stream of bytes through an ``srun`` that reaches a job's host."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.abc

from cellwright import children
from cellwright.errors import HostUnreachable
from cellwright.hosts.slurm.pipe import FOUND, READ_BYTES
from cellwright.hosts.slurm.promptness import Promptness
from cellwright.rlimits import unlimited_children

__all__ = ["PipeStream", "pipe_command"]

_WORDS_BYTES = 4_000
_END_S = 0.5
_LAST_WORDS_S = 5.0


def pipe_command(job_id: int, python: str, socket: str) -> list[str]:
    """What reaches the host: a step without memory or processors of its own."""
    return [
        "srun",
        f"--jobid={job_id}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--mem=0",
        "--cpu-bind=none",
        "--unbuffered",
        "--quiet",
        "--job-name=attach",
        python,
        "-I",
        "-S",
        str(Path(__file__).with_name("pipe.py")),
        socket,
    ]


class PipeStream(anyio.abc.ByteStream):
    """Bytes to and from a host."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._first = b""
        self._words = b""
        self._promptness: Promptness | None = None

    @classmethod
    async def open(cls, command: list[str], environment: Mapping[str, str]) -> PipeStream:
        """Start the command; the host is not found yet (see ``greeted``).

        Raises:
            HostUnreachable: it cannot be run.
        """
        try:
            with unlimited_children():
                process = await anyio.open_process(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise HostUnreachable(f"{command[0]} cannot be run: {error}") from error
        return cls(process)

    @property
    def words(self) -> str:
        """What the command said before it ended."""
        return self._words.decode("utf-8", "replace").strip()

    async def greeted(self) -> bool:
        """Whether the other end has found the host; False where the command ended instead, and ``words`` tells why."""
        try:
            first = await self.receive()
        except anyio.EndOfStream:
            return False
        self._first = first.removeprefix(FOUND)
        self._promptness = await anyio.to_thread.run_sync(Promptness, self._process.pid)
        return True

    async def send(self, item: bytes) -> None:
        if self._process.stdin is None:
            raise anyio.ClosedResourceError
        await self._process.stdin.send(item)

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._process.stdout is None:
            raise anyio.ClosedResourceError
        try:
            data = await self._process.stdout.receive(max_bytes)
        except anyio.EndOfStream:
            await self._hear_words()
            raise
        if self._promptness is not None:
            self._promptness.acknowledge()
        return data

    async def send_eof(self) -> None:
        if self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def aclose(self) -> None:
        """End the command; the host goes on."""
        with anyio.CancelScope(shield=True):
            # Without input the other end goes by itself; where the network is cut, it cannot hear of it.
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send_eof()
            await children.end(self._process, grace_s=_END_S)
            if self._promptness is not None:
                self._promptness.close()

    async def _hear_words(self) -> None:
        """What it said to the end, which is near."""
        stderr = self._process.stderr
        with (
            anyio.move_on_after(_LAST_WORDS_S),
            contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError),
        ):
            while stderr is not None:
                self._words = (self._words + await stderr.receive())[-_WORDS_BYTES:]

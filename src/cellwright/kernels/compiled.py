"""The driver as V8 has compiled it, made once and given to every Deno kernel: half of its start is spared.

Deno keeps compiled code in its own directory. Each kernel has one of its own, so that no session meets another's; it
begins as a copy of what is made here, by a run of the driver with nobody's code.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from cellwright.kernels.allotments import NOTHING
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.messages import Message
from cellwright.kernels.pipeclient import PipeClient, Pipes
from cellwright.kernels.processes import wanted
from cellwright.kernels.spawning import Start, watched

__all__ = ["CompiledDriver"]

# Nobody waits for it: only what hangs is to end.
DEADLINE_S = 120.0
KEPT = 4
CELL = "compiled"


@dataclass(frozen=True, slots=True)
class CompiledDriver:
    """One Deno, one driver and V8's flags, which compiled code must be made with."""

    deno: Path
    driver: Path
    v8_flags: tuple[str, ...]
    cache: Path
    """Where it is kept, below; never a directory that sessions can write."""

    @property
    def directory(self) -> Path:
        """Where it is, once it was made."""
        seen = hashlib.sha256()
        for path in (self.deno, *sorted(self.driver.parent.glob("*.mjs"))):
            status = path.stat()
            seen.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        seen.update("\0".join(self.v8_flags).encode())
        return self.cache / f"deno-{seen.hexdigest()[:32]}"

    def found(self) -> Path | None:
        """Where it is, if it was made."""
        directory = self.directory
        return directory if directory.is_dir() else None

    async def make(
        self,
        flags: Sequence[str],
        environment: Mapping[str, str],
        greeting: Callable[[LastWords], Awaitable[Mapping[str, Any]]],
    ) -> None:
        """Run the driver once and keep what Deno kept; ``greeting`` is made from what the process said.

        Whatever goes wrong is no harm: kernels start without.
        """
        await anyio.to_thread.run_sync(lambda: self.cache.mkdir(parents=True, exist_ok=True))
        scratch = Path(
            await anyio.to_thread.run_sync(lambda: tempfile.mkdtemp(prefix=".deno-", dir=self.cache))
        )
        try:
            home = scratch / "made"
            words, pipes = LastWords(), Pipes()
            command = [str(self.deno), "run", *flags, *self.v8_flags, str(self.driver)]
            told = {**environment, "DENO_DIR": str(home)}
            start = Start(command, told, scratch, pipes=pipes, last_words=words)
            with contextlib.suppress(OSError, TimeoutError):
                await _run_once(start, PipeClient(pipes, lambda: greeting(words)))
                await anyio.to_thread.run_sync(self._keep, home)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _keep(self, made: Path) -> None:
        for left in made.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
        with contextlib.suppress(OSError):  # somebody else was quicker
            made.rename(self.directory)
        old = sorted(self.cache.glob("deno-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


async def _run_once(start: Start, client: PipeClient) -> None:
    """Start the driver, let it run a cell of ours, and wait for its end."""
    process = await start.open(NOTHING)
    with wanted(process.pid):
        try:
            async with anyio.create_task_group() as tasks:
                ending = watched(process, start, NOTHING)
                tasks.start_soon(ending.watch)
                tasks.start_soon(start.last_words.run)
                try:
                    with anyio.fail_after(DEADLINE_S):
                        await tasks.start(client.run)
                        await _run_cell(client)
                        await client.shutdown_request(timeout_s=DEADLINE_S)
                        await ending.wait()
                finally:
                    ending.kill_tree("it was only to compile the driver")
                    with anyio.CancelScope(shield=True):
                        await ending.wait()
                    tasks.cancel_scope.cancel()
        finally:
            start.last_words.close()
            if start.pipes is not None:
                start.pipes.close()


async def _run_cell(client: PipeClient) -> None:
    idle = anyio.Event()

    def hear(message: Message) -> None:
        if message.kind == "status" and b'"idle"' in message.content and message.parent_id == CELL:
            idle.set()

    client.on_message = hear
    client.execute("const one: number = 1; one + one", message_id=CELL)
    await idle.wait()

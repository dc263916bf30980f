"""Charts drawn by one warm process that is somebody else's to break: started on need, ended when it is not needed.

One request at a time: the process has one core's worth of work, and a queue before it that has a bound. What takes
too long or ends the process costs that process and no other request.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc

from cellwright import children
from cellwright.charts._wire import Build, Draw, Drawn, Failed, Request, decode_reply, framed
from cellwright.charts.encodings import Output
from cellwright.charts.kinds import ChartKindFailed, ChartKinds, registered_kinds
from cellwright.charts.themes import ThemeName
from cellwright.errors import ChartError, ChartRefused, DrawingFailed, SpecRefused
from cellwright.plugins.registry import registry
from cellwright_kernel.tables import Table

__all__ = ["Picture", "Renderer", "RendererLimits"]

_LENGTH_BYTES = 4
# What closed its end is ending, and says by its code why.
_OWN_END_S = 30.0
# How V8 ends when it can have no more memory.
_OUT_OF_MEMORY = (signal.SIGABRT, signal.SIGTRAP, signal.SIGILL, signal.SIGSEGV)
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "XDG_DATA_HOME",
    "FONTCONFIG_FILE",
)


@dataclass(frozen=True, slots=True)
class RendererLimits:
    time_s: float = 30
    """For one chart, from its turn on."""
    memory_bytes: int = 3 * 1024**3
    """Of the process that draws; V8 takes more than half a gigabyte of it as addresses alone."""
    idle_s: float = 300
    waiting: int = 64
    """Requests that may wait for their turn; the next is refused."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One output as everybody can use it."""

    type: str
    png: bytes | None
    """None for a table, or where no picture was asked for."""
    spec: dict[str, Any] | None
    """Vega-Lite; None for a table."""
    digest: str
    notices: tuple[str, ...]
    html: str | None
    """A table for people; None for a chart."""


class Renderer:
    """Use as an async context manager; leaving it ends the process."""

    def __init__(self, limits: RendererLimits | None = None) -> None:
        self._limits = limits or RendererLimits()
        self._turn = anyio.Lock()
        self._waiting = 0
        self._served = 0
        self._process: anyio.abc.Process | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._end_when_idle)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None  # for the type checker: it was entered
        self._tasks.cancel_scope.cancel()
        try:
            # What the caller's own block raised is none of the group's, which would wrap it.
            await self._tasks.__aexit__(None, None, None)
        finally:
            await self._end()

    @property
    def pid(self) -> int | None:
        """The process that draws, while there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def draw(
        self,
        spec: Mapping[str, Any],
        *,
        theme: ThemeName | None = None,
        scale: float = 1.5,
        max_width: int | None = None,
    ) -> bytes:
        """Draw a Vega-Lite or Vega spec as PNG; ``theme`` is for a spec that brings no look of its own.

        Raises:
            SpecRefused: it asks for something from outside, or is no spec.
            DrawingFailed: out of time or memory.
        """
        drawn = await self._ask(Draw(dict(spec), theme, scale, max_width))
        assert drawn.png is not None  # for the type checker: a spec is a picture
        return drawn.png

    async def chart(
        self,
        output: Output,
        data: bytes | Table,
        *,
        theme: ThemeName = "light",
        scale: float = 1.5,
        max_width: int | None = None,
        picture: bool = True,
    ) -> Picture:
        """Make an output's chart from its file's content, or from a table.

        Raises:
            ChartRefused: the data cannot be read, or not drawn as asked; ``problems`` names the fields.
            DrawingFailed: out of time or memory.
            ChartKindFailed: a plugin's chart type failed.
        """
        content, table = (None, data.to_wire()) if isinstance(data, Table) else (data, None)
        kinds = registered_kinds()
        with _reported(output.type, kinds):
            build = Build(output, content, table, theme, scale, max_width, picture, kinds.places)
            drawn = await self._ask(build)
        return Picture(drawn.type, drawn.png, drawn.spec, drawn.digest, drawn.notices, drawn.html)

    async def _ask(self, request: Request) -> Drawn:
        if self._waiting > self._limits.waiting:
            raise DrawingFailed(f"{self._waiting} charts wait to be drawn already", hint="Ask again later")
        try:
            message = framed(request)
        except ValueError as error:
            raise DrawingFailed(f"The chart's data is too large: {error}", hint="Draw fewer rows") from None
        self._waiting += 1
        try:
            async with self._turn:
                reply = await self._exchange_or_again(message)
        finally:
            self._waiting -= 1
            self._served += 1
        if isinstance(reply, Failed):
            raise _error(reply)
        return reply

    async def _exchange_or_again(self, message: bytes) -> Drawn | Failed:
        """A process that somebody killed says nothing about the chart: it is drawn by the next."""
        try:
            return await self._exchange(message)
        except _Ended as ended:
            if ended.code in [-number for number in _OUT_OF_MEMORY]:
                raise DrawingFailed(
                    _end_text(ended.code), hint="Draw fewer rows, or a smaller picture"
                ) from None
        try:
            return await self._exchange(message)
        except _Ended as ended:
            raise DrawingFailed(_end_text(ended.code), hint="Ask again, or draw fewer rows") from None

    async def _exchange(self, message: bytes) -> Drawn | Failed:
        whole = False
        try:
            with anyio.fail_after(self._limits.time_s):
                process = await self._running()
                reply = await _round_trip(process, message)
            whole = True
        except TimeoutError:
            raise _TooSlow(
                f"The chart was not drawn within {self._limits.time_s:g} s", hint="Draw fewer rows"
            ) from None
        except (
            anyio.EndOfStream,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            anyio.IncompleteRead,
        ):
            code = await self._end(grace_s=_OWN_END_S)
            raise _Ended(code) from None
        finally:
            # Cut off in the middle, its next words would be an answer to somebody else's question.
            if not whole:
                await self._end()
        return reply

    async def _running(self) -> anyio.abc.Process:
        if self._process is None or self._process.returncode is not None:
            await self._end()
            environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
            self._process = await anyio.open_process(
                [sys.executable, "-P", "-m", "cellwright.charts.worker", str(self._limits.memory_bytes)],
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={**environment, "TZ": "UTC"},
                start_new_session=True,
            )
        return self._process

    async def _end(self, *, grace_s: float = 0.0) -> int | None:
        """End the process, if there is one, and return its code."""
        process, self._process = self._process, None
        return await children.end(process, grace_s=grace_s) if process is not None else None

    async def _end_when_idle(self) -> None:
        while True:
            seen = self._served
            await anyio.sleep(self._limits.idle_s)
            async with self._turn:
                if self._served == seen:
                    await self._end()


class _Ended(Exception):
    """The process ended before it had answered."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class _TooSlow(DrawingFailed):
    """It took longer than a chart may."""


@contextmanager
def _reported(type_: str, kinds: ChartKinds) -> Iterator[None]:
    """Have it noted how a plugin's chart type did, which is out once it failed too often in a row. Nothing of ours is.

    Raises:
        ChartKindFailed: it failed; the message names it.
    """
    plugin = None if kinds.is_ours(type_) else registry().find("chart_types", type_)
    if plugin is None:
        yield
        return
    try:
        yield
    except (ChartKindFailed, _TooSlow) as error:
        reason = error.message if isinstance(error, ChartKindFailed) else "was not done in time"
        registry().report(plugin, reason)
        raise ChartKindFailed(
            f"The plugin {plugin.entry.id} {reason}",
            hint=f"Leave it out: `cellwright plugins disable {plugin.entry.id}`",
        ) from None
    registry().report(plugin, None)


async def _round_trip(process: anyio.abc.Process, message: bytes) -> Drawn | Failed:
    assert process.stdin is not None  # for the type checker: they are pipes
    assert process.stdout is not None  # for the type checker: they are pipes
    await process.stdin.send(message)
    received = bytearray()
    while len(received) < _LENGTH_BYTES or len(received) < _LENGTH_BYTES + int.from_bytes(
        received[:4], "big"
    ):
        received += await process.stdout.receive()
    return decode_reply(memoryview(received)[_LENGTH_BYTES:])


def _end_text(code: int | None) -> str:
    if code is not None and -code in _OUT_OF_MEMORY:
        return "The process that draws ran out of memory, or met something that it cannot draw"
    cause = (
        f"was ended by {signal.Signals(-code).name}"
        if code is not None and code < 0
        else f"ended with code {code}"
    )
    return f"The process that draws {cause} before the chart was ready"


def _error(failed: Failed) -> ChartError:
    if failed.code == ChartRefused.code:
        return ChartRefused(*failed.problems)
    kinds: dict[str, type[ChartError]] = {
        one.code: one for one in (SpecRefused, DrawingFailed, ChartKindFailed)
    }
    return kinds.get(failed.code, ChartError)("\n".join(failed.problems), hint=failed.hint)

"""Calls that a script makes of tools outside its sandbox, by a module that lies beside it: ``cellwright_api``.

A call is a file in the script's directory, and so is its answer: the sandbox lets code connect to nothing, and needs
no opening for this. The caller decides which tools it offers, and what a call may do.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import anyio

from cellwright.errors import CellwrightError, SandboxError
from cellwright.sandbox.files import Workdir

__all__ = ["MODULE", "CallRefused", "OfferedTools", "offered"]

MODULE = "cellwright_api"
"""The module that a script imports; it is put beside scripts only whose code has this word."""

_MOST_CALLS = 1_000
_MOST_BYTES = 6_000_000
_SHORTEST_S, _LONGEST_S = 0.005, 0.05
_CALL = ".cellwright-call-{}.{}"


class CallRefused(CellwrightError):
    """A script called a tool that there is not for it, or one that failed."""

    code = "call_refused"


class OfferedTools(Protocol):
    """Tools that a script may call."""

    def module(self, runtime: str) -> tuple[str, str] | None:
        """The name and the source of the module for a runtime; None where there is none for it."""

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call one of them.

        Raises:
            CallRefused: there is no such tool, or it failed.
        """


@asynccontextmanager
async def offered(tools: OfferedTools | None, written: Path, code: str, runtime: str) -> AsyncIterator[None]:
    """Answer the calls of a script that works in ``written`` meanwhile, where its code speaks of the module."""
    module = tools.module(runtime) if tools is not None and MODULE in code else None
    if tools is None or module is None or not await anyio.to_thread.run_sync(partial(_put, written, *module)):
        yield
        return
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_answer_all, tools, written)
            yield
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(_take_away, written, *module))


def _put(written: Path, name: str, source: str) -> bool:
    """Lay the module beside the script; a file of the script's own that has its name stays."""
    with Workdir.open(written) as inside:
        if inside.exists(name):
            return False
        inside.write(name, source.encode())
    return True


def _take_away(written: Path, name: str, source: str) -> None:
    with contextlib.suppress(SandboxError), Workdir.open(written) as inside:
        if inside.read(name, len(source.encode())) == source.encode():
            inside.remove(name)


async def _answer_all(tools: OfferedTools, written: Path) -> None:
    """Answer one call after the other, in their order: the module has one of them open at a time."""
    for number in count(1):
        pause = _SHORTEST_S
        # Looked for again and again: what changes in there reaches nobody out here by itself.
        while (request := await anyio.to_thread.run_sync(partial(_taken, written, number))) is None:
            await anyio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_S)
        too_many = {"error": f"A script makes at most {_MOST_CALLS:,} calls"}
        answer = await _answer(tools, request) if number <= _MOST_CALLS else too_many
        await anyio.to_thread.run_sync(partial(_reply, written, number, json.dumps(answer).encode()))


def _taken(written: Path, number: int) -> bytes | None:
    name = _CALL.format(number, "request")
    try:
        with Workdir.open(written) as inside:
            if not inside.exists(name):
                return None
            request = inside.read(name, _MOST_BYTES)
            inside.remove(name)
            return request
    except SandboxError:  # too large, or no plain file: what cannot be read is no call
        return b""


def _reply(written: Path, number: int, answer: bytes) -> None:
    with contextlib.suppress(SandboxError), Workdir.open(written) as inside:
        inside.write(_CALL.format(number, "reply"), answer)


async def _answer(tools: OfferedTools, request: bytes) -> dict[str, Any]:
    """The answer to a call; what it holds is the script's, and may be anything."""
    try:
        call = json.loads(request)
        tool, arguments = call["tool"], call["arguments"]
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return {"error": "A call has a tool and arguments"}
        return {"result": await tools.call(tool, arguments)}
    except CallRefused as error:
        return {"error": str(error)}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {"error": "A call is one JSON object with a tool and arguments"}

"""Asks a process of ours that reads strangers' bytes and ends: what it says within bounds, and how it ended.

The process confines itself before it looks at anything (``cellwright_kernel.confinement``); what it is asked and answers is for
``files.digests`` and ``web.fetch`` to say.
"""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
from anyio.abc import ByteReceiveStream, Process

from cellwright import children

__all__ = ["ask_apart"]

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")


async def ask_apart(
    module: str, *arguments: str, given: bytes | int, limit_s: float, most_answered: int
) -> tuple[bytes, int | None]:
    """What ``python -m module`` answers, cut at a bound, and its exit code.

    It finds ``given`` on its standard input: bytes, or the file of a descriptor.

    Raises:
        TimeoutError: it took longer than ``limit_s``. It is ended.
    """
    child = await anyio.open_process(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=given if isinstance(given, int) else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"TZ": "UTC"},
        start_new_session=True,
    )
    try:
        with anyio.fail_after(limit_s):
            if isinstance(given, bytes):
                await _send_order(child, given)
            answer = await _hear(child.stdout, most_answered)
            # One that says more than it may does not end by itself.
            if len(answer) > most_answered:
                children.kill(child)
            return answer, await child.wait()
    finally:
        await children.end(child)


async def _send_order(child: Process, order: bytes) -> None:
    if child.stdin is None:
        raise RuntimeError("the child was started without a pipe")
    try:
        await child.stdin.send(order)
        await child.stdin.aclose()
    except anyio.BrokenResourceError:
        pass  # it ended before it had read all: how tells its code


async def _hear(stream: ByteReceiveStream | None, most: int) -> bytes:
    answer = bytearray()
    if stream is not None:
        async for part in stream:
            answer += part
            if len(answer) > most:
                break
    return bytes(answer)

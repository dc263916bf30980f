"""Changes to the files of a session that works over a project: made by its own kernel, in its own sandbox.

What lies below a mounted overlay must not change under it, so nobody outside can write there while the kernel lives.
The kernel runs a few lines for it, which are in the history like everything else that it ran.
"""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from cellwright.engine import Session
from cellwright.errors import FileFailed, FileRefused, KernelBusy, NoSuchFile, SandboxError

__all__ = ["Change", "change_inside"]

Change: TypeAlias = Literal["write", "append", "delete", "move", "mkdir"]
_PART_BYTES = 8 << 20
"""What one order to the kernel brings; a larger file comes in several."""
_TIMEOUT_S = 60
_CLEANUP_S = 20
# Written by its rename, as everything is; what stands there is replaced, and a link is not followed.
_PROGRAM = """
import base64, os, zlib
path, data = order["path"], zlib.decompress(base64.b64decode(order["data"]))
above = os.path.dirname(path)
if order["change"] in ("write", "append", "mkdir"):
    os.makedirs(above or ".", exist_ok=True)
if order["change"] in ("write", "append"):
    made = os.path.join(above, order["made"])
    if order["first"] and order["change"] == "append" and os.path.lexists(path):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = file.read() + data
    try:
        with open(made, "xb" if order["first"] else "ab") as file:
            file.write(data)
        if order["last"]:
            os.rename(made, path)
    except BaseException:
        if os.path.lexists(made):
            os.unlink(made)
        raise
elif order["change"] == "delete":
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
elif order["change"] == "mkdir":
    os.makedirs(path, exist_ok=True)
elif order["change"] == "move":
    if os.path.lexists(order["to"]):
        raise FileExistsError(order["to"] + " is there already")
    os.makedirs(os.path.dirname(order["to"]) or ".", exist_ok=True)
    os.rename(path, order["to"])
"""
_ERRORS: dict[str, type[SandboxError]] = {
    "FileNotFoundError": NoSuchFile,
    "FileExistsError": FileRefused,
    "PermissionError": FileRefused,
}


async def change_inside(
    session: Session, change: Change, path: str, data: bytes = b"", to: str | None = None
) -> None:
    """Make one change in a session's working directory, by its kernel.

    Raises:
        KernelBusy: it runs a cell.
        SandboxError: it could not be made.
    """
    if session.runs.live:
        raise KernelBusy(
            f"Session {session.id} runs a cell, and its files wait for it", hint="Wait for its end"
        )
    order = {"change": change, "path": path, "to": to, "made": f".cellwright-{secrets.token_hex(8)}.tmp"}
    starts = range(0, max(1, len(data)), _PART_BYTES)
    try:
        for start in starts:
            ends = {"first": start == starts[0], "last": start == starts[-1]}
            await _obeyed(session, order | ends, data[start : start + _PART_BYTES])
    except BaseException:
        if len(starts) > 1:  # whoever gave up between two parts leaves nothing of them
            made = str(PurePosixPath(path).parent / str(order["made"]))
            with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(SandboxError):
                await _obeyed(session, {"change": "delete", "path": made})
        raise


async def _obeyed(session: Session, order: dict[str, Any], data: bytes = b"") -> None:
    # Packed: a kernel takes about a second for each megabyte of source.
    packed = await anyio.to_thread.run_sync(zlib.compress, data)
    told = json.dumps({**order, "data": base64.b64encode(packed).decode()})
    source = f"exec({_PROGRAM!r}, {{'order': __import__('json').loads({told!r})}})"
    execution = await session.execute_code(source, language="python", numbered=False, timeout_s=_TIMEOUT_S)
    await execution.wait()
    if not execution.ok:
        raise _failure(execution.error, execution.reason, order["path"])


def _failure(error: dict[str, Any] | None, reason: str | None, path: str) -> SandboxError:
    if error is None:
        return FileFailed(f"{path} could not be changed: {reason or 'the kernel did not do it'}")
    kind = _ERRORS.get(str(error.get("ename")), FileFailed)
    return kind(f"{path} could not be changed: {error.get('evalue')}", hint="List what is there")

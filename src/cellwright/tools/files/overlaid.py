"""Changes to the files of a session that works over a project: made by its own kernel, in its own box.

What lies below a mounted overlay must not change under it, so nobody outside can write there while the kernel lives.
The kernel runs a few lines for it, which are in the history like everything else that it ran.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Literal, TypeAlias

from cellwright.engine import Session
from cellwright.errors import FileFailed, FileRefused, FileTooLarge, KernelBusy, NoSuchFile, SandboxError

__all__ = ["Change", "change_inside"]

Change: TypeAlias = Literal["write", "append", "delete", "move", "mkdir"]
MAX_BYTES = 8 << 20
_TIMEOUT_S = 60
# Written by its rename, as everything is; what stands there is replaced, and a link is not followed.
_PROGRAM = """
import base64, os, secrets
path, data = order["path"], base64.b64decode(order["data"])
above = os.path.dirname(path)
if order["change"] in ("write", "append", "mkdir"):
    os.makedirs(above or ".", exist_ok=True)
if order["change"] in ("write", "append"):
    if order["change"] == "append" and os.path.lexists(path):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = file.read() + data
    made = os.path.join(above, ".cellwright-" + secrets.token_hex(8) + ".tmp")
    try:
        with open(made, "xb") as file:
            file.write(data)
        os.rename(made, path)
    finally:
        if os.path.lexists(made):
            os.unlink(made)
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
    if len(data) > MAX_BYTES:
        raise FileTooLarge(
            f"{path}: {len(data):,} bytes are more than {MAX_BYTES:,} over a project",
            hint="Write it in code, or in parts with action append",
        )
    if session.runs.live:
        raise KernelBusy(
            f"Session {session.id} runs a cell, and its files wait for it", hint="Wait for its end"
        )
    order = {"change": change, "path": path, "to": to, "data": base64.b64encode(data).decode()}
    source = f"exec({_PROGRAM!r}, {{'order': __import__('json').loads({json.dumps(order)!r})}})"
    execution = await session.execute_code(source, language="python", numbered=False, timeout_s=_TIMEOUT_S)
    await execution.wait()
    if not execution.ok:
        raise _failure(execution.error, execution.reason, path)


def _failure(error: dict[str, Any] | None, reason: str | None, path: str) -> SandboxError:
    if error is None:
        return FileFailed(f"{path} could not be changed: {reason or 'the kernel did not do it'}")
    kind = _ERRORS.get(str(error.get("ename")), FileFailed)
    return kind(f"{path} could not be changed: {error.get('evalue')}", hint="List what is there")

"""How child processes end. How they are started is the affair of whoever wants one.

asyncio's own way to signal a child (``Popen.send_signal``) asks first whether it has ended, and so takes the exit code
from the task that waits for it, which is told 255 instead. Here the question leaves the code where it is.
"""

from __future__ import annotations

import os
import signal

import anyio
from anyio.abc import Process

__all__ = ["end", "kill"]

_ASK_ONLY = os.WEXITED | os.WNOHANG | os.WNOWAIT
_GONE_S = 10.0


def kill(child: Process) -> None:
    """Kill a child, unless it is gone."""
    try:
        pidfd = os.pidfd_open(child.pid)
    except ProcessLookupError:
        return
    try:
        # Once it is gone its number may be a stranger's, who is no child of ours.
        os.waitid(os.P_PIDFD, pidfd, _ASK_ONLY)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except (ChildProcessError, ProcessLookupError):
        pass
    finally:
        os.close(pidfd)


async def end(child: Process, *, grace_s: float = 0.0) -> int | None:
    """Make sure that a child is gone, and return its exit code; None where the system does not let go of it.

    One that is about to end by itself has ``grace_s`` for it, so that its code is its own.
    """
    with anyio.move_on_after(grace_s + _GONE_S, shield=True):
        if child.returncode is None:
            with anyio.move_on_after(grace_s):
                await child.wait()
        if child.returncode is None:
            kill(child)
        await child.wait()
        await child.aclose()
    return child.returncode

"""Becomes another program, after tying its life to our parent's: ``spawn.py PARENT_PID program argument…``.

For kernels that are not forked by us and know nothing of a lifeline. Both ties survive ``exec``: the kernel dies
with the host, and keeps the orphans of its own subprocesses, so that its tree can be found.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main(argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The host may have died before the tie was made. In a job step (0) the parent is the step's manager.
    if int(argv[0]) not in (0, os.getppid()):
        sys.exit("the process that starts this kernel has ended")
    # In a job step it was ignored so far.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        os.execvp(argv[1], argv[1:])
    except OSError as error:
        sys.exit(f"{argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])

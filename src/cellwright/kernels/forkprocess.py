"""Starts a fork server's process. What is said to it is ``forkchannel``'s, what for is ``forkserver``'s."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.kernels.interpreters import Interpreter
from cellwright.kernels.lastwords import LastWords
from cellwright.kernels.programs import Program, Programs, Started, own_script

__all__ = ["END_GRACE_S", "start_fork_server"]

END_GRACE_S = 5.0


async def start_fork_server(
    interpreter: Interpreter,
    preload: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    last_words: LastWords,
    programs: Programs,
    *,
    at_once: bool,
    single: bool,
) -> tuple[Started, socket.socket]:
    """The process, and this side's end of the channel to it.

    It warms up ``at_once``, or when nobody has wanted a kernel for a while.

    Raises:
        KernelStartError: the interpreter cannot be run.
    """
    host_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server_end:
        options = ["--at-once"] * at_once + ["--single"] * single
        for layer in interpreter.layers:
            options += ["--layer", str(layer)]
        for module in preload:
            options += ["--preload", module]
        channel = ["--channel", str(server_end.fileno())]
        program = Program(
            [str(interpreter.python), own_script("__main__.py"), *channel, *options],
            environment,
            directory,
            stdout=last_words.write_fd,
            stderr=last_words.write_fd,
            fds=[server_end.fileno()],
        )
        try:
            started = await programs.open(program)
        except BaseException as error:
            host_end.close()
            last_words.close()
            if isinstance(error, OSError):
                raise KernelStartError(f"{interpreter.python} could not be started: {error}") from error
            raise
        finally:
            last_words.handed_over()
    return started, host_end

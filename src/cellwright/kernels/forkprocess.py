"""Starts and ends a fork server's process. What is said to it is ``forkchannel``'s, what for is ``forkserver``'s."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import cellwright_kernel
from cellwright.errors import KernelStartError
from cellwright.kernels.interpreters import Interpreter
from cellwright.kernels.lastwords import LastWords

__all__ = ["end_fork_server", "start_fork_server"]

END_GRACE_S = 5.0


def start_fork_server(
    interpreter: Interpreter,
    preload: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    last_words: LastWords,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and this side's end of the channel to it.

    Raises:
        KernelStartError: the interpreter cannot be run.
    """
    host_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server_end:
        script = Path(cellwright_kernel.__file__).with_name("__main__.py")
        command = [str(interpreter.python), str(script), "--channel", str(server_end.fileno())]
        for layer in interpreter.layers:
            command += ["--layer", str(layer)]
        for module in preload:
            command += ["--preload", module]
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=last_words.write_fd,
                stderr=last_words.write_fd,
                pass_fds=[server_end.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            host_end.close()
            last_words.close()
            raise KernelStartError(f"{interpreter.python} could not be started: {error}") from error
        finally:
            last_words.handed_over()
    return process, host_end


def end_fork_server(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose channel is closed; kill it if it does not end. Blocking."""
    try:
        process.wait(END_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""Runs a plain script in a fork of the kernel, as ``python script.py`` would: own streams, own ``__main__``, real exit code.

The kernel stays outside: it passes on what the script writes as it comes, waits for its end, and ends whatever the
script started. Interrupted, it ends the script itself, and is still there to tell so. What becomes of the exit code and
of the files is the engine's business.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import codecs
import contextlib
import contextvars
import faulthandler
import gc
import io
import logging
import os
import select
import signal
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from cellwright_kernel._checkpoints import flush
from cellwright_kernel.descendants import become_subreaper, children_of, kill_tree

__all__ = ["run"]

FAILED = 1
READ_BYTES = 1 << 16
STANDARD = 3
NO_INPUT = "this run has no standard input: put the value into the code, or into a file that the code reads"
INLINE = "module://matplotlib_inline"


def run(shell: Any, source: str, name: str, argv: Sequence[str] = ()) -> None:
    """Run a script to its end and note its exit code; negative where a signal ended it.

    It lies in the working directory by its name meanwhile, as a script does: what is imported, shown in a traceback or
    started beside it finds it there.
    """
    path = f"{os.getcwd()}/{name}"  # strings throughout
    with _lying_at(path, source):
        before = frozenset(children_of(os.getpid()))
        become_subreaper()
        flush()
        shell.exit_code = _attended(before, lambda: _forked(shell, source, path, [name, *argv]))


@contextlib.contextmanager
def _lying_at(path: str, source: str) -> Iterator[None]:
    content = source.encode("utf-8", "backslashreplace")
    with open(path, "wb") as file:
        file.write(content)
    try:
        yield
    finally:
        # What the script itself put there is a file that it left.
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                same = file.read(len(content) + 1) == content
            if same:
                os.unlink(path)


# The kernel's side --------------------------------------------------------------------------------------------------


class _Script:
    """A script that runs, and the pipes it writes to."""

    def __init__(self, pid: int, pipes: Sequence[int]) -> None:
        self.pid = pid
        self._end = _end_of(pid)
        self._decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in pipes}
        self._streams = dict(zip(pipes, (sys.stdout, sys.stderr), strict=True))
        for fd in pipes:
            os.set_blocking(fd, False)

    def follow(self) -> None:
        """Pass on what it writes, until it has ended."""
        poller = select.poll()
        for fd in (*self._streams, self._end):
            poller.register(fd, select.POLLIN)
        while True:
            for fd, _ in poller.poll():
                if fd == self._end:
                    return
                if not self._pass_on(fd):
                    poller.unregister(fd)

    def drain(self) -> None:
        """Pass on what nobody has read yet; whoever wrote it is gone."""
        for fd, stream in self._streams.items():
            while self._pass_on(fd):
                pass
            stream.write(self._decoders[fd].decode(b"", final=True))

    def close(self) -> None:
        for fd in (*self._streams, self._end):
            os.close(fd)

    def _pass_on(self, fd: int) -> bool:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if text := self._decoders[fd].decode(data):
            self._streams[fd].write(text)
        return bool(data)


def _end_of(pid: int) -> int:
    """A descriptor that is readable once a child has ended, which is still to be buried.

    No pidfd: without a pid namespace there are none.
    """
    read, write = os.pipe2(os.O_CLOEXEC)

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(write)

    threading.Thread(target=wait, name="script", daemon=True).start()
    return read


def _attended(before: frozenset[int], start: Callable[[], _Script]) -> int:
    """Start a script, see it through, and end what it leaves."""
    script: _Script | None = None
    try:
        script = start()
        script.follow()
    except KeyboardInterrupt:
        # The next one would come in the middle of clearing up. The kernel has its own handler back after this cell.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if script is None:
            _end_all(before)
            raise
        kill_tree(script.pid)
    _, status = os.waitpid(script.pid, 0)
    _end_all(before)
    script.drain()
    script.close()
    return os.waitstatus_to_exitcode(status)


def _end_all(before: frozenset[int]) -> None:
    """End every process below this one that was not there before, and bury it."""
    while rest := [child for child in children_of(os.getpid()) if child not in before]:
        for child in rest:
            kill_tree(child)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _forked(shell: Any, source: str, path: str, argv: list[str]) -> _Script:
    pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
    with warnings.catch_warnings():
        # That other threads are not in the fork is what this is made for.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _be_script(shell, source, path, argv, [write for _, write in pipes])
    for _, write in pipes:
        os.close(write)
    return _Script(pid, [read for read, _ in pipes])


# The script's side --------------------------------------------------------------------------------------------------


def _be_script(shell: Any, source: str, path: str, argv: list[str], pipes: list[int]) -> NoReturn:
    """Whatever happens here, nothing of the kernel may go on in this process."""
    code = FAILED
    try:
        # Whoever interrupts the kernel interrupts its group.
        os.setsid()
        _take_streams(pipes)
        _leave_kernel(shell)
        code = contextvars.Context().run(_run_main, source, path, argv)
        code = _end_of_interpreter(code)
    except BaseException:  # noqa: BLE001  # boundary: of the process
        traceback.print_exc()
    finally:
        os._exit(code)


def _take_streams(pipes: list[int]) -> None:
    """Standard streams of its own, unbuffered: what was written is safe, however the script ends."""
    for number, fd in zip((1, 2), pipes, strict=True):
        os.dup2(fd, number)
    faulthandler.disable()
    # The kernel's sockets are its own, and nothing of it goes on here that would use them.
    os.closerange(STANDARD, os.sysconf("SC_OPEN_MAX"))
    streams = {
        "stdin": _NoInput(),
        "stdout": _stream(1, "surrogateescape"),
        "stderr": _stream(2, "backslashreplace"),
    }
    for name, stream in streams.items():
        vars(sys).update({name: stream, f"__{name}__": stream})


def _stream(fd: int, errors: str) -> io.TextIOWrapper:
    raw: Any = io.FileIO(fd, "wb", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


class _NoInput(io.TextIOBase):
    """Standard input that says why there is none."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readline(self, *_: Any) -> str:  # type: ignore[override]  # however it is asked
        raise EOFError(NO_INPUT)

    def read(self, *_: Any) -> str:
        raise EOFError(NO_INPUT)


def _leave_kernel(shell: Any) -> None:
    """Undo what makes a process a notebook's: code must find Python as it is."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _leave_loop()
    with contextlib.suppress(Exception):
        shell.builtin_trap.deactivate()
        type(shell).clear_instance()
    builtins.input = shell.kernel._sys_raw_input  # where ipykernel keeps it
    if (getpass := sys.modules.get("getpass")) is not None:
        getpass.getpass = shell.kernel._save_getpass  # type: ignore[attr-defined]  # as above
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
    for name in ("ps1", "ps2", "ps3", "last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    _leave_inline()
    _forget_exits()
    # What there is so far stays to the end: nobody need look through it.
    gc.freeze()


def _leave_loop() -> None:
    """No event loop runs here any more."""
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        if (task := asyncio.current_task()) is not None:
            asyncio.tasks._leave_task(loop, task)  # there is no other way
    asyncio._set_running_loop(None)  # as above
    asyncio.set_event_loop(None)


def _leave_inline() -> None:
    """Figures are for files here."""
    if os.environ.get("MPLBACKEND", "").startswith(INLINE):
        os.environ["MPLBACKEND"] = "agg"
    matplotlib = sys.modules.get("matplotlib")
    if matplotlib is not None:
        with contextlib.suppress(Exception):
            matplotlib.use("agg")


def _forget_exits() -> None:
    """The kernel's own clearing up is not this process's; the standard library's is."""
    atexit._clear()  # nobody can tell which of them are whose
    atexit.register(logging.shutdown)
    if weakref.finalize._registered_with_atexit:  # type: ignore[attr-defined]  # as above
        atexit.register(weakref.finalize._exitfunc)  # type: ignore[attr-defined]
    if (processes := sys.modules.get("multiprocessing.util")) is not None:
        atexit.register(processes._exit_function)


def _run_main(source: str, path: str, argv: list[str]) -> int:
    """Run the source as ``__main__``; returns its exit code, having printed what it did not catch."""
    module = types.ModuleType("__main__")
    vars(module).update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    sys.argv[:] = argv
    directory = os.path.dirname(path)
    sys.path[:] = [directory, *(entry for entry in sys.path if entry not in ("", directory))]
    try:
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))  # noqa: S102  # what this is for
    except SystemExit as error:
        return _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001  # as the interpreter does
        trace = _own_part(error.__traceback__)
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else FAILED
    return 0


def _own_part(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of this module, at either end of it."""
    trace = entry = trace.tb_next if trace is not None else None
    while entry is not None and entry.tb_next is not None:
        if entry.tb_next.tb_frame.f_code.co_filename == __file__:
            entry.tb_next = None
        entry = entry.tb_next
    return trace


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return FAILED


def _end_of_interpreter(code: int) -> int:
    """What the interpreter does at its end, short of taking itself apart."""
    threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing does in its forks
    atexit._run_exitfuncs()  # as above
    # Files that nobody closed are written when they go with their names.
    vars(sys.modules.pop("__main__")).clear()
    gc.collect()
    flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code

"""The process that forks kernels: one thread, no event loop, no sockets but the one it was given.

It answers packets on an inherited SOCK_SEQPACKET socket, one JSON object each::

    host → {"op": "fork", "id": 7, "connection_file": …, "max_bytes": …, "max_messages": …} + 5 descriptors
           with "plan": …, "directory": … the child is confined (see lockdown)
           with "given": true its plan mounts what another sandbox handed out, of which there is a descriptor more
           with "group": true it first enters its group, and there is one more; "processors": […] are all it runs on
    ←      {"op": "ready", "failures": {"module": "why it was not preloaded"}, "paths": ["what to keep readable"],
            "version": "3.12", "search": ["where it imports from, in order"]}
    ←      {"op": "warm"} once it has done beforehand what it can; kernels that are forked earlier start slower
    ←      {"op": "forked", "id": 7, "pid": 4711} + a pidfd
    ←      {"op": "refused", "id": 7, "reason": …}
    ←      {"op": "exited", "pid": 4711, "status": -9}

The descriptors are the kernel's stderr, the write end of its ready pipe, the read end of its lifeline, a socket over
which the host talks to whoever stays beside the kernel, and one over which the kernel itself is asked for checkpoints
(see checkpoints); last, the entrance of its group.
End of file on the channel means that the host is gone, and then everything forked here goes too.
What a forked child does next is ``kernelapp``'s.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellwright_kernel import _lockdown, descendants
from cellwright_kernel._forksafety import threads_to_lose
from cellwright_kernel._kernel_job import Job
from cellwright_kernel._librarycaches import hold_notices

__all__ = ["main"]
PACKET_BYTES = 1 << 18

FDS_PER_JOB = 5

CHANNELS, BACKLOG = 5, 64

# Whoever was just forked needs the processor more than those to come.
PAUSE_MS = 500

# Where no kernels stand by, there may be none to come.
CALM_MS = 2_000


def main(argv: list[str]) -> None:
    """Preload, serve until the host is gone, and in a forked child run the kernel."""
    arguments = _parse(argv)
    sys.path.extend(arguments.layer)
    # A channel that a preloaded module's subprocess inherited would hide the host's end from us.
    os.set_inheritable(arguments.channel, False)
    channel = socket.socket(fileno=arguments.channel)
    descendants.become_subreaper()
    # Objects made here live as long as every kernel: collecting them would only unshare their pages.
    gc.disable()
    failures = preload(arguments.preload)
    gc.freeze()
    # Where none stand by, mostly nobody types, and completion is two fifths of the work.
    steps = warming(completes=arguments.at_once)
    server = ForkServer(channel, steps, at_once=arguments.at_once, single=arguments.single)
    server.tell({"op": "ready", "failures": failures, "paths": _own_paths(), **_python()})
    job = server.serve()
    if job is not None:
        # The server's frames are gone by now: user code finds none of them on its stack.
        del server, channel
        gc.enable()
        _join(job)
        job = _set_beside(job)
        from cellwright_kernel._kernelapp import run_kernel  # preloaded, bound only in the child

        run_kernel(job)
        # What user code registered runs; taking the interpreter apart object by object would only unshare pages.
        atexit._run_exitfuncs()  # noqa: SLF001  # there is no public way
        os._exit(0)


def _join(job: Job) -> None:
    try:
        _lockdown.join_cgroup(job.group_fd, job.processors)
    except OSError as error:
        os.write(job.stderr_fd, f"The kernel could not enter its group: {error}\n".encode())
        os._exit(_lockdown.FAILED)


def _set_beside(job: Job) -> Job:
    """Go on in a process that is watched by another, and confined if it is to be."""
    # The lifeline goes there too: the kernel's own code can neither close it nor be asked to mind it.
    lines = _lockdown.Lifelines(job.control_fd, job.lifeline_fd)
    keep = [job.stderr_fd, job.ready_fd, job.line_fd]
    plan = job.plan
    if plan is None:
        _lockdown.accompany(lines, keep)
        return job
    if not plan["namespaces"]:
        # Later it may not listen any more: there is no network of its own, and everybody could connect to it.
        plan = {**plan, "bound": True}
        job = replace(job, listeners=_listen(job.connection_file), plan=plan)
        keep += job.listeners
    _lockdown.confine(plan, lines, keep, job.directory)
    return job


def _listen(connection_file: str) -> tuple[int, ...]:
    """The sockets of a kernel's channels, in their order."""
    with open(connection_file, encoding="utf-8") as file:
        prefix = json.load(file)["ip"]
    listeners = []
    for channel in range(1, CHANNELS + 1):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{prefix}-{channel}")
        listener.listen(BACKLOG)
        listener.setblocking(False)
        listeners.append(listener.detach())
    return tuple(listeners)


def _own_paths() -> list[str]:
    """Every directory that this interpreter runs from or imports from."""
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.realpath(sys.executable), *sys.path]
    # The package itself is not on the path (see __main__).
    places.append(os.path.dirname(os.path.abspath(__file__)))
    return sorted({os.path.abspath(place) for place in places if place and os.path.exists(place)})


def _python() -> dict[str, Any]:
    """What packages must fit: told before any session's code could change it."""
    search = [os.path.abspath(place) for place in sys.path if place and os.path.isdir(place)]
    return {"version": f"{sys.version_info[0]}.{sys.version_info[1]}", "search": search}


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cellwright-forkserver", description="Forks Jupyter kernels.")
    parser.add_argument("--channel", type=int, required=True, help="descriptor of the socket to the host")
    parser.add_argument("--layer", action="append", default=[], help="directory added at the end of sys.path")
    parser.add_argument("--preload", action="append", default=[], help="module to import before forking")
    parser.add_argument("--at-once", action="store_true", help="warm up before a kernel is wanted")
    parser.add_argument("--single", action="store_true", help="one kernel is wanted, and no others after it")
    return parser.parse_args(argv)


class ForkServer:
    """Forks on request and reports ends, until its channel closes."""

    def __init__(
        self, channel: socket.socket, warming: Iterator[None], *, at_once: bool, single: bool
    ) -> None:
        """``warming`` goes on ``at_once``, or when all is calm, or before the second fork; a ``single`` one needs none."""
        self._channel = channel
        self._warming: Iterator[None] | None = warming
        self._at_once = at_once
        self._single = single
        self._has_forked = False
        self._kernels: set[int] = set()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one packet; a host that is gone is noticed where the channel is read."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._channel, [json.dumps(message).encode()], fds)

    def serve(self) -> Job | None:
        """Answer until the host is gone (None), or return in a forked child with its job."""
        poller = select.poll()
        poller.register(self._channel, select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll(self._timeout_ms())}
            if not ready:
                self._warm_on()
            if self._wake_read in ready:
                self._reap()
            if self._channel.fileno() in ready:
                data, fds, _, _ = socket.recv_fds(self._channel, PACKET_BYTES, 16)
                if not data:
                    self._end_everything()
                    return None
                job = self._answer(data, fds)
                if job is not None:
                    return job

    def _timeout_ms(self) -> int | None:
        """How long to listen before the next step of the warming; None where there is none."""
        if self._warming is None:
            return None
        if not self._at_once:
            return CALM_MS
        return PAUSE_MS if self._kernels else 0

    def _warm_on(self) -> None:
        if self._warming is None:
            return
        # Boundary: what cannot be done beforehand a kernel tries itself, and tells of it.
        with contextlib.suppress(Exception):
            next(self._warming)
            return
        self._warming = None
        # Only what came since the last freeze can be of the throwaway shell; the rest would be looked through in vain.
        gc.collect()
        gc.freeze()
        self.tell({"op": "warm"})

    def _answer(self, data: bytes, fds: list[int]) -> Job | None:
        request_id = None
        try:
            request = json.loads(data)
            request_id = request.get("id")
            job = _job_from(request, fds)
            # The first does not wait. The second tells that there will be more, all of them cheaper.
            while self._has_forked and self._warming is not None:
                self._warm_on()
            _require_single_thread()
            pid = os.fork()
        except Exception as error:  # noqa: BLE001  # boundary: a bad request must not end every other kernel
            _close(fds)
            self.tell({"op": "refused", "id": request_id, "reason": f"{type(error).__name__}: {error}"})
            return None
        if pid == 0:
            self._leave()
            return job
        _close(fds)
        self._kernels.add(pid)
        self._has_forked = True
        if self._single:
            self._warming = None
        pidfd = os.pidfd_open(pid)
        self.tell({"op": "forked", "id": request_id, "pid": pid}, (pidfd,))
        os.close(pidfd)
        return None

    def _leave(self) -> None:
        """In the child: let go of what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _close([self._wake_read, self._wake_write])
        self._channel.close()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while (ended := _next_ended()) is not None:
            pid, status = ended
            if pid in self._kernels:
                self._kernels.discard(pid)
                self.tell({"op": "exited", "pid": pid, "status": status})
        # Who stays beside a kernel keeps its orphans; a stranger here was left behind by one that is dead.
        for pid in descendants.children_of(os.getpid()):
            if pid not in self._kernels:
                descendants.kill_tree(pid)

    def _end_everything(self) -> None:
        for pid in descendants.children_of(os.getpid()):
            descendants.kill_tree(pid)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
                for pid in descendants.children_of(os.getpid()):
                    descendants.kill_tree(pid)


def _job_from(request: dict[str, Any], fds: list[int]) -> Job:
    if request.get("op") != "fork":
        raise ValueError(f"unknown operation {request.get('op')!r}")
    grouped, given = bool(request.get("group")), bool(request.get("given"))
    expected = FDS_PER_JOB + grouped + given
    if len(fds) != expected:
        raise ValueError(f"a fork takes {expected} descriptors, not {len(fds)}")
    for fd in fds:
        os.set_inheritable(fd, False)
    connection_file = str(request["connection_file"])
    plan = request.get("plan")
    if plan is not None and given:
        for entry in plan["mounts"]:
            if entry["kind"] == "given":
                entry["fd"] = fds[FDS_PER_JOB]
    return Job(
        connection_file=connection_file,
        max_bytes=int(request["max_bytes"]),
        max_messages=int(request["max_messages"]),
        stderr_fd=fds[0],
        ready_fd=fds[1],
        lifeline_fd=fds[2],
        control_fd=fds[3],
        line_fd=fds[4],
        profile=str(request.get("profile") or f"{os.path.dirname(connection_file)}/profile"),
        plan=plan,
        directory=str(request.get("directory", "")),
        group_fd=fds[-1] if grouped else -1,
        processors=tuple(request.get("processors", ())),
    )


def _require_single_thread() -> None:
    # A fork copies only the calling thread: a lock that another one holds would stay locked in every kernel.
    threads = len(threads_to_lose())
    if threads != 1:
        raise RuntimeError(f"{threads} threads run in the fork server; a preloaded module started them")


def _next_ended() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def _close(fds: list[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


# Makes the fork server worth forking: imports what kernels import, and runs IPython once so that it is warm.

INLINE_BACKEND = "module://matplotlib_inline.backend_inline"

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

MAX_REASON = 500

# What ipykernel imports only in a kernel that starts; another release of it may want more, and then starts slower.
KERNEL_MODULES = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "tornado.queues",
)

# The first error costs a cold kernel 130 ms: pygments, stack_data and the formatters load lazily.
WARM_CELLS = (
    "import sys; x = 1 + 1; x",
    "def f():\n    return 1 / 0\nf()",
    "raise ValueError('x')",
    "a b",
    "%time 1",
    "import asyncio\nawait asyncio.sleep(0)",
)

# An error's traceback shows the library's code, and to show a line of a file the whole file is parsed: half a second
# in pandas, for the most common of all errors there. What was parsed is kept.
WARM_ERRORS = {"pandas": "import pandas\npandas.DataFrame({'a': [1]})['b']"}


def preload(modules: list[str]) -> dict[str, str]:
    """Import what a kernel cannot do without; returns the modules that could not be imported, each with the reason."""
    # pyplot chooses its backend when it is imported: without this, figures of preloaded pyplot would vanish.
    os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
    hold_notices()
    with _one_thread_each():
        _import_without_debugger()
        return _import_all(modules)


def warming(*, completes: bool = True) -> Iterator[None]:
    """Import and run, a step at a time, what a kernel would otherwise do itself; a fork between steps is sound."""
    with _one_thread_each():
        _import_all(KERNEL_MODULES)
    yield
    _warm_ipython(completes=completes)
    yield


def _import_without_debugger() -> None:
    """Import ipykernel so that it finds no debugpy: it would load that into every kernel, where nobody can attach."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # how an import is refused
    try:
        importlib.import_module("ipykernel.debugger")
    finally:
        del sys.modules["debugpy"]  # user code may have it
    from cellwright_kernel import _kernelapp as kernelapp  # noqa: F401  # all that a kernel is


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Numeric libraries start their threads when imported, unless told otherwise."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _import_all(modules: Sequence[str]) -> dict[str, str]:
    failures: dict[str, str] = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  # boundary: any module may fail in any way; the user is told
            failures[name] = f"{type(error).__name__}: {error}"[:MAX_REASON]
    return failures


def _throwaway() -> str:
    """A directory below our own, which goes with it should we be ended before we remove it."""
    return tempfile.mkdtemp(prefix="warm-", dir=Path.cwd())


def _warm_ipython(*, completes: bool) -> None:
    """Run a throwaway shell, so that its caches, compiled patterns and lazy imports are shared by all kernels."""
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    directory = _throwaway()
    config.ProfileDir.location = directory
    with _interpreter_restored(), _silenced():
        shell: Any = InteractiveShell.instance(config=config, ipython_dir=directory)
        errors = [cell for module, cell in WARM_ERRORS.items() if module in sys.modules]
        for cell in (*WARM_CELLS, *errors):
            shell.run_cell(cell)
        if completes:
            with provisionalcompleter():
                list(shell.Completer.completions("sys.pa", 6))
        shell.inspector.info(len)
        shell.reset(new_session=False)
        atexit.unregister(shell.atexit_operations)
        InteractiveShell.clear_instance()
    shutil.rmtree(directory, ignore_errors=True)
    _close_event_loops()


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _interpreter_restored() -> Iterator[None]:
    """Undo what a shell changes in the interpreter around it."""
    names = ("displayhook", "excepthook", "ps1", "ps2", "ps3")
    saved = {name: getattr(sys, name) for name in names if hasattr(sys, name)}
    main, path, environment = sys.modules["__main__"], list(sys.path), dict(os.environ)
    try:
        yield
    finally:
        for name in (*names, "last_type", "last_value", "last_traceback", "last_exc"):
            if hasattr(sys, name):
                delattr(sys, name)
        for name, value in saved.items():
            setattr(sys, name, value)
        sys.modules["__main__"] = main
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)


def _close_event_loops() -> None:
    """Close the loops that the warm-up used: a child would share their epoll descriptor with its siblings."""
    from IPython.core import async_helpers

    cached = getattr(async_helpers, "_asyncio_event_loop", None)
    if cached is not None:
        cached.close()
        async_helpers._asyncio_event_loop = None  # noqa: SLF001  # IPython's own cache
    asyncio.set_event_loop(None)
    asyncio.set_event_loop_policy(None)

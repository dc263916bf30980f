# mypy: allow-untyped-calls
# (ipykernel is typed only in part.)
"""The application around a kernel (``kernel``): what a forked child becomes, and a copy of a kernel once more.

The order in ``run_kernel`` is fixed: first the process is set apart from its parent, then whatever confines it,
then ipykernel starts. User code runs only after the ready byte was written.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.kernelapp import IPKernelApp
from IPython.core.profiledir import ProfileDir
from traitlets import Type
from traitlets.config import Config

from cellwright_kernel._adoption import reseed
from cellwright_kernel._checkpoints import Freezer, NewKernel, Reborn, forgotten
from cellwright_kernel._kernel import Kernel
from cellwright_kernel._kernel_job import Job
from cellwright_kernel._librarycaches import look_anew
from cellwright_kernel._outputs import CappedOutStream, CappedSession, Limits, OutputGate, PromptIOPubThread

__all__ = ["run_kernel"]
READY = b"R"

CHANNEL_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


def run_kernel(job: Job) -> None:
    """Turn this forked child into a kernel and run it to its end."""
    _set_apart(job.stderr_fd)
    reseed()
    look_anew()
    app = build_app(
        job.connection_file, profile=job.profile, max_bytes=job.max_bytes, max_messages=job.max_messages
    )
    if job.listeners:
        app.listeners = dict(zip(CHANNEL_PORTS, job.listeners, strict=True))
    app.initialize([])
    app.ready_fd = job.ready_fd
    app.line_fd = job.line_fd
    context = contextvars.copy_context()
    while True:
        try:
            context.run(app.start)
        except Reborn as reborn:
            # A copy of the kernel begins here again: what called this before is the kernel's, not its.
            kernel, carried = reborn.kernel, reborn.carried
        else:
            return
        try:
            _set_apart(kernel.stderr_fd)
            context = carried.context
            app = context.run(rebuild_app, app, kernel)
            app.numbers = carried.numbers
        except BaseException:
            # The streams are those of the kernel that this was: nobody would read it there.
            os.write(kernel.stderr_fd, traceback.format_exc().encode())
            raise


def _set_apart(stderr_fd: int) -> None:
    os.setsid()
    for number in (signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, termination())
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stderr_fd, 1)
    os.dup2(stderr_fd, 2)
    os.close(null)
    # A crash in native code then says where, on the descriptor that the host reads. Descriptor 2 will be captured.
    faulthandler.enable(file=stderr_fd)
    sys.argv[:] = ["ipykernel_launcher.py"]


def build_app(connection_file: str, *, profile: str, max_bytes: int, max_messages: int) -> KernelApp:
    """The application, configured but not yet initialized."""
    config = Config()
    config.HistoryManager.enabled = False
    # Whoever asks what this kernel is gets a banner, and its tip would be drawn from the user's random numbers.
    config.ZMQInteractiveShell.enable_tip = False
    config.IPKernelApp.connection_file = connection_file
    config.IPKernelApp.parent_handle = 0  # the lifeline does that work, without polling
    config.IPKernelApp.log_level = 40
    config.ProfileDir.location = profile
    # What is sent without a copy is let go by a thread of pyzmq's, with which no checkpoint can be taken.
    config.Session.copy_threshold = sys.maxsize
    app: KernelApp = KernelApp.instance(config=config)
    app.connection_file = connection_file
    app.gate = OutputGate(Limits(max_bytes, max_messages))
    return app


def rebuild_app(before: KernelApp, kernel: NewKernel) -> KernelApp:
    """The application again, on new sockets, around the same shell with all that code has made of it."""
    atexit.unregister(before.close)
    forgotten.append(before)
    zmq.Context._instance = None  # noqa: SLF001  # it is the origin's
    asyncio.set_event_loop(asyncio.new_event_loop())
    KernelApp.clear_instance()
    Kernel.clear_instance()
    app: KernelApp = KernelApp.instance(config=before.config)
    app.gate = OutputGate(Limits(kernel.max_bytes, kernel.max_messages))
    app.profile_dir = before.profile_dir
    app.before, app.listeners = before, dict(zip(CHANNEL_PORTS, kernel.listeners, strict=True))
    connection: Any = connection_at(kernel.prefix, kernel.key)
    app.load_connection_info(connection)
    app.ready_fd, app.line_fd = kernel.ready_fd, kernel.line_fd
    app.reinitialize()
    return app


def connection_at(prefix: str, key: str) -> dict[str, Any]:
    """A connection file's content for unix sockets at ``prefix-1`` to ``prefix-5``."""
    return {
        "transport": "ipc",
        "ip": prefix,
        "key": key,
        "signature_scheme": "hmac-sha256",
        **CHANNEL_PORTS,
    }


class GivenHeartbeat(Heartbeat):
    """Upstream's, on a socket that somebody else has bound."""

    listener: int

    def _bind_socket(self) -> None:
        self.socket.setsockopt(zmq.USE_FD, self.listener)
        super()._bind_socket()


class KernelApp(IPKernelApp):
    """ipykernel's application on unix sockets, with nothing read from the user's configuration."""

    kernel_class = Type(Kernel)
    gate: OutputGate
    ready_fd: int | None = None
    line_fd: int | None = None
    numbers: Any = None
    """The state of Python's random numbers that code is to find, where it has had some before."""
    before: KernelApp | None = None
    """The application of the kernel that this one is a copy of, if it is one."""
    listeners: dict[str, int] = {}  # noqa: RUF012  # replaced, never changed
    """Sockets that somebody else has bound, by the port's name."""

    def reinitialize(self) -> None:
        """As ``initialize``, but for what the shell has already."""
        self.init_sockets()
        self.init_heartbeat()
        self.log_connection_info()
        self.init_io()
        self.init_signal()
        self.init_kernel()
        self.init_shell()
        shell: Any = self.shell
        shell.kernel = shell.parent = self.kernel

    def _bind_socket(self, s: Any, port: int) -> int:
        name = next((name for name, number in CHANNEL_PORTS.items() if number == port), "")
        if name in self.listeners:
            s.setsockopt(zmq.USE_FD, self.listeners[name])
        bound: int = super()._bind_socket(s, port)
        return bound

    def init_heartbeat(self) -> None:
        if not self.listeners:
            super().init_heartbeat()
            return
        self.heartbeat = GivenHeartbeat(zmq.Context(), ("ipc", self.ip, self.hb_port))
        self.heartbeat.listener = self.listeners["hb_port"]
        self.heartbeat.start()

    def write_connection_file(self, **_: Any) -> None:
        """Whoever started this kernel has it."""

    def patch_io(self) -> None:
        if self.before is None:  # else it is patched already
            super().patch_io()

    def parse_command_line(self, argv: Any = None) -> None:
        """There is none: everything was given to ``build_app``."""

    def load_config_file(self, *args: Any, **kwargs: Any) -> None:
        """A kernel behaves the same for everybody."""

    def init_config_files(self) -> None:
        """Nothing to stage."""

    def init_profile_dir(self) -> None:
        self.profile_dir = ProfileDir(location=self.config.ProfileDir.location)

    def _session_default(self) -> CappedSession:
        session = CappedSession(parent=self)
        session.gate = self.gate
        return session

    def init_iopub(self, context: Any) -> None:
        # As upstream, but: no high-water mark, since a message dropped here may be the one that ends a cell;
        # every subscriber is welcomed; and no TCP pipe for forked children, which write to the captured
        # descriptors instead.
        self.iopub_socket = context.socket(zmq.XPUB)
        self.iopub_socket.linger = 1000
        self.iopub_socket.sndhwm = 0
        self.iopub_socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = PromptIOPubThread(self.iopub_socket, pipe=False, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket
        self.session.iopub = self.iopub_socket

    def init_io(self) -> None:
        # Upstream makes the streams by a factory that it imports by name; ours need the gate as well.
        self.outstream_class = None  # type: ignore[assignment]  # allowed, says the trait
        super().init_io()
        replaced = sys.stdout, sys.stderr
        # Whatever code put in their place has no descriptor to capture.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        # Loggers and other code hold the streams that there were: those go on, as new ones.
        there = self.before.session.streams if self.before is not None else ()
        streams = there or tuple(CappedOutStream.__new__(CappedOutStream) for _ in range(2))
        for stream, name in zip(streams, ("stdout", "stderr"), strict=True):
            stream.__dict__.clear()
            # "force": upstream leaves the descriptors alone where it takes the process for one under pytest.
            stream.__init__(self.gate, self.session, self.iopub_thread, name, watchfd="force")
        sys.stdout, sys.stderr = replaced if there else streams
        self.session.streams = streams

    def log_connection_info(self) -> None:
        """Record the ports as upstream does, without printing advice for people at a terminal."""
        names = ("shell", "iopub", "stdin", "hb", "control")
        self._ports = {name: getattr(self, f"{name}_port") for name in names}

    def start(self) -> None:
        if self.line_fd is not None:
            kernel: Any = self.kernel
            kernel.freezer = Freezer(self.line_fd, self.ip)
            asyncio.get_event_loop().add_reader(self.line_fd, kernel.freeze)
        if self.ready_fd is not None:
            os.write(self.ready_fd, READY)
            os.close(self.ready_fd)
        super().start()


# What SIGTERM does to a kernel: mostly its end, but in a job step that is the host's to see to.


class _Outlasting:
    """Passes it over in the process it was made for; a fork of that, which may be a child of code's own, obeys."""

    forks_obey = False
    """Whether forks of this process are seen to already, also by the process that this is a fork of."""

    def __init__(self) -> None:
        if _Outlasting.forks_obey:
            return
        _Outlasting.forks_obey = True
        # A signal that comes in the middle of a fork would be lost to the child: it waits until the child obeys.
        os.register_at_fork(before=_hold, after_in_parent=_let_through, after_in_child=_obey)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        pass


def _hold() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _obey() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_through()


def termination() -> Callable[[int, FrameType | None], None] | signal.Handlers:
    """What a kernel's process is to do at SIGTERM; a program that it starts ends as everywhere."""
    found = signal.getsignal(signal.SIGTERM)
    in_step = found is signal.SIG_IGN or isinstance(found, _Outlasting)
    return _Outlasting() if in_step else signal.SIG_DFL

# mypy: allow-untyped-calls
# (ipykernel is typed only in part.)
"""The kernel that a forked child becomes: ipykernel's, with our outputs, our messages and no ties to its parent.

The order in ``run_kernel`` is fixed: first the process is set apart from its parent, then whatever confines it,
then ipykernel starts. User code runs only after the ready byte was written.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import faulthandler
import os
import random
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel.heartbeat import Heartbeat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.profiledir import ProfileDir
from traitlets import Instance, Type
from traitlets.config import Config

from cellwright_kernel import inspection
from cellwright_kernel.adoption import add_layers, adopt, reseed
from cellwright_kernel.budget import Limits
from cellwright_kernel.freezing import Freezer, NewKernel, Reborn, forgotten
from cellwright_kernel.interrupts import INTERRUPTED, Interrupts
from cellwright_kernel.mappings import stamp_written
from cellwright_kernel.outputs import CappedOutStream, CappedSession, OutputGate, PromptIOPubThread

if TYPE_CHECKING:
    from cellwright_kernel.forkserver import Job

__all__ = ["KernelApp", "build_app", "ipc_connection", "run_kernel"]

READY = b"R"
CHANNEL_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


def run_kernel(job: Job) -> None:
    """Turn this forked child into a kernel and run it to its end."""
    _set_apart(job.stderr_fd)
    reseed()
    app = build_app(
        job.connection_file, profile=job.profile, max_bytes=job.max_bytes, max_messages=job.max_messages
    )
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
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
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


def ipc_connection(prefix: str) -> dict[str, Any]:
    """A connection file's content for unix sockets at ``prefix-1`` to ``prefix-5``; signed by a random key."""
    return connection_at(prefix, os.urandom(32).hex())


class Forgetful(defaultdict[int, list[Any]]):
    """Lists that nobody keeps."""

    def __missing__(self, key: int) -> list[Any]:
        return []


class Shell(ZMQInteractiveShell):
    """IPython's shell, which remembers no output and leaves ``open`` alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.interrupts = Interrupts()
        super().__init__(*args, **kwargs)

    def init_user_ns(self) -> None:
        super().init_user_ns()
        # IPython's own hides the builtin one, so that `mock.patch("builtins.open")` would miss it.
        self.user_ns.pop("open", None)

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> Any:
        if self.interrupts.code_begins():
            return await super().run_code(INTERRUPTED, result)
        return await super().run_code(code_obj, result, async_=async_)

    def init_history(self) -> None:
        super().init_history()
        # IPython keeps everything ever printed or shown, for a magic that exports a notebook. The engine has that
        # already, and no memory would be enough.
        history: Any = self.history_manager
        history.outputs = Forgetful()

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:  # noqa: ARG002  # upstream's signature
        yield


# Libraries recognise a notebook by this very name.
Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"


class Kernel(IPythonKernel):
    """ipykernel's kernel, which also answers the engine's own requests and accounts for its output."""

    session = Instance(CappedSession)
    shell_class = Type(Shell)
    msg_types = [  # noqa: RUF012
        *IPythonKernel.msg_types,
        "cellwright_adopt_request",
        "cellwright_inspect_request",
    ]
    # On the control channel, which has a thread of its own: packages come also while a cell runs.
    control_msg_types = [  # noqa: RUF012
        *IPythonKernel.control_msg_types,
        "cellwright_layers_request",
        "cellwright_bury_request",
    ]
    freezer: Freezer | None = None
    _met = False
    _cells_context: contextvars.Context | None = None
    """The context variables that cells share, as the last one left them."""

    # Our flush waits for the messages themselves: no sleep is needed to let them get ahead of the reply.
    _execute_sleep = 0

    def pre_handler_hook(self) -> None:
        interrupts = self._interrupts
        interrupts.expect_code()
        self.saved_sigint_handler = signal.signal(signal.SIGINT, interrupts.handle)

    def post_handler_hook(self) -> None:
        super().post_handler_hook()
        self._interrupts.over()

    async def interrupt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Interrupt the running cell; in the control channel's thread."""
        # Before the signal: it may be noted at once, and must then not be repeated.
        self._interrupts.insist(self.control_thread.io_loop.call_later)
        await super().interrupt_request(stream, ident, parent)

    @property
    def _interrupts(self) -> Interrupts:
        shell: Any = self.shell
        interrupts: Interrupts = shell.interrupts
        return interrupts

    async def do_execute(  # upstream's signature, which its caller inspects
        self,
        code: str,
        silent: bool,  # noqa: FBT001
        store_history: bool = True,  # noqa: FBT001, FBT002
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,  # noqa: FBT001, FBT002
        *,
        cell_meta: Any = None,
        cell_id: Any = None,
    ) -> dict[str, Any]:
        """Run a cell; an interrupt that arrives after its code still gets a reply."""
        try:
            reply: dict[str, Any] = await super().do_execute(
                code,
                silent,
                store_history,
                user_expressions,
                allow_stdin,
                cell_meta=cell_meta,
                cell_id=cell_id,
            )
        except KeyboardInterrupt:
            reply = {
                "status": "error",
                "ename": "KeyboardInterrupt",
                "evalue": "",
                "traceback": ["KeyboardInterrupt"],
                "execution_count": self.execution_count,
                "user_expressions": {},
                "payload": [],
            }
        stamp_written()
        self._cells_context = contextvars.copy_context()
        return reply

    def finish_metadata(
        self, parent: dict[str, Any], metadata: dict[str, Any], reply_content: dict[str, Any]
    ) -> dict[str, Any]:
        finished: dict[str, Any] = super().finish_metadata(parent, metadata, reply_content)
        finished["cellwright"] = self.session.release(parent["header"], last=True)
        return finished

    async def _progressively_terminate_all_children(self) -> None:
        # Upstream waits up to 28 s for children, and counts those that are dead but not buried. Who asked for the
        # shutdown ends what is left of the tree.
        self._signal_children(signal.SIGTERM)

    async def cellwright_adopt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Become a session's kernel."""
        self._answer(stream, ident, parent, partial(adopt, self.session.gate))

    async def cellwright_inspect_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what lives in the namespace."""
        shell: Any = self.shell
        look = partial(inspection.snapshot, shell.user_ns, shell.user_ns_hidden)
        self._answer(stream, ident, parent, look)

    async def cellwright_layers_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Find the packages of more layers."""
        self._answer(stream, ident, parent, add_layers)

    async def kernel_info_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what this kernel is; whoever asks first has connected, and nothing has run yet."""
        if self.freezer is not None and not self._met:
            self._met = True
            self.freezer.note_own()
            app: Any = self.parent
            if app.numbers is not None:
                # As late as this: what starts a kernel may draw some itself.
                random.setstate(app.numbers)
        await super().kernel_info_request(stream, ident, parent)

    def freeze(self) -> None:
        """Take a checkpoint, asked for on a line of its own, where it need not wait for its turn among messages."""
        busy = self._main_asyncio_lock.locked()
        context = self._cells_context or contextvars.copy_context()
        self._required_freezer.answer("a cell is running" if busy else None, context)

    async def cellwright_bury_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Take note that a checkpoint has ended."""
        self._answer(stream, ident, parent, self._required_freezer.bury)

    @property
    def _required_freezer(self) -> Freezer:
        if self.freezer is None:
            raise RuntimeError("this kernel has no line for checkpoints")
        return self.freezer

    def _answer(self, stream: Any, ident: Any, parent: dict[str, Any], work: Any) -> None:
        try:
            content = {"status": "ok", **work(**parent["content"])}
        except Exception as error:  # noqa: BLE001  # boundary: the asker is told; the kernel goes on
            content = {
                "status": "error",
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": [],
            }
        kind = parent["header"]["msg_type"].replace("_request", "_reply")
        self.session.send(stream, kind, content, parent, ident=ident)


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

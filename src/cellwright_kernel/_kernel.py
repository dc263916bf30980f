# mypy: allow-untyped-calls
# (ipykernel is typed only in part.)
"""ipykernel's shell and kernel, with our outputs and our messages. How they are started stands in ``kernelapp``."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import os
import random
import re
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from subprocess import CalledProcessError
from types import FrameType
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.formatters import DisplayFormatter
from traitlets import Instance, Type

from cellwright_kernel import _datarequests, _diagnosis, _inputs, _inspection, _widgets
from cellwright_kernel._adoption import add_layers, adopt
from cellwright_kernel._checkpoints import Freezer
from cellwright_kernel._forksafety import stamp_written
from cellwright_kernel._grid import Grids
from cellwright_kernel._outputs import CappedSession
from cellwright_kernel._profiler import Profiler
from cellwright_kernel._shell_commands import PackageAdvice, run_command
from cellwright_kernel._tracebacks import Fold, fold_lines, group_lines, shortened
from cellwright_kernel._value_digests import Digests
from cellwright_kernel.figuredigests import figure_facts

__all__ = ["Kernel"]


class Forgetful(defaultdict[int, list[Any]]):
    """Lists that nobody keeps."""

    def __missing__(self, key: int) -> list[Any]:
        return []


class Shell(ZMQInteractiveShell):
    """IPython's shell, which remembers no output, adds digests to it, and leaves ``open`` alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.interrupts = Interrupts()
        self.profiler = Profiler()
        self.packages = PackageAdvice()
        self.grids = Grids()
        self.digests = Digests()
        self.cells: str | None = None
        """The module of the running cell's language, where that is not Python."""
        self.database: Any = None
        """What SQL cells work on, once there was one."""
        self.exit_code: int | None = None
        """The running cell's script's, once it has ended (see ``scripts``)."""
        self.shown_error: tuple[str, str] | None = None
        """The name and the message of the last error that the running cell has shown."""
        self._folds: list[Fold] = []
        super().__init__(*args, **kwargs)

    def init_user_ns(self) -> None:
        super().init_user_ns()
        # IPython's own hides the builtin one, so that `mock.patch("builtins.open")` would miss it.
        self.user_ns.pop("open", None)

    def transform_cell(self, raw_cell: str) -> str:
        if self.cells is not None:
            python: str = _cells_module(self.cells).python_of(raw_cell)
            return python
        transformed: str = super().transform_cell(raw_cell)
        return transformed

    def system_piped(self, cmd: str) -> None:
        if cmd.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        # Of the caller's caller, as upstream.
        command = self.packages.without_installs(self.var_expand(cmd, depth=1))
        exit_code = run_command(command)
        self.user_ns["_exit_code"] = exit_code
        if exit_code and getattr(self, "system_raise_on_error", False):
            raise CalledProcessError(exit_code, cmd)

    system = system_piped

    def init_display_formatter(self) -> None:
        self.display_formatter = DigestingFormatter(parent=self)
        configurables: Any = self.configurables
        configurables.append(self.display_formatter)

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> Any:
        if self.interrupts.code_begins():
            return await super().run_code(INTERRUPTED, result)
        try:
            with self.profiler.statement(code_obj):
                return await super().run_code(code_obj, result, async_=async_)
        finally:
            # Otherwise an error that cannot even be shown would leave none.
            if result is not None:
                self.last_execution_result = result

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        """Show an exception without our own frames."""
        kind, error, traceback = exc_tuple or sys.exc_info()
        self.packages.add_to(error)
        with shortened(error) as self._folds:
            if error is not None and traceback is not None:
                exc_tuple = self._get_exc_info((kind, error, error.__traceback__))
            if (lines := group_lines(error)) is not None:
                self._showtraceback(kind, error, lines)
            else:
                super().showtraceback(exc_tuple, *args, **options)
        if error is not None:
            sys.last_traceback = traceback

    def _format_exception_for_storage(self, exception: BaseException, *_: Any, **__: Any) -> dict[str, Any]:
        # Upstream formats all of it a second time, for a magic that exports a notebook.
        name, message = self.shown_error or (type(exception).__name__, "")
        return {"ename": name, "evalue": message, "traceback": self._last_traceback or []}

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:  # upstream's signature
        self.shown_error = etype.__name__, str(evalue)
        super()._showtraceback(etype, evalue, fold_lines(stb, self._folds))
        self._folds = []

    def init_history(self) -> None:
        super().init_history()
        # IPython keeps everything ever printed or shown, for a magic that exports a notebook. The engine has that
        # already, and no memory would be enough.
        history: Any = self.history_manager
        history.outputs = Forgetful()

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:  # upstream's signature
        yield


# Libraries recognise a notebook by this very name.
Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"


# Our own modules by the names that hosts and kernels of every version know; a running one outlives the engine.
_OWN_CELLS = {"sql": "cellwright_kernel.sqlcells"}


def _cells_module(name: str) -> Any:
    """The module behind a language whose cells run here; imported with the first of them.

    Raises:
        ModuleNotFoundError: this interpreter has no such module.
    """
    try:
        return importlib.import_module(_OWN_CELLS.get(name, name))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Cells of this language need {error.name}, which this kernel's Python does not have",
            name=error.name,
        ) from None


def _completion(cells: str | None) -> Callable[[Any, str, int], dict[str, Any]] | None:
    """What completes cells of a language; None where Python's own completion has to do."""
    if cells is None:
        return None
    try:
        return getattr(_cells_module(cells), "complete", None)
    except ModuleNotFoundError:
        return None  # what its cells need is told when one is run


class Kernel(IPythonKernel):
    """ipykernel's kernel, which also answers the engine's own requests and accounts for its output."""

    session = Instance(CappedSession)
    shell_class = Type(Shell)
    msg_types = [  # noqa: RUF012
        *IPythonKernel.msg_types,
        "cellwright_adopt_request",
        "cellwright_inspect_request",
        "cellwright_data_request",
        "cellwright_grid_request",
        "cellwright_widgets_request",
        "cellwright_diagnose_request",
        "cellwright_inputs_request",
        "cellwright_profile_request",
        "cellwright_fingerprints_request",
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
        shell: Any = self.shell
        if shell.database is not None:
            # While other threads work for it DuckDB may not look for signals.
            shell.database.interrupt()

    @property
    def _interrupts(self) -> Interrupts:
        shell: Any = self.shell
        interrupts: Interrupts = shell.interrupts
        return interrupts

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run a cell, in the language that its request names, among the files that come with it."""
        shell: Any = self.shell
        content = parent["content"]
        shell.cells = content.get("language")
        shell.exit_code = None
        shell.grids.forget()
        if content.get("files"):
            write_named(content["files"])
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            shell.cells = None

    async def complete_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what can follow, in the language that the request names."""
        content = parent["content"]
        complete = _completion(content.get("language"))
        if complete is None:
            await super().complete_request(stream, ident, parent)
            return
        found = complete(self.shell, content["code"], content["cursor_pos"])
        self.session.send(stream, "complete_reply", found, parent, ident)

    def raw_input(self, prompt: object = "") -> str:
        """What ``input`` is in a cell."""
        if not self._allow_stdin:
            raise InputUnavailable("input", str(prompt))
        return answered(super().raw_input(prompt), "input", str(prompt))

    def getpass(self, prompt: str = "", stream: Any = None, **options: Any) -> str:
        """What ``getpass.getpass`` is in a cell."""
        if not self._allow_stdin:
            raise InputUnavailable("getpass", str(prompt))
        return answered(super().getpass(prompt, stream, **options), "getpass", str(prompt))

    def do_complete(  # type: ignore[override]  # ipykernel takes either; its IPython kernel is no coroutine
        self, code: str, cursor_pos: int | None
    ) -> dict[str, Any]:
        """Tell what live objects have; where they have nothing, what the code lets expect."""
        shell: Any = self.shell
        infers = shell.Completer.use_jedi
        shell.Completer.use_jedi = False
        try:
            # In milliseconds, where inferring reads and parses libraries.
            found: dict[str, Any] = super().do_complete(code, cursor_pos)
        finally:
            shell.Completer.use_jedi = infers
        if not found["matches"] and infers:
            found = super().do_complete(code, cursor_pos)
        return without_dots(found)

    async def do_execute(  # upstream's signature, which its caller inspects
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Any = None,
        cell_id: Any = None,
    ) -> dict[str, Any]:
        """Run a cell; an interrupt that arrives after its code still gets a reply."""
        shell: Any = self.shell
        # One that ends in no regular way leaves no result, and must not be told that of the one before.
        shell.last_execution_result = shell.shown_error = None
        shell.profiler.begin()
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
            shell.interrupts.code_ended()
            if reply.get("ename") == "NoneType" and shell.shown_error is not None:
                # The code ran well, and its value could not be shown.
                reply["ename"], reply["evalue"] = shell.shown_error
        except KeyboardInterrupt:
            shell.interrupts.code_ended()
            reply = {
                "status": "error",
                "ename": "KeyboardInterrupt",
                "evalue": "",
                "traceback": ["KeyboardInterrupt"],
                "execution_count": self.execution_count,
                "user_expressions": {},
                "payload": [],
            }
        shell.profiler.end()
        stamp_written()
        self._cells_context = contextvars.copy_context()
        return reply

    def finish_metadata(
        self, parent: dict[str, Any], metadata: dict[str, Any], reply_content: dict[str, Any]
    ) -> dict[str, Any]:
        finished: dict[str, Any] = super().finish_metadata(parent, metadata, reply_content)
        shell: Any = self.shell
        released = self.session.release(parent["header"], last=True)
        failures = shell.digests.take_failures()
        finished["cellwright"] = {**released, "exit_code": shell.exit_code, "digest_failures": failures}
        return finished

    async def _progressively_terminate_all_children(self) -> None:
        # Upstream waits up to 28 s for children, and counts those that are dead but not buried. Who asked for the
        # shutdown ends what is left of the tree.
        self._signal_children(signal.SIGTERM)

    async def cellwright_adopt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Become a session's kernel."""
        shell: Any = self.shell
        self._answer(stream, ident, parent, partial(adopt, self.session.gate, shell.packages, shell.digests))

    async def cellwright_inspect_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what lives in the namespace."""
        shell: Any = self.shell
        look = partial(_inspection.snapshot, shell.user_ns, shell.user_ns_hidden)
        self._answer(stream, ident, parent, look)

    async def cellwright_data_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what a variable or a result holds."""
        self._answer(stream, ident, parent, partial(_datarequests.answer, self.shell))

    async def cellwright_grid_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell a grid what a part of a result holds."""
        shell: Any = self.shell
        self._answer(stream, ident, parent, partial(shell.grids.answer, shell))

    async def cellwright_widgets_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell the state of widgets, or hand one what a page says to it."""
        self._answer(stream, ident, parent, partial(_widgets.answer, self.shell, self.session, parent))

    async def cellwright_diagnose_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what the last execution raised."""
        self._answer(stream, ident, parent, partial(_diagnosis.diagnose, self.shell))

    async def cellwright_inputs_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell which files were read."""
        self._answer(stream, ident, parent, _inputs.answer)

    async def cellwright_profile_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Measure the next execution, or tell what the last one cost."""
        shell: Any = self.shell
        self._answer(stream, ident, parent, partial(shell.profiler.answer, shell))

    async def cellwright_fingerprints_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Tell what the namespace's values can be compared by."""
        self._answer(stream, ident, parent, partial(_inspection.fingerprints, self.shell))

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
        except Exception as error:  # noqa: BLE001  # boundary: the caller is told; the kernel goes on
            content = {
                "status": "error",
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": [],
            }
        kind = parent["header"]["msg_type"].replace("_request", "_reply")
        self.session.send(stream, kind, content, parent, ident=ident)


MOST_OF_PROMPT = 200

UNANSWERED = "\x04"
"""What the host puts before the reason why nobody answers. By itself it is the end of input, as in a terminal."""


def answered(given: str, function: str, prompt: str) -> str:
    """An answer as the code gets it.

    Raises:
        InputUnavailable: it says that nobody answers.
    """
    if given.startswith(UNANSWERED):
        raise InputUnavailable(function, prompt, given.removeprefix(UNANSWERED))
    return given


class InputUnavailable(EOFError):
    """A cell asked for input, and nobody is there to give any; programs that read to the end of input take it for that."""

    def __init__(self, function: str, prompt: str, reason: str = "nobody is there to answer") -> None:
        asked = f" ({prompt[:MOST_OF_PROMPT].strip()!r})" if prompt.strip() else ""
        way = (
            "a file or variable that the code reads, such as one of `pass_environment`"
            if function == "getpass"
            else "the code: assign it to a variable instead of calling input()"
        )
        super().__init__(f"{function}(){asked}: {reason}. Ask the user, then put the answer into {way}")

    def _render_traceback_(self) -> list[str]:  # IPython's
        return [f"{type(self).__name__}: {self}"]


# How values become outputs: as IPython does it, with a digest for agents beside it.

KEY = "cellwright"

COMPLETE = 600
"""How long a text may be that says everything, before a digest is better than it."""

_left_out = re.compile(
    r"^\[\d+ rows x \d+ columns\]"  # pandas
    r"|\bLength: \d+, dtype"
    r"|^\u2502 \u2026|\u2506 \u2026 \u2506"  # polars
    r"|^\s*\.\.\.,|, \.\.\.,",  # numpy
    re.MULTILINE,
)


class DigestingFormatter(DisplayFormatter):
    """Formats for people and, where a value has one that is better than the plain text, adds its digest."""

    def format(
        self, obj: Any, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super().format(obj, include=include, exclude=exclude)
        plain = data.get("text/plain") if data else None
        if isinstance(plain, str) and KEY not in metadata:
            shell: Any = self.parent
            digest = shell.digests.hidden(obj) if is_complete(plain) else shell.digests.of(obj)
            if digest is not None:
                shell.grids.remember(obj, digest, shell.displayhook.prompt_count)
                facts = figure_facts(obj)
                metadata = {
                    **metadata,
                    KEY: {"digest": digest} if facts is None else {"digest": digest, "figure": facts},
                }
        return data, metadata


def is_complete(text: str) -> bool:
    """Whether a value's text is short and has left nothing out."""
    return len(text) <= COMPLETE and not _left_out.search(text)


def without_dots(found: dict[str, Any]) -> dict[str, Any]:
    """Completions as names, where every one of them begins with the dot before it."""
    if not found["matches"] or not all(match.startswith(".") for match in found["matches"]):
        return found
    told = {
        kind: [{**one, "text": one["text"][1:], "start": one["start"] + 1} for one in each]
        for kind, each in found["metadata"].items()
    }
    names = [match[1:] for match in found["matches"]]
    return {**found, "matches": names, "cursor_start": found["cursor_start"] + 1, "metadata": told}


# Makes sure that an interrupt reaches the cell it is meant for, however early it comes.

# Run in place of the cell: so the interrupt shows as any other does.
INTERRUPTED = compile("raise KeyboardInterrupt", "<interrupted before it began>", "exec")

FIRST_REPEAT_S = 0.05

REPEATS = 6


class Interrupts:
    """What SIGINT does while a request is handled."""

    def __init__(self) -> None:
        self._handling = False
        self._code_began = False
        self._pending = False
        self._noted = 0

    def expect_code(self) -> None:
        """A request was taken up; its code is yet to begin."""
        self._handling = True
        self._code_began = self._pending = False

    def over(self) -> None:
        """The request was answered."""
        self._handling = False

    def handle(self, _signal: int, _frame: FrameType | None) -> None:
        """The signal's handler; runs when Python takes note of it."""
        self._noted += 1
        if self._code_began:
            raise KeyboardInterrupt
        self._pending = True

    @property
    def noted(self) -> int:
        """How many there were so far: what runs native code may be told of one in no other way."""
        return self._noted

    def code_begins(self) -> bool:
        """From now on interrupts are raised; whether one waited."""
        # In this order: a signal in between is then raised rather than forgotten.
        self._code_began = True
        waited, self._pending = self._pending, False
        return waited

    def code_ended(self) -> None:
        """From now on interrupts come too late; raised, they would keep the reply or the idle status from being sent."""
        self._code_began = False

    def insist(self, call_later: Callable[..., object]) -> None:
        """Repeat a signal that was just sent until it is noted; ``call_later(seconds, function)`` does the waiting."""
        noted = self._noted

        def repeat(left: int, delay_s: float) -> None:
            # Until it is noted a repeated signal is the same interrupt, not a second one.
            if self._handling and self._noted == noted and left:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                call_later(2 * delay_s, repeat, left - 1, 2 * delay_s)

        if self._handling:
            call_later(FIRST_REPEAT_S, repeat, REPEATS, FIRST_REPEAT_S)


# Puts cells that have a file name into the working directory, so that other code can import them by it.


def write_named(files: Mapping[str, str]) -> None:
    """Write each text to its file below the working directory, where it is not there already.

    What cannot be written is left out: whoever imports it gets an error that names it.
    """
    for name, text in files.items():
        path = PurePosixPath(name)
        if not path.is_absolute() and ".." not in path.parts:
            with contextlib.suppress(OSError):
                _write(Path(path), text.encode())


def _write(path: Path, content: bytes) -> None:
    # Read first: a file that is right keeps its time, and what was imported from it is not imported again.
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)

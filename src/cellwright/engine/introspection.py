"""Queries a live kernel: its variables, its last error, the files it read, the cost of cells. Answers are typed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from cellwright.engine._context import SessionContext
from cellwright.engine.kernel import SessionKernel, named_language, runtime_of
from cellwright.engine.placement import inspect_content, inspect_reply
from cellwright.engine.workspace import SessionWorkspace
from cellwright.errors import KernelError
from cellwright.notebook.python_names import cell_names, text_constants

__all__ = [
    "DIAGNOSE_REQUEST",
    "UNKNOWN",
    "Completion",
    "Diagnosis",
    "Fingerprint",
    "Frame",
    "Head",
    "InputFile",
    "Inputs",
    "Inspection",
    "KernelQueries",
    "Line",
    "Measured",
    "Module",
    "Profile",
    "Raised",
    "Span",
    "Subject",
    "Variable",
    "completion_of",
    "diagnosis_of",
    "fingerprints_of",
    "inputs_of",
    "inspection_of",
    "profile_of",
    "recorded_inputs",
    "with_inputs",
]

INSPECT_REQUEST = "cellwright_inspect_request"

T = TypeVar("T")


class Variable(msgspec.Struct, frozen=True):
    """A name in the namespace; ``digest`` is short, and made without running the object's own code."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    length: int | None = None
    digest: str | None = None


class Function(msgspec.Struct, frozen=True):
    """A function; ``module`` is where it was imported from, none where a cell defined it."""

    name: str
    signature: str
    doc: str | None = None
    module: str | None = None


class Class(msgspec.Struct, frozen=True, rename={"qualified_name": "class"}):
    name: str
    qualified_name: str


class Module(msgspec.Struct, frozen=True):
    """An imported module under the name the session gave it, for instance ``pd`` for ``pandas``."""

    name: str
    module: str | None = None
    version: str | None = None


class Inspection(msgspec.Struct, frozen=True):
    """A kernel's namespace and surroundings, newest names first; ``omitted`` counts what did not fit."""

    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    classes: tuple[Class, ...]
    modules: tuple[Module, ...]
    interpreter: str
    python: str
    cwd: str | None = None
    omitted: int = 0
    packages: tuple[str, ...] = ()


class Completion(msgspec.Struct, frozen=True):
    """What could replace ``code[start:end]``."""

    matches: tuple[str, ...]
    start: int
    end: int


def inspection_of(reply: dict[str, Any]) -> Inspection:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    if reply.get("status") != "ok":
        raise KernelError(
            f"The namespace could not be inspected: {reply.get('ename')}: {reply.get('evalue')}"
        )
    return _read(reply, Inspection)


class _Completed(msgspec.Struct):
    matches: tuple[str, ...]
    cursor_start: int
    cursor_end: int


def completion_of(reply: dict[str, Any]) -> Completion:
    """Read the kernel's answer.

    Raises:
        KernelError: it is none.
    """
    found = _read(reply, _Completed)
    return Completion(found.matches, found.cursor_start, found.cursor_end)


def _read(reply: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(reply, kind)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of its names cannot be read: {error}") from error


# What a kernel can tell of the error it raised last, as typed values (see ``cellwright_kernel._diagnosis``).

DIAGNOSE_REQUEST = "cellwright_diagnose_request"


class Span(msgspec.Struct, frozen=True):
    """A place in a cell's source, as ``ast`` counts: lines from 1, columns in UTF-8 bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


class Raised(msgspec.Struct, frozen=True):
    """One exception."""

    type: str
    """Its class's name, as Python shows it: ``KeyError``, ``ParserError``."""
    message: str
    bases: tuple[str, ...] = ()
    """Its class and those it inherits from, the nearest first: builtins by name, others with their module
    (``pandas.errors.ParserError``)."""
    details: dict[str, Any] = {}
    """Plain attributes of it that say more. ``name``, ``filename``, ``errno`` of an OSError, ``key`` (of a KeyError, where
    it is a str, int, float, bool or None), ``lineno``, ``offset``, ``text``, ``msg`` of a SyntaxError (and its
    ``filename``, where it is not the cell that cannot be parsed), ``encoding`` and ``start`` of a UnicodeError, ``name``
    and ``path`` of an ImportError, ``obj_type`` of an AttributeError, ``code`` of a SystemExit."""
    span: Span | None = None
    """The innermost place in the cell's own source that led to it."""
    library: str | None = None
    """The top-level module that raised it, if not the cell's own code."""


class Subject(msgspec.Struct, frozen=True):
    """The object that the failing expression was applied to: the ``df`` of ``df["x"]``, the ``items`` of ``items[7]``."""

    expression: str
    type: str
    """With its module: ``pandas.core.frame.DataFrame``, ``list``."""
    columns: tuple[str | int, ...] | None = None
    """Of a frame: its columns' names, as far as they are text or numbers; at most 500."""
    keys: tuple[str | int, ...] | None = None
    """Of a mapping: likewise."""
    length: int | None = None
    shape: tuple[int, ...] | None = None
    attributes: tuple[str, ...] = ()
    """Public attributes; at most 1,000."""


class Head(msgspec.Struct, frozen=True):
    """How a file begins that the failing statement names."""

    path: str
    """As the code names it."""
    content: bytes
    """At most 64 KiB."""
    size: int


class Signature(msgspec.Struct, frozen=True):
    """What a callable of an installed library takes."""

    positional: tuple[str, ...] = ()
    """Parameters that can be given by position, in order, without ``self``."""
    keywords: tuple[str, ...] = ()
    """Parameters that can be given by name."""
    any_position: bool = False
    any_keyword: bool = False


class Diagnosis(msgspec.Struct, frozen=True):
    """An error and what lies around it."""

    roots: tuple[Raised, ...]
    """What it comes down to: the end of its chain of explicit causes; of a group, one for each leaf."""
    raised: Raised
    """What reached the top."""
    chain: tuple[Raised, ...] = ()
    """Everything else on the way, contexts included."""
    subject: Subject | None = None
    values: dict[str, str] = {}
    """Names in the failing statement, each with a short digest of its value."""
    names: tuple[str, ...] = ()
    """Names that the code could use where it failed: the namespace's, and the failing function's own."""
    modules: tuple[str, ...] = ()
    """Top-level modules that can be imported."""
    members: dict[str, tuple[str, ...]] = {}
    """Public names of the modules that the failing statement imports from or uses by attribute."""
    files: tuple[str, ...] = ()
    """What lies in the working directory and, after that, elsewhere in the project, as one names it from here
    (``../data.csv``), directories with a ``/`` at the end; at most 2,000."""
    heads: tuple[Head, ...] = ()
    directory: str | None = None
    python: str = ""
    versions: dict[str, str] = {}
    """Libraries that are loaded, by their top-level modules, each with its version."""
    signatures: dict[str, Signature] = {}
    """What the callables of the failing statement take, by the text that names each there."""
    choices: dict[str, tuple[str, ...]] = {}
    """Values that a library knows where it refused one: ``matplotlib.style``."""


def diagnosis_of(reply: dict[str, Any]) -> Diagnosis | None:
    """Read the kernel's answer; None where nothing was raised.

    Raises:
        KernelError: the kernel could not look.
    """
    if reply.get("status") != "ok":
        raise KernelError(f"The error could not be looked into: {reply.get('ename')}: {reply.get('evalue')}")
    if not reply.get("raised"):
        return None
    try:
        return msgspec.convert(reply, Diagnosis)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the error cannot be read: {error}") from error


# The files that a kernel's code has read, as typed values made from what it tells (see
# ``cellwright_kernel._inputs``).

INPUTS_REQUEST = "cellwright_inputs_request"

UNKNOWN = "unknown: written after it was read"

_MOST_TEXTS = 500

_LONGEST_TEXT = 5_000


class InputFile(msgspec.Struct, frozen=True):
    """A file that was read; its path is from the working directory where it lies below that, else in full."""

    path: str
    size: int
    mtime_ns: int
    sha256: str | None = None
    """None where so much was read already that hashing this too would take too long."""
    changed: bool = False
    """Whether the code that read it wrote it afterwards, so that nobody knows what it held."""

    @property
    def digest(self) -> str:
        """What tells whether it is still the same."""
        if self.changed:
            return UNKNOWN
        return self.sha256 or f"not hashed: {self.size} bytes, modified {self.mtime_ns}"


class Inputs(msgspec.Struct, frozen=True):
    """What code read, and with what it ran."""

    files: tuple[InputFile, ...] = ()
    omitted: int = 0
    """How many more were read than are told."""
    watching: bool = False
    packages: dict[str, str] = {}
    """Distributions that the code imported, each with its version."""
    interpreter: str = ""
    python: str = ""
    platform: str = ""


def inputs_of(reply: dict[str, Any]) -> Inputs:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    if reply.get("status") != "ok":
        raise KernelError(f"The files read could not be told: {reply.get('ename')}: {reply.get('evalue')}")
    try:
        return msgspec.convert(reply, Inputs)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the files read cannot be understood: {error}") from error


def with_inputs(metadata: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """A cell's metadata with the files that its run read, each with what tells whether it is still the same."""
    ours = metadata.get("cellwright")
    kept = {key: value for key, value in ours.items() if key != "inputs"} if isinstance(ours, Mapping) else {}
    found = {"inputs": {file.path: file.digest for file in inputs.files}} if inputs.files else {}
    return {**metadata, "cellwright": {**kept, **found}}


def recorded_inputs(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What ``with_inputs`` wrote; nothing where it did not, or where it cannot be read."""
    ours = metadata.get("cellwright")
    inputs = ours.get("inputs") if isinstance(ours, Mapping) else None
    return {str(path): str(digest) for path, digest in inputs.items()} if isinstance(inputs, Mapping) else {}


def named_in(source: str) -> dict[str, list[str]]:
    """What a cell's source names that the kernel can look for: texts that may be files, and modules."""
    texts = [text for text in text_constants(source) if len(text) <= _LONGEST_TEXT]
    return {"texts": texts[:_MOST_TEXTS], "modules": sorted(cell_names(source).modules)}


# What an execution cost and what a namespace's values can be compared by, as typed values.

PROFILE_REQUEST = "cellwright_profile_request"

FINGERPRINTS_REQUEST = "cellwright_fingerprints_request"

_Answer = TypeVar("_Answer")


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """A top-level statement that ran."""

    line: int
    seconds: float


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A line of a cell's code that ran; its seconds hold those of what it called."""

    cell_id: str
    scope: str
    """The function that it is in; empty at the top level."""
    line: int
    hits: int
    seconds: float


class Measured(msgspec.Struct, frozen=True):
    """One execution's cost."""

    statements: tuple[Statement, ...]
    cpu_s: float
    memory_bytes: int
    """How far memory rose above what there was at its beginning."""
    followed: bool = False
    cut: bool = False
    """Whether it went on longer than its lines were followed."""
    lines: tuple[Line, ...] = ()

    @property
    def seconds(self) -> float:
        """By the clock, in the cell's own statements."""
        return sum(statement.seconds for statement in self.statements)


class Frame(msgspec.Struct, frozen=True):
    """A frame that a name stands for."""

    rows: int
    width: int
    columns: dict[str, str]
    """Types by name, as far as names are text."""
    attributes: tuple[str, ...]
    """Columns that can be had as an attribute too."""
    unique: bool
    """Whether no two rows have the same label."""


class Profile(msgspec.Struct, frozen=True):
    """What the last execution cost, and what it left."""

    measured: Measured | None = None
    types: dict[str, str] = {}
    frames: dict[str, Frame] = {}


class Hashes(msgspec.Struct, frozen=True):
    """Of all that a value holds, and of that with numbers rounded to nine digits."""

    exact: str
    close: str

    def same(self, other: Hashes) -> bool:
        return self.exact == other.exact or self.close == other.close


class Fingerprint(msgspec.Struct, frozen=True):
    """A value's type, and its hashes where it could be looked into."""

    type: str
    exact: str | None = None
    close: str | None = None
    number: float | None = None
    columns: dict[str, Hashes] | None = None
    index: Hashes | None = None

    @property
    def known(self) -> bool:
        return self.exact is not None or self.columns is not None


def profile_of(reply: dict[str, Any]) -> Profile:
    """Read the kernel's answer.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    return _read_profile(reply, Profile)


def fingerprints_of(reply: dict[str, Any]) -> dict[str, Fingerprint]:
    """Read the kernel's answer, by name.

    Raises:
        KernelError: the kernel could not look, or its answer is none.
    """
    return _read_profile(reply, _Fingerprints).values


class _Fingerprints(msgspec.Struct, frozen=True):
    values: dict[str, Fingerprint]


def _read_profile(reply: dict[str, Any], kind: type[_Answer]) -> _Answer:
    if reply.get("status") != "ok":
        raise KernelError(f"The cost could not be told: {reply.get('ename')}: {reply.get('evalue')}")
    try:
        return msgspec.convert(reply, kind)
    except msgspec.ValidationError as error:
        # What runs in a kernel can change what it answers.
        raise KernelError(f"What the kernel tells of the cost cannot be read: {error}") from error


# Questions to a session's live kernel: what it holds, what failed, what it read, what it costs, what could
# be typed.

# A gigabyte on a slow disk.
_HASHING_TIMEOUT_S = 60.0


class KernelQueries:
    """Asks the kernel of one session."""

    def __init__(self, session: SessionContext, workspace: SessionWorkspace, kernel: SessionKernel) -> None:
        self._session = session
        self._workspace = workspace
        self._kernel = kernel

    @property
    def _answers(self) -> bool:
        """Whether the main kernel is a Python one of ours, which answers what others cannot."""
        return self._kernel.runs_python and not self._session.record.is_foreign

    async def inspect(self, *, packages: bool = False) -> Inspection:
        """What the live kernel holds: variables, functions, modules, and where it runs.

        Raises:
            KernelBusy: a cell is running.
        """
        elsewhere = self._session.record.is_foreign
        if runtime_of(self._session.language) not in (("python",) if elsewhere else ("python", "deno")):
            raise KernelError(
                f"A kernel of {self._session.language} cannot be inspected",
                hint="Run `ls.str()`" if self._session.language == "r" else "Run code that shows it",
            )
        if elsewhere:
            answer = await self._kernel.ask("execute_request", inspect_content(packages=packages))
            return inspection_of(inspect_reply(answer))
        return inspection_of(await self._kernel.ask(INSPECT_REQUEST, {"packages": packages}))

    async def diagnose(self) -> Diagnosis | None:
        """What the last execution in the live kernel raised; None if nothing, or where nobody can be asked.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: it ended before it answered.
        """
        if self._session.record.kernel_id is None or not self._answers:
            return None
        return diagnosis_of(
            await self._kernel.ask(DIAGNOSE_REQUEST, {"project": self._session.record.project})
        )

    async def watch_inputs(self) -> None:
        """Have the kernel note from now on which files its code reads; nothing where it cannot."""
        await self.inputs(watch=True)

    async def inputs(self, source: str = "", *, watch: bool = False, packages: bool = False) -> Inputs:
        """Which files were read since this was last asked, and with ``packages`` what the code imported so far.

        ``source`` is what ran meanwhile: files that it names count too. Of files nothing is known unless somebody let
        it ``watch``, and of packages only those that ``source`` imports; nor anything of other languages than Python.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return Inputs()
        roots = dict.fromkeys(
            one for one in (str(self._workspace.cwd), self._session.record.project) if one is not None
        )
        content = {"watch": watch, "roots": list(roots), "packages": packages, **named_in(source)}
        return inputs_of(await self._kernel.ask(INPUTS_REQUEST, content, timeout_s=_HASHING_TIMEOUT_S))

    async def measure_next(self, cell_id: str, *, lines: bool = False) -> None:
        """Have the next execution measured, with ``lines`` where its time goes; nothing where the kernel cannot."""
        if self._answers:
            await self._kernel.ask(PROFILE_REQUEST, {"arm": {"cell": cell_id, "lines": lines}})

    async def profile(self) -> Profile:
        """What the last execution cost, where it was measured, and what the namespace holds.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return Profile()
        return profile_of(await self._kernel.ask(PROFILE_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def fingerprints(self) -> dict[str, Fingerprint]:
        """What the kernel's variables can be compared by with those of another kernel.

        Raises:
            KernelBusy: a cell is running.
        """
        if not self._answers:
            return {}
        return fingerprints_of(await self._kernel.ask(FINGERPRINTS_REQUEST, {}, timeout_s=_HASHING_TIMEOUT_S))

    async def complete(
        self, code: str, cursor: int | None = None, *, language: str | None = None
    ) -> Completion:
        """What could stand at the cursor, in the notebook's language or another."""
        language = language or self._session.language
        content: dict[str, Any] = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
        if (named := named_language(language)) is not None and not self._session.record.is_foreign:
            content["language"] = named
        return completion_of(
            await self._kernel.ask("complete_request", content, side=self._kernel.secondary(language))
        )

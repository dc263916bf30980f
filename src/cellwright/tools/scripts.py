"""One-shot runs: a script in a kernel and a directory of its own, and what came of it.

A library call first; MCP tools and commands translate. The session is ``engine.oneshot``', its files are ``scripts``'.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import anyio
import anyio.to_thread

from cellwright.charts import FILENAME
from cellwright.engine import Engine, Event, Execution, Session, Subscription
from cellwright.engine.hidden_sessions import script_cell
from cellwright.engine.kernel import runtime_of
from cellwright.engine.options import PackageOptions
from cellwright.engine.records import new_run_id
from cellwright.errors import CellwrightError, FileTooLarge, LimitReached, NoSuchFile, SandboxError
from cellwright.hosts.protocol import ExecutionState
from cellwright.notebook.languages import canonical_language
from cellwright.sandbox.approved_packages import IMPORT_NAMES, ApprovedList, normal_name
from cellwright.sandbox.exit_reasons import explain_error
from cellwright.sandbox.files import Changes, Entry, Snapshot, Workdir
from cellwright.sandbox.policy import Narrowing
from cellwright.sandbox.workspace import prepare_storage
from cellwright.tools.data_directory import RUNS, DataDirectory, relative
from cellwright.tools.script_calls import OfferedTools, offered

__all__ = ["OldRun", "RunResult", "run_script", "too_old"]
OnOutput = Callable[[str, str], Awaitable[None]]
"""Told the stream (``stdout`` or ``stderr``) and what came on it, as it comes."""

_MANIFEST_BYTES = 1 << 20

_SUFFIXES = {"python": "py", "typescript": "ts", "javascript": "js"}

_KILLED = -9

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Visualization:
    """One output of the manifest that a run left, as it was drawn; ``data`` holds it by MIME type."""

    id: str
    digest: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run."""

    id: str
    success: bool
    stdout: str
    stderr: str
    """What the script wrote there, and after it why it was ended, where it was."""
    return_code: int
    """Negative where a signal ended it."""
    files: tuple[RunFile, ...]
    visualizations: tuple[Visualization, ...]
    seconds: float
    state: ExecutionState
    directory: str
    """Where its files are in the data directory."""
    manifest: dict[str, Any] | None = None
    """The visualization manifest as the script wrote it."""
    reason: str | None = None
    """Why it was ended, which limit stands behind its error, or what to do about it."""
    more_files: int = 0
    not_kept: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    """What was installed for it."""
    dropped_bytes: int = 0
    """Output beyond the limit."""


async def run_script(  # noqa: PLR0913  # one for each thing that a caller may say
    engine: Engine,
    code: str,
    *,
    language: str = "python",
    packages: Sequence[str] = (),
    working_dir: str | None = None,
    timeout_s: float | None = None,
    argv: Sequence[str] = (),
    directory: Path | None = None,
    on_output: OnOutput | None = None,
    tools: OfferedTools | None = None,
) -> RunResult:
    """Run a script once, apart from everything else, and keep the files that it leaves.

    It works in an empty directory, or in the one of the data directory that ``working_dir`` names, where runs take
    turns. ``directory`` is where the search for its interpreter begins; the engine's root by default. ``tools`` are those
    that it may call.

    Raises:
        LimitReached: ``timeout_s`` is more than the settings allow.
        FileRefused: ``working_dir`` leads out of the data directory.
        PackageRefused: a package is not approved.
        PackageFailed: it cannot be had.
        KernelError: no kernel can be had.
    """
    limit_s, language = _time_limit(engine.settings.run_timeout_s, timeout_s), canonical_language(language)
    run_directory = _run_directory(engine, working_dir)
    one_shot = engine.one_shots.open(
        language,
        directory=directory,
        limits=_limits(engine),
        alone_in=run_directory.name if run_directory.lasts else None,
    )
    async with one_shot as session:
        await _fill(session, run_directory)
        if packages:
            await session.install(packages)
        script = run_directory.script_name(_SUFFIXES.get(language, "txt"))
        source = script_cell(runtime_of(language), code, script, tuple(argv)) or code
        async with offered(tools, Path(session.place.written), code, runtime_of(language)):
            execution = await _executed(engine, session, source, limit_s, on_output)
        result = await _result(engine, session, execution, run_directory, (script, code), limit_s)
        if runtime_of(language) == "deno" and result.state == "ok":
            # There the process itself is the script, of which nothing goes on: its end takes longer than its run.
            engine.one_shots.release(session)
        return result


def _run_directory(engine: Engine, working_dir: str | None) -> RunDirectory:
    settings = engine.settings
    return RunDirectory(
        DataDirectory.of(engine),
        new_run_id(),
        working_dir,
        capacity=min(settings.max_run_disk, settings.max_session_disk),
        retention=RunRetention(settings.max_kept_runs, settings.max_kept_run_bytes, settings.keep_runs_s),
    )


def _time_limit(limit_s: float, requested_s: float | None) -> float:
    if requested_s is not None and not 0 < requested_s <= limit_s:
        raise LimitReached(
            f"A run may take {limit_s:g} s, and {requested_s:g} s were asked for",
            setting="run_timeout_s",
            hint=f"Ask for more than 0 and at most {limit_s:g} s, or work in a notebook session",
        )
    return limit_s if requested_s is None else requested_s


def _limits(engine: Engine) -> Narrowing | None:
    """What a run has less than a session; nothing where that is nothing, so that a kernel that stands by will do."""
    settings = engine.settings
    if settings.unsafe_no_sandbox or settings.max_run_disk >= settings.max_session_disk:
        return None
    return Narrowing(disk_bytes=settings.max_run_disk)


async def _fill(session: Session, run_directory: RunDirectory) -> None:
    written = Path(session.place.written)

    def fill() -> None:
        prepare_storage(session.place)
        run_directory.fill(written)

    await anyio.to_thread.run_sync(fill)


async def _executed(
    engine: Engine, session: Session, source: str, limit_s: float, on_output: OnOutput | None
) -> Execution:
    """Run the source to its end, telling what it puts out."""
    if on_output is None:
        execution = await session.execute_code(source, timeout_s=limit_s)
        return await execution.wait()
    failure: CellwrightError | None = None
    with engine.subscribe(session.id) as events:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report_output, events, on_output)
            try:
                execution = await session.execute_code(source, timeout_s=limit_s)
                await execution.wait()
            except CellwrightError as error:
                failure = error  # raised in here it would become a group
            events.close()
    if failure is not None:
        raise failure
    return execution


async def _report_output(events: Subscription, on_output: OnOutput) -> None:
    async for event in events:
        if (
            isinstance(event, Event)
            and event.kind == "notebook.cell.output"
            and event.data["type"] == "stream"
        ):
            content = event.data["content"]
            await on_output(content["name"], content["text"])


async def _result(
    engine: Engine,
    session: Session,
    execution: Execution,
    run_directory: RunDirectory,
    script: tuple[str, str],
    limit_s: float,
) -> RunResult:
    record, written = execution.record, Path(session.place.written)
    kept = await anyio.to_thread.run_sync(partial(run_directory.keep, written, script=script))
    code = return_code(execution)
    reason = _reason(engine, session, execution, code, limit_s) or _advice(
        engine.options.packages, execution, code, lasts=run_directory.lasts
    )
    charts = _visualizations(execution.outputs)
    manifest = await anyio.to_thread.run_sync(_manifest, written) if FILENAME in kept.paths else None
    stdout, stderr = (_stream(execution, name) for name in ("stdout", "stderr"))
    return RunResult(
        id=run_directory.run_id,
        success=code == 0,
        stdout=stdout,
        stderr=_with_reason(stderr, reason),
        return_code=code,
        files=kept.files,
        visualizations=charts,
        seconds=record.seconds or 0.0,
        state=record.state,
        directory=run_directory.name,
        manifest=manifest,
        reason=reason,
        more_files=kept.more,
        not_kept=kept.not_kept,
        packages=session.record.packages,
        dropped_bytes=record.dropped_bytes,
    )


def return_code(execution: Execution) -> int:
    """What a shell would be told: 0 where it went well. Of what has no code of its own, the state decides."""
    record = execution.record
    if record.exit_code is not None:
        return record.exit_code
    match record.state:
        case "ok":
            return 0
        case "error":
            return 1
        case _:
            return _KILLED


def _reason(engine: Engine, session: Session, execution: Execution, code: int, limit_s: float) -> str | None:
    record = execution.record
    if record.state == "timeout":
        most_s = engine.settings.run_timeout_s
        more = f"ask for more time (timeout, at most {most_s:g} s), or " if limit_s < most_s else ""
        return f"Stopped after {limit_s:g} s (run_timeout_s): {more}do less at once, or work in a notebook session"
    if record.state == "interrupted":
        return record.reason or "Cancelled"
    if record.state == "died" and code < 0:
        return record.reason
    if code == 0 or record.state == "died":
        return None
    policy = session.policy
    return record.reason or (explain_error("", _last_line(execution), policy) if policy is not None else None)


def _advice(packages: PackageOptions, execution: Execution, code: int, *, lasts: bool) -> str | None:
    """The next step where no limit stands behind a failure."""
    if code == 0:
        return None
    try:
        approved = packages.approved
    except CellwrightError:  # the list is faulty, which is told to whoever installs from it
        return after_signal(code)
    return after_signal(code) or after_error(_last_line(execution), approved, lasts=lasts)


def _last_line(execution: Execution) -> str:
    return _stream(execution, "stderr").rstrip().rpartition("\n")[2]


def _with_reason(stderr: str, reason: str | None) -> str:
    if reason is None:
        return stderr
    gap = "" if not stderr or stderr.endswith("\n") else "\n"
    return f"{stderr}{gap}[cellwright: {reason}]\n"


def _stream(execution: Execution, name: str) -> str:
    """All that came on one stream; what a kernel raised by itself is its standard error."""
    # What it raises when it is interrupted is how it was stopped, and that is told in other words.
    stopped = execution.state in ("timeout", "interrupted")
    outputs = [one for one in execution.outputs if not (stopped and one["output_type"] == "error")]
    return "".join(_text(output, name) for output in outputs)


def _text(output: dict[str, Any], name: str) -> str:
    if output["output_type"] == "stream" and output["name"] == name:
        text = output["text"]
        return text if isinstance(text, str) else "".join(text)
    if output["output_type"] == "error" and name == "stderr":
        return _COLOURS.sub("", "\n".join(output["traceback"])) + "\n"
    return ""


def _visualizations(outputs: Sequence[dict[str, Any]]) -> tuple[Visualization, ...]:
    """What was drawn of the manifest that the run left."""
    about = ((output, (output.get("metadata") or {}).get("cellwright") or {}) for output in outputs)
    return tuple(
        Visualization(metadata["chart"], metadata.get("digest", ""), output["data"])
        for output, metadata in about
        if "chart" in metadata
    )


def _manifest(written: Path) -> dict[str, Any] | None:
    try:
        with Workdir.open(written) as inside:
            found = json.loads(inside.read(FILENAME, _MANIFEST_BYTES))
    except (CellwrightError, ValueError, RecursionError):  # what is wrong with it was told with its charts
        return None
    return found if isinstance(found, dict) else None


# What a run finds in its directory, and what is kept of it: files between the data directory and a session's
# own.

MOST_LISTED = 50

SCRIPT = "script"


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a run left: ``path`` is its name in the data directory."""

    filename: str
    path: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a run's files."""

    files: tuple[RunFile, ...] = ()
    more: int = 0
    not_kept: tuple[str, ...] = ()
    """Names that are no plain files, or could not be copied, with the reason."""
    paths: frozenset[str] = frozenset()
    """Of all files in the run's directory, those beyond ``files`` too."""


@dataclass(frozen=True, slots=True)
class RunRetention:
    """How many runs in fresh directories are kept, how many bytes, and for how long."""

    max_kept_runs: int
    max_kept_run_bytes: int
    keep_runs_s: float


class RunDirectory:
    """The directory of one run: a fresh one, or a copy of one in the data directory to which changes go back."""

    def __init__(
        self,
        data_directory: DataDirectory,
        run_id: str,
        working_dir: str | None,
        *,
        capacity: int,
        retention: RunRetention,
    ) -> None:
        """``capacity`` is how many bytes it may hold; ``retention`` says which earlier runs stay beside it."""
        self._data_directory = data_directory
        self._most_bytes = capacity
        self._retention = retention
        self._before = Snapshot({}, complete=True)
        self.run_id = run_id
        self.lasts = working_dir is not None
        """Whether it was there before, and what is deleted in it is deleted."""
        self.name = relative(working_dir) if working_dir is not None else f"{RUNS}/{run_id}"
        """Where its files are in the data directory."""

    def fill(self, written: Path) -> None:
        """Bring in what lies in the data directory.

        Raises:
            FileTooLarge: it is more than a run may have.
        """
        if not self.lasts:
            return
        with self._data_directory.open(self.name) as data_directory, Workdir.open(written) as inside:
            entries = data_directory.snapshot().entries.values()
            # A file with several names is never read: another may lie anywhere.
            found = [entry for entry in entries if entry.type == "directory" or _is_plain(entry)]
            for entry in self._fitting(found):
                if entry.type == "directory":
                    inside.make_directory(entry.path)
                else:
                    inside.bring(data_directory, entry.path)
            self._before = inside.snapshot()

    def script_name(self, suffix: str) -> str:
        """A name for the script that no file has."""
        number, name = 1, f"{SCRIPT}.{suffix}"
        while name in self._before.entries:
            number += 1
            name = f"{SCRIPT}{number}.{suffix}"
        return name

    def keep(self, written: Path, *, script: tuple[str, str]) -> Kept:
        """Put what a run left into the data directory, each file at once; ``script`` is the name and the text of its own."""
        try:
            with Workdir.open(written) as inside:
                changes, _ = inside.changed_since(self._before)
                new = [entry for entry in (*changes.created, *changes.changed) if not _is_ours(entry)]
                new = [entry for entry in new if not _is_script(inside, entry, script)]
                if not new and not (self.lasts and changes.deleted):
                    return Kept()
                with self._data_directory.open(self.name) as data_directory:
                    kept, not_kept = _bring(data_directory, inside, new, self._capacity(changes))
                    if not changes.complete:
                        not_kept.append("names beyond those that are looked at")
                    if self.lasts:
                        _remove(data_directory, changes.deleted)
        except NoSuchFile:  # no kernel ever came there
            return Kept()
        if not self.lasts:
            clear_old_runs(self._data_directory, self._retention, keep=self.name)
        files = tuple(self._run_file(entry) for entry in kept)
        paths = frozenset(entry.path for entry in kept)
        return Kept(files[:MOST_LISTED], max(len(files) - MOST_LISTED, 0), tuple(not_kept), paths)

    def _capacity(self, changes: Changes) -> int:
        """How many bytes may come beside what stays as it was."""
        gone = {entry.path for entry in (*changes.changed, *changes.deleted)}
        stays = (
            one.size for one in self._before.entries.values() if one.type == "file" and one.path not in gone
        )
        return self._most_bytes - sum(stays)

    def _fitting(self, found: list[Entry]) -> list[Entry]:
        """What is brought in: all of it, or at the top of the data directory all but what earlier runs left."""
        others = [entry for entry in found if not self._is_of_runs(entry)]
        for chosen in (found, others):
            if sum(entry.size for entry in chosen if entry.type == "file") <= self._most_bytes:
                return chosen
        total = sum(entry.size for entry in others)
        raise FileTooLarge(
            f"The working directory {self.name or '.'!r} holds {total:,} bytes, and a run may have {self._most_bytes:,}",
            hint="Name a directory below it, or remove files there",
        )

    def _is_of_runs(self, entry: Entry) -> bool:
        return not self.name and (entry.path == RUNS or entry.path.startswith(f"{RUNS}/"))

    def _run_file(self, entry: Entry) -> RunFile:
        path = f"{self.name}/{entry.path}" if self.name else entry.path
        return RunFile(entry.path.rpartition("/")[2], path, file_type(entry.path), entry.size)


def _is_ours(entry: Entry) -> bool:
    return entry.path.rpartition("/")[2].startswith(".cellwright-")


def _is_script(inside: Workdir, entry: Entry, script: tuple[str, str]) -> bool:
    """Whether it is the script that ran, left by a kernel that did not live to remove it."""
    name, source = script
    content = source.encode("utf-8", "backslashreplace")
    if entry.path != name or not _is_plain(entry) or entry.size != len(content):
        return False
    try:
        return inside.read(name) == content
    except (
        SandboxError
    ):  # swapped since it was looked at: it is told of like everything else that is not kept
        return False


def _is_plain(entry: Entry) -> bool:
    return entry.type == "file" and entry.links == 1


def _bring(
    data_directory: Workdir, inside: Workdir, new: Iterable[Entry], capacity: int
) -> tuple[list[Entry], list[str]]:
    kept: list[Entry] = []
    not_kept: list[str] = []
    # Counted as they are copied: a file with holes in it takes no room where it was made, and all of it here.
    for entry in sorted(new, key=lambda one: one.path):
        try:
            if entry.type == "directory":
                data_directory.make_directory(entry.path)
            elif entry.type == "file" and entry.size > capacity:
                not_kept.append(
                    f"{entry.path} ({entry.size:,} bytes are more than may be kept: max_run_disk)"
                )
            elif entry.type == "file":
                kept.append(data_directory.bring(inside, entry.path))
                capacity -= kept[-1].size
            else:
                not_kept.append(f"{entry.path} ({entry.type})")
        except SandboxError as error:
            not_kept.append(error.message)
    return kept, not_kept


def _remove(data_directory: Workdir, deleted: Iterable[Entry]) -> None:
    # What lies deepest goes first, so that its directory is empty.
    for entry in sorted(deleted, key=lambda one: one.path.count("/"), reverse=True):
        with contextlib.suppress(SandboxError):  # somebody else was quicker, or put something into it
            data_directory.remove(entry.path)


@dataclass(frozen=True, slots=True)
class OldRun:
    """What an earlier run left: its name, when, and how much."""

    name: str
    time: float
    size: int


def clear_old_runs(data_directory: DataDirectory, retention: RunRetention, *, keep: str) -> None:
    """Remove what earlier runs left, beyond what is to be kept; never that of ``keep``."""
    with data_directory.open(RUNS) as runs:
        found = [
            _old_run(data_directory, entry) for entry in runs.list().entries if entry.type == "directory"
        ]
        others = [run for run in found if f"{RUNS}/{run.name}" != keep]
        for run in too_old(others, retention, now=time.time()):
            with contextlib.suppress(SandboxError):
                with data_directory.open(f"{RUNS}/{run.name}") as directory:
                    directory.clear()
                runs.remove(run.name)


def too_old(runs: Iterable[OldRun], retention: RunRetention, *, now: float) -> list[OldRun]:
    """Those that make way: all but the newest that fit within count, size and age. Pure."""
    gone: list[OldRun] = []
    count, size = 1, 0  # the one that was just kept is one of them
    for run in sorted(runs, key=lambda one: one.time, reverse=True):
        count, size = count + 1, size + run.size
        fits = count <= retention.max_kept_runs and size <= retention.max_kept_run_bytes
        if not fits or now - run.time > retention.keep_runs_s:
            gone.append(run)
    return gone


def _old_run(data_directory: DataDirectory, entry: Entry) -> OldRun:
    with contextlib.suppress(SandboxError), data_directory.open(f"{RUNS}/{entry.path}") as directory:
        size = sum(one.size for one in directory.snapshot().entries.values())
        return OldRun(entry.path, entry.mtime_ns / 1e9, size)
    return OldRun(entry.path, entry.mtime_ns / 1e9, 0)


# The next step after a script that failed: a package to name, a directory to work in. Pure; runs nothing
# (see ``scripts``).

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_MISSING_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] [^:]+: ['\"](?!/)")


def after_error(last_line: str, approved: ApprovedList, *, lasts: bool) -> str | None:
    """What to do about an exception's last line; ``lasts`` tells whether the run had a directory that was named."""
    if found := _MISSING_MODULE.match(last_line):
        return _of_module(found[1].partition(".")[0], approved)
    if _MISSING_FILE.match(last_line):
        return (
            "Paths are relative to workingDir"
            if lasts
            else "The run began in an empty directory: name one by workingDir, `.` for the whole data directory"
        )
    return None


def after_signal(code: int) -> str | None:
    """Which signal a negative return code stands for."""
    try:
        return f"Ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else None
    except ValueError:
        return f"Ended by signal {-code}"


def _of_module(module: str, approved: ApprovedList) -> str:
    name = normal_name(module)
    package = IMPORT_NAMES.get(name, name)
    if package in approved.packages:
        return f'Run it again with packages=["{package}"]'
    return f"{module} is in no approved package; these are: {', '.join(sorted(approved.packages))}"


# What kind of file a name stands for, in the words that tools use. Pure; looks into none (see
# ``file_system`` for that).

_TYPES = {
    "csv": ("csv", "tsv"),
    "json": ("json", "jsonl", "ndjson", "geojson", "ipynb"),
    "image": ("png", "jpg", "jpeg", "gif", "webp", "svg", "bmp", "tif", "tiff"),
    "parquet": ("parquet",),
    "excel": ("xlsx", "xls", "xlsm", "xlsb", "ods"),
    "html": ("html", "htm"),
    "pdf": ("pdf",),
    "text": (
        "txt",
        "md",
        "log",
        "py",
        "js",
        "ts",
        "mjs",
        "xml",
        "yaml",
        "yml",
        "toml",
        "ini",
        "sql",
        "rst",
        "tex",
    ),
}

_BY_SUFFIX = {suffix: kind for kind, suffixes in _TYPES.items() for suffix in suffixes}


def file_type(path: str) -> str:
    """One of ``csv``, ``json``, ``image``, ``text``, ``parquet``, ``excel``, ``html``, ``pdf``, else ``binary``."""
    return _BY_SUFFIX.get(PurePath(path).suffix.lower().removeprefix("."), "binary")

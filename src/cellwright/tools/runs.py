"""One-shot runs: a script in a kernel and a directory of its own, and what came of it.

A library call first; MCP tools and verbs translate. The session is ``engine.oneshots``', its files are ``rundirs``'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from cellwright.charts import FILENAME
from cellwright.engine import Engine, Event, Execution, Session, Subscription
from cellwright.engine.environment import approved_packages, runtime_of
from cellwright.engine.ids import new_run_id
from cellwright.engine.limits import whole_policy
from cellwright.engine.oneshot import script_cell
from cellwright.errors import CellwrightError, LimitReached
from cellwright.hosts.protocol import ExecutionState
from cellwright.notebook.languages import canonical_language
from cellwright.sandbox.exit_reasons import explain_error
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.policy import Narrowing
from cellwright.sandbox.workspace import prepare_storage
from cellwright.settings import Settings
from cellwright.tools.runadvice import after_error, after_signal
from cellwright.tools.rundirs import RunDirectory, RunFile

__all__ = ["OnOutput", "RunFile", "RunResult", "Visualization", "run_script"]

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
) -> RunResult:
    """Run a script once, apart from everything else, and keep the files that it leaves.

    It works in an empty directory, or in the one of the data directory that ``working_dir`` names, where runs take
    turns. ``directory`` is where the search for its interpreter begins; the engine's root by default.

    Raises:
        LimitReached: ``timeout_s`` is more than the settings allow.
        FileRefused: ``working_dir`` leads out of the data directory.
        PackageRefused: a package is not approved.
        PackageFailed: it cannot be had.
        KernelError: no kernel can be had.
    """
    settings = engine.settings
    limit_s, language = _time_limit(settings, timeout_s), canonical_language(language)
    place = RunDirectory(settings, new_run_id(), working_dir)
    one_shot = engine.one_shots.open(
        language, directory=directory, limits=_limits(settings), alone_in=place.name if place.lasts else None
    )
    async with one_shot as session:
        await _fill(session, place, settings)
        if packages:
            await session.install(packages)
        script = place.script_name(_SUFFIXES.get(language, "txt"))
        source = script_cell(runtime_of(language), code, script, tuple(argv)) or code
        execution = await _executed(engine, session, source, limit_s, on_output)
        result = await _result(engine, session, execution, place, (script, code), limit_s)
        if runtime_of(language) == "deno" and result.state == "ok":
            # There the process itself is the script, of which nothing goes on: its end takes longer than its run.
            engine.one_shots.release(session)
        return result


def _time_limit(settings: Settings, asked_s: float | None) -> float:
    limit_s = settings.run_timeout_s
    if asked_s is not None and not 0 < asked_s <= limit_s:
        raise LimitReached(
            f"A run may take {limit_s:g} s, and {asked_s:g} s were asked for",
            setting="run_timeout_s",
            hint=f"Ask for more than 0 and at most {limit_s:g} s, or work in a notebook session",
        )
    return limit_s if asked_s is None else asked_s


def _limits(settings: Settings) -> Narrowing | None:
    """What a run has less than a session; nothing where that is nothing, so that a kernel that stands by will do."""
    if settings.unsafe_no_sandbox or settings.max_run_disk >= settings.max_session_disk:
        return None
    return Narrowing(disk_bytes=settings.max_run_disk)


async def _fill(session: Session, place: RunDirectory, settings: Settings) -> None:
    written = Path(session.place.written)

    def fill() -> None:
        prepare_storage(session.place)
        place.fill(written, min(settings.max_run_disk, settings.max_session_disk))

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
            tasks.start_soon(_tell, events, on_output)
            try:
                execution = await session.execute_code(source, timeout_s=limit_s)
                await execution.wait()
            except CellwrightError as error:
                failure = error  # raised in here it would become a group
            events.close()
    if failure is not None:
        raise failure
    return execution


async def _tell(events: Subscription, on_output: OnOutput) -> None:
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
    place: RunDirectory,
    script: tuple[str, str],
    limit_s: float,
) -> RunResult:
    record, written = execution.record, Path(session.place.written)
    kept = await anyio.to_thread.run_sync(partial(place.keep, written, script=script))
    code = return_code(execution)
    reason = _reason(engine.settings, session, execution, code, limit_s) or _advice(
        engine.settings, execution, code, lasts=place.lasts
    )
    charts = _visualizations(execution.outputs)
    manifest = await anyio.to_thread.run_sync(_manifest, written) if FILENAME in kept.paths else None
    stdout, stderr = (_stream(execution, name) for name in ("stdout", "stderr"))
    return RunResult(
        id=place.run_id,
        success=code == 0,
        stdout=stdout,
        stderr=_with_reason(stderr, reason),
        return_code=code,
        files=kept.files,
        visualizations=charts,
        seconds=record.seconds or 0.0,
        state=record.state,
        directory=place.name,
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


def _reason(
    settings: Settings, session: Session, execution: Execution, code: int, limit_s: float
) -> str | None:
    record = execution.record
    if record.state == "timeout":
        most_s = settings.run_timeout_s
        more = f"ask for more time (timeout, at most {most_s:g} s), or " if limit_s < most_s else ""
        return f"Stopped after {limit_s:g} s (run_timeout_s): {more}do less at once, or work in a notebook session"
    if record.state == "interrupted":
        return record.reason or "Cancelled"
    if record.state == "died" and code < 0:
        return record.reason
    if code == 0 or record.state == "died":
        return None
    policy = whole_policy(settings, session.record.limits)
    return record.reason or (explain_error("", _last_line(execution), policy) if policy is not None else None)


def _advice(settings: Settings, execution: Execution, code: int, *, lasts: bool) -> str | None:
    """The next step where no limit stands behind a failure."""
    if code == 0:
        return None
    try:
        approved = approved_packages(settings)
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
        Visualization(told["chart"], told.get("digest", ""), output["data"])
        for output, told in about
        if "chart" in told
    )


def _manifest(written: Path) -> dict[str, Any] | None:
    try:
        with Workdir.open(written) as inside:
            found = json.loads(inside.read(FILENAME, _MANIFEST_BYTES))
    except (CellwrightError, ValueError, RecursionError):  # what is wrong with it was told with its charts
        return None
    return found if isinstance(found, dict) else None

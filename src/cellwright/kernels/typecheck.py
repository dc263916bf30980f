"""Runs the type checker of Deno over a notebook, beside its kernel: in a process of its own, as confined as that one.

It runs nobody's code and writes nothing. What is checked, and how it is read, is ``typecheck``'s.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

import anyio
import msgspec

from cellwright.errors import KernelError, KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._resources import KernelCgroups, KernelResources
from cellwright.kernels._spawn import (
    Start,
    confined_start,
    refuse_without_network,
    watched,
)
from cellwright.kernels.deno import V8_MEMORY, find_deno, own_environment
from cellwright.kernels.kernel import KernelLaunch
from cellwright.kernels.processes import ExitOutput, KernelProcess, expected_child
from cellwright.kernels.programs import own_script
from cellwright.sandbox.policy import SOCKETS
from cellwright.sandbox.safe_paths import components, open_beneath
from cellwright.sandbox.workspace import Workspace, hiding_mounts

__all__ = ["CellSource", "Diagnostic", "TypeChecker", "config_of", "diagnostics_of", "join_cells"]
FILES = "check"

LAYER = "/layer"
"""Where the check sees what a session on a view of a project wrote."""

KEPT_BYTES = 1 << 20

MAX_WRITTEN = 1_000

MODULES = (".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json")

FLAGS = ["--no-lock", "--no-remote", "--cached-only", "--node-modules-dir=none"]


class TypeChecker:
    """Checks notebooks one by one, each in a sandbox of its own that is gone afterwards."""

    def __init__(self, *, isolation: Isolation | None, timeout_s: float) -> None:
        self._isolation = isolation
        self._cgroups = KernelCgroups(isolation)
        self._timeout_s = timeout_s
        self._deno: Path | None = None

    async def check(
        self, launch: KernelLaunch, cells: Sequence[CellSource], tsconfig: Mapping[str, Any] | None = None
    ) -> list[Diagnostic]:
        """What is wrong with the types of these cells, where a kernel of theirs would be launched so.

        Raises:
            KernelStartError: there is no Deno, or it cannot be confined.
            KernelError: it ended without a word that can be understood.
            TimeoutError: it took too long.
        """
        self._deno = self._deno or await anyio.to_thread.run_sync(find_deno)
        isolation = self._isolation
        if isolation is not None:
            policy = replace(launch.policy or isolation.policy, network="off")
            isolation = isolation.under(policy)
            launch = replace(launch, directory=isolation.directory(launch.directory))
        program = join_cells(cells)
        seen_at = (
            f"{SOCKETS}/{FILES}"
            if isolation is not None and isolation.stands_by
            else f"{launch.directory}/{FILES}"
        )
        try:
            await anyio.to_thread.run_sync(_write, program, launch, tsconfig, seen_at)
            plan = _plan(str(self._deno), launch, isolation) if isolation is not None else None
            output, code = await self._run(self._command(program, seen_at), plan, launch)
        finally:
            shutil.rmtree(launch.directory, ignore_errors=True)
        found = diagnostics_of(output, program, seen_at=seen_at)
        if code and not found and "Type checking failed" not in output:
            raise KernelError(f"The type check did not get through: {output[-2_000:]}")
        return found

    def _command(self, program: Program, seen_at: str) -> list[str]:
        files = [f"{seen_at}/{name}" for name in program.files]
        return [str(self._deno), "check", *FLAGS, "--config", f"{seen_at}/{CONFIG}", *files]

    async def _run(
        self, command: list[str], plan: dict[str, Any] | None, launch: KernelLaunch
    ) -> tuple[str, int | None]:
        """What the process said, and its exit code."""
        cgroup = await self._cgroups.next(launch.policy)
        start = Start(command, {}, Path("/"), exit_output=ExitOutput(kept_bytes=KEPT_BYTES))
        if plan is None:
            start = replace(start, environment=own_environment(str(launch.directory)))
        else:
            start = confined_start(start, plan, replace(launch, cwd=Path("/"), workspace=None), cgroup)
        try:
            process = await start.open(cgroup)
        except OSError as error:
            await cgroup.remove()
            raise KernelStartError(f"The type check could not be started: {error}") from error
        finally:
            cgroup.handed_over()
        resources = KernelResources(launch.directory, start.line, None, cgroup.group)
        with expected_child(process.pid):
            try:
                async with anyio.create_task_group() as tasks:
                    ending = watched(process, start, cgroup)
                    tasks.start_soon(ending.watch)
                    tasks.start_soon(start.exit_output.run)
                    tasks.start_soon(resources.run)
                    try:
                        with anyio.fail_after(self._timeout_s):
                            await start.ready()
                            code = (await ending.wait()).code
                    finally:
                        await _end(ending)
                        tasks.cancel_scope.cancel()
                return start.exit_output.text, code
            finally:
                start.exit_output.close()
                await resources.close()


async def _end(process: KernelProcess) -> None:
    process.kill_tree("the type check was given up")
    with anyio.CancelScope(shield=True):
        await process.wait()


def _plan(deno: str, launch: KernelLaunch, isolation: Isolation) -> dict[str, Any]:
    place = launch.workspace
    if place is None:
        raise KernelStartError("A confined check needs a place to look at")
    # No kernel could run such cells there either, and the place would have to be taken from the one that works in it.
    refuse_without_network("deno", isolation)
    plan = isolation.plan(isolation.readable([deno]), {}, launch.directory, None)
    # To read only: what the session sees there, and nothing of what is hidden from it. Its own layer lies in that.
    shown = [(place.written, place.cwd)] if place.mode == "private" else [(place.top, place.top)]
    shown += [(place.written, LAYER)] if place.mode == "overlay" else []
    plan["mounts"] += [
        {"kind": "bind", "from": path, "at": at, "write": False, "own": True, "plain": True}
        for path, at in shown
    ]
    plan["mounts"] += hiding_mounts(place)
    plan["rules"]["READ"] += [at for _, at in shown]
    plan["environment"] |= own_environment(plan["environment"]["TMPDIR"])
    plan["limits"]["own_memory"] = V8_MEMORY
    return plan


def _write(program: Program, launch: KernelLaunch, tsconfig: Mapping[str, Any] | None, seen_at: str) -> None:
    """Put what is checked where the process will see it."""
    top = launch.directory / FILES
    written = _written(launch.workspace) if launch.workspace is not None else {}
    config = config_of(program, tsconfig, seen_at=seen_at, cwd=str(launch.cwd), written=written)
    known = Path(own_script("deno"), GLOBALS).read_text(encoding="utf-8")
    for name, text in {**program.files, GLOBALS: known, CONFIG: msgspec.json.encode(config).decode()}.items():
        file = top / name
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "replace"))
    launch.directory.chmod(0o700)


def _written(place: Workspace) -> dict[str, str]:
    """The modules that a session on a view of a project wrote there, by their names in its working directory."""
    if place.mode != "overlay":
        return {}
    below = os.path.relpath(place.cwd, place.top)
    found: dict[str, str] = {}
    # Code may have put links where its directories were: none is followed.
    with contextlib.ExitStack() as held:
        try:
            layer = os.open(place.written, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, layer)
            top = open_beneath(layer, components(below), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, top)
        except OSError:  # it wrote nothing there
            return {}
        for directory, _, names, fd in os.fwalk(".", dir_fd=top):
            for name in names:
                if name.endswith(MODULES) and stat.S_ISREG(_mode(name, fd)):
                    path = os.path.normpath(f"{directory}/{name}")
                    found[path] = os.path.normpath(f"{LAYER}/{below}/{path}")
                if len(found) == MAX_WRITTEN:
                    return found
    return found


def _mode(name: str, directory: int) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError:  # it went meanwhile
        return 0


# A notebook as a program that a type checker reads, and what the checker said put back onto cells. Pure.

NOTEBOOK = "notebook.ts"

GLOBALS = "globals.d.ts"

CONFIG = "deno.json"

OWN = frozenset({NOTEBOOK, GLOBALS, CONFIG})

# A statement of its own between two cells: the last line of one must not go on in the first of the next.
SEAM = ";"

FIRST_LINES = ["export {};"]

REDECLARED = frozenset({"TS2300", "TS2323", "TS2393", "TS2403", "TS2428", "TS2451", "TS2813", "TS2814"})

# Of these only one of the two places is told, and they come of cells being one module in the first place.
JOINED = frozenset({"TS2395", "TS2440", "TS2484", "TS2528"})

MAX_DIAGNOSTICS = 200

MAX_NAME = 255

_HEAD = re.compile(r"(?:(?P<code>TS\d+) \[\w+\]|error: (?P<name>\w*Error)|error): (?P<message>.*)")

_PLACE = re.compile(r" {4}at (?P<file>file://\S+):(?P<line>\d+):(?P<column>\d+)")

_MARK = re.compile(r"\s*(?:\d+ )?\|?\s*[~^]+\s*")

_NAME = re.compile(r"[\w$]+")


@dataclass(frozen=True, slots=True)
class CellSource:
    """A cell as the checker gets it."""

    cell_id: str
    source: str
    filename: str | None = None
    """Under which others import it, relative to the working directory."""
    language: str = "typescript"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, with its place in the cell; lines and columns count from one."""

    cell_id: str | None
    """None where it stands in a file that is no cell."""
    line: int
    column: int
    code: str
    """Such as ``TS2322``; ``SyntaxError`` where a cell cannot even be read."""
    message: str
    file: str = ""
    """The file, where it is no cell."""


@dataclass(frozen=True, slots=True)
class Program:
    """The files to check, by name, and which lines of the notebook's own come from which cell."""

    files: Mapping[str, str]
    cells: tuple[CellSource, ...]
    starts: tuple[int, ...]
    """The line of the notebook's module that is each cell's first."""

    @property
    def named(self) -> dict[str, CellSource]:
        """Cells that are modules of their own, by file; the last of a name counts, as it does on disk."""
        return {_module_name(cell.filename): cell for cell in self.cells if _is_module(cell)}

    def cell_at(self, line: int) -> tuple[CellSource, int] | None:
        """The cell that a line of the notebook's module comes from, and its number there."""
        index = bisect_right(self.starts, line) - 1
        if index < 0:
            return None
        return self.cells[index], line - self.starts[index] + 1


def join_cells(cells: Sequence[CellSource]) -> Program:
    """The program that the cells of a notebook make."""
    lines = list(FIRST_LINES)
    starts = []
    for cell in cells:
        starts.append(len(lines) + 1)
        lines += [*_lines(cell.source), SEAM]
    program = Program({}, tuple(cells), tuple(starts))
    named = {
        name: cell.source for name, cell in program.named.items() if not _is_below_file(name, program.named)
    }
    return Program({NOTEBOOK: "\n".join([*lines, ""]), **named}, program.cells, program.starts)


def config_of(
    program: Program,
    tsconfig: Mapping[str, Any] | None,
    *,
    seen_at: str,
    cwd: str,
    written: Mapping[str, str],
) -> dict[str, Any]:
    """Deno's configuration for a check of the files at ``seen_at`` as if they lay in ``cwd``.

    ``tsconfig`` holds compiler options, by themselves or as a file holds them. ``written`` are files of the working
    directory that lie elsewhere, by their name there.
    """
    told = dict(tsconfig or {})
    options = told["compilerOptions"] if isinstance(told.get("compilerOptions"), dict) else told
    here = f"{_url(seen_at)}/"
    elsewhere = {f"{here}{quote(name)}": _url(path) for name, path in written.items()}
    own = {f"{here}{quote(name)}": f"{here}{quote(name)}" for name in (*program.files, GLOBALS)}
    types = options.get("types")
    return {
        "compilerOptions": {
            **options,
            "types": [*(types if isinstance(types, list) else []), f"./{GLOBALS}"],
        },
        "imports": {here: f"{_url(cwd)}/", **elsewhere, **own},
    }


def diagnostics_of(output: str, program: Program, *, seen_at: str) -> list[Diagnostic]:
    """What the checker found, cell by cell; that a name is declared again in another cell is no mistake here."""
    found = [(told, *_located(told, program, seen_at)) for told in _blocks(output)]
    again = _declared_again([(told, cell) for told, cell, _ in found])
    kept = [
        diagnostic
        for told, _, diagnostic in found
        if diagnostic is not None and told.code not in JOINED and again.isdisjoint(told.words)
    ]
    return list(dict.fromkeys(kept))[:MAX_DIAGNOSTICS]


@dataclass(frozen=True, slots=True)
class _RawDiagnostic:
    code: str
    message: str
    source: str
    name: str
    """What stands at the place."""
    file: str
    line: int
    column: int

    @property
    def words(self) -> set[str]:
        return {*_NAME.findall(self.source), *_NAME.findall(self.message)}


def _blocks(output: str) -> list[_RawDiagnostic]:
    """The checker's own words, one by one."""
    told: list[_RawDiagnostic] = []
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in output.splitlines():
        if (begun := _HEAD.fullmatch(line)) is not None:
            head, body = begun, []
        elif head is not None and (place := _PLACE.fullmatch(line)) is not None:
            told.append(_raw_diagnostic(head, body, place))
            # What follows up to the next head explains this one further.
            head = None
        elif head is not None:
            body.append(line)
    return told


def _raw_diagnostic(head: re.Match[str], body: Sequence[str], place: re.Match[str]) -> _RawDiagnostic:
    marked = next((number for number, line in enumerate(body) if _MARK.fullmatch(line)), None)
    more = body if marked is None else body[: marked - 1]
    source = "" if marked is None else body[marked - 1]
    at = 0 if marked is None else re.search(r"[~^]", body[marked]).start()  # type: ignore[union-attr]  # it matched
    name = _NAME.match(source, at)
    message = "\n".join([head["message"], *(line for line in more if line.strip() not in ("", "|"))])
    return _RawDiagnostic(
        head["code"] or head["name"] or "Error",
        message,
        source,
        name[0] if name is not None else "",
        place["file"],
        int(place["line"]),
        int(place["column"]),
    )


def _located(
    told: _RawDiagnostic, program: Program, seen_at: str
) -> tuple[CellSource | None, Diagnostic | None]:
    """The cell that it is about, and the diagnostic, unless it is about nothing that is judged there."""
    here = f"{_url(seen_at)}/"
    name = unquote(told.file.removeprefix(here))
    message = told.message.replace(here, "./")
    if not told.file.startswith(here):
        path = unquote(told.file.removeprefix("file://"))
        return None, Diagnostic(None, told.line, told.column, told.code, message, path)
    if name == NOTEBOOK:
        cell, line = program.cell_at(told.line) or (None, 0)
        elsewhere = cell is not None and _is_module(cell) and told.code.startswith("TS")
    else:
        cell, line, elsewhere = program.named.get(name), told.line, False
    if cell is None or elsewhere or cell.language != "typescript":
        return cell, None
    # The seam belongs to nobody: what is wrong there began on the line before it.
    line = min(line, len(_lines(cell.source)))
    return cell, Diagnostic(cell.cell_id, line, told.column, told.code, message)


def _declared_again(found: Sequence[tuple[_RawDiagnostic, CellSource | None]]) -> frozenset[str]:
    """Names that more than one cell declares, of which a checker knows one meaning only."""
    where: dict[str, set[str]] = defaultdict(set)
    for told, cell in found:
        if told.code in REDECLARED and cell is not None:
            where[told.name].add(cell.cell_id)
    joined = {told.name for told, _ in found if told.code in JOINED}
    return frozenset(joined | {name for name, cells in where.items() if len(cells) > 1}) - {""}


def _url(path: str) -> str:
    return f"file://{quote(path)}"


def _lines(source: str) -> list[str]:
    """Only what ends a line for the checker does here, so that numbers stay the same on both sides."""
    return re.split(r"\r\n|[\n\r\u2028\u2029]", source)


def _is_module(cell: CellSource) -> bool:
    name = _module_name(cell.filename)
    return name not in OWN and _can_be_written(name) and not _is_below_file(name, OWN)


def _can_be_written(name: str) -> bool:
    return "\0" not in name and all(
        0 < len(part.encode("utf-8", "replace")) <= MAX_NAME for part in name.split("/")
    )


def _is_below_file(name: str, files: Container[str]) -> bool:
    """Whether a directory above it has the name of a file."""
    return any(str(above) in files for above in PurePosixPath(name).parents)


def _module_name(filename: str | None) -> str:
    """The name with which a module lies beside the notebook's; what climbs out of there lies there all the same."""
    parts = [part for part in PurePosixPath(filename or "").parts if part not in ("/", "..", ".")]
    return "/".join(parts)

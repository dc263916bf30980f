"""Checks a notebook's types with Deno's language server, beside its kernel: in a process that stays up for the next check, as
confined as that kernel.

It runs nobody's code and writes nothing. Speaking with the server is ``_type_server``'s.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
import stat
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

import anyio
import anyio.abc
import msgspec

from cellwright.errors import KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._resources import KernelCgroups
from cellwright.kernels._spawn import Start, confined_start, refuse_without_network
from cellwright.kernels._type_server import IDLE_S, Found, ServerGone, TypeServer
from cellwright.kernels.deno import V8_MEMORY, find_deno, own_environment
from cellwright.kernels.kernel import KernelLaunch
from cellwright.kernels.processes import ExitOutput
from cellwright.kernels.programs import own_script
from cellwright.sandbox.policy import SOCKETS
from cellwright.sandbox.safe_paths import components, open_beneath
from cellwright.sandbox.workspace import Workspace, hiding_mounts

__all__ = ["CellSource", "Diagnostic", "TypeChecker", "config_of", "diagnostics_of", "join_cells"]
FILES = "check"

LAYER = "/layer"
"""Where the check sees what a session on a view of a project wrote."""

MAX_WRITTEN = 1_000

MAX_LOOKED_AT = 20_000

MAX_SERVERS = 2
"""A host's servers at once: each holds some 250 MB. The one that was asked longest ago makes way."""

MODULES = (".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".json")

MAX_IMPORTED = 50


class TypeChecker:
    """Checks notebooks one by one, each by a server of its own for as long as nothing but its cells changes."""

    def __init__(self, tasks: anyio.abc.TaskGroup, *, isolation: Isolation | None, timeout_s: float) -> None:
        self._tasks = tasks
        self._isolation = isolation
        self._cgroups = KernelCgroups(isolation)
        self._timeout_s = timeout_s
        self.idle_s = IDLE_S
        self._deno: Path | None = None
        self._servers: dict[str, TypeServer] = {}
        """By the notebook's storage directory, the one that was asked last at the end."""

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
        program = join_cells(cells)
        seen = await anyio.to_thread.run_sync(_modules, launch.workspace)
        signature = _signature(program, launch, tsconfig, seen)
        server = self._kept(_key(launch), signature)
        if server is not None:
            # It may have reached a limit since the last check, or somebody ended it.
            with contextlib.suppress(ServerGone):
                return await self._ask(server, program, launch)
        server = await self._start(signature, program, launch, tsconfig)
        self._servers[_key(launch)] = server
        return await self._ask(server, program, launch)

    async def _ask(self, server: TypeServer, program: Program, launch: KernelLaunch) -> list[Diagnostic]:
        files = {f"{server.top}/{quote(name)}": text for name, text in program.files.items()}
        written = _written(launch.workspace) if launch.workspace is not None else {}
        others = imported_files(program, cwd=str(launch.cwd), written=written)
        try:
            with anyio.fail_after(self._timeout_s):
                found = await server.check(files, others)
        except BaseException:
            # Whoever gave up left an answer behind that nobody waits for.
            server.close()
            raise
        return diagnostics_of(found, program, top=server.top)

    def _kept(self, key: str, signature: object) -> TypeServer | None:
        """The notebook's server, where what it was started for still holds; else room for another."""
        server = self._servers.pop(key, None)
        if server is not None and server.is_alive and signature is not None and server.signature == signature:
            self._servers[key] = server
            return server
        oldest = list(self._servers.values())[: max(0, len(self._servers) - MAX_SERVERS + 1)]
        for old in (server, *oldest):
            if old is not None:
                old.close()
        self._servers = {name: one for name, one in self._servers.items() if one.is_alive}
        return None

    async def _start(
        self, signature: object, program: Program, launch: KernelLaunch, tsconfig: Mapping[str, Any] | None
    ) -> TypeServer:
        isolation = self._isolation
        if isolation is not None:
            policy = replace(launch.policy or isolation.policy, network="off")
            isolation = isolation.under(policy)
            launch = replace(launch, directory=isolation.directory(launch.directory))
        boxed = isolation is not None and isolation.stands_by
        seen_at = f"{SOCKETS}/{FILES}" if boxed else f"{launch.directory}/{FILES}"
        server = TypeServer(
            signature, launch.directory, top=_url(seen_at), config=f"{seen_at}/{CONFIG}", idle_s=self.idle_s
        )
        start = Start(
            [str(self._deno), "lsp", "--quiet"], {}, Path("/"), pipes=server.pipes, exit_output=ExitOutput()
        )
        try:
            await anyio.to_thread.run_sync(_write, program, launch, tsconfig, seen_at)
            plan = _plan(str(self._deno), launch, isolation) if isolation is not None else None
            cgroup = await self._cgroups.next(launch.policy)
        except BaseException:
            server.pipes.close()
            start.exit_output.close()
            shutil.rmtree(launch.directory, ignore_errors=True)
            raise
        if plan is None:
            start = replace(start, environment=own_environment(str(launch.directory)))
        else:
            start = confined_start(start, plan, replace(launch, cwd=Path("/"), workspace=None), cgroup)
        await self._tasks.start(partial(server.run, start, cgroup, timeout_s=self._timeout_s))
        return server


def _key(launch: KernelLaunch) -> str:
    return launch.workspace.storage if launch.workspace is not None else str(launch.cwd)


def _signature(
    program: Program, launch: KernelLaunch, tsconfig: Mapping[str, Any] | None, seen: object
) -> object:
    """What a server was started for; None where it cannot be told whether the next check is of the same."""
    if seen is None:
        return None
    written = _written(launch.workspace) if launch.workspace is not None else {}
    config = config_of(program, tsconfig, seen_at="/", cwd=str(launch.cwd), written=written)
    return msgspec.json.encode(config), launch.policy, launch.workspace, seen


def _modules(place: Workspace | None) -> object:
    """The modules that a check may read, with their times and sizes; None where there are too many to look at. Blocking.

    A server reads each once. Installed packages are left out: those do not change by themselves.
    """
    if place is None:
        return None
    found: list[tuple[str, int, int, int]] = []
    looked = 0
    for top in dict.fromkeys((place.written, place.cwd if place.mode == "private" else place.top)):
        for directory, below, names, fd in os.fwalk(top):
            below[:] = [one for one in below if one != "node_modules" and not one.startswith(".")]
            looked += len(names) + len(below)
            if looked > MAX_LOOKED_AT:
                return None
            for name in names:
                if name.endswith(MODULES):
                    with contextlib.suppress(OSError):
                        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                        found.append(
                            (f"{directory}/{name}", status.st_ino, status.st_mtime_ns, status.st_size)
                        )
    tops = [_inode(path) for path in (place.written, place.top)]
    return tops, found


def _inode(path: str) -> tuple[int, int] | None:
    """Which directory is at a path: another one may have come in its place."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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

_NAME = re.compile(r"[\w$]+")

_IMPORTED = re.compile(r"""\b(?:from|import)\s*\(?\s*["']((?:\.{0,2}/)[^"'\n\\]+)["']""")

# TypeScript's numbers for what cannot be read; those from here on are about what was read.
_FIRST_MEANING = 1_200

_ERROR = 1


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


def imported_files(program: Program, *, cwd: str, written: Mapping[str, str]) -> list[str]:
    """The addresses of files beside the notebook that its cells import by name, to be judged, too."""
    found: dict[str, None] = {}
    for text in program.files.values():
        for name in _IMPORTED.findall(text):
            path = posixpath.normpath(posixpath.join(cwd, name))
            below = posixpath.relpath(path, cwd)
            if below not in program.files and path.endswith(MODULES) and not path.endswith(".json"):
                found[_url(written.get(below, path))] = None
    return list(found)[:MAX_IMPORTED]


def diagnostics_of(found: Mapping[str, Sequence[Found]], program: Program, *, top: str) -> list[Diagnostic]:
    """What the server found, cell by cell; that a name is declared again in another cell is no mistake here."""
    told = [raw for address, items in found.items() for raw in _raws(address, items, program, top)]
    located = [(raw, *_located(raw, program, top)) for raw in told]
    again = _declared_again([(raw, cell) for raw, cell, _ in located])
    kept = [
        diagnostic
        for raw, _, diagnostic in located
        if diagnostic is not None and raw.code not in JOINED and again.isdisjoint(raw.words)
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


def _raws(address: str, items: Sequence[Found], program: Program, top: str) -> list[_RawDiagnostic]:
    """The server's words on one file, in the order of their places; advice is left out."""
    lines = _lines(program.files.get(unquote(address.removeprefix(f"{top}/")), ""))
    raws = [_raw_diagnostic(address, item, lines) for item in items if item.get("severity") == _ERROR]
    return sorted(raws, key=lambda raw: (raw.line, raw.column))


def _raw_diagnostic(address: str, item: Found, lines: Sequence[str]) -> _RawDiagnostic:
    begin = item["range"]["start"]
    line, column = int(begin["line"]), int(begin["character"])
    source = lines[line] if line < len(lines) else ""
    code, message = _code_and_message(item)
    name = _NAME.match(source, column)
    return _RawDiagnostic(
        code, message, source, name[0] if name is not None else "", address, line + 1, column + 1
    )


def _code_and_message(item: Found) -> tuple[str, str]:
    code, message = item.get("code"), str(item.get("message", ""))
    if isinstance(code, int):
        return "SyntaxError" if code < _FIRST_MEANING else f"TS{code}", message
    if code == "no-local":
        # As the checker says it that has no advice for an editor.
        address = message.partition("\n")[0].rpartition("module: ")[2]
        return "TS2307", f"Cannot find module '{address}'."
    return "TS2307", message


def _located(told: _RawDiagnostic, program: Program, top: str) -> tuple[CellSource | None, Diagnostic | None]:
    """The cell that it is about, and the diagnostic, unless it is about nothing that is judged there."""
    here = f"{top}/"
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

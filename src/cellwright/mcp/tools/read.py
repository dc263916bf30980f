"""Tools that read: a notebook within a budget, what is defined, what could be written next, and other formats."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import anyio
from pydantic import Field, WithJsonSchema

from cellwright import formats
from cellwright.engine import Session
from cellwright.engine.cell_states import cell_states
from cellwright.errors import KernelError, NotebookError
from cellwright.formats.model import Exported
from cellwright.formats.renderer import PAGES, PageMaker
from cellwright.mcp._arguments import Arguments, Content, MaxTokens, SessionId
from cellwright.mcp.calls import CHANGES, READS, Call, Definition, Reply, data_reply
from cellwright.mcp.context import context_of, fit_lists, inspected
from cellwright.mcp.outputs import cell_output_uri, clean, parts_of, session_uri, size
from cellwright.mcp.tools.notebooks import AGENTS_MODE, about_session
from cellwright.notebook import Cell, Document, DocumentReplaced, write_atomically
from cellwright.notebook.document import comments_of
from cellwright.notebook.languages import canonical_language
from cellwright.sandbox.npm import SCHEME, NpmRequest
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle, cut_tail, share

__all__ = ["READING_TOOLS", "dependencies_of", "exported", "outline", "section"]
_READ_TOKENS = 2_000

_EXPORT_TOKENS = 10_000

# As much as one call of package_install takes.
_MOST_DEPENDENCIES = 50

_READABLE = ["json", "markdown", "ipynb", "src.md", "myst", "percent"]
_WRITABLE = ["json", "markdown", "html", "pdf", "ipynb", "src.md", "myst", "percent", "script"]


def _one_of(names: list[str]) -> WithJsonSchema:
    """What is published of a format: ours. Those of plugins are taken too, and a refusal lists all."""
    return WithJsonSchema({"enum": names, "type": "string"})


WritableFormat: TypeAlias = Annotated[str, Field(max_length=100), _one_of(_WRITABLE)]

ReadableFormat: TypeAlias = Annotated[str, Field(max_length=100), _one_of(_READABLE)]


class ReadNotebook(Arguments):
    session_id: SessionId = None
    cell_id: str | None = Field(
        default=None, max_length=300, description="This cell, or a heading's whole section"
    )
    query: str | None = Field(
        default=None, min_length=1, max_length=1_000, description="Search sources and outputs"
    )
    include_outputs: bool = True
    max_tokens: MaxTokens = None


async def notebook_read(call: Call, args: ReadNotebook) -> Reply:
    """Read what is in a notebook: its outline (a line a cell), a section or cell, or search hits."""
    session = call.session(args.session_id, reads=True)
    await session.refresh()
    cells = session.cells
    tokens = args.max_tokens or _READ_TOKENS
    head = f"session {session.id} | {session.name} | {session.state} | generation {session.generation} | {len(cells)} cells"
    if session.limits:
        head += f" | limits: {', '.join(f'{name} {value}' for name, value in session.limits.items())}"
    states = cell_states(session, cells)
    if args.query is not None:
        text = find_text(cells, args.query, max_tokens=tokens)
    elif args.cell_id is not None:
        session.cell(args.cell_id)
        text = section(
            session.id, cells, states, args.cell_id, outputs=args.include_outputs, max_tokens=tokens
        )
    else:
        text = outline(cells, states, max_tokens=tokens)
    return Reply(f"{head}\n{text}" if text else head)


class GetContext(Arguments):
    session_id: SessionId = None
    max_tokens: MaxTokens = None


async def session_context(call: Call, args: GetContext) -> Reply:
    """Recall what you forgot: notebook name, imports, functions, variables, cells with states, last error."""
    session = call.session(args.session_id, reads=True)
    about = await context_of(call.shared.knowledge, session, max_tokens=args.max_tokens)
    return data_reply(about, call)


class InspectKernel(Arguments):
    session_id: SessionId = None
    query: str | None = Field(default=None, max_length=200, description="Only names with this in them")
    packages: bool = False
    max_tokens: MaxTokens = None


async def kernel_inspect(call: Call, args: InspectKernel) -> Reply:
    """Inspect which variables are defined (type, shape, value), functions and modules, in the live kernel."""
    session = _awake(call.session(args.session_id, reads=True))
    found = await session.inspect(packages=args.packages)
    about = inspected(found)
    if args.packages:
        about["packages"] = list(found.packages)
    if args.query:
        text = args.query.lower()
        about = {
            kind: [entry for entry in entries if text in entry.lower()]
            for kind, entries in about.items()
            if isinstance(entries, list)
        }
    where = {
        "session_id": session.id,
        "generation": session.generation,
        "python" if session.runs_python else "runtime": found.python,
        "cwd": found.cwd,
    }
    return data_reply(fit_lists({**where, **about}, args.max_tokens or _READ_TOKENS), call)


def _awake(session: Session) -> Session:
    """The session, if there is a kernel to ask; asking must not start one."""
    if session.state != "active":
        raise KernelError(
            f"Session {session.id} is suspended: there is no kernel to ask",
            hint="session_context has what was last known; session_resume starts a new, empty kernel",
        )
    return session


class CompleteCode(Arguments):
    session_id: SessionId = None
    code: Content
    cursor: int | None = Field(default=None, ge=0, description="Default: end")
    language: str | None = Field(default=None, max_length=100)
    """The cell's, where that is not the notebook's."""
    max_tokens: MaxTokens = None


async def kernel_complete(call: Call, args: CompleteCode) -> Reply:
    """Complete code at a cursor."""
    session = _awake(call.session(args.session_id, reads=True))
    if args.cursor is not None and args.cursor > len(args.code):
        raise NotebookError(
            f"There is no position {args.cursor} in the code", hint=f"Give one from 0 to {len(args.code)}"
        )
    language = canonical_language(args.language) if args.language else None
    completion = await session.complete(args.code, args.cursor, language=language)
    about = {"matches": list(completion.matches), "start": completion.start, "end": completion.end}
    return data_reply(fit_lists({"session_id": session.id, **about}, args.max_tokens or _READ_TOKENS), call)


class ExportNotebook(Arguments):
    session_id: SessionId = None
    format: WritableFormat = "json"
    include_outputs: bool = True
    path: str | None = Field(
        default=None, max_length=4_000, description="Write a new file instead of replying with it"
    )
    max_tokens: MaxTokens = None


async def notebook_export(call: Call, args: ExportNotebook) -> Reply:
    """Export the notebook: HTML, PDF (needs a path), Markdown, script."""
    session = call.session(args.session_id, reads=True)
    await session.refresh()
    if args.path is not None:
        path = call.path(args.path)
        found = await exported(
            session,
            args.format,
            call.engine.pages,
            outputs=args.include_outputs,
            files_at=f"{path.stem}_files",
        )
        await anyio.to_thread.run_sync(_write_new, path, found)
        beside = f", {len(found.files)} pictures in {path.stem}_files" if found.files else ""
        done = f"session {session.id}: {args.format} written to {path} ({size(len(found.content))}{beside})"
        return Reply("\n".join([done, *found.notices]))
    return await _replied(call, session, args)


async def _replied(call: Call, session: Session, args: ExportNotebook) -> Reply:
    """The export itself where it is text that fits, else where to get it."""
    uri = session_uri(session.id, f"export/{args.format}")
    if formats.format_named(args.format).binary:
        return Reply(
            f"session {session.id}: {args.format} is not text. Give a path to write it to a file, or read {uri}"
        )
    found = await exported(session, args.format, call.engine.pages, outputs=args.include_outputs)
    text = found.content.decode()
    if len(text) > (args.max_tokens or _EXPORT_TOKENS) * CHARACTERS_PER_TOKEN:
        return Reply(
            f"session {session.id}: the {args.format} export has {size(len(text))}, more than max_tokens allows. "
            f"Give a path to write it to a file, read {uri}, raise max_tokens, or set include_outputs=false"
        )
    call.notes.extend(found.notices)
    return Reply(text)


async def exported(
    session: Session, form: str, pages: PageMaker, *, outputs: bool = True, files_at: str | None = None
) -> Exported:
    """A session's notebook in another format, made beside the loop: a long one takes seconds.

    Raises:
        NotebookError: the format is not known, not installed, or cannot hold this notebook.
    """
    document, name = session.document.copy(), session.name
    if form in PAGES:
        return await pages.render(document, name=name, format=form, include_outputs=outputs)
    return await anyio.to_thread.run_sync(
        lambda: formats.export(document, name=name, format=form, include_outputs=outputs, files_at=files_at)
    )


def _write_new(path: Path, found: Exported) -> None:
    if not path.name.endswith(found.suffix):
        raise NotebookError(
            f"{path.name!r} does not end in {found.suffix}", hint=f"Give a path that ends in {found.suffix}"
        )
    directories = {(path.parent / name).parent for name in found.files}
    for taken in (path, *directories):
        if taken.exists():
            raise NotebookError(f"{taken} is already there", hint="Give the path of a new file")
    for place, content in (*found.files.items(), (path.name, found.content)):
        target = path.parent / place
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content, follow=False)  # code may put links into its folder meanwhile


class ImportNotebook(Arguments):
    content: Content
    format: ReadableFormat = "json"
    name: str | None = Field(default=None, min_length=1, max_length=2_000)
    host: str | None = Field(default=None, max_length=100)


async def notebook_import(call: Call, args: ImportNotebook) -> Reply:
    """Import a notebook from text in another format. Nothing is run."""
    content, max_cells = args.content.encode("utf-8", "surrogatepass"), call.engine.settings.max_cells
    imported = await anyio.to_thread.run_sync(
        lambda: formats.read(
            content,
            name="The imported notebook",
            format=args.format,
            max_cells=max_cells,
            language=call.shared.default_language,
        )
    )
    document = imported.document
    language = document.language
    name = args.name or imported.title or "imported notebook"
    session = await call.engine.create(
        name,
        language=language,
        directory=call.notebooks,
        mode=AGENTS_MODE,
        host=args.host,
        chosen=call.chosen,
    )
    call.works_with(session)
    await session.apply([DocumentReplaced(document.to_bytes().decode(), {})])
    about = {**about_session(session, call.shared.names), "repairs": list(imported.notices)}
    if packages := dependencies_of(document):
        about |= {"dependencies": packages, "next": f"package_install({json.dumps(packages)}) installs those"}
    return data_reply(about, call)


def dependencies_of(document: Document) -> list[str]:
    """The packages that a Srcbook's package.json asks for, as ``package_install`` takes them; none that is no name.

    Agents and people read them as a command to give.
    """
    named = (document.package or {}).get("dependencies")
    found = named.items() if isinstance(named, dict) else ()
    requests = [
        NpmRequest.parse(f"{name}@{version}") or NpmRequest.parse(name)
        for name, version in list(found)[:_MOST_DEPENDENCIES]
    ]
    return [str(request).removeprefix(SCHEME) for request in requests if request is not None]


READING_TOOLS = (
    Definition(notebook_read, ReadNotebook, READS),
    Definition(session_context, GetContext, READS),
    Definition(notebook_export, ExportNotebook, CHANGES, asks_for=("session_id",)),
    Definition(notebook_import, ImportNotebook, CHANGES, keeps_back=("host",)),
    Definition(kernel_inspect, InspectKernel, READS),
    Definition(kernel_complete, CompleteCode, READS),
)


# A notebook within a budget: its outline, one section, or what a search finds. Pure.

_heading = re.compile(r"(#{1,6})\s+\S")

_LINE = 90

_HIT = 160


def outline(cells: Sequence[Cell], states: Mapping[str, str], *, max_tokens: int) -> str:
    """A line a cell: position, id, state, version, and how it begins."""
    lines = [_outlined(place, cell, states[cell.id]) for place, cell in enumerate(cells)]
    return _fitting(lines, max_tokens * CHARACTERS_PER_TOKEN, "cells")


def _outlined(place: int, cell: Cell, state: str) -> str:
    lines = cell.source.count("\n") + 1
    more = f" (+{lines - 1} lines)" if lines > 1 else ""
    shown = _shown_outputs(cell) + _remarked(cell)
    return f"{place} {cell.id} [{_about(cell, state)}] v{cell.version}: {cut_tail(_begins(cell), _LINE)}{more}{shown}"


def _about(cell: Cell, state: str) -> str:
    """A cell's state, and its language where it has one of its own."""
    return f"{cell.language}, {state}" if cell.language else state


def _begins(cell: Cell) -> str:
    return next((line for line in cell.source.splitlines() if line.strip()), "(empty)")


def _remarked(cell: Cell) -> str:
    count = len(comments_of(cell))
    return f" ({count} comment{'s' if count > 1 else ''})" if count else ""


def _shown_outputs(cell: Cell) -> str:
    parts = parts_of(cell.outputs)
    if not parts:
        return ""
    kinds = [part.kind if part.kind in {"stdout", "stderr", "error"} else part.mime for part in parts[:4]]
    return f" -> {', '.join(kinds)}{', …' if len(parts) > len(kinds) else ''} {size(sum(part.size for part in parts))}"


def section(
    session_id: str,
    cells: Sequence[Cell],
    states: Mapping[str, str],
    cell_id: str,
    *,
    outputs: bool,
    max_tokens: int,
) -> str:
    """A heading's cells down to the next heading of its rank, or one cell: sources and outputs."""
    first = next(place for place, cell in enumerate(cells) if cell.id == cell_id)
    chosen = cells[first : _section_end(cells, first)]
    heads = [
        f"--- {first + place} {cell.id} [{_about(cell, states[cell.id])}] v{cell.version}"
        for place, cell in enumerate(chosen)
    ]
    texts: list[tuple[str, str, str]] = []
    for head, cell in zip(heads, chosen, strict=True):
        texts.append((head, cell.source, ""))
        texts += [(f"comment by {clean(one.by)}:", clean(one.text), "") for one in comments_of(cell)]
        if outputs:
            texts += [
                (
                    f"-> {part.kind} {part.mime} {size(part.size)}",
                    part.text,
                    cell_output_uri(session_id, cell.id, part.index),
                )
                for part in parts_of(cell.outputs)
            ]
    room = max_tokens * CHARACTERS_PER_TOKEN - sum(len(head) + 1 for head, _, _ in texts)
    limits = share([len(text) for _, text, _ in texts], max(room, 0))
    lines = []
    for (head, text, uri), limit in zip(texts, limits, strict=True):
        where = f" {uri}" if uri and not text else ""
        lines += [head + where, cut_middle(text, limit, rest=uri).rstrip()]
    return "\n".join(line for line in lines if line)


def _section_end(cells: Sequence[Cell], first: int) -> int:
    rank = _rank(cells[first])
    if rank is None:
        return first + 1
    for place in range(first + 1, len(cells)):
        other = _rank(cells[place])
        if other is not None and other <= rank:
            return place
    return len(cells)


def _rank(cell: Cell) -> int | None:
    match = _heading.match(cell.source.lstrip()) if cell.kind == "markdown" else None
    return len(match[1]) if match else None


def find_text(cells: Sequence[Cell], query: str, *, max_tokens: int) -> str:
    """Every line with the words in it, of sources and of outputs, whatever their case."""
    words = query.lower()
    hits = []
    for place, cell in enumerate(cells):
        texts = [("", cell.source), *((f" {part.kind}", part.text) for part in parts_of(cell.outputs))]
        for where, text in texts:
            hits += [
                f"{place} {cell.id}{where} line {number}: {_around(line, words)}"
                for number, line in enumerate(text.splitlines(), start=1)
                if words in line.lower()
            ]
    if not hits:
        return f"Nothing in {len(cells)} cells has {query!r}"
    return _fitting(hits, max_tokens * CHARACTERS_PER_TOKEN, "hits")


def _around(line: str, words: str) -> str:
    start = max(line.lower().find(words) - _HIT // 4, 0)
    return ("…" if start else "") + cut_tail(line[start:], _HIT)


def _fitting(lines: Sequence[str], budget: int, what: str) -> str:
    """All lines, or the first and last that fit, and how many were left out."""
    if sum(len(line) + 1 for line in lines) <= budget:
        return "\n".join(lines)
    head: list[str] = []
    tail: list[str] = []
    left = budget - _LINE
    front, back = 0, len(lines)
    while front < back:
        from_front = len(head) <= 2 * len(tail)
        line = lines[front] if from_front else lines[back - 1]
        left -= len(line) + 1
        if left < 0:
            break
        if from_front:
            head.append(line)
            front += 1
        else:
            tail.append(line)
            back -= 1
    return "\n".join(
        [*head, f"[… {back - front} {what} left out; raise max_tokens or narrow the call …]", *reversed(tail)]
    )

"""What a person does with the cells of a notebook: add, delete, move, paste, split, merge, fold, replace, and undo any of it.

Each action names its cells, makes one step that can be undone, and answers with the cells that it touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import NotebookError
from cellwright.notebook import Cell, CellKind, Change, Document, add_cell
from cellwright.notebook.cell_edits import (
    CellCopy,
    FoldPart,
    change_kinds,
    copy_cells,
    delete_cells,
    fold_cells,
    merge_cells,
    move_cells,
    paste_cells,
    rewrite_cells,
    split_cell,
)
from cellwright.notebook.languages import canonical_language, cell_metadata
from cellwright.tools.code_format import FORMATTED_LANGUAGES, format_sources
from cellwright.web._notebook import shown_cells
from cellwright.web.requests import PageRequest, action, answer

__all__ = ["ROUTES"]

T = TypeVar("T")


async def _add(request: PageRequest) -> Response:
    """Add a cell: at the end, or beside another."""
    session, form = request.session(), await request.form()
    beside, where = form.get("beside"), form.get("where")
    kind = form.get("kind", "code")
    language = canonical_language(kind) if kind not in {"code", "markdown"} else None
    metadata = cell_metadata(language=language) if language not in {None, session.language} else None
    limit = request.engine.options.max_cells

    def make(document: Document) -> list[Change]:
        position = document.index(beside) + (where != "above") if beside else None
        called: CellKind = "markdown" if kind == "markdown" else "code"
        source = form.get("source", "")
        return [add_cell(document, called, source, position=position, metadata=metadata, max_cells=limit)]

    return await _edited(request, session, make)


async def _delete(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    ids = _ids(form)
    after = _after(session, ids)
    made = await session.edit(lambda document: delete_cells(document, ids), person=request.person.name)
    said = "Deleted; what it defined stays in the kernel. z undoes it" if made else ""
    return await shown_cells(request, session, ids, say=said, go=after, moved=True)


async def _move(request: PageRequest) -> Response:
    """Move cells up or down by one, or to ``before`` another; to the end where that is empty."""
    session, form = request.session(), await request.form()
    ids, where = _ids(form), form.get("where", "")

    def make(document: Document) -> list[Change]:
        if where in {"up", "down"}:
            return _stepped(document, ids, down=where == "down")
        return move_cells(document, ids, form.get("before") or None)

    return await _edited(request, session, make, go=ids[0])


def _stepped(document: Document, ids: Sequence[str], *, down: bool) -> list[Change]:
    order = [cell.id for cell in document.cells]
    places = [document.index(cell_id) for cell_id in ids]
    if down:
        after = max(places) + 2
        return move_cells(document, ids, order[after] if after < len(order) else None)
    return move_cells(document, ids, order[max(min(places) - 1, 0)])


async def _copy(request: PageRequest) -> Response:
    """Cells as the browser keeps them to paste here or in another notebook."""
    session, form = request.session(), await request.form()
    copies = copy_cells(session.document, _ids(form))
    return answer({"cells": msgspec.json.encode(copies).decode(errors="replace"), "count": len(copies)})


async def _paste(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    copies = _read(form.get("cells", ""), list[CellCopy])
    beside, limit = form.get("beside"), request.engine.options.max_cells

    def make(document: Document) -> list[Change]:
        position = document.index(beside) + (form.get("where") != "above") if beside else len(document)
        return paste_cells(document, copies, position, max_cells=limit)

    return await _edited(request, session, make)


async def _change_kind(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    kind: CellKind = "markdown" if form.get("kind") == "markdown" else "code"
    ids = _ids(form)
    _refuse_running(session, ids)
    return await _edited(request, session, lambda document: change_kinds(document, ids, kind), go=ids[0])


async def _split(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    [cell_id], at = _ids(form), form.get("at", "")
    make = partial(split_cell, cell_id=cell_id, at=int(at) if at.isdecimal() else -1)
    return await _edited(request, session, make)


async def _merge(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    ids = _ids(form)
    _refuse_running(session, ids)
    return await _edited(request, session, lambda document: merge_cells(document, ids))


async def _fold(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    part: FoldPart = "outputs" if form.get("part") == "outputs" else "source"
    ids = _ids(form)
    return await _edited(request, session, lambda document: fold_cells(document, ids, part), go=ids[0])


async def _rewrite(request: PageRequest) -> Response:
    """Give cells the sources that find and replace made of them."""
    session, form = request.session(), await request.form()
    sources = _read(form.get("sources", ""), list[tuple[str, int, str]])
    made = await session.edit(lambda document: rewrite_cells(document, sources), person=request.person.name)
    said = f"Replaced in {len(made)} cell{'s' if len(made) != 1 else ''}. z undoes it"
    return await shown_cells(request, session, [cell_id for cell_id, _, _ in sources], say=said)


async def _format(request: PageRequest) -> Response:
    """Bring cells into the form of their languages' formatters."""
    session, ids = request.session(), _ids(await request.form())
    by_language: dict[str, list[Cell]] = {}
    for cell_id in ids:
        cell = session.cell(cell_id)
        language = canonical_language(cell.language or session.language)
        if cell.kind == "code" and language in FORMATTED_LANGUAGES:
            by_language.setdefault(language, []).append(cell)
    if not by_language:
        known = ", ".join(FORMATTED_LANGUAGES)
        raise NotebookError("There is no formatter for this", hint=f"There is one for cells in {known}")
    sources: list[tuple[str, int, str]] = []
    for language, cells in by_language.items():
        made = await format_sources(language, [cell.source for cell in cells])
        pairs = zip(cells, made, strict=True)
        sources += [(cell.id, cell.version, source) for cell, source in pairs if source != cell.source]
    if sources:
        await session.edit(lambda document: rewrite_cells(document, sources), person=request.person.name)
    said = "Formatted" if sources else "It is formatted already"
    return await shown_cells(request, session, [cell_id for cell_id, _, _ in sources], say=said)


async def _undo(request: PageRequest, *, again: bool = False) -> Response:
    session = request.session()
    changes = await session.undo(person=request.person.name, again=again)
    if not changes:
        return request.done(f"There is nothing to {'redo' if again else 'undo'}")
    return await _touched(request, session, changes, say="Made again" if again else "Undone")


async def _redo(request: PageRequest) -> Response:
    return await _undo(request, again=True)


async def _edited(
    request: PageRequest,
    session: Session,
    make: Callable[[Document], Iterable[Change]],
    *,
    go: str | None = None,
) -> Response:
    changes = await session.edit(make, person=request.person.name)
    return await _touched(request, session, changes, go=go)


async def _touched(
    request: PageRequest, session: Session, changes: Sequence[Change], *, say: str = "", go: str | None = None
) -> Response:
    """The cells that these changes are about; the last one that is still there gets the keyboard."""
    ids = list(dict.fromkeys(cell_id for one in changes if (cell_id := getattr(one, "cell_id", None))))
    there = [cell_id for cell_id in ids if cell_id in session.document]
    return await shown_cells(
        request, session, ids, say=say, go=go or (there[-1] if there else None), moved=True
    )


def _after(session: Session, ids: Sequence[str]) -> str | None:
    """The cell that is next when these are gone."""
    order = [cell.id for cell in session.cells]
    places = [place for place, cell_id in enumerate(order) if cell_id in ids]
    left = [cell_id for cell_id in order[max(places, default=-1) + 1 :] if cell_id not in ids]
    above = [cell_id for cell_id in order[: min(places, default=0)] if cell_id not in ids]
    return left[0] if left else above[-1] if above else None


def _refuse_running(session: Session, ids: Sequence[str]) -> None:
    if any(execution.cell_id in ids for execution in session.runs.live):
        raise NotebookError("The cell is running", hint="Stop it first, with the keys i i")


def _ids(form: dict[str, str]) -> list[str]:
    ids = form.get("ids", "").split()
    if not ids:
        raise NotebookError("No cell is named", hint="Choose one first")
    return ids


def _read(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text.encode(errors="replace"), type=kind)
    except msgspec.MsgspecError as error:
        raise NotebookError(f"These are no cells: {error}", hint="Copy them again") from None


_EDITS = "/sessions/{session_id}/edits"

ROUTES = [
    action("/sessions/{session_id}/cells", _add),
    action(f"{_EDITS}/delete", _delete),
    action(f"{_EDITS}/move", _move),
    action(f"{_EDITS}/copy", _copy, needs="view", while_held=True),
    action(f"{_EDITS}/paste", _paste),
    action(f"{_EDITS}/kind", _change_kind),
    action(f"{_EDITS}/split", _split),
    action(f"{_EDITS}/merge", _merge),
    action(f"{_EDITS}/fold", _fold),
    action(f"{_EDITS}/rewrite", _rewrite),
    action(f"{_EDITS}/format", _format),
    action(f"{_EDITS}/undo", _undo),
    action(f"{_EDITS}/redo", _redo),
]

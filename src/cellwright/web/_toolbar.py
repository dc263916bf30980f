"""The toolbar of a notebook: what a person does with all of it, and where else it can be seen or taken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import anyio
from starlette.responses import Response

from cellwright import formats
from cellwright.formats import Exported, every_format
from cellwright.formats.renderer import PAGES
from cellwright.notebook import OutputsSet
from cellwright.web.requests import PageRequest, action, attachment, page

__all__ = ["ROUTES", "ExportChoice", "export_choices"]

# Whoever takes a file away knows it by what opens it.
_LABELS = {
    "ipynb": "Jupyter notebook",
    "html": "Web page",
    "pdf": "PDF",
    "markdown": "Markdown",
    "script": "Program",
    "percent": "Program with cell marks",
    "myst": "MyST Markdown",
    "src.md": "Srcbook",
    "json": "Documented JSON",
}


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """A format in the menu."""

    format: str
    label: str
    missing: str | None
    """The command that adds what it needs, where that is not there."""


_ONLY = {"src.md": ("javascript", "typescript")}
"""Formats that hold notebooks of some languages."""


def export_choices(language: str) -> list[ExportChoice]:
    """The formats that can hold a notebook of this language, those that people ask for most first."""
    by_name = {one.name: one for one in every_format() if language in _ONLY.get(one.name, (language,))}
    order = [
        *(name for name in _LABELS if name in by_name),
        *(name for name in by_name if name not in _LABELS),
    ]
    return [
        ExportChoice(name, _LABELS.get(name, name), f"pip install 'cellwright[{extra}]'" if extra else None)
        for name in order
        for extra in [formats.missing_extra(by_name[name])]
    ]


async def _export(request: PageRequest) -> Response:
    session, wanted = request.session(), request.http.path_params["format"]
    await session.refresh()
    made = await _exported(request, wanted)
    return Response(
        made.content,
        media_type="application/octet-stream",
        headers=attachment(f"{session.name}{made.suffix}"),
    )


async def _exported(request: PageRequest, wanted: str) -> Exported:
    session = request.session()
    document, name = session.document.copy(), session.name
    if wanted in PAGES:
        return await request.engine.pages.render(document, name=name, format=wanted)
    return await anyio.to_thread.run_sync(partial(formats.export, document, name=name, format=wanted))


async def _run_all(request: PageRequest) -> Response:
    """Run every cell in order, or those from one on or above one; the first failure drops the rest."""
    session, form = request.session(), await request.form()
    queued = await session.execute_all(since=form.get("since"), before=form.get("before"))
    return request.done(_waiting(len(queued)) if queued else "No cell has anything to run")


def _waiting(count: int) -> str:
    return "1 cell waits to run" if count == 1 else f"{count} cells wait to run"


async def _stop(request: PageRequest) -> Response:
    await request.session().interrupt()
    return request.done("Stopping")


async def _restart(request: PageRequest) -> Response:
    """Replace the kernel by an empty one, and run all cells on it where that is asked for."""
    session, form = request.session(), await request.form()
    await request.site.planner.pause(session.id)
    await session.interrupt()
    await session.restart()
    if not form.get("run"):
        return request.done("The kernel is empty: run the cells again")
    queued = await session.execute_all()
    return request.done(f"The kernel is empty; {_waiting(len(queued))}")


async def _clear(request: PageRequest) -> Response:
    """Take away what cells have put out; what they defined stays."""
    session = request.session()
    running = {execution.cell_id for execution in session.runs.live}
    shown = [cell for cell in session.cells if cell.outputs and cell.id not in running]
    await session.apply([OutputsSet(cell.id, [], None) for cell in shown])
    return request.done(
        f"The outputs of {len(shown)} cells are cleared" if shown else "No cell shows anything"
    )


ROUTES = [
    page("/sessions/{session_id}/export/{format}", _export),
    action("/sessions/{session_id}/run", _run_all),
    action("/sessions/{session_id}/stop", _stop),
    action("/sessions/{session_id}/restart", _restart),
    action("/sessions/{session_id}/clear", _clear),
]

"""What a person may do with a notebook's cells. Each is one call of the session; the stream shows what comes of it."""

from __future__ import annotations

from markupsafe import Markup
from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import StaleEdit
from cellwright.formats.highlight import code_html
from cellwright.notebook.languages import canonical_language, cell_metadata
from cellwright.web.notebook.cell_views import cell_view
from cellwright.web.notebook.live import CELLS, cell_part, follow
from cellwright.web.requests import PageRequest, action, answer
from cellwright.web.templates import render

__all__ = ["ROUTES"]


async def _run(request: PageRequest) -> Response:
    """Run a cell, with the text that the editor has where it was changed."""
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    if (clash := await _take_in(request, session, cell_id)) is not None:
        return clash
    await session.execute(cell_id)
    return await _shown(request, session, cell_id)


async def _edit(request: PageRequest) -> Response:
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    if (clash := await _take_in(request, session, cell_id)) is not None:
        return clash
    return await _shown(request, session, cell_id, say="Saved")


async def _again(request: PageRequest) -> Response:
    """The cell as it is: what was written into its editor is left."""
    return await _shown(request, request.session(), request.http.path_params["cell_id"])


async def _take_in(request: PageRequest, session: Session, cell_id: str) -> Response | None:
    """Make the editor's text the cell's; where somebody else was faster, show both."""
    form = await request.form()
    source, version = form.get("source"), form.get("version", "")
    if source is None or _same(source, session.cell(cell_id).source):
        return None
    try:
        await session.edit_cell(
            cell_id, source, expected_version=int(version) if version.isdecimal() else None
        )
    except StaleEdit as error:
        return _clash(session, cell_id, error)
    return None


def _same(one: str, other: str) -> bool:
    """Whether two sources say the same: an editor knows one kind of line ends."""
    return one.replace("\r\n", "\n") == other.replace("\r\n", "\n")


def _clash(session: Session, cell_id: str, error: StaleEdit) -> Response:
    cell = session.cell(cell_id)
    diff = Markup(code_html(error.diff, "diff"))  # noqa: S704  # pygments escapes
    told = render("cell_clash.html", session=session, cell=cell, diff=diff)
    message = "Somebody changed this cell meanwhile: yours is not saved yet"
    return answer({"error": message, "hint": None, "parts": {f"clash-{cell_id}": told}})


async def _add(request: PageRequest) -> Response:
    """Add a cell: at the end, or beside another."""
    session, form = request.session(), await request.form()
    beside, where = form.get("beside"), form.get("where")
    position = session.document.index(beside) + (where != "above") if beside else None
    kind = form.get("kind", "code")
    language = canonical_language(kind) if kind not in {"code", "markdown"} else None
    metadata = cell_metadata(language=language) if language not in {None, session.language} else None
    cell = await session.add_cell(
        "", kind="markdown" if kind == "markdown" else "code", position=position, metadata=metadata
    )
    return await _shown(request, session, cell.id, go=f"#{cell_part(cell.id)}")


async def _delete(request: PageRequest) -> Response:
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    form = await request.form()
    await session.delete_cell(cell_id, expected_version=int(form["version"]))
    return request.done("Deleted; what it defined stays in the kernel", parts={cell_part(cell_id): None})


async def _move(request: PageRequest) -> Response:
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    step = -1 if (await request.form()).get("where") == "up" else 1
    here = session.document.index(cell_id)
    await session.move_cell(cell_id, min(max(here + step, 0), len(session.document) - 1))
    return await _shown(request, session, cell_id, go=f"#{cell_part(cell_id)}")


async def _run_all(request: PageRequest) -> Response:
    """Run every cell in order, or from one on; the first failure drops the rest."""
    session, since = request.session(), (await request.form()).get("since")
    queued = await session.execute_all(since=since)
    return request.done(f"{len(queued)} cells wait to run" if queued else "No cell has anything to run")


async def _stop_cell(request: PageRequest) -> Response:
    """Stop a cell that runs, or drop one that waits."""
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    view = cell_view(session, cell_id)
    if view is None or view.execution_id is None:
        return request.done("It has ended already")
    await request.engine.cancel(view.execution_id)
    return request.done("Stopping")


async def _stop(request: PageRequest) -> Response:
    await request.session().interrupt()
    return request.done("Stopping")


async def _shown(
    request: PageRequest, session: Session, cell_id: str, *, say: str = "", go: str | None = None
) -> Response:
    """What was done, with the cell as it is now: nobody waits for the stream to see their own action."""
    following, upto = follow(request.engine, session), request.engine.last_event
    parts = [CELLS] if go is not None else []
    found = {part: await following.render(part, upto) for part in [*parts, cell_part(cell_id)]}
    return request.done(say, parts=found, upto=upto, go=go)


_CELL = "/sessions/{session_id}/cells/{cell_id}"
ROUTES = [
    action(f"{_CELL}/run", _run),
    action(f"{_CELL}/edit", _edit),
    action(f"{_CELL}/again", _again, needs="view", while_held=True),
    action(f"{_CELL}/delete", _delete),
    action(f"{_CELL}/move", _move),
    action(f"{_CELL}/stop", _stop_cell),
    action("/sessions/{session_id}/cells", _add),
    action("/sessions/{session_id}/run", _run_all),
    action("/sessions/{session_id}/stop", _stop),
]

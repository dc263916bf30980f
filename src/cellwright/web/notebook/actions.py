"""What a person may do with a notebook's cells. Each is one call of the session; the stream shows what comes of it."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.web.visits import Visit, deed

__all__ = ["ROUTES"]


async def _run(visit: Visit) -> Response:
    """Run a cell, with the text that the editor has where it was changed."""
    session, cell_id = visit.session(), visit.request.path_params["cell_id"]
    form = await visit.form()
    if "source" in form and form["source"] != session.cell(cell_id).source:
        await session.edit_cell(cell_id, form["source"], expected_version=int(form["version"]))
    await session.execute(cell_id)
    return visit.done()


async def _edit(visit: Visit) -> Response:
    session, form = visit.session(), await visit.form()
    await session.edit_cell(
        visit.request.path_params["cell_id"], form["source"], expected_version=int(form["version"])
    )
    return visit.done("Saved")


async def _add(visit: Visit) -> Response:
    session, form = visit.session(), await visit.form()
    await session.add_cell("", kind="markdown" if form.get("kind") == "markdown" else "code")
    return visit.done()


async def _stop(visit: Visit) -> Response:
    await visit.session().interrupt()
    return visit.done("Stopping")


ROUTES = [
    deed("/sessions/{session_id}/cells/{cell_id}/run", _run),
    deed("/sessions/{session_id}/cells/{cell_id}/edit", _edit),
    deed("/sessions/{session_id}/cells", _add),
    deed("/sessions/{session_id}/stop", _stop),
]

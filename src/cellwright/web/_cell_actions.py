"""What a person may do with a notebook's cells. Each is one call of the session; the stream shows what comes of it."""

from __future__ import annotations

import time

from markupsafe import Markup
from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import QuestionOver, StaleEdit
from cellwright.formats.highlight import code_html
from cellwright.notebook.document import Comment, change_source, with_comment, without_comment
from cellwright.web._notebook import cell_view, shown_cells
from cellwright.web._templates import render
from cellwright.web.requests import PageRequest, action, answer

__all__ = ["ROUTES"]


async def _run(request: PageRequest) -> Response:
    """Run a cell, with the text that the editor has where it was changed."""
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    if (clash := await _take_in(request, session, cell_id)) is not None:
        return clash
    await session.execute(cell_id)
    return await shown_cells(request, session, [cell_id])


async def _edit(request: PageRequest) -> Response:
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    if (clash := await _take_in(request, session, cell_id)) is not None:
        return clash
    return await shown_cells(request, session, [cell_id], say="Saved")


async def _again(request: PageRequest) -> Response:
    """The cell as it is: what was written into its editor is left."""
    return await shown_cells(request, request.session(), [request.http.path_params["cell_id"]])


async def _take_in(request: PageRequest, session: Session, cell_id: str) -> Response | None:
    """Make the editor's text the cell's; where somebody else was faster, show both."""
    form = await request.form()
    source, version = form.get("source"), form.get("version", "")
    if source is None or _same(source, session.cell(cell_id).source):
        return None
    expected = int(version) if version.isdecimal() else None
    try:
        await session.edit(
            lambda document: [change_source(document, cell_id, source, expected_version=expected)],
            person=request.person.name,
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


async def _stop_cell(request: PageRequest) -> Response:
    """Stop a cell that runs, or drop one that waits."""
    session, cell_id = request.session(), request.http.path_params["cell_id"]
    view = cell_view(session, cell_id)
    if view is None or view.execution_id is None:
        return request.done("It has ended already")
    await request.engine.cancel(view.execution_id)
    return request.done("Stopping")


async def _answer(request: PageRequest) -> Response:
    """Give code what it asked for; the answer goes to it alone."""
    session, form = request.session(), await request.form()
    question = session.questions.of(form.get("execution", ""))
    if question is None or str(question.number) != form.get("number"):
        raise QuestionOver(
            "The cell no longer waits for this answer",
            hint="Look at the cell: it may ask anew, or have ended",
        )
    await session.questions.answer(question, form.get("answer", ""))
    return request.done()


async def _save(request: PageRequest) -> Response:
    session = request.session()
    await session.save()
    return request.done(f"Saved to {session.path.name}")


_CELL = "/sessions/{session_id}/cells/{cell_id}"

_CELL_ACTIONS = [
    action(f"{_CELL}/run", _run),
    action(f"{_CELL}/edit", _edit),
    action(f"{_CELL}/again", _again, needs="view", while_held=True),
    action(f"{_CELL}/stop", _stop_cell),
    action("/sessions/{session_id}/answer", _answer),
    action("/sessions/{session_id}/save", _save),
]


# What people remark on cells: written and removed here, read by people and agents.


async def _add_comment(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    if text := form.get("text", "").strip():
        cell = session.cell(request.http.path_params["cell_id"])
        await session.apply([with_comment(cell, Comment(request.person.name, time.time(), text))])
    return request.done()


async def _remove(request: PageRequest) -> Response:
    session, form = request.session(), await request.form()
    cell = session.cell(request.http.path_params["cell_id"])
    await session.apply([without_comment(cell, form.get("key", ""))])
    return request.done()


_COMMENT_ACTIONS = [
    action("/sessions/{session_id}/cells/{cell_id}/comments", _add_comment),
    action("/sessions/{session_id}/cells/{cell_id}/comments/remove", _remove),
]

ROUTES = [*_CELL_ACTIONS, *_COMMENT_ACTIONS]

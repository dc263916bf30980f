"""What the editor of a cell asks while somebody writes: completion, documentation, and names that no cell defines."""

from __future__ import annotations

import re
from contextlib import suppress

from starlette.responses import Response

from cellwright.engine import Session
from cellwright.errors import KernelError, NotebookError, UnknownCell
from cellwright.notebook.languages import canonical_language
from cellwright.notebook.python_names import names_of, undefined_names
from cellwright.web.requests import PageRequest, action, answer

__all__ = ["ROUTES"]

_ANSI = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")

_MOST_MATCHES = 300

_MOST_TEXT = 20_000


async def _complete(request: PageRequest) -> Response:
    """What could stand at the cursor; nothing where no kernel can say so now."""
    session, form = request.session(), await request.form()
    code, cursor = _asked(form)
    if session.state != "active":
        return answer({"matches": [], "start": cursor, "end": cursor})
    try:
        found = await session.complete(code, cursor, language=_language(request, session))
    except KernelError as error:
        return answer({"matches": [], "start": cursor, "end": cursor, "why": error.message})
    return answer({"matches": list(found.matches[:_MOST_MATCHES]), "start": found.start, "end": found.end})


async def _inspect(request: PageRequest) -> Response:
    """What the kernel knows of the name at the cursor, as text."""
    session, form = request.session(), await request.form()
    code, cursor = _asked(form)
    if session.state != "active" or _language(request, session) != session.language:
        return answer({"text": ""})
    content = {"code": code, "cursor_pos": cursor, "detail_level": 0}
    try:
        told = await session.relay("inspect_request", content)
    except KernelError as error:
        return answer({"text": error.message})
    data = told.get("data") if told.get("found") else None
    text = data.get("text/plain") if isinstance(data, dict) else None
    return answer({"text": _ANSI.sub("", text)[:_MOST_TEXT] if isinstance(text, str) else ""})


async def _names(request: PageRequest) -> Response:
    """Names in the editor's text that no cell defines; the cell itself counts as it is written, not as it was saved."""
    session, form = request.session(), await request.form()
    cell_id = request.http.path_params["cell_id"]
    if session.language != "python" or _language(request, session) != "python":
        return answer({"names": []})
    others = [names_of(cell) for cell in session.cells if cell.id != cell_id and cell.kind == "code"]
    found = undefined_names(form.get("source", ""), others)
    told = [{"start": one.start, "end": one.end, "message": f"No cell defines {one.name!r}"} for one in found]
    return answer({"names": told})


def _asked(form: dict[str, str]) -> tuple[str, int]:
    code, at = form.get("source", "").replace("\r\n", "\n"), form.get("cursor", "")
    if not at.isdecimal() or int(at) > len(code):
        raise NotebookError(
            f"There is no position {at!r} in the code", hint=f"Give one from 0 to {len(code)}"
        )
    return code, int(at)


def _language(request: PageRequest, session: Session) -> str:
    """The language of the cell, or the session's where somebody deleted the cell while another person writes in it."""
    with suppress(UnknownCell):
        return canonical_language(
            session.cell(request.http.path_params["cell_id"]).language or session.language
        )
    return canonical_language(session.language)


_CELL = "/sessions/{session_id}/cells/{cell_id}"

ROUTES = [
    action(f"{_CELL}/complete", _complete),
    action(f"{_CELL}/inspect", _inspect),
    action(f"{_CELL}/names", _names),
]

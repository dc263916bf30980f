"""Widgets on the page: each is shown in a frame of its own that only the page speaks with, and the page with the kernel.

What a frame gets is data: the states of widgets, and the outputs that `Output` widgets have taken, made harmless here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from cellwright.engine import Session
from cellwright.errors import KernelBusy, UnknownCell
from cellwright.formats.display_data import PICTURES, SVG, picture_bytes, svg_text
from cellwright.formats.highlight import ansi_html
from cellwright.formats.sanitize import clean_fragment
from cellwright.notebook.widgets import reached, view_of
from cellwright.web._live import Change
from cellwright.web._outputs import choose, content, forms_of, text_content, words_html
from cellwright.web._templates import render, widgets_url
from cellwright.web.requests import PageRequest, action, answer, page

__all__ = ["ROUTES", "WIDGETS", "is_widget_part", "widget_changes", "widget_part"]

WIDGETS = "widgets"
"""The part of the page that says which kernel's widgets are live, and how often they have changed."""

_PART = "widget-"
_MOST_VIEWS = 200
_MOST_TEXT = 100_000

_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline';"
    " img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Our script only, whatever HTML a widget has; styles are the widgets' own and can fetch nothing."""


# The stream --------------------------------------------------------------------------------------------------------


async def widget_changes(session: Session) -> AsyncIterator[Change]:
    """Which widgets are no longer what a page has."""
    number = session.widgets.number
    yield Change(0, frozenset({WIDGETS}))
    while True:
        number, models = await session.widgets.changes(number)
        yield Change(0, frozenset(f"{_PART}{model}" for model in models))


def is_widget_part(part: str) -> bool:
    return part == WIDGETS or part.startswith(_PART)


def widget_part(session: Session, part: str) -> str | None:
    """A part as it is now; None where the widget was closed."""
    if part == WIDGETS:
        return render("widgets_live.html", session=session)
    model = part.removeprefix(_PART)
    state = session.widgets.now(model)
    if state is None:
        return None
    told = {"model": model, "state": _told(state), "number": session.widgets.number}
    return render("widget_state.html", part=part, told=json.dumps(told))


# What a frame is given ------------------------------------------------------------------------------------------------


async def _shown(request: PageRequest) -> Response:
    """An output that is a widget: its frame, or its text with the reason why there is none."""
    session, cell_id, number = request.session(), *_named(request)
    outputs = session.cell(cell_id).outputs
    output = outputs[number] if number < len(outputs) else {}
    model = view_of(output)
    if model is None:
        raise UnknownCell(
            f"Cell {cell_id!r} has no widget {number}", hint="It ran again: load the page again"
        )
    live = model in await session.widgets.all()
    why = ""
    if not widgets_url():
        why = "A widget. This installation was built without the script that shows it."
    elif not live and model not in session.widgets.kept():
        why = "A widget whose kernel is gone, and whose state was not saved. Run the cell to use it."
    plain = text_content(output)
    return request.fragment(
        "output_widget.html", model=model, live=live, why=why, plain=plain, cell_id=cell_id, n=number
    )


async def _frame(_request: PageRequest) -> Response:
    html = render("widget_frame.html", script=widgets_url())
    return HTMLResponse(html, headers={"content-security-policy": _POLICY})


async def _states(request: PageRequest) -> Response:
    """The states of some widgets and of all that they refer to, live or as they were saved."""
    session = request.session()
    views = request.http.query_params.getlist("view")[:_MOST_VIEWS]
    number, states = session.widgets.number, await session.widgets.all()
    if not all(view in states for view in views):
        states = {**session.widgets.kept(), **states}
    models = {model: _told(states[model]) for model in reached(states, views)}
    return answer({"number": number, "models": models})


async def _message(request: PageRequest) -> Response:
    """Hand a widget what somebody did; a kernel that runs a cell takes it later."""
    session, form = request.session(), await request.form()
    try:
        data = json.loads(form.get("data", ""))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("method") not in ("update", "custom"):
        raise UnknownCell("This is no message to a widget", hint="Load the page again")
    try:
        await session.widgets.send(form.get("model", ""), data, cell_id=form.get("cell", ""))
    except KernelBusy:
        return answer({"busy": True})
    return answer({"number": session.widgets.number})


def _named(request: PageRequest) -> tuple[str, int]:
    return request.http.path_params["cell_id"], request.http.path_params["number"]


# States for frames, which can load nothing. Pure.


def _told(state: Mapping[str, Any]) -> dict[str, Any]:
    outputs = state.get("outputs")
    if state.get("_model_name") != "OutputModel" or not isinstance(outputs, list):
        return dict(state)
    return {**state, "outputs": [_whole(output) for output in outputs if isinstance(output, Mapping)]}


def _whole(output: Mapping[str, Any]) -> dict[str, str]:
    """An output as HTML that has everything within itself, or the widget that it is."""
    if (view := view_of(output)) is not None:
        return {"view": view}
    chosen, forms = choose(output), forms_of(output)
    if chosen is None:
        return {"html": ""}
    said = content(forms.get(chosen.mime))
    match chosen.form:
        case "picture":
            return {"html": _picture(chosen.mime, said, content(forms.get("text/plain")))}
        case "frame" | "table":
            return {"html": clean_fragment(said).html}
        case "markdown" | "latex" | "json":
            return {"html": words_html(chosen, said, "")}
    kind = "stderr" if output.get("name") == "stderr" else str(output.get("output_type"))
    return {"html": Markup('<pre class="{}">{}</pre>').format(kind, _coloured(text_content(output)))}


def _coloured(text: str) -> Markup:
    return Markup(ansi_html(text[-_MOST_TEXT:]))  # noqa: S704  # it escapes


def _picture(mime: str, said: str, words: str) -> str:
    svg = svg_text(said) if mime == SVG else None
    data = svg.encode(errors="replace") if svg is not None else None
    data = picture_bytes(mime, said) if data is None and mime in PICTURES else data
    if data is None:
        return ""
    address = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return Markup('<img src="{}" alt="{}">').format(address, words or "Picture")


_WIDGETS = "/sessions/{session_id}/widgets"

ROUTES = [
    page("/sessions/{session_id}/cells/{cell_id}/outputs/{number:int}/widget", _shown),
    page("/widgets/frame", _frame),
    page(_WIDGETS, _states, as_data=True),
    action(_WIDGETS, _message),
]

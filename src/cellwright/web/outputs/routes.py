"""Addresses of single outputs: pictures, frames, pages of texts and tables, charts, and all of them as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.responses import PlainTextResponse, Response

from cellwright.charts.html_embed import interactive
from cellwright.charts.specguard import check_spec
from cellwright.charts.themes import theme_config
from cellwright.errors import ChartError, UnknownCell
from cellwright.formats.display_data import MAX_PICTURE_BYTES, PICTURES, SVG, VEGA, picture_bytes, svg_text
from cellwright.formats.markup import MAX_CHARACTERS
from cellwright.web.downloads import attachment
from cellwright.web.outputs.choice import choose, content, forms_of, text_content
from cellwright.web.outputs.frames import SEALED, framed
from cellwright.web.outputs.tables import asked_by, csv_text, table_of, table_page
from cellwright.web.outputs.texts import text_page
from cellwright.web.requests import PageRequest, page

__all__ = ["ROUTES", "Chart", "chart_csv", "chart_of"]
_OUTPUT = "/sessions/{session_id}/cells/{cell_id}/outputs/{number:int}"

_SEALED = {"content-security-policy": SEALED}


def _output(request: PageRequest) -> Mapping[str, Any]:
    """The output that the address names.

    Raises:
        UnknownCell: there is none.
    """
    cell = request.session().cell(request.http.path_params["cell_id"])
    number: int = request.http.path_params["number"]
    if number >= len(cell.outputs):
        raise UnknownCell(
            f"Cell {cell.id!r} has no output {number}", hint="It ran again: load the page again"
        )
    return cell.outputs[number]


def _at(request: PageRequest) -> str:
    return request.http.url.path.rpartition("/")[0]


async def _picture(request: PageRequest) -> Response:
    output = _output(request)
    chosen, forms = choose(output), forms_of(output)
    mimes = [chosen.mime] if chosen is not None and chosen.form == "picture" else [*PICTURES, SVG]
    for mime in mimes:
        if (data := _bytes(mime, content(forms.get(mime)))) is not None:
            return Response(data, media_type=mime, headers=_SEALED)
    return _absent()


def _bytes(mime: str, held: str) -> bytes | None:
    if mime == SVG:
        svg = svg_text(held)
        return svg.encode(errors="replace") if svg is not None else None
    return picture_bytes(mime, held) if held and len(held) <= 2 * MAX_PICTURE_BYTES else None


async def _attachment(request: PageRequest) -> Response:
    cell_id, name = request.http.path_params["cell_id"], request.http.path_params["name"]
    record = next((one for one in request.session().document.records if one.id == cell_id), None)
    attachments = record.fields.get("attachments") if record is not None else None
    bundle = attachments.get(name) if isinstance(attachments, Mapping) else None
    for mime in PICTURES:
        held = content(bundle.get(mime)) if isinstance(bundle, Mapping) else ""
        if (data := _bytes(mime, held)) is not None:
            return Response(data, media_type=mime, headers=_SEALED)
    return _absent()


async def _frame(request: PageRequest) -> Response:
    html = content(forms_of(_output(request)).get("text/html"))
    if not html or len(html) > MAX_CHARACTERS:
        return _absent()
    made, policy = await anyio.to_thread.run_sync(framed, html)
    return Response(
        made.encode(errors="replace"),
        media_type="text/html; charset=utf-8",
        headers={"content-security-policy": policy},
    )


async def _html_file(request: PageRequest) -> Response:
    return _file(request, content(forms_of(_output(request)).get("text/html")), "html")


async def _text(request: PageRequest) -> Response:
    said = request.http.query_params.get("page", "1")
    number = int(said) if said.isdecimal() and len(said) < 9 else 1  # what is a page's number
    text = text_content(_output(request))
    shown = await anyio.to_thread.run_sync(text_page, text, number)
    return request.fragment("output_text_page.html", shown=shown, at=_at(request))


async def _text_file(request: PageRequest) -> Response:
    return _file(request, text_content(_output(request)), "txt")


async def _table(request: PageRequest) -> Response:
    html = content(forms_of(_output(request)).get("text/html"))
    table = await anyio.to_thread.run_sync(table_of, html)
    shown = table_page(table, asked_by(request.http.query_params))
    return request.fragment("output_table.html", shown=shown, at=_at(request), **_named(request))


async def _table_file(request: PageRequest) -> Response:
    table = table_of(content(forms_of(_output(request)).get("text/html")))
    return _file(request, csv_text(table.heads, table.rows), "csv")


async def _chart(request: PageRequest) -> Response:
    forms = forms_of(_output(request))
    chart = chart_of(_spec(forms))
    still = any(_bytes(mime, content(forms.get(mime))) is not None for mime in (*PICTURES, SVG))
    plain = content(forms.get("text/plain"))
    return request.fragment(
        "output_chart.html", chart=chart, still=still, plain=plain, at=_at(request), **_named(request)
    )


async def _chart_file(request: PageRequest) -> Response:
    source = _spec(forms_of(_output(request)))
    return _file(request, chart_csv(source), "csv") if not isinstance(chart_of(source), str) else _absent()


def _spec(forms: Mapping[str, Any]) -> str:
    return next((content(held) for mime, held in forms.items() if VEGA.fullmatch(mime)), "")


def _named(request: PageRequest) -> dict[str, Any]:
    return {"cell_id": request.http.path_params["cell_id"], "n": request.http.path_params["number"]}


def _file(request: PageRequest, text: str, suffix: str) -> Response:
    """A download: it is saved, never shown, whatever it is."""
    headers = _SEALED | attachment(f"{request.session().name}-{request.http.path_params['cell_id']}.{suffix}")
    return Response(text.encode(errors="replace"), media_type="application/octet-stream", headers=headers)


def _absent() -> Response:
    return PlainTextResponse("There is no such output", 404)


ROUTES = [
    page(_OUTPUT, _picture),
    page(f"{_OUTPUT}/frame", _frame),
    page(f"{_OUTPUT}/html", _html_file),
    page(f"{_OUTPUT}/text", _text),
    page(f"{_OUTPUT}/all", _text_file),
    page(f"{_OUTPUT}/table", _table),
    page(f"{_OUTPUT}/rows", _table_file),
    page(f"{_OUTPUT}/chart", _chart),
    page(f"{_OUTPUT}/data", _chart_file),
    page("/sessions/{session_id}/cells/{cell_id}/attachments/{name}", _attachment),
]


# A chart that a cell put out: its specification where it is harmless, made for a page, and its data as a
# table. Pure.


@dataclass(frozen=True, slots=True)
class Chart:
    """What the page's script draws."""

    spec: Mapping[str, Any]
    dark: Mapping[str, Any] | None
    """What replaces the spec's ``config`` on a dark page; None for a chart that has colours of its own."""
    has_data: bool


def chart_of(source: str) -> Chart | str:
    """A chart, or why it is not drawn."""
    try:
        spec = json.loads(source)
        if not isinstance(spec, dict):
            return "it is no specification"
        check_spec(spec)
        about = spec.get("usermeta")
        ours = isinstance(about, Mapping) and isinstance(about.get("cellwright"), Mapping)
        # Which version it was written for is not said: the page has one, and complains of the others.
        drawn = {name: part for name, part in interactive(spec).items() if name != "$schema"}
        return Chart(drawn, theme_config("dark") if ours else None, bool(_rows(spec)))
    except ChartError as error:
        return error.message
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        return "it is no specification"


def chart_csv(source: str) -> str:
    """The rows that a chart draws, as a file; empty where it has none within itself."""
    rows = _rows(json.loads(source))
    heads = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text(heads, [[row.get(name, "") for name in heads] for row in rows])


def _rows(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = spec.get("data")
    held = data[0] if isinstance(data, list) and data else data
    values = held.get("values") if isinstance(held, Mapping) else None
    if values is None and isinstance(held, Mapping) and isinstance(spec.get("datasets"), Mapping):
        values = spec["datasets"].get(held.get("name"))
    return [row for row in values if isinstance(row, Mapping)] if isinstance(values, list) else []

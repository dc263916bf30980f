"""Outputs as HTML for the page: what is small is there at once, what is large is loaded when somebody sees it.

What was made is kept by what it was made of, so that a page of a hundred cells is made
of pieces that exist already.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
from markupsafe import Markup
from starlette.responses import PlainTextResponse, Response

from cellwright.charts.html_embed import interactive
from cellwright.charts.specguard import check_spec
from cellwright.charts.themes import theme_config
from cellwright.engine.shown_tables import may_have_grid
from cellwright.errors import ChartError, UnknownCell
from cellwright.formats.display_data import (
    MAX_PICTURE_BYTES,
    PICTURES,
    SVG,
    VEGA,
    bare_text,
    exhibits_of,
    picture_bytes,
    svg_text,
)
from cellwright.formats.highlight import ansi_html, code_html
from cellwright.formats.markup import MAX_CHARACTERS
from cellwright.formats.prose import ProseWriter, bare_latex, formula_html
from cellwright.formats.sanitize import Clean, clean_fragment
from cellwright.notebook.widgets import VIEW_MIME, view_of
from cellwright.web._tables import asked_by, csv_text, table_of, table_page
from cellwright.web._templates import amount, render
from cellwright.web.requests import PageRequest, attachment, page

__all__ = [
    "Chart",
    "chart_csv",
    "chart_of",
    "choose",
    "content",
    "digest",
    "ending",
    "folded",
    "forms_of",
    "framed",
    "placed",
    "text_content",
    "text_page",
    "words_html",
]

_KEPT_CHARACTERS = 16_000_000


class Outputs:
    """Makes outputs into HTML, and keeps what it made while there is room."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], Markup] = {}
        self._characters = 0

    def html(
        self,
        at: str,
        outputs: Sequence[Mapping[str, Any]],
        *,
        growing: bool,
        places: Mapping[int, int] | None = None,
    ) -> Markup:
        """The outputs of the cell at an address, in order; of one that still runs, texts end at what is newest.

        ``places`` says where the cells stand that ran under a number, for tracebacks to name them so.
        """
        told = [placed(output, places or {}) for output in outputs]
        shown = [self._one(at, number, output, growing=growing) for number, output in enumerate(told)]
        return Markup().join(shown)

    def _one(self, at: str, number: int, output: Mapping[str, Any], *, growing: bool) -> Markup:
        if growing and output.get("output_type") == "stream":
            return _written("output_text.html", at, number, output, text=ending(text_content(output)))
        key = at, number, digest(output)
        if key not in self._kept:
            made = _made(at, number, output, key[2])
            if self._characters + len(made) > _KEPT_CHARACTERS:
                self._kept.clear()
                self._characters = 0
            self._characters += len(made)
            self._kept[key] = made
        return self._kept[key]


def _made(at: str, number: int, output: Mapping[str, Any], of: str) -> Markup:
    chosen = choose(output)
    if chosen is None:
        return Markup()
    template, values = _shown(at, number, output, chosen)
    return _written(template, at, number, output, of=of, chosen=chosen, **values)


def _shown(at: str, number: int, output: Mapping[str, Any], chosen: Chosen) -> tuple[str, dict[str, Any]]:
    """The template that shows a form, and what it needs."""
    match chosen.form:
        case "text" | "error":
            return "output_text.html", {"text": folded(text_content(output))}
        case "picture":
            return "output_picture.html", {
                "words": _described(output) or f"Picture {number + 1} of this cell"
            }
        case "frame":
            return "output_frame.html", {"height": frame_height(content(forms_of(output)["text/html"]))}
        case "markdown" | "latex" | "json":
            prefix = f"{at.rpartition('/')[2]}-{number}-"
            return "output_words.html", {
                "body": words_html(chosen, content(forms_of(output)[chosen.mime]), prefix)
            }
        case "table" | "chart" | "widget":
            return "output_loaded.html", {}
        case "unknown":
            return "output_unknown.html", {}


def _written(template: str, at: str, number: int, output: Mapping[str, Any], **values: Any) -> Markup:
    about = {"of": "", "chosen": Chosen("text", "stream")} | values
    name = "stderr" if output.get("name") == "stderr" else output.get("output_type")
    cell = at.rpartition("/")[2]
    made = render(template, at=f"{at}/outputs/{number}", n=number, cell_id=cell, name=name, **about)
    return Markup(made)  # noqa: S704  # a template escapes


def words_html(chosen: Chosen, text: str, prefix: str) -> Markup:
    """A text that means more than its letters, by what makes such texts safe."""
    if chosen.form == "markdown":
        made = ProseWriter(code_html, prefix=prefix, styles="none").html(text, {})
    elif chosen.form == "latex":
        made = formula_html(bare_latex(text), display=True)
    else:
        made = f'<pre class="code">{code_html(_indented(text), "json")}</pre>'
    return Markup(made)  # noqa: S704  # each of them escapes or cleans


def _described(output: Mapping[str, Any]) -> str:
    """What a picture shows, in words, where the output says it."""
    plain = {mime: held for mime, held in forms_of(output).items() if mime == "text/plain"}
    return next((one.description for one in exhibits_of([{**output, "data": plain}])), "")


def _indented(text: str) -> str:
    try:
        return bare_text(json.dumps(json.loads(text), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return bare_text(text)


# Tracebacks count runs, as Jupyter does; people on the page count cells. Pure.

_RUN_IN_TRACEBACK = re.compile(r"Cell(?P<between>(?:\x1b\[[\d;]*m|\s)*)In\[(?P<run>\d{1,9})\]")


def placed(output: Mapping[str, Any], places: Mapping[int, int]) -> Mapping[str, Any]:
    """An error with the places of cells instead of the numbers of their runs, as far as those are known."""
    lines = output.get("traceback")
    if output.get("output_type") != "error" or not isinstance(lines, list):
        return output

    def name(found: re.Match[str]) -> str:
        place = places.get(int(found["run"]))
        return found[0] if place is None else f"Cell{found['between']}{place}"

    named = [_RUN_IN_TRACEBACK.sub(name, line) if isinstance(line, str) else line for line in lines]
    return {**output, "traceback": named}


# Which form of an output the page shows: the fullest that runs nobody's script. Pure, and without reading
# what is large.

Form: TypeAlias = Literal[
    "text", "error", "chart", "widget", "table", "frame", "picture", "markdown", "latex", "json", "unknown"
]

_WORDS: dict[str, Form] = {
    "text/markdown": "markdown",
    "text/latex": "latex",
    "application/json": "json",
    "text/plain": "text",
}

_MAX_WORDS = 20_000

_SCRIPT = re.compile(r"<script\b", re.IGNORECASE)

_FRAME = re.compile(r"<table\b[^>]*class=[\"'][^\"'>]*dataframe", re.IGNORECASE)

_MAGIC_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Chosen:
    """A form, the type that it is made of, and whether HTML was passed over because only a script would show it."""

    form: Form
    mime: str = ""
    scripted: bool = False


def choose(output: Mapping[str, Any]) -> Chosen | None:
    """How an output is shown; None where there is nothing to show."""
    kind = output.get("output_type")
    if kind in ("stream", "error"):
        return Chosen("text", "stream") if kind == "stream" else Chosen("error", "traceback")
    forms = forms_of(output)
    if not forms:
        return None
    if view_of(output) is not None:
        return Chosen("widget", VIEW_MIME)
    html = content(forms.get("text/html"))
    scripted = bool(_SCRIPT.search(html))
    chart = next((mime for mime in forms if VEGA.fullmatch(mime)), None)
    if chart is not None:
        return Chosen("chart", chart)
    if html.strip() and not scripted and len(html) <= MAX_CHARACTERS:
        return Chosen("table" if _is_table(html) else "frame", "text/html")
    return _without_html(forms, scripted=scripted)


def forms_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """The types that a display or a result has."""
    data = output.get("data")
    held = data.items() if isinstance(data, Mapping) else ()
    return {str(mime): value for mime, value in held if value is not None}


def content(value: Any) -> str:
    """A type's content as text; JSON as its text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def text_content(output: Mapping[str, Any]) -> str:
    """What an output says as text: a stream, a traceback, or the plain form, and the source of HTML where there is no other."""
    kind = output.get("output_type")
    if kind == "stream":
        return content(output.get("text"))
    if kind == "error":
        lines = output.get("traceback")
        told = "\n".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else ""
        return told or f"{content(output.get('ename'))}: {content(output.get('evalue'))}"
    forms = forms_of(output)
    wanted = [*_WORDS, "text/html"] if "text/plain" not in forms else ["text/plain"]
    return content(next((forms[mime] for mime in wanted if mime in forms), next(iter(forms.values()), "")))


def digest(output: Mapping[str, Any]) -> str:
    """A name for what an output holds: another content has another."""
    made = hashlib.blake2b(digest_size=8)
    for name in ("output_type", "text", "traceback", "evalue", "metadata"):
        made.update(content(output.get(name)).encode(errors="replace"))
    for mime, value in forms_of(output).items():
        made.update(f"\0{mime}\0{content(value)}".encode(errors="replace"))
    return made.hexdigest()


def _is_table(html: str) -> bool:
    return html.count("<table") == 1 and _FRAME.search(html) is not None and "</table" in html


def _without_html(forms: dict[str, Any], *, scripted: bool) -> Chosen:
    if svg_text(content(forms.get(SVG))) is not None:
        return Chosen("picture", SVG, scripted)
    for mime in PICTURES:
        if picture_bytes(mime, content(forms.get(mime)).strip()[:_MAGIC_CHARACTERS]) is not None:
            return Chosen("picture", mime, scripted)
    for mime, form in _WORDS.items():
        if (said := content(forms.get(mime))).strip():
            return Chosen(form if len(said) <= _MAX_WORDS else "text", mime, scripted)
    if "text/html" in forms and not scripted:
        return Chosen("text", "text/html")
    return Chosen("unknown", next(iter(forms)), scripted)


# HTML that a cell put out as a page of its own, to be shut in a frame: cleaned, without scripts, with nothing to
# fetch; or, where somebody asks for it, with its scripts and as little to reach. Pure.

SEALED = "sandbox; default-src 'none'"
"""What a browser may do with an output that is opened alone: show it."""

_STYLE = (
    "body{margin:0;padding:4px;font:14px/1.5 system-ui,sans-serif;color:#1d2321;background:#fff;overflow-wrap:break-word}"
    "table{border-collapse:collapse;font-size:.875em}th,td{padding:.25em .7em;text-align:right}"
    "img{max-width:100%;height:auto}pre{margin:0;white-space:pre-wrap}"
)

SCRIPTED = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob: data:; worker-src blob:;"
    " style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; frame-ancestors 'self'"
)
"""What an output may do whose script somebody asked for: whatever needs neither the page, its cookies nor a network."""

_MEASURES = (
    "<!doctype html><meta charset=utf-8><style>body{margin:4px;font:14px/1.5 system-ui,sans-serif;background:#fff}</style>"
    "<script>new ResizeObserver(()=>parent.postMessage({height:document.documentElement.scrollHeight},'*'))"
    ".observe(document.documentElement)</script>"
)

_ROWS = re.compile(r"<(?:tr|p|li|br|h[1-6]|dt|dd|pre|summary|hr)\b", re.IGNORECASE)

_PICTURES = re.compile(r"<(?:img|svg)\b", re.IGNORECASE)

_LINE, _PICTURE, _LEAST, _MOST = 28, 240, 64, 480


def framed(source: str) -> tuple[str, str]:
    """HTML as a whole page, and the policy that it is served with."""
    clean = clean_fragment(source, keep_styles=True, attributes="sheet")
    styles = [_STYLE, *clean.styles]
    # A carriage return is read as a line's end, and then the digest is another's.
    styles = [css.replace("\r\n", "\n").replace("\r", "\n") for css in styles]
    return _page(clean, styles), _policy(styles)


def frame_height(source: str) -> int:
    """How high a frame should be, in pixels: without a script nobody can measure what is in it."""
    rows, pictures = len(_ROWS.findall(source)), len(_PICTURES.findall(source))
    return min(max(rows * _LINE + pictures * _PICTURE, _LEAST), _MOST)


def _page(clean: Clean, styles: list[str]) -> str:
    sheets = "".join(f"<style>{css}</style>" for css in styles)
    told = ", ".join(sorted(clean.dropped))
    note = f"<p><small>Not shown here: {told}</small></p>" if told else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Output</title>'
        f'<meta name="color-scheme" content="light">{sheets}</head><body>{clean.html}{note}</body></html>'
    )


def _policy(styles: list[str]) -> str:
    digests = " ".join(f"'sha256-{_digest(css)}'" for css in styles)
    return f"{SEALED}; img-src data:; style-src {digests}; frame-ancestors 'self'"


def _digest(css: str) -> str:
    return base64.b64encode(hashlib.sha256(css.encode(errors="replace")).digest()).decode()


# Long texts for a page: the end of one that grows, head and tail of one that is whole, and its pages. Pure.

_LIVE_LINES = 200

_LIVE_CHARACTERS = 20_000

_WHOLE_LINES = 120

_WHOLE_CHARACTERS = 12_000

_HEAD_LINES, _TAIL_LINES = 60, 30

_HEAD_CHARACTERS, _TAIL_CHARACTERS = 6_000, 3_000

_PAGE_CHARACTERS = 60_000

_PAGE_LINES = 1_000

_LONG_LINE = 1_000
"""Where lines are longer than this, their number says nothing."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a text is shown at first."""

    head: Markup
    left_out: str
    """How much is not, in words; empty where all is."""
    tail: Markup
    size: str
    """How much there is in all."""


@dataclass(frozen=True, slots=True)
class TextPage:
    """A piece of a text that was asked for."""

    html: Markup
    number: int
    count: int


def ending(text: str) -> Shown:
    """The end of a text that still grows."""
    tail = _last(text, _LIVE_LINES, _LIVE_CHARACTERS)
    earlier = text[: len(text) - len(tail)]
    if not earlier:
        return Shown(_html(text), "", Markup(), "")
    return Shown(Markup(), _amount(earlier), _html(tail), _amount(text))


def folded(text: str) -> Shown:
    """A text's head and tail; all of it where it is short enough."""
    if len(text) <= _WHOLE_CHARACTERS and text.count("\n") <= _WHOLE_LINES:
        return Shown(_html(text), "", Markup(), "")
    head = _first(text, _HEAD_LINES, _HEAD_CHARACTERS)
    tail = _last(text[len(head) :], _TAIL_LINES, _TAIL_CHARACTERS)
    between = text[len(head) : len(text) - len(tail)]
    return Shown(_html(head), _amount(between), _html(tail), _amount(text))


def text_page(text: str, number: int) -> TextPage:
    """One page of a text, counted from 1; the nearest that there is."""
    cuts = _cuts(text)
    number = min(max(number, 1), len(cuts))
    return TextPage(_html(text[slice(*cuts[number - 1])]), number, len(cuts))


def _cuts(text: str) -> list[tuple[int, int]]:
    """Where pages begin and end: at the ends of lines, unless a line is longer than a page."""
    cuts: list[tuple[int, int]] = []
    start = 0
    while start < len(text) or not cuts:
        piece = _first(text[start : start + _PAGE_CHARACTERS], _PAGE_LINES, _PAGE_CHARACTERS)
        end = start + len(piece)
        if end < len(text) and not piece.endswith("\n"):
            end = text.rfind("\n", start, end) + 1 or end
        cuts.append((start, end))
        start = max(end, start + 1)
    return cuts


def _first(text: str, lines: int, characters: int) -> str:
    piece = text[:characters]
    return "".join(piece.splitlines(keepends=True)[:lines])


def _last(text: str, lines: int, characters: int) -> str:
    piece = text[-characters:] if characters < len(text) else text
    return "".join(piece.splitlines(keepends=True)[-lines:])


def _amount(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    return amount(len(text), "character") if len(text) > lines * _LONG_LINE else amount(lines, "line")


def _html(text: str) -> Markup:
    """A piece as it would stand on a terminal's screen."""
    on_screen = exhibits_of([{"output_type": "stream", "name": "stdout", "text": text}])[0].text
    return Markup(ansi_html(on_screen))  # noqa: S704  # escapes what it writes


# Addresses of single outputs: pictures, frames, pages of texts and tables, charts, and all of them as files.

_OUTPUT = "/sessions/{session_id}/cells/{cell_id}/outputs/{number:int}"

_SEALED = {"content-security-policy": SEALED}

# Whoever signs in anew has another cookie, and asks anew.
_FOREVER = {"cache-control": "private, max-age=31536000, immutable", "vary": "cookie"}


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
    # The page's addresses say what they are of: under such a one there is never anything else.
    is_named = request.http.query_params.get("of") == digest(output)
    headers = _SEALED | _FOREVER if is_named else _SEALED
    chosen, forms = choose(output), forms_of(output)
    mimes = [chosen.mime] if chosen is not None and chosen.form == "picture" else [*PICTURES, SVG]
    for mime in mimes:
        if (data := _bytes(mime, content(forms.get(mime)))) is not None:
            return Response(data, media_type=mime, headers=headers)
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


async def _scripted(request: PageRequest) -> Response:
    return request.fragment("output_running.html", at=_at(request), **_named(request))


async def _script(request: PageRequest) -> Response:
    # Alone in a window it could lead its reader elsewhere, which the page's own policy keeps a frame from.
    if request.http.headers.get("sec-fetch-dest") != "iframe":
        return _absent()
    html = content(forms_of(_output(request)).get("text/html"))
    return Response(
        (_MEASURES + html).encode(errors="replace"),
        media_type="text/html; charset=utf-8",
        headers={"content-security-policy": SCRIPTED},
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
    session, named = request.session(), _named(request)
    has_grid = may_have_grid(session, session.cell(named["cell_id"]), named["n"])
    return request.fragment("output_table.html", shown=shown, at=_at(request), has_grid=has_grid, **named)


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
    page(f"{_OUTPUT}/scripted", _scripted),
    page(f"{_OUTPUT}/script", _script),
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

"""HTML from the templates beside this: one for each thing that is shown. Everything is escaped unless it was made safe."""

from __future__ import annotations

import difflib
import functools
import gzip
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cellwright.charts.html_embed import bundle, bundle_key
from cellwright.errors import ChartError
from cellwright.notebook.cells import RunTimes
from cellwright.notebook.languages import every_language
from cellwright.presence import name_of

__all__ = ["ROUTES", "DiffLine", "Sign", "amount", "diff_lines", "moment", "period", "render", "widgets_url"]

_HERE = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """A template with these values."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(asset=asset_url, editor=editor_url, now=time.time, languages=every_language)
    made.filters.update(
        who=name_of,
        age=age,
        amount=amount,
        bytes=bytes_text,
        moment=moment,
        period=period,
        seconds=seconds_text,
    )
    return made


# The page's style sheet and its script, each joined from the files of its kind, and the script that draws charts, each
# under an address that names its content.

_STATIC = Path(__file__).parent / "static"

_JOINED = frozenset({"page.css", "page.js"})

_BUILT = Path(__file__).parent / "built"
"""What Deno builds of ``editor`` and ``widgets``; in a clone that could not fetch its packages it is not there."""

_EDITOR = "editor.js"

_WIDGETS = "widgets.js"

_VEGA = "vega.js"

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


_PACKED = {"content-encoding": "gzip", "vary": "accept-encoding"}


def asset_url(name: str) -> str:
    """Where something lies. The address changes with what is there, so that a browser may keep it for ever."""
    return f"/assets/{_digest(name)}/{name}"


def editor_url() -> str:
    """Where the editor lies; empty where it was not built, and the plain one serves."""
    return asset_url(_EDITOR) if _EDITOR in _built() else ""


def widgets_url() -> str:
    """Where the script of widgets' frames lies; empty where it was not built, and their text is shown."""
    return asset_url(_WIDGETS) if _WIDGETS in _built() else ""


@functools.cache
def _built() -> frozenset[str]:
    return frozenset(path.name for path in _BUILT.glob("*.js"))


@functools.cache
def _content(name: str) -> bytes:
    if name == _VEGA:
        return bundle().encode()
    if name in _built():
        return (_BUILT / name).read_bytes()
    if name in _JOINED:
        # One file for each thing that is shown or done, one request for all of them.
        return b"\n".join(path.read_bytes() for path in sorted(_STATIC.glob(f"*{Path(name).suffix}")))
    return (_STATIC / name).read_bytes()


@functools.cache
def _digest(name: str) -> str:
    if name == _VEGA:
        return bundle_key() or "none"
    if name in _built():  # its parts import each other by names beside their own
        return hashlib.sha256(b"".join(_content(part) for part in sorted(_built()))).hexdigest()[:16]
    return hashlib.sha256(_content(name)).hexdigest()[:16]


async def _asset(request: Request) -> Response:
    name, digest = request.path_params["name"], request.path_params["digest"]
    ours = {_VEGA, *_JOINED, *_built(), *(path.name for path in _STATIC.iterdir())}
    if name not in ours or digest != _digest(name):
        return PlainTextResponse("There is no such file", 404)
    if name == _VEGA:  # made and packed once, which takes seconds
        try:
            await anyio.to_thread.run_sync(_packed, name)
        except ChartError as error:
            return PlainTextResponse(str(error), 404)
    kind = _TYPES[Path(name).suffix]
    # A frame without an origin of its own is somebody else to the browser.
    headers = _FOREVER | ({"cross-origin-resource-policy": "cross-origin"} if name == _WIDGETS else {})
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_packed(name), media_type=kind, headers={**headers, **_PACKED})
    return Response(_content(name), media_type=kind, headers=headers)


@functools.cache
def _packed(name: str) -> bytes:
    return gzip.compress(_content(name), mtime=0)


ROUTES = [Route("/assets/{digest}/{name}", _asset, methods=["GET"])]


# Numbers and times as people read them. Pure.

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

_KILO = 1024


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that says something."""
    passed = max((time.time() if now is None else now) - since, 0)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if passed >= size:
            return f"{passed / size:.0f} {unit}"
    return f"{passed:.0f} s"


def moment(at: float, now: float | None = None) -> str:
    """A time of day by this machine's clock, with its date where that is not today's."""
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def period(times: RunTimes) -> str:
    """When a run began and ended, the end left out where it is the same second or not known."""
    told = [moment(at) for at in (times.began, times.ended) if at is not None]
    return " \u2013 ".join(dict.fromkeys(told))


def seconds_text(seconds: float | None) -> str:
    """A duration; empty where it is not known."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"


def bytes_text(size: float | None) -> str:
    """A size; empty where it is not known."""
    if size is None:
        return ""
    for unit in ("B", "KB", "MB"):
        if size < _KILO:
            return f"{size:.0f} {unit}"
        size /= _KILO
    return f"{size:.1f} GB"


def amount(number: int, one: str, many: str | None = None) -> str:
    """So many of something."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# The difference between two texts, line by line, for a page. Pure.

Sign: TypeAlias = Literal["+", "-", " ", "…"]

_LONGEST = 2_000
"""Comparing takes the square of this in the worst case."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line that was added, taken out or stayed; ``…`` stands for lines that are not shown."""

    sign: Sign
    text: str

    @property
    def word(self) -> str:
        """The sign for who does not see colours."""
        return {"+": "added", "-": "removed", " ": "", "…": "left out"}[self.sign]


def diff_lines(before: str, after: str, *, around: int = 3) -> list[DiffLine]:
    """What changed, with a few lines around each change."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _LONGEST:
        return [DiffLine("…", f"{len(old):,} lines became {len(new):,}: too many to compare")]
    return list(_lines(old, new, around))


def _lines(old: list[str], new: list[str], around: int) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(around)):
        if number or group[0][1] > 0:
            yield DiffLine("…", "")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[old_from:old_to])
                continue
            yield from (DiffLine("-", line) for line in old[old_from:old_to])
            yield from (DiffLine("+", line) for line in new[new_from:new_to])

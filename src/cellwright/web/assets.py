"""The page's one style sheet, its one script, and the script that draws charts, each under an address that names its content."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cellwright.charts.html_embed import bundle
from cellwright.errors import ChartError

__all__ = ["ROUTES", "asset_url"]

_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


def asset_url(name: str) -> str:
    """Where something lies. The address changes with what is there, so that a browser may keep it for ever."""
    return f"/assets/{_digest(name)}/{name}"


@functools.cache
def _content(name: str) -> bytes:
    if name == "page.css":
        # One file for each thing that is shown, one request for all of them.
        return b"\n".join(path.read_bytes() for path in sorted(_STATIC.glob("*.css")))
    return (_STATIC / name).read_bytes()


@functools.cache
def _digest(name: str) -> str:
    if name == "vega.js":
        return "vega"
    return hashlib.sha256(_content(name)).hexdigest()[:16]


async def _asset(request: Request) -> Response:
    name, digest = request.path_params["name"], request.path_params["digest"]
    if name == "vega.js":
        return await _vega(request)
    if name not in {"page.css", *(path.name for path in _STATIC.iterdir())} or digest != _digest(name):
        return PlainTextResponse("There is no such file", 404)
    return Response(_content(name), media_type=_TYPES[Path(name).suffix], headers=_FOREVER)


async def _vega(request: Request) -> Response:
    try:
        script = await anyio.to_thread.run_sync(bundle)
    except ChartError as error:
        return PlainTextResponse(str(error), 404)
    tag = f'"{hashlib.sha256(script.encode()).hexdigest()[:16]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304)
    headers = {"cache-control": "private, no-cache", "etag": tag, "x-content-type-options": "nosniff"}
    return Response(script, media_type=_TYPES[".js"], headers=headers)


ROUTES = [Route("/assets/{digest}/{name}", _asset, methods=["GET"])]

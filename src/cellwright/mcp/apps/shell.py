"""Which tools are shown by which app, and each app's HTML: one shell, whose script draws the view that it is for.

The HTML is whole: its script, its style and its policy are in it, and nothing is fetched. What it shows it asks for by
tools, through its host.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import ClientCapabilities, InitializeRequestParams, Tool

import cellwright
from cellwright.charts.html_embed import bundle
from cellwright.charts.themes import theme_config

__all__ = ["ABOUT", "VIEW_OF_TOOL", "View", "app_resource", "shows_apps", "with_apps"]

View: TypeAlias = Literal["cell", "chart", "checkpoints", "plan", "verified"]

ABOUT = "cellwright/view"
"""What a view begins with, in the metadata of a result: no model reads that."""

_EXTENSION = "io.modelcontextprotocol/ui"
_MIME = "text/html;profile=mcp-app"
_ADDRESS = "ui://cellwright/"
_VEGA = f"{_ADDRESS}vega.js"

VIEW_OF_TOOL: Mapping[str, View] = {
    "cell_add_and_run": "cell",
    "cell_execute": "cell",
    "execution_wait": "cell",
    "cell_visualize": "chart",
    "visualize": "chart",
    "checkpoint_create": "checkpoints",
    "checkpoint_list": "checkpoints",
    "session_rollback": "checkpoints",
    "session_branch": "checkpoints",
    "branch_adopt": "checkpoints",
    "plan_create": "plan",
    "plan_run": "plan",
    "plan_status": "plan",
    "plan_fix": "plan",
    "plan_skip": "plan",
    "plan_verify": "verified",
}

_PRESSED = frozenset(
    {"app_view", "app_rows", "cell_execute", "kernel_interrupt", "session_rollback", "session_branch"}
    | {"branch_adopt", "plan_run", "plan_fix", "plan_skip", "plan_verify"}
)
"""What views call: where a model's list has it not, it is listed for apps alone."""

_NOTHING_OUTSIDE: dict[str, list[str]] = {
    "connectDomains": [],
    "resourceDomains": [],
    "frameDomains": [],
    "baseUriDomains": [],
}


def shows_apps(
    able: ClientCapabilities | None, about: InitializeRequestParams | None, named: Sequence[str]
) -> bool:
    """Whether a client shows apps, as it says or as it is ``named``, and this installation can write what they show."""
    settings = ((able.extensions if able is not None else None) or {}).get(_EXTENSION)
    types = settings.get("mimeTypes") if isinstance(settings, Mapping) else None
    name = about.client_info.name if about is not None else ""
    says_so = isinstance(types, list) and _MIME in types
    return (says_so or any(fnmatchcase(name, one) for one in named)) and _can_write()


@functools.cache
def _can_write() -> bool:
    """Whether the extra ``web`` is there, which colours code, reads Markdown and cleans HTML."""
    return all(importlib.util.find_spec(name) for name in ("pygments", "mistune", "nh3"))


def with_apps(tools: Iterable[Tool], listed: frozenset[str]) -> list[Tool]:
    """The tools as a client that shows apps is told of them: with their views, and with what only views call."""
    shown: list[Tool] = []
    for tool in tools:
        view = VIEW_OF_TOOL.get(tool.name)
        if tool.name in listed:
            shown.append(tool if view is None else _with(tool, resourceUri=f"{_ADDRESS}{view}"))
        elif tool.name in _PRESSED:
            shown.append(_with(tool, visibility=["app"]))
    return shown


def _with(tool: Tool, **about: Any) -> Tool:
    return tool.model_copy(update={"meta": {**(tool.meta or {}), "ui": about}})


async def app_resource(uri: str) -> ReadResourceContents | None:
    """What lies at an address of apps; None where nothing does.

    Raises:
        ChartError: the script that draws charts cannot be made.
    """
    if uri == _VEGA:
        return ReadResourceContents(await anyio.to_thread.run_sync(bundle), "text/javascript")
    view = uri.removeprefix(_ADDRESS)
    if not uri.startswith(_ADDRESS) or view not in VIEW_OF_TOOL.values():
        return None
    about = {"ui": {"csp": _NOTHING_OUTSIDE, "prefersBorder": True}}
    return ReadResourceContents(_page(view), _MIME, about)


_STATIC = Path(__file__).parent / "static"

# Files, not modules: apps have the looks of the page, and neither frontend uses the other.
_PAGE = Path(cellwright.__file__).parent / "web" / "static"
_PAGE_STYLES = ("00-page.css", "11-cell.css", "12-code.css", "13-outputs.css")


def _page(view: str) -> str:
    nonce = secrets.token_urlsafe(12)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    style, script = _files()
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Cellwright: {view}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{style}</style></head><body data-view="{view}" data-version="{cellwright.__version__}">'
        f'<main></main><p class="said" role="status"></p>'
        f'<script type="application/json" id="dark">{json.dumps(theme_config("dark"))}</script><script nonce="{nonce}">{script}</script></body></html>'
    )


@functools.cache
def _files() -> tuple[str, str]:
    """The style and the script of all views."""
    styles = [*(_PAGE / name for name in _PAGE_STYLES), *sorted(_STATIC.glob("*.css"))]
    scripts = sorted(_STATIC.glob("*.js"))
    return "\n".join(map(Path.read_text, styles)), "\n".join(map(Path.read_text, scripts))

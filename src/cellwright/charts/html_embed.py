"""Charts in pages that have no network: a spec made interactive, its place in the page, and the script that draws it.

The script is one for a whole page and holds Vega, Vega-Lite and vega-embed. It interprets expressions instead of
compiling them, so that a page may forbid ``eval``, and fetches nothing. Without it the picture stays.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from typing import Any

from cellwright.errors import ChartError
from cellwright.settings import paths

__all__ = ["bundle", "bundle_key", "interactive", "page_script", "placeholder"]

_MAKING = "import sys, vl_convert; sys.stdout.write(vl_convert.javascript_bundle(vl_version=sys.argv[1]))"
_MAKING_LIMIT_S = 60
# Of the two that our specs are valid in, the one that fits the Vega in vl-convert.
_VERSION = "6.4"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_DRAWING = """
for (const place of document.querySelectorAll(".cw-chart")) {
  const spec = JSON.parse(place.querySelector("script").textContent);
  const stage = document.createElement("div");
  stage.style.width = "100%";
  place.append(stage);
  const options = {actions: false, renderer: "svg", ast: true, tooltip: {theme: place.dataset.theme || "light"}};
  vegaEmbed(stage, spec, options).then(
    () => { for (const still of place.querySelectorAll(".cw-still")) still.remove(); },
    () => stage.remove(),
  );
}
"""


def interactive(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec that fills the width it is given and whose axes can be moved and zoomed where that says something."""
    live = deepcopy(dict(spec))
    about = live.get("usermeta", {})
    ours = about.get("cellwright", {}) if isinstance(about, Mapping) else {}
    if not ours:
        return live
    live["$schema"] = _SCHEMA
    if ours.get("zoom"):
        zoom = {"name": "zoom", "select": {"type": "interval", "encodings": ["x", "y"]}, "bind": "scales"}
        home = live["layer"][0] if "layer" in live else live
        home["params"] = [zoom]
    if ours.get("type") not in ("pie_chart", "graph", "heatmap"):
        live["width"] = "container"
        live["autosize"] = {"type": "fit-x", "contains": "padding"}
    return live


def placeholder(spec: Mapping[str, Any], *, still: str = "") -> str:
    """A chart's place in a page; ``still`` is HTML that stands there until, and unless, the script has drawn it."""
    held = json.dumps(interactive(spec), ensure_ascii=False).replace("<", "\\u003c")
    about = spec.get("usermeta", {})
    theme = about.get("cellwright", {}).get("theme", "light") if isinstance(about, Mapping) else "light"
    picture = f'<div class="cw-still">{still}</div>' if still else ""
    return (
        f'<div class="cw-chart" data-theme="{html.escape(str(theme))}">'
        f'<script type="application/json">{held}</script>{picture}</div>'
    )


def page_script(cache: Path | None = None) -> str:
    """The one script that draws every chart of a page; put it at the end, once, without any address.

    Raises:
        ChartError: vl-convert is not installed.
    """
    return f"{bundle(cache)}\n{_DRAWING}"


def bundle(cache: Path | None = None) -> str:
    """Vega, Vega-Lite and vega-embed as one script, which sets ``vegaEmbed``; kept on disk, since it takes seconds.

    Raises:
        ChartError: vl-convert is not installed.
    """
    if not (key := bundle_key()):
        raise ChartError("Charts need vl-convert", hint="Run `pip install 'cellwright[charts]'`")
    directory = cache or Path(paths.cache_base())
    path = directory / f"vega-{key}.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        made = _made()
    _keep(path, made)
    return made


@functools.cache
def bundle_key() -> str:
    """Names what is in the bundle, without making it; empty where vl-convert is not installed."""
    try:
        release = metadata.version("vl-convert-python")
    except metadata.PackageNotFoundError:
        return ""
    return hashlib.sha256(f"{release} {_VERSION} {_MAKING}".encode()).hexdigest()[:16]


def _made() -> str:
    # In a process of its own: making it leaves a JavaScript engine of a hundred megabytes behind.
    done = subprocess.run(
        [sys.executable, "-P", "-c", _MAKING, _VERSION],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_MAKING_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ChartError(f"The script that draws charts could not be made: {last}")
    # In a page a script ends where these letters stand, even inside of a string.
    return done.stdout.decode().replace("</script", "<\\/script")


def _keep(path: Path, text: str) -> None:
    """Best effort: a page is whole without it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        return

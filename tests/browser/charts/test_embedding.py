"""Charts in a page of their own: one script, no network, no ``eval``."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright.charts.html_embed import bundle, interactive, page_script, placeholder
from tests.conftest import Require
from tests.support.browsers import LIMIT_MS, open_browser
from tests.support.charts.making import SALES, spec

pytestmark = pytest.mark.anyio
ONLY_OURS = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{}'"


def made(**config: Any) -> dict[str, Any]:
    found = spec(SALES, "line_chart", **config).vega_lite
    assert found is not None
    return found


def test_an_interactive_chart_fills_its_place_and_zooms_where_its_axis_is_of_numbers() -> None:
    by_name = interactive(made(x_column="month"))
    assert by_name["width"] == "container"
    assert "params" not in by_name
    assert interactive(made(x_column="revenue", y_columns=("cost",)))["params"][0]["bind"] == "scales"


def test_making_a_chart_interactive_leaves_the_first_one_as_it_was() -> None:
    first = spec(b"source,target\na,b\n", "graph").vega_lite
    assert first is not None
    assert "params" in interactive(first)["layer"][0]
    assert "params" not in first["layer"][0]


def test_a_spec_of_somebody_else_stays_as_it_is() -> None:
    other = {"mark": "bar", "usermeta": {"embedOptions": {}}}
    assert interactive(other) == other


def test_no_text_of_a_chart_ends_its_place_in_the_page() -> None:
    held = placeholder(
        {"mark": "bar", "description": "</script><script>alert(1)</script><!--"}, still="<img>"
    )
    assert held.count("<script") == 1
    assert held.count("</script>") == 1
    assert '<div class="cw-still"><img></div>' in held


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the script is kept for all tests: to make it takes seconds."""
    return tmp_path_factory.mktemp("scripts")


def test_the_script_is_made_once_and_kept(scripts: Path, tmp_path: Path) -> None:
    first = bundle(scripts)
    (kept,) = scripts.iterdir()
    (tmp_path / kept.name).write_text("kept")
    assert "vegaEmbed" in first
    assert "</script" not in first
    assert bundle(tmp_path) == "kept"


async def test_a_browser_draws_it_under_a_strict_policy_without_a_request(
    scripts: Path, tmp_path: Path, require: Require
) -> None:
    script = page_script(scripts)
    policy = ONLY_OURS.format(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode())
    places = "".join(placeholder(chart, still="still") for chart in (made(), made(x_column="revenue")))
    page = tmp_path / "page.html"
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<body>{places}<script>{script}</script>"
    )
    said, asked = await anyio.to_thread.run_sync(_look, require, page.as_uri())
    assert said == []
    assert asked == [page.as_uri()]


def _look(require: Require, address: str) -> tuple[list[str], list[str]]:
    said: list[str] = []
    asked: list[str] = []
    with open_browser(require) as browser:
        page = browser.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_function(
            "document.querySelectorAll('.cw-chart svg').length === 2 && !document.querySelector('.cw-still')"
        )
    return said, asked

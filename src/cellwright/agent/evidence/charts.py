"""Charts looked over by rule: what a chart lacks and how to mend it, and the pictures for a critic who sees.

What a chart has is read in ``chartfacts``. What needs eyes or judgement is a model's to say.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import anyio

from cellwright.agent.evidence.chartfacts import Chart, Maker, Panel, Series, charts_in, spec_of
from cellwright.agent.evidence.colours import apart, apart_without_red_green
from cellwright.charts import FILENAME
from cellwright.engine import Engine, Execution
from cellwright.errors import CellwrightError
from cellwright.mcp.images import MAX_PICTURES, picture_content

__all__ = ["Issue", "chart_issues", "issues_in", "issues_of", "pictures"]

_MOST_NAMES = 50
_ALIKE = 0.06
"""In Oklab; neighbours in a palette that is made for charts are 0.15 apart."""
_ALIKE_TO_SOME = 0.035
_ENOUGH = 2

_FIXES: dict[str, dict[Maker, str]] = {
    "title": {
        "matplotlib": "ax.set_title('what it shows')",
        "manifest": "give it a title: show(frame, title='what it shows')",
        "altair": ".properties(title='what it shows')",
    },
    "x": {
        "matplotlib": "ax.set_xlabel('name (unit)')",
        "manifest": "give it xLabel='name (unit)'",
        "altair": "alt.X(..., title='name (unit)')",
    },
    "y": {
        "matplotlib": "ax.set_ylabel('name (unit)')",
        "manifest": "give it yLabel='name (unit)'",
        "altair": "alt.Y(..., title='name (unit)')",
    },
    "legend": {
        "matplotlib": "label each series (label='…') and call ax.legend()",
        "manifest": "give it group_by='column'",
        "altair": "encode the series as colour, with a legend",
    },
    "colours": {
        "matplotlib": "give each series a colour of its own, or another line style or marker",
        "manifest": "show fewer series, or split the chart",
        "altair": "give the colour scale a range with a colour for each series",
    },
}


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with a chart, and how to mend it."""

    cell_id: str | None
    what: str
    fix: str
    hint: bool = False
    """Whether the chart can stay as it is."""


def chart_issues(engine: Engine, execution_ids: Iterable[str]) -> list[Issue]:
    """What is wrong with the charts that these executions left."""
    found: list[Issue] = []
    for execution_id in execution_ids:
        execution = engine.execution(execution_id)
        found += issues_of(execution.cell_id, execution.outputs)
    return found


def issues_of(cell_id: str | None, outputs: Sequence[Mapping[str, Any]]) -> list[Issue]:
    """What is wrong with a cell's charts, also with those that could not be drawn."""
    found = [Issue(cell_id, what, "mend what it says, and run the cell again") for what in _undrawn(outputs)]
    charts = charts_in(outputs)
    for number, chart in enumerate(charts, 1):
        named = f"chart {number} of the cell: " if len(charts) > 1 else ""
        found += [Issue(cell_id, f"{named}{one.what}", one.fix, one.hint) for one in issues_in(chart)]
    return found


async def pictures(engine: Engine, execution_ids: Iterable[str], *, most: int = MAX_PICTURES) -> list[bytes]:
    """The charts as pictures of a size that is worth its tokens, the newest where there are too many."""
    found: list[bytes] = []
    for execution_id in execution_ids:
        found += [one async for one in _pictures(engine, engine.execution(execution_id))]
    return found[-most:]


# By rule -------------------------------------------------------------------------------------------------------------


def issues_in(chart: Chart) -> list[Issue]:
    """What is wrong with one chart. Pure."""
    found = []
    if not chart.title and not any(panel.title for panel in chart.panels):
        found.append(_issue(chart, "it has no title", "title"))
    for number, panel in enumerate(chart.panels, 1):
        named = f"panel {number}: " if len(chart.panels) > 1 else ""
        found += [
            Issue(None, f"{named}{one.what}", one.fix, one.hint)
            for one in (*_of_axes(chart, panel), *_of_series(chart, panel), *_of_data(panel))
        ]
    return found


def _of_axes(chart: Chart, panel: Panel) -> Iterator[Issue]:
    if panel.labelled and panel.series:
        if not panel.x:
            yield _issue(chart, "its x axis has no label", "x")
        if not panel.y:
            yield _issue(chart, "its y axis has no label", "y")
    for axis, names in (("x", panel.names_x), ("y", panel.names_y)):
        if names > _MOST_NAMES and not panel.thins_out:
            yield Issue(
                None,
                f"{names:,} names stand along its {axis} axis, and overlap",
                f"show the {_MOST_NAMES // 2} largest, or put the rest together",
            )


def _of_series(chart: Chart, panel: Panel) -> Iterator[Issue]:
    several = _several(panel)
    direct = panel.texts >= len(several)
    if len(several) >= _ENOUGH and not panel.legend and not direct:
        yield _issue(chart, f"it has {len(several)} series and no legend", "legend")
    keyed = panel.legend or chart.colourbar or chart.maker != "matplotlib"
    if any(one.mapped for one in panel.series) and not keyed:
        yield Issue(
            None,
            "its points have colours, and nothing says what they mean",
            "add a legend, or fig.colorbar(points, label='name (unit)')",
        )
    yield from _of_colours(chart, several)


def _of_colours(chart: Chart, several: Sequence[Series]) -> Iterator[Issue]:
    pairs = [(a, b) for a, b in combinations(several, 2) if a.colour and b.colour and a.style == b.style]
    alike = [pair for pair in pairs if _distance(*pair) < _ALIKE]
    if alike:
        one, other = alike[0]
        named = f" ({one.label} and {other.label})" if one.label and other.label else ""
        yield _issue(chart, f"colours of its series cannot be told apart{named}", "colours")
        return
    if any((apart_without_red_green(a.colour, b.colour) or 1.0) < _ALIKE_TO_SOME for a, b in pairs):
        yield Issue(
            None,
            "some people cannot tell its colours apart",
            "take colours that differ in lightness: #0072b2, #e08e0b, #009e73",
            hint=True,
        )


def _of_data(panel: Panel) -> Iterator[Issue]:
    known = [one for one in panel.series if one.points >= 0]
    if len(known) < len(panel.series):
        return
    if not any(one.points for one in known):
        yield Issue(
            None, "it is empty: there is nothing in its data", "look at what is left of the data before it"
        )
        return
    empty = [one for one in known if one.points and not one.finite]
    if empty:
        named = (
            f" ({', '.join(one.label for one in empty if one.label)})" if any(e.label for e in empty) else ""
        )
        all_ = "all of its values are missing" if len(empty) == len(known) else "a series has no values"
        yield Issue(
            None, f"{all_}{named}", "look at how the column was made: a join or a conversion gave NaN"
        )
    lines = [one for one in known if one.kind == "line"]
    if lines and all(one.finite == 1 for one in lines):
        yield Issue(
            None, "its line has a single point, and cannot be seen", "draw a point or a bar, or more data"
        )


def _several(panel: Panel) -> list[Series]:
    """Series that a legend must tell apart: of one kind, and no mere marks such as a line across."""
    by_kind: dict[str, list[Series]] = {}
    for one in panel.series:
        is_mark = one.kind in ("shapes", "marks", "image", "boxes", "pie") or (
            one.points <= _ENOUGH and one.points >= 0 and not one.label
        )
        if not is_mark:
            by_kind.setdefault(one.kind, []).append(one)
    # A band around a line, or bars under it, is no second line.
    return max(by_kind.values(), key=len, default=[])


def _distance(one: Series, other: Series) -> float:
    found = apart(one.colour, other.colour)
    return found if found is not None else float(one.colour != other.colour)


def _issue(chart: Chart, what: str, kind: str) -> Issue:
    return Issue(None, what, _FIXES[kind][chart.maker])


def _undrawn(outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the engine says of charts that it could not draw (see ``engine.charting``)."""
    for output in outputs:
        text = output.get("text", "")
        told = text if isinstance(text, str) else "".join(text)
        if output.get("name") == "stderr" and f"{FILENAME}:\n" in told:
            lines = told.partition(f"{FILENAME}:\n")[2].splitlines()
            yield from (f"a chart could not be drawn: {line}" for line in lines if line.strip())


# As pictures ---------------------------------------------------------------------------------------------------------


async def _pictures(engine: Engine, execution: Execution) -> AsyncIterator[bytes]:
    for output in execution.outputs:
        encoded = (output.get("data") or {}).get("image/png")
        if not isinstance(encoded, str) and (spec := spec_of(output)) is not None:
            encoded = await _drawn(engine, spec)
        if isinstance(encoded, str):
            scaled = partial(picture_content, max_pixels=engine.settings.image_pixels)
            content = await anyio.to_thread.run_sync(scaled, encoded, "image/png")
            if content is not None:
                yield base64.b64decode(content.data)


async def _drawn(engine: Engine, spec: Mapping[str, Any]) -> str | None:
    """A spec that came without a picture, drawn."""
    try:
        return base64.b64encode(await engine.renderer.draw(spec, theme="light")).decode()
    except CellwrightError:  # what cannot be drawn is told by whoever shows the chart
        return None

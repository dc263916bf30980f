"""Charts looked over by rule: what a chart lacks and how to fix it, and the pictures for a critic who sees.

What a chart has is read in ``charts``. What needs eyes or judgement is a model's to say.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, Literal, TypeAlias

import anyio

from cellwright.charts import FILENAME
from cellwright.engine import Engine, Execution
from cellwright.errors import CellwrightError
from cellwright.mcp.outputs import MAX_PICTURES, picture_content

__all__ = [
    "Issue",
    "apart",
    "apart_without_red_green",
    "chart_issues",
    "issues_of",
    "pictures",
    "spec_of",
    "spec_rows",
]
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
    """What is wrong with a chart, and how to fix it."""

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
    found = [Issue(cell_id, what, "fix what it says, and run the cell again") for what in _undrawn(outputs)]
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
    """What the engine says of charts that it could not draw (see ``engine.charts``)."""
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


# What a chart has and lacks, whoever drew it: read from matplotlib's facts, or from a Vega-Lite spec. Pure;
# judges nothing.

Maker: TypeAlias = Literal["matplotlib", "manifest", "altair"]

_VEGA_LITE = "application/vnd.vegalite"

_PALETTE = 10
"""How many colours Vega-Lite has for categories before it begins anew."""

_KINDS = {
    "bar": "bars",
    "point": "points",
    "circle": "points",
    "square": "points",
    "arc": "pie",
    "trail": "line",
}

_DECORATION = ("text", "rule", "tick", "image", "errorbar", "errorband")

_NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True)
class Series:
    """Something that is drawn."""

    kind: str
    """``line``, ``bars``, ``points``, ``area``, ``pie``, ``image``, or what its library calls it."""
    label: str = ""
    points: int = 0
    finite: int = 0
    """How many of them are numbers."""
    colour: str = ""
    style: str = ""
    mapped: bool = False
    """Whether colours of its points stand for values."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str = ""
    x: str = ""
    y: str = ""
    labelled: bool = True
    """Whether it has axes that want labels."""
    legend: bool = False
    texts: int = 0
    names_x: int = 0
    """How many names stand along an axis."""
    names_y: int = 0
    series: tuple[Series, ...] = ()
    thins_out: bool = False
    """Whether names that would overlap are left out by themselves."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture."""

    maker: Maker
    title: str = ""
    panels: tuple[Panel, ...] = ()
    colourbar: bool = False


def charts_in(outputs: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """The charts among outputs, as far as it is known what they show."""
    found: list[Chart] = []
    for output in outputs:
        match output.get("metadata"):
            case {"cellwright": {"figure": dict(facts)}}:
                found.append(_figure(facts))
                continue
        spec = spec_of(output)
        if spec is not None:
            found.append(_vega(spec))
    return found


def spec_of(output: Mapping[str, Any]) -> dict[str, Any] | None:
    """The Vega-Lite spec that an output holds."""
    for mime, held in (output.get("data") or {}).items():
        if mime.startswith(_VEGA_LITE) and isinstance(held, dict):
            return held
    return None


# Matplotlib ----------------------------------------------------------------------------------------------------------


def _figure(facts: Mapping[str, Any]) -> Chart:
    panels = tuple(_axes(axes, facts) for axes in facts.get("axes") or () if isinstance(axes, Mapping))
    return Chart("matplotlib", str(facts.get("title") or ""), panels, bool(facts.get("colourbars")))


def _axes(axes: Mapping[str, Any], figure: Mapping[str, Any]) -> Panel:
    series = tuple(_artist(one) for one in axes.get("series") or () if isinstance(one, Mapping))
    bare = bool(series) and all(one.kind in ("pie", "image") for one in series)
    return Panel(
        title=str(axes.get("title") or ""),
        x=str(axes.get("x") or figure.get("x") or ""),
        y=str(axes.get("y") or figure.get("y") or ""),
        labelled=bool(axes.get("labelled")) and not bare,
        legend=bool(axes.get("legend") or figure.get("legend")),
        texts=_count(axes.get("texts")),
        names_x=_count(axes.get("names_x")),
        names_y=_count(axes.get("names_y")),
        series=series,
    )


def _artist(one: Mapping[str, Any]) -> Series:
    colours = one.get("colours")
    return Series(
        kind=str(one.get("kind")),
        label=str(one.get("label") or ""),
        points=_count(one.get("points")),
        finite=_count(one.get("finite")),
        colour=str(colours[0]) if isinstance(colours, list) and len(colours) == 1 else "",
        style=str(one.get("style") or ""),
        mapped=bool(one.get("mapped")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


# Vega-Lite -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Unit:
    """One mark with the channels that apply to it, and its rows where they stand in the spec."""

    mark: str
    channels: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] | None


@dataclass(slots=True)
class _View:
    """What shares a pair of axes."""

    title: str
    units: list[_Unit] = field(default_factory=list)


def _vega(spec: dict[str, Any]) -> Chart:
    ours = _mapping(_mapping(spec.get("usermeta")).get("cellwright"))
    panels = tuple(_panel(view, ours) for view in _views(spec, spec, {}, None) if view.units)
    return Chart("manifest" if ours else "altair", _title(spec.get("title")), panels)


def spec_rows(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All rows of data that stand in a spec."""
    for held in (_mapping(spec.get("data")).get("values"), *_mapping(spec.get("datasets")).values()):
        yield from (row for row in held if isinstance(row, dict)) if isinstance(held, list) else ()


def _views(
    spec: Mapping[str, Any], root: Mapping[str, Any], channels: Mapping[str, Any], rows: Any
) -> Iterator[_View]:
    channels = {**channels, **_mapping(spec.get("encoding"))}
    rows = _rows(spec, root) if "data" in spec else rows
    for key in ("hconcat", "vconcat", "concat"):
        for part in _parts(spec, key):
            yield from _views(part, root, channels, rows)
    if isinstance(inner := spec.get("spec"), dict):
        yield from _views(inner, root, channels, rows)
        return
    view = _View(_title(spec.get("title")))
    view.units += _units(spec, root, channels, rows)
    yield view


def _units(
    spec: Mapping[str, Any], root: Mapping[str, Any], channels: Mapping[str, Any], rows: Any
) -> Iterator[_Unit]:
    channels = {**channels, **_mapping(spec.get("encoding"))}
    rows = _rows(spec, root) if "data" in spec else rows
    mark = spec.get("mark")
    name = mark.get("type") if isinstance(mark, dict) else mark
    if isinstance(name, str):
        yield _Unit(name, channels, rows)
    for layer in _parts(spec, "layer"):
        yield from _units(layer, root, channels, rows)


def _rows(spec: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    data = _mapping(spec.get("data"))
    held = data.get("values")
    if held is None and isinstance(name := data.get("name"), str):
        held = _mapping(root.get("datasets")).get(name)
    return [row for row in held if isinstance(row, dict)] if isinstance(held, list) else None


def _panel(view: _View, ours: Mapping[str, Any]) -> Panel:
    shown = [unit for unit in view.units if unit.mark not in _DECORATION] or view.units
    first = shown[0]
    bare = ours.get("type") == "graph" or first.mark in ("arc", "geoshape", "image")
    keyed = next((unit for unit in shown if _key(unit)), None)
    # What we draw in layers is one thing; who else does may mean several.
    drawn = [keyed] if keyed is not None else [first] if ours else shown
    names = {axis: _names(first, axis) for axis in ("x", "y")}
    return Panel(
        title=view.title,
        x=_label(shown, "x"),
        y=_label(shown, "y"),
        labelled=not bare,
        legend=keyed is not None and _has_legend(keyed),
        names_x=names["x"],
        names_y=names["y"],
        series=tuple(one for unit in drawn for one in _series(unit)),
        thins_out=bool(ours),
    )


def _key(unit: _Unit) -> dict[str, Any]:
    """The channel that tells series apart by colour."""
    for name in ("color", "fill", "stroke", "shape", "strokeDash"):
        channel = unit.channels.get(name)
        if isinstance(channel, dict) and isinstance(channel.get("field"), str):
            return channel
    return {}


def _has_legend(unit: _Unit) -> bool:
    channel = _key(unit)
    return not ("legend" in channel and channel["legend"] is None)


def _label(units: Sequence[_Unit], axis: str) -> str:
    """An axis' title: one that is given, or the field's name, which is what stands there else."""
    for unit in units:
        channel = unit.channels.get(axis)
        if not isinstance(channel, dict):
            continue
        for holder in (_mapping(channel.get("axis")), channel):
            if "title" in holder:
                told = _title(holder["title"])
                return "" if told == _NO_NAME else told
        if (field_name := channel.get("field")) or channel.get("aggregate"):
            return str(field_name or channel["aggregate"])
    return ""


def _names(unit: _Unit, axis: str) -> int:
    channel = _mapping(unit.channels.get(axis))
    if channel.get("type") not in ("nominal", "ordinal") or "bin" in channel or unit.rows is None:
        return 0
    return len({str(row.get(str(channel.get("field")))) for row in unit.rows})


def _series(unit: _Unit) -> Iterator[Series]:
    kind = _KINDS.get(unit.mark, unit.mark)
    key = _key(unit)
    rows = unit.rows
    if rows is None:  # somewhere else: nobody knows what there is
        yield Series(kind, points=-1, finite=-1)
        return
    if not key or key.get("type") not in ("nominal", "ordinal"):
        yield Series(kind, "", len(rows), _finite(unit, rows), mapped=bool(key))
        return
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(str(row.get(str(key["field"]))), []).append(row)
    colours = _colours(key, list(by_name))
    for name, held in by_name.items():
        yield Series(kind, name, len(held), _finite(unit, held), colours.get(name, ""))
    if not by_name:
        yield Series(kind)


def _colours(key: Mapping[str, Any], names: list[str]) -> dict[str, str]:
    """Each series' colour, where the spec says it; else a name for its place in the palette."""
    scale = _mapping(key.get("scale"))
    range_, domain = scale.get("range"), scale.get("domain")
    order = [str(name) for name in domain] if isinstance(domain, list) else sorted(names)
    if isinstance(range_, list) and range_:
        return {name: str(range_[place % len(range_)]) for place, name in enumerate(order)}
    if "scheme" in scale:
        return {}
    return {name: f"colour {place % _PALETTE}" for place, name in enumerate(order)}


def _finite(unit: _Unit, rows: Sequence[Mapping[str, Any]]) -> int:
    """How many rows have something to show."""
    for name in ("y", "theta", "x"):
        channel = _mapping(unit.channels.get(name))
        told, wanted = channel.get("field"), channel.get("type")
        if isinstance(told, str) and wanted == "quantitative" and not channel.get("aggregate"):
            return sum(_is_number(row.get(told)) for row in rows)
    return len(rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _title(title: Any) -> str:
    told = title.get("text") if isinstance(title, dict) else title
    text = " ".join(map(str, told)) if isinstance(told, list) else told
    return " ".join(text.split()) if isinstance(text, str) else ""


def _parts(spec: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    held = spec.get(key)
    return [part for part in held if isinstance(part, dict)] if isinstance(held, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# How far apart two colours look, to everybody and to people who see no red or no green. Pure.

_hex = re.compile(r"#?([0-9a-fA-F]{6})(?:[0-9a-fA-F]{2})?")

_short = re.compile(r"#?([0-9a-fA-F]{3})")

# Björn Ottosson's Oklab: from linear sRGB to what cones answer, and from there to lightness and two opponent axes.
_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)

_OPPONENTS = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)

# Machado, Oliveira and Fernandes 2009: deuteranopia, in linear sRGB.
_NO_GREEN = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)

_Triple = tuple[float, float, float]


def apart(one: str, other: str) -> float | None:
    """The distance of two colours in Oklab, from 0 to about 1; None where one of them is no ``#rrggbb``."""
    return _colour_distance(_linear(one), _linear(other))


def apart_without_red_green(one: str, other: str) -> float | None:
    """The same, for somebody who does not tell red from green."""
    first, second = _linear(one), _linear(other)
    if first is None or second is None:
        return None
    return _colour_distance(_times(_NO_GREEN, first), _times(_NO_GREEN, second))


def _colour_distance(one: _Triple | None, other: _Triple | None) -> float | None:
    if one is None or other is None:
        return None
    return math.dist(_oklab(one), _oklab(other))


def _oklab(linear: _Triple) -> _Triple:
    first, second, third = (max(0.0, value) ** (1 / 3) for value in _times(_CONES, linear))
    return _times(_OPPONENTS, (first, second, third))


def _linear(colour: str) -> _Triple | None:
    if short := _short.fullmatch(colour):
        colour = "".join(letter * 2 for letter in short[1])
    found = _hex.fullmatch(colour)
    if found is None:
        return None
    red, green, blue = (_decoded(int(found[1][place : place + 2], 16) / 255) for place in (0, 2, 4))
    return red, green, blue


def _decoded(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4  # sRGB's curve


def _times(matrix: tuple[_Triple, _Triple, _Triple], values: _Triple) -> _Triple:
    first, second, third = (sum(a * b for a, b in zip(row, values, strict=True)) for row in matrix)
    return first, second, third

"""What a chart has and lacks, whoever drew it: read from matplotlib's facts, or from a Vega-Lite spec. Pure; judges nothing.

Matplotlib's are told by the kernel (``cellwright_kernel.figurefacts``); specs stand in outputs, with their data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Chart", "Maker", "Panel", "Series", "charts_in", "spec_of", "spec_rows"]

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

"""Graphs of nodes and links, from a table of links; a row without a target is a node by itself.

Vega-Lite lays nothing out: places come from ``graphs``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.charts._aggregation import Drawing, Readings, exact, fold, plural
from cellwright.charts._axes import number_tip, series_color, text_tip
from cellwright.charts._labels import MISSING, cut, label, list_text
from cellwright.charts.encodings import Encodings
from cellwright.charts.themes import OTHER_SERIES, THEMES, ThemeName
from cellwright_kernel.tables import Value

__all__ = ["graph"]
_MOST_NODES, _MOST_LINKS = 300, 1_500

_MOST_GROUPS = 8

_NAMED_NODES = 45

_NAME_CHARACTERS = 22

_SIDE = 520


@dataclass(slots=True)
class _Graph:
    links: dict[tuple[str, str], float] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    degrees: dict[str, int] = field(default_factory=dict)
    """Every node, by how many links it has."""


def graph(encodings: Encodings, readings: Readings, theme: ThemeName) -> Drawing:
    if encodings.x is None or not encodings.y:
        readings.refuse("xColumn", f"{readings.output.source} needs two columns, for the two ends of a link")
    whole = _read(encodings, readings)
    if not whole.degrees:
        readings.refuse("xColumn", f"{readings.output.source} names no nodes")
    notices: list[str] = []
    kept, links = _kept(whole, notices)
    places = {name: index for index, name in enumerate(kept)}
    positions = lay_out(len(kept), [(places[a], places[b]) for a, b in links if a != b])
    body = _body(kept, links, positions, whole, encodings, theme, notices)
    return Drawing(body, f"{encodings.x} and {encodings.y[0]}", _facts(whole), tuple(notices), zoom=True)


def _read(encodings: Encodings, readings: Readings) -> _Graph:
    found = _Graph()
    sources, targets = readings.values(encodings.x or ""), readings.values(encodings.y[0])
    names = {value: label(value) for value in dict.fromkeys((*sources, *targets)) if value is not None}
    for (source, target), weight in _weighed(sources, targets, encodings, readings).items():
        if source is None:
            continue
        begin = names[source]
        found.degrees.setdefault(begin, 0)
        if target is not None:
            end = names[target]
            found.links[begin, end] = exact(found.links.get((begin, end), 0) + weight)
            found.degrees[begin] += 1
            found.degrees[end] = found.degrees.get(end, 0) + 1
    for name, into in ((encodings.group, found.groups), (encodings.label, found.names)):
        if name is not None:
            # What a node says of itself counts more than what its links say.
            links = dict.fromkeys(zip(sources, targets, readings.values(name), strict=True))
            for source, target, value in sorted(links, key=lambda row: row[1] is None):
                if source is not None and value is not None and (target is None or names[source] not in into):
                    into[names[source]] = label(value)
    return found


def _weighed(
    sources: Sequence[Value], targets: Sequence[Value], encodings: Encodings, readings: Readings
) -> Mapping[tuple[Value, Value], float]:
    """Every different link once, with what it weighs: its rows, or a column added up."""
    if encodings.value is None or readings.kind(encodings.value) != "number":
        return Counter(zip(sources, targets, strict=True))
    weights: dict[tuple[Value, Value], float] = {}
    for link, weight in zip(
        zip(sources, targets, strict=True), readings.numbers(encodings.value, "valueColumn"), strict=True
    ):
        weights[link] = weights.get(link, 0) + (weight or 0)
    return weights


def _kept(whole: _Graph, notices: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    nodes = list(whole.degrees)
    if len(nodes) > _MOST_NODES:
        ranked = sorted(nodes, key=lambda node: -whole.degrees[node])[:_MOST_NODES]
        notices.append(f"{_MOST_NODES} of {len(nodes):,} nodes are drawn: those with the most links")
        chosen = set(ranked)
        nodes = [node for node in nodes if node in chosen]
    inside = set(nodes)
    links = [link for link in whole.links if link[0] in inside and link[1] in inside]
    if len(links) > _MOST_LINKS:
        notices.append(f"{_MOST_LINKS:,} of {len(links):,} links between them are drawn: the heaviest")
        links = sorted(links, key=lambda link: -abs(whole.links[link]))[:_MOST_LINKS]
    return nodes, links


def _body(
    kept: Sequence[str],
    links: Sequence[tuple[str, str]],
    positions: Sequence[tuple[float, float]],
    whole: _Graph,
    encodings: Encodings,
    theme: ThemeName,
    notices: list[str],
) -> dict[str, Any]:
    place = dict(zip(kept, positions, strict=True))
    groups = _groups(kept, whole, notices)
    named = set(sorted(kept, key=lambda node: -whole.degrees[node])[:_NAMED_NODES])
    nodes = [
        {
            "x": place[node][0],
            "y": place[node][1],
            "n": whole.names.get(node, node),
            "d": whole.degrees[node],
            "s": groups.get(node, MISSING),
            "t": cut(whole.names.get(node, node), _NAME_CHARACTERS) if node in named else "",
        }
        for node in kept
    ]
    small = len(kept) > _NAMED_NODES
    if small:
        notices.append(f"the {_NAMED_NODES} nodes with the most links carry their names")
    layers = [
        _link_layer(links, place, whole, encodings, theme),
        _node_layer(nodes, encodings, theme, sizes=(40, 260) if small else (110, 520)),
        *_name_layers([node for node in nodes if node["t"]], theme),
    ]
    return {"layer": layers, "width": _SIDE + 60, "height": _SIDE}


def _axis(field: str) -> dict[str, Any]:
    # Room for names at the rim.
    scale = {"domain": [-0.07, 1.07], "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _link_layer(
    links: Sequence[tuple[str, str]],
    place: Mapping[str, tuple[float, float]],
    whole: _Graph,
    encodings: Encodings,
    theme: ThemeName,
) -> dict[str, Any]:
    heaviest = max((abs(whole.links[link]) for link in links), default=0) or 1
    lines = []
    for a, b in links:
        weight = whole.links[a, b]
        ends = {"x": place[a][0], "y": place[a][1], "p": place[b][0], "q": place[b][1]}
        lines.append({**ends, "w": round(0.8 + 2.4 * abs(weight) / heaviest, 2), "a": a, "b": b, "v": weight})
    return {
        "data": {"values": lines},
        "mark": {"type": "rule", "color": THEMES[theme].line, "opacity": 0.55},
        "encoding": {
            "x": _axis("x"),
            "y": _axis("y"),
            "x2": {"field": "p"},
            "y2": {"field": "q"},
            "strokeWidth": {"field": "w", "type": "quantitative", "scale": None},
            "tooltip": [
                text_tip("a", "from"),
                text_tip("b", "to"),
                number_tip("v", encodings.value or "links"),
            ],
        },
    }


def _node_layer(
    nodes: Sequence[Mapping[str, Any]], encodings: Encodings, theme: ThemeName, *, sizes: tuple[int, int]
) -> dict[str, Any]:
    names = list(dict.fromkeys(str(node["s"]) for node in nodes))
    tips = [text_tip("n", "node"), number_tip("d", "links", whole=True)]
    colour: dict[str, Any] = {"value": THEMES[theme].palette[0]}
    if len(names) > 1:
        rest = next((name for name in names if name == MISSING or name.startswith(f"{OTHER_SERIES} (")), None)
        colour = series_color("s", encodings.group, names, theme, rest=rest)
        tips.append(text_tip("s", encodings.group or "group"))
    size = {
        "field": "d",
        "type": "quantitative",
        "legend": None,
        "scale": {"type": "sqrt", "range": list(sizes), "zero": True},
    }
    return {
        "data": {"values": nodes},
        "mark": {"type": "circle", "opacity": 1, "stroke": THEMES[theme].background, "strokeWidth": 1.5},
        "encoding": {"x": _axis("x"), "y": _axis("y"), "color": colour, "size": size, "tooltip": tips},
    }


def _name_layers(nodes: Sequence[Mapping[str, Any]], theme: ThemeName) -> list[dict[str, Any]]:
    """Names above their nodes, each with a rim of the background that keeps links away from the letters."""
    look = THEMES[theme]
    encoding = {"x": _axis("x"), "y": _axis("y"), "text": {"field": "t", "type": "nominal"}}
    plain = {"type": "text", "dy": -16, "fontSize": 10.5}
    rim = {**plain, "stroke": look.background, "strokeWidth": 3, "strokeJoin": "round"}
    return [
        {"data": {"values": nodes}, "mark": {**rim, "color": look.background}, "encoding": encoding},
        {"data": {"values": nodes}, "mark": {**plain, "color": look.ink}, "encoding": encoding},
    ]


def _groups(kept: Sequence[str], whole: _Graph, notices: list[str]) -> dict[str, str]:
    weights: dict[str, float] = {}
    for node in kept:
        if node in whole.groups:
            weights[whole.groups[node]] = weights.get(whole.groups[node], 0) + 1
    folding = fold(weights, at_most=_MOST_GROUPS)
    if len(set(folding.values())) < len(weights):
        notices.append(f"{len(weights):,} groups: the {_MOST_GROUPS - 1} largest have a colour of their own")
    return {node: folding[whole.groups[node]] for node in kept if node in whole.groups}


def _facts(whole: _Graph) -> tuple[str, ...]:
    ranked = sorted(whole.degrees, key=lambda node: -whole.degrees[node])
    alone = sum(degree == 0 for degree in whole.degrees.values())
    most = list_text([f"{whole.names.get(node, node)} ({whole.degrees[node]:,})" for node in ranked[:5]])
    facts = [f"{plural(len(ranked), 'node')}, {plural(len(whole.links), 'link')}", f"most links: {most}"]
    if alone:
        facts.append(f"{plural(alone, 'node')} without any link")
    if whole.groups:
        facts.append(f"groups: {list_text(list(dict.fromkeys(whole.groups.values())))}")
    return tuple(facts)


# Where the nodes of a graph go: springs along the links, all nodes apart, the same every time. Pure Python.

_GOLDEN = math.pi * (3 - math.sqrt(5))

_NEIGHBOURS = [(across, down) for across in (-1, 0, 1) for down in (-1, 0, 1)]

_PULL_TO_MIDDLE = 0.06


def lay_out(nodes: int, links: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Places in a square from 0 to 1."""
    if nodes == 0:
        return []
    # A sunflower's seeds: apart from each other, and without any chance in it.
    xs = [math.sqrt((index + 0.5) / nodes) * math.cos(index * _GOLDEN) for index in range(nodes)]
    ys = [math.sqrt((index + 0.5) / nodes) * math.sin(index * _GOLDEN) for index in range(nodes)]
    distance = 1.7 / math.sqrt(nodes)
    rounds = 300 if nodes <= 60 else 160 if nodes <= 150 else 90  # what a second is enough for
    for step in range(rounds):
        heat = 0.25 * (1 - step / rounds) ** 1.5 + 0.002
        _move(xs, ys, links, distance, heat)
    return _fitted(xs, ys)


def _move(
    xs: list[float], ys: list[float], links: Sequence[tuple[int, int]], distance: float, heat: float
) -> None:
    pushes_x = [-_PULL_TO_MIDDLE * x for x in xs]
    pushes_y = [-_PULL_TO_MIDDLE * y for y in ys]
    _push_apart(xs, ys, pushes_x, pushes_y, distance)
    for a, b in links:
        across, down = xs[b] - xs[a], ys[b] - ys[a]
        pull = math.hypot(across, down) / distance
        pushes_x[a] += across * pull
        pushes_y[a] += down * pull
        pushes_x[b] -= across * pull
        pushes_y[b] -= down * pull
    for node in range(len(xs)):
        strength = math.hypot(pushes_x[node], pushes_y[node])
        if strength > 0:
            share = min(strength, heat) / strength
            xs[node] += pushes_x[node] * share
            ys[node] += pushes_y[node] * share


def _push_apart(
    xs: list[float], ys: list[float], pushes_x: list[float], pushes_y: list[float], distance: float
) -> None:
    cell = 2.5 * distance
    # A circle, not the cells themselves: their edges would show in the picture.
    reach = cell * cell
    grid: dict[tuple[int, int], list[int]] = {}
    for node, (x, y) in enumerate(zip(xs, ys, strict=True)):
        grid.setdefault((int(x // cell), int(y // cell)), []).append(node)
    square = distance * distance
    for (column, row), inside in grid.items():
        near = [
            other for across, down in _NEIGHBOURS for other in grid.get((column + across, row + down), ())
        ]
        for node in inside:
            x, y = xs[node], ys[node]
            push_x = push_y = 0.0
            for other in near:
                across, down = x - xs[other], y - ys[other]
                apart = across * across + down * down
                if 0 < apart < reach:
                    push_x += across * square / apart
                    push_y += down * square / apart
            pushes_x[node] += push_x
            pushes_y[node] += push_y


def _fitted(xs: list[float], ys: list[float]) -> list[tuple[float, float]]:
    left, top = min(xs), min(ys)
    size = max(max(xs) - left, max(ys) - top) or 1.0
    indent_x, indent_y = (size - (max(xs) - left)) / 2, (size - (max(ys) - top)) / 2
    return [
        (round((x - left + indent_x) / size, 4), round((y - top + indent_y) / size, 4))
        for x, y in zip(xs, ys, strict=True)
    ]

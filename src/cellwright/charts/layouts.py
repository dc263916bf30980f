"""Where the nodes of a graph go: springs along the links, all nodes apart, the same every time. Pure Python.

After Fruchterman and Reingold, with a grid so that far nodes cost nothing. A few hundred nodes take under a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["lay_out"]

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
    rounds = 300 if nodes <= 60 else 160 if nodes <= 150 else 90  # noqa: PLR2004  # what a second is enough for
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

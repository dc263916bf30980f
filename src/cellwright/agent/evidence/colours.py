"""How far apart two colours look, to everybody and to people who see no red or no green. Pure."""

from __future__ import annotations

import math
import re

__all__ = ["apart", "apart_without_red_green"]

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
    return _distance(_linear(one), _linear(other))


def apart_without_red_green(one: str, other: str) -> float | None:
    """The same, for somebody who does not tell red from green."""
    first, second = _linear(one), _linear(other)
    if first is None or second is None:
        return None
    return _distance(_times(_NO_GREEN, first), _times(_NO_GREEN, second))


def _distance(one: _Triple | None, other: _Triple | None) -> float | None:
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
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4  # noqa: PLR2004  # sRGB's curve


def _times(matrix: tuple[_Triple, _Triple, _Triple], values: _Triple) -> _Triple:
    first, second, third = (sum(a * b for a, b in zip(row, values, strict=True)) for row in matrix)
    return first, second, third

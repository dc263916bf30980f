"""Formulas in LaTeX as small vector pictures for print, with what is needed to set them on the line. Pure."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

from cellwright.formats.mathml import readable_latex

__all__ = ["Formula", "draw_formula"]

_MAX_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Formula:
    """An SVG picture, its width, and how far it goes below the line, in points."""

    svg: str
    width: float
    depth: float


@functools.lru_cache(maxsize=512)
def draw_formula(latex: str, *, display: bool, size: float) -> Formula | None:
    """A formula as a picture; None where it cannot be read."""
    drawer = _drawer()
    readable = readable_latex(latex)
    if not readable or len(readable) > _MAX_CHARACTERS:
        return None
    try:
        drawn = drawer(readable, size=size, inline=not display)
        svg = drawn.svg()
        width, height = (float(svg.split(f'{name}="', 1)[1].split('"', 1)[0]) for name in ("width", "height"))
        top = float(svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[1])
    except Exception:  # noqa: BLE001  # boundary: the drawer fails in many ways, and the source is readable
        return None
    # The line is at 0 of the picture's own coordinates.
    return Formula(svg, width, height + top) if width > 0 and height > 0 else None


@functools.cache
def _drawer() -> Any:
    with warnings.catch_warnings():
        # It finds its font in a way that newer Pythons advise against.
        warnings.simplefilter("ignore", DeprecationWarning)
        from ziamath.zmath import Latex  # noqa: PLC0415  # an extra
    return Latex

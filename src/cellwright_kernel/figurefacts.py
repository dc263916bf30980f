"""Lists the parts of a matplotlib figure as plain data: titles, labels, legends, and the colours in which things are
drawn.

For whoever looks a chart over without seeing it (see ``cellwright.agent.evidence``); ``figuredigests`` tells a figure in
words. Asks only what matplotlib itself made, and is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellwright_kernel.digests import cut
from cellwright_kernel.genuine import is_genuine, is_of, library

__all__ = ["figure_facts"]

MAX_AXES = 6
MAX_SERIES = 12
MAX_TEXT = 80
_LOOKED_THROUGH = 1_000_000
_BOX_POINTS = 5
_COLOURBAR = "<colorbar>"


def figure_facts(figure: Any) -> dict[str, Any] | None:
    """The facts of a figure; None for anything else, or where it cannot be told."""
    if not is_of(type(figure), "matplotlib.figure", "Figure"):
        return None
    try:
        return _facts(figure)
    except Exception:  # noqa: BLE001  # boundary: whatever a library does with its own, the figure is still shown
        return None


def _facts(figure: Any) -> dict[str, Any]:
    every = [each for each in figure.axes if is_genuine(type(each), "matplotlib", "mpl_toolkits")]
    drawn = [axes for axes in every if axes.get_label() != _COLOURBAR]
    facts = {
        "title": _text(getattr(figure, "_suptitle", None)),
        "x": _text(getattr(figure, "_supxlabel", None)),
        "y": _text(getattr(figure, "_supylabel", None)),
        "legend": bool(figure.legends),
        "colourbars": len(every) - len(drawn),
        "axes": [_axes(axes) for axes in drawn[:MAX_AXES]],
    }
    return _without_empty(facts)


def _axes(axes: Any) -> dict[str, Any]:
    boxes = _has_boxes(axes)
    # Of boxes every whisker is a line of its own.
    series = (
        [_without_empty(one) for one in _series(axes)]
        if not boxes
        else [{"kind": "boxes", "points": 1, "finite": 1}]
    )
    facts = {
        "title": _cut(axes.get_title() or axes.get_title("left") or axes.get_title("right")),
        "x": _shared_label(axes, "x"),
        "y": _shared_label(axes, "y"),
        "labelled": bool(axes.axison) and axes.name == "rectilinear",
        "legend": axes.get_legend() is not None,
        "texts": len(axes.texts),
        "names_x": _categories(axes.xaxis),
        "names_y": _categories(axes.yaxis),
        "series": series[:MAX_SERIES],
        "more_series": max(0, len(series) - MAX_SERIES),
    }
    return _without_empty(facts)


def _without_empty(facts: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty: it is kept in the notebook."""
    return {name: value for name, value in facts.items() if value or name in ("points", "finite")}


def _shared_label(axes: Any, name: str) -> str:
    """Its own label, or that of one which shares the axis: the outermost may speak for all."""
    others = getattr(axes, f"get_shared_{name}_axes")().get_siblings(axes)
    every = [axes, *(other for other in others if other is not axes)]
    told = (_cut(getattr(other, f"get_{name}label")()) for other in every)
    return next((label for label in told if label), "")


def _categories(axis: Any) -> int:
    """How many names stand along an axis; 0 where it has numbers."""
    units = axis.units
    if is_of(type(units), "matplotlib.category", "UnitData"):
        return len(units._mapping)  # noqa: SLF001  # nothing else tells
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    fixed = is_of(type(locator), "matplotlib.ticker", "FixedLocator")
    named = is_of(type(formatter), "matplotlib.ticker", "FixedFormatter", "FuncFormatter")
    return len(locator.locs) if fixed and named else 0


def _has_boxes(axes: Any) -> bool:
    """Whether it shows distributions as boxes, whose names stand along the axis."""
    closed = (
        line
        for line in _genuine(axes.lines)
        if len(line.get_xdata()) == _BOX_POINTS and line.get_xdata()[0] == line.get_xdata()[-1]
    )
    return any(type(patch).__name__ == "PathPatch" for patch in axes.patches) or any(closed)


# What is drawn -------------------------------------------------------------------------------------------------------


def _series(axes: Any) -> Iterator[dict[str, Any]]:
    caps = {id(line) for held in axes.containers for line in _caps(held)}
    for line in _genuine(axes.lines):
        if id(line) not in caps:
            yield _line(line)
    bars = [each for each in axes.containers if is_of(type(each), "matplotlib.container", "BarContainer")]
    for one in bars:
        yield _bars(one)
    for drawn in _genuine(axes.collections):
        yield _collection(drawn)
    for image in _genuine(axes.images):
        yield _of("image", image, image.get_array())
    wedges = [patch for patch in axes.patches if is_of(type(patch), "matplotlib.patches", "Wedge")]
    if wedges:
        colours = [_colour(wedge.get_facecolor()) for wedge in wedges]
        yield {**_of("pie", wedges[0], [1.0] * len(wedges)), "colours": colours, "label": ""}
    shapes = len(axes.patches) - sum(len(one.patches) for one in bars) - len(wedges)
    if shapes > 0:
        yield {"kind": "shapes", "label": "", "points": shapes, "finite": shapes, "colours": [], "style": ""}


def _caps(container: Any) -> Any:
    return container[1] if is_of(type(container), "matplotlib.container", "ErrorbarContainer") else ()


def _line(line: Any) -> dict[str, Any]:
    drawn = line.get_linestyle() not in ("None", "none", " ", "")
    found = _of("line" if drawn else "points", line, line.get_ydata(orig=False))
    style = f"{line.get_linestyle()} {line.get_marker()}"
    return {**found, "colours": [_colour(line.get_color())], "style": style}


def _bars(bars: Any) -> dict[str, Any]:
    lengths = [
        patch.get_height() if bars.orientation != "horizontal" else patch.get_width()
        for patch in bars.patches[:_LOOKED_THROUGH]
    ]
    colours = [_colour(bars.patches[0].get_facecolor())] if bars.patches else []
    hatch = str(bars.patches[0].get_hatch() or "") if bars.patches else ""
    return {**_of("bars", bars, lengths), "points": len(bars.patches), "colours": colours, "style": hatch}


def _collection(drawn: Any) -> dict[str, Any]:
    name, array = type(drawn).__name__, drawn.get_array()
    faces = drawn.get_facecolor()
    colours = [_colour(faces[0])] if array is None and len(faces) == 1 else []
    if name == "PathCollection":
        offsets = drawn.get_offsets()
        found = _of("points", drawn, offsets[:, 1])
        return {**found, "colours": colours, "mapped": array is not None or len(faces) > 1}
    kind = {"FillBetweenPolyCollection": "area", "PolyCollection": "area", "QuadMesh": "image"}.get(
        name, "marks"
    )
    if kind == "image":
        return _of(kind, drawn, array)
    return {**_of(kind, drawn, [0.0] * len(drawn.get_paths())), "colours": colours}


def _of(kind: str, artist: Any, values: Any) -> dict[str, Any]:
    label = artist.get_label()
    told = _cut(label) if type(label) is str and not label.startswith("_") else ""
    points, finite = _counted(values)
    return {"kind": kind, "label": told, "points": points, "finite": finite, "colours": [], "style": ""}


def _counted(values: Any) -> tuple[int, int]:
    """How many values there are, and how many of them are numbers."""
    numpy: Any = library("numpy")
    held = numpy.ma.asarray(values)
    if held.dtype.kind not in "biuf":
        return int(held.size), int(held.size)
    part = held.reshape(-1)[:_LOOKED_THROUGH]
    finite = int(numpy.isfinite(part.filled(numpy.nan) if part.dtype.kind == "f" else part).sum())
    return int(held.size), finite + int(held.size) - int(part.size)


def _colour(colour: Any) -> str:
    colours: Any = library("matplotlib.colors")
    return str(colours.to_hex(colour))


def _text(text: Any) -> str:
    return _cut(text.get_text()) if text is not None and is_of(type(text), "matplotlib.text", "Text") else ""


def _cut(text: Any) -> str:
    return cut(" ".join(text.split()), MAX_TEXT) if type(text) is str else ""


def _genuine(artists: Any) -> list[Any]:
    return [artist for artist in artists if is_genuine(type(artist), "matplotlib", "mpl_toolkits")]

"""Describes a figure in words: matplotlib's from the figure, plotly's and Vega's from the data that they send.

The latter two are plain data by the time they are shown, so that they can also be told of an output in a notebook
that never ran here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from cellwright_kernel.digests import cut, is_genuine, is_of, library

__all__ = ["bundle_digest", "figure_digest", "figure_facts"]

MAX_AXES = 6

MAX_SERIES = 6

MAX_TEXT = 60

MAX_FIELDS = 10

PLOTLY = "application/vnd.plotly.v1+json"

VEGA = "application/vnd.vega"

_BASE64_BYTES = 0.75

_TIMES = " \u00d7 "


def figure_digest(figure: Any) -> str | None:
    """A figure of matplotlib: its axes with titles, labels, and what is drawn in them."""
    if not is_of(type(figure), "matplotlib.figure", "Figure"):
        return None
    axes = [each for each in figure.axes if is_genuine(type(each), "matplotlib", "mpl_toolkits")]
    title = getattr(figure, "_suptitle", None)
    head = ["figure"]
    if title is not None and is_of(type(title), "matplotlib.text", "Text"):
        head.append(_quoted(title.get_text()))
    head.append(f"{len(axes)} axes" if len(axes) != 1 else "")
    lines = [_axes(each) for each in axes[:MAX_AXES]]
    more = [f"\u2026 {len(axes) - MAX_AXES} more axes"] if len(axes) > MAX_AXES else []
    return "\n".join([" ".join(part for part in head if part), *lines, *more])


def _axes(axes: Any) -> str:
    facts = [_quoted(axes.get_title())]
    for name in ("x", "y"):
        text, scale = getattr(axes, f"get_{name}label")(), getattr(axes, f"get_{name}scale")()
        if text or scale != "linear":
            said = [_quoted(text), scale if scale != "linear" else ""]
            facts.append(f"{name}: {' '.join(part for part in said if part)}")
    drawn = list(_drawn(axes))
    facts += drawn[:MAX_SERIES]
    if len(drawn) > MAX_SERIES:
        facts.append(f"\u2026 {len(drawn) - MAX_SERIES} more")
    return "axes " + "; ".join(fact for fact in facts if fact)


def _drawn(axes: Any) -> list[str]:
    told = [
        f"line{_named(line)} of {_length(line.get_xdata(orig=True)):,} points"
        for line in _genuine(axes.lines)
    ]
    rows_of_bars = [
        each for each in axes.containers if is_of(type(each), "matplotlib.container", "BarContainer")
    ]
    told += [f"bars{_named(bars)} of {len(bars.patches):,}" for bars in rows_of_bars]
    for drawn in _genuine(axes.collections):
        name = type(drawn).__name__
        if name == "PathCollection":
            told.append(f"points{_named(drawn)} of {len(drawn.get_offsets()):,}")
        else:
            told.append(f"{name}{_named(drawn)}")
    told += [f"image of {_TIMES.join(map(str, image.get_array().shape))}" for image in _genuine(axes.images)]
    shapes = len(axes.patches) - sum(len(bars.patches) for bars in rows_of_bars)
    if shapes > 0:
        told.append(f"{shapes:,} shapes")
    return told


def _genuine(artists: Any) -> list[Any]:
    return [artist for artist in artists if is_genuine(type(artist), "matplotlib", "mpl_toolkits")]


def _named(artist: Any) -> str:
    label = artist.get_label()
    return f" {_quoted(label)}" if type(label) is str and label and not label.startswith("_") else ""


def _length(values: Any) -> int:
    if type(values) in (list, tuple, range) or is_genuine(type(values), "numpy", "pandas", "polars"):
        return len(values)
    return 0


def _quoted(text: Any) -> str:
    return f"'{cut(' '.join(text.split()), MAX_TEXT)}'" if type(text) is str and text.strip() else ""


# Plain data ----------------------------------------------------------------------------------------------------------


def bundle_digest(data: Mapping[str, Any]) -> str | None:
    """What an output of plotly or Vega shows; ``None`` for any other."""
    for mime, held in data.items():
        if isinstance(held, dict) and mime == PLOTLY:
            return _plotly(held)
        if isinstance(held, dict) and mime.startswith(VEGA):
            return _vega(held)
    return None


def _plotly(figure: dict[str, Any]) -> str:
    layout = _mapping(figure.get("layout"))
    head = ["plotly figure", _title(layout.get("title"))]
    titles = {name: _title(_mapping(layout.get(f"{name}axis")).get("title")) for name in ("x", "y")}
    head += [f"{name}: {title}" for name, title in titles.items() if title]
    held = figure.get("data")
    traces = [trace for trace in held if isinstance(trace, dict)] if isinstance(held, list) else []
    lines = [_trace(trace) for trace in traces[:MAX_SERIES]]
    more = [f"\u2026 {len(traces) - MAX_SERIES} more"] if len(traces) > MAX_SERIES else []
    return "\n".join(["; ".join(part for part in head if part), *lines, *more])


def _trace(trace: dict[str, Any]) -> str:
    named = f" {_quoted(trace['name'])}" if isinstance(trace.get("name"), str) else ""
    lengths = [
        f"{key} {_size(trace[key]):,}"
        for key in ("x", "y", "z", "labels", "values")
        if _size(trace.get(key)) is not None
    ]
    return f"{trace.get('type', 'scatter')}{named}" + (f" of {', '.join(lengths)}" if lengths else "")


def _size(values: Any) -> int | None:
    if isinstance(values, list):
        return len(values)
    if (
        isinstance(values, dict)
        and isinstance(values.get("bdata"), str)
        and isinstance(values.get("dtype"), str)
    ):
        width = int("".join(letter for letter in values["dtype"] if letter.isdigit()) or 1)
        return int(len(values["bdata"].rstrip("=")) * _BASE64_BYTES) // max(1, width)
    return None


def _vega(spec: dict[str, Any]) -> str:
    head = ["Vega chart", _title(spec.get("title"))]
    lines = [told for layer in islice(_layers(spec), MAX_SERIES) if (told := _layer(layer))]
    datasets = _mapping(spec.get("datasets"))
    sizes = [f"{len(rows):,}" for rows in datasets.values() if isinstance(rows, list)]
    if sizes:
        head.append(f"{' + '.join(sizes[:MAX_SERIES])} rows")
    return "\n".join(["; ".join(part for part in head if part), *lines])


def _layers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found = [spec]
    for key in ("layer", "hconcat", "vconcat", "concat"):
        held = spec.get(key)
        found += [layer for layer in held if isinstance(layer, dict)] if isinstance(held, list) else []
    return found


def _layer(spec: dict[str, Any]) -> str:
    mark = spec.get("mark")
    name = mark.get("type") if isinstance(mark, dict) else mark
    if not isinstance(name, str):
        return ""
    fields = [
        f"{channel}: {_field(held)}"
        for channel, held in islice(_mapping(spec.get("encoding")).items(), MAX_FIELDS)
        if isinstance(held, dict) and ("field" in held or "aggregate" in held)
    ]
    return f"{name} {', '.join(fields)}".strip()


def _field(channel: dict[str, Any]) -> str:
    field, aggregate = channel.get("field", ""), channel.get("aggregate")
    return cut(f"{aggregate}({field})" if isinstance(aggregate, str) else str(field), MAX_TEXT)


def _title(title: Any) -> str:
    return _quoted(title.get("text") if isinstance(title, dict) else title)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# Lists the parts of a matplotlib figure as plain data: titles, labels, legends, and the colours in which
# things are drawn.


MAX_FACT_SERIES = 12

MAX_FACT_TEXT = 80

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
        "axes": [_axes_facts(axes) for axes in drawn[:MAX_AXES]],
    }
    return _without_empty(facts)


def _axes_facts(axes: Any) -> dict[str, Any]:
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
        "series": series[:MAX_FACT_SERIES],
        "more_series": max(0, len(series) - MAX_FACT_SERIES),
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
    return cut(" ".join(text.split()), MAX_FACT_TEXT) if type(text) is str else ""

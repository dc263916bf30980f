"""Describes a figure in words: matplotlib's from the figure, plotly's and Vega's from the data that they send.

The latter two are plain data by the time they are shown, so that they can also be told of an output in a notebook
that never ran here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from cellwright_kernel.digests import cut
from cellwright_kernel.genuine import is_genuine, is_of

__all__ = ["bundle_digest", "figure_digest"]

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

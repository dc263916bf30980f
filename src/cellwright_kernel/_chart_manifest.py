"""``show``: a chart or a table of a frame in one line, by way of a visualization manifest.

It writes the data and ``visualization_manifest.json`` into the working directory, where whoever ran the code finds
them. It draws nothing and chooses no type: a type that is not given is ``auto``, which the manifest's reader decides.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cellwright_kernel.digests import is_of, library
from cellwright_kernel.frames import Frame, frame_of, table_of
from cellwright_kernel.tables import Column, Table, Value, kind_of, kind_of_type, label, plain, type_label

__all__ = ["graph_of", "group", "histogram"]

MANIFEST = "visualization_manifest.json"

DIRECTORY = "charts"

MAX_ROWS = 20_000

MAX_OUTPUTS = 100

MAX_ID = 80

TYPES = (
    "auto",
    "table",
    "line_chart",
    "bar_chart",
    "scatter",
    "pie_chart",
    "histogram",
    "area",
    "heatmap",
    "box",
    "graph",
)

_SHORT = {"line": "line_chart", "bar": "bar_chart", "pie": "pie_chart"}

_unsafe = re.compile(r"[^a-z0-9]+")

_ambiguous = re.compile(r"\s*(?:[-+.]?\d.*|true|false|nan|null|none|inf(?:inity)?|)\s*", re.IGNORECASE)


@dataclass(slots=True)
class _Shown:
    """What one execution has shown so far."""

    execution: str = ""
    directory: str = ""
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)


_shown = _Shown()


def show(  # noqa: PLR0913  # each names a column or a bound
    data: Any,
    type: str | None = None,  # what the manifest calls it
    *,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    title: str | None = None,
    group_by: str | None = None,
    label: str | None = None,
    value: str | None = None,
    max_rows: int | None = None,
    id: str | None = None,  # as above
    **config: Any,
) -> None:
    """Show a frame, series, array, list of records, dictionary or graph as a chart or a table.

    Several calls in one cell are shown together; one with the ``id`` of another replaces it.

    Raises:
        TypeError: the data has no columns.
        ValueError: there is no such type or column.
    """
    kind = _type(type)
    said = {
        "xColumn": x,
        "yColumn": y if y is None or isinstance(y, str) else list(y),
        "groupBy": group_by,
        "labelColumn": label,
        "valueColumn": value,
        **{_camel(key): held for key, held in config.items()},
    }
    asked = {key: held for key, held in said.items() if held is not None}
    shown = _of_this_execution()
    name = _identity(id, title, shown)
    if len(shown.outputs) >= MAX_OUTPUTS and name not in shown.outputs:
        raise ValueError(f"a cell shows at most {MAX_OUTPUTS} charts")
    filename, content, notes = _data(data, kind, asked, max_rows or MAX_ROWS)
    output: dict[str, Any] = {"id": name, "type": "graph" if filename == "graph.json" else kind}
    if title is not None:
        output["title"] = title
    output["dataFile"] = f"{DIRECTORY}/{name}{Path(filename).suffix}"
    if asked or notes:
        output["config"] = {**asked, **({"notice": "; ".join(notes)} if notes else {})}
    Path(DIRECTORY).mkdir(exist_ok=True)
    _write(Path(output["dataFile"]), content)
    shown.outputs[name] = output
    manifest = {"version": "1.0", "outputs": list(shown.outputs.values())}
    _write(Path(MANIFEST), json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def _type(given: str | None) -> str:
    kind = "auto" if given is None else given.strip().lower().replace(" ", "_").replace("-", "_")
    kind = _SHORT.get(kind, kind)
    # Plugins bring others, which whoever draws the chart knows.
    near = _near(kind, (*TYPES, *_SHORT)) if kind not in TYPES else ""
    if near or not kind.isidentifier():
        raise ValueError(
            f"there is no type {given!r}{near}; types are {', '.join(TYPES)}, and those of plugins"
        )
    return kind


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(part.capitalize() for part in rest)


# Executions ----------------------------------------------------------------------------------------------------------


def _of_this_execution() -> _Shown:
    """What was shown since the cell began; another cell, or another directory, begins anew."""
    execution, directory = _execution(), str(Path.cwd())
    if (execution, directory) != (_shown.execution, _shown.directory):
        _shown.execution, _shown.directory, _shown.outputs = execution, directory, {}
    return _shown


def _execution() -> str:
    """A name for the cell that runs, or for the script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    parent = getattr(getattr(shell, "display_pub", None), "parent_header", None)
    if isinstance(parent, dict) and parent.get("msg_id"):
        return str(parent["msg_id"])
    return f"cell {shell.execution_count}" if shell is not None else f"process {os.getpid()}"


def _identity(given: str | None, title: str | None, shown: _Shown) -> str:
    base = _unsafe.sub("-", (given or title or "").lower()).strip("-")[:MAX_ID]
    if given is not None:
        if not base:
            raise ValueError(f"the id {given!r} has no letter or digit that a file can be named by")
        return base
    if base and base not in shown.outputs:
        return base
    number = 2 if base else len(shown.outputs) + 1
    while (name := f"{base or 'chart'}-{number}") in shown.outputs:
        number += 1
    return name


# Data ----------------------------------------------------------------------------------------------------------------


def _data(data: Any, kind: str, asked: dict[str, Any], max_rows: int) -> tuple[str, str, list[str]]:
    """A file's name and content, and what a reader must know of it."""
    if kind in {"auto", "graph"} and (graph := graph_of(data, also_records=kind == "graph")) is not None:
        held = {"nodes": graph["nodes"], "links": graph["links"]}
        return "graph.json", json.dumps(held, ensure_ascii=False), graph["notices"]
    frame = frame_of(data)
    if frame is None:
        raise TypeError(
            f"{type_label(type(data))} has no columns to show: give a frame, a series, an array, a list of "
            "records, a dictionary of columns, or nodes and links"
        )
    _check(frame, asked)
    table = _added_up(frame, kind, asked) if frame.total_rows > max_rows else None
    if table is None:
        table = table_of(frame, max_rows=max_rows, columns=_needed(frame, asked), max_text=None)
    if table is None:  # for the reader of types: a frame always has one
        raise TypeError("no table")
    if _reads_back(table):
        return "data.csv", _csv(table), list(table.notices)
    records = [dict(zip(table.names, row, strict=True)) for row in table.rows]
    return "data.json", json.dumps(records, ensure_ascii=False), list(table.notices)


def _check(frame: Frame, asked: dict[str, Any]) -> None:
    names = [field.name for field in frame.fields]
    for key, column in _named(asked):
        if column not in names:
            known = ", ".join(names[:40])
            raise ValueError(
                f"{key}: there is no column {column!r}{_near(str(column), names)}; there are {known}"
            )


def _named(asked: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The columns that a config names, each with the key that names it."""
    for key in ("xColumn", "yColumn", "groupBy", "labelColumn", "valueColumn", "columns"):
        held = asked.get(key)
        for column in held if isinstance(held, list | tuple) else () if held is None else (held,):
            yield key, column


def _needed(frame: Frame, asked: dict[str, Any]) -> list[str] | None:
    """Only the columns that are drawn, where the config names an axis and values."""
    names = {column for _, column in _named(asked)}
    if "columns" in asked or not (
        names and {"xColumn", "labelColumn"} & set(asked) and {"yColumn", "valueColumn"} & set(asked)
    ):
        return None
    return [field.name for field in frame.fields if field.name in names]


def _added_up(frame: Frame, kind: str, asked: dict[str, Any]) -> Table | None:
    """Exact sums or counts, where a chart adds up anyway: a sample would show other numbers."""
    x, y = asked.get("xColumn"), asked.get("yColumn")
    if kind == "pie_chart":
        x, y = asked.get("labelColumn", x), asked.get("valueColumn", y)
    if kind not in {"bar_chart", "pie_chart"} or not isinstance(x, str) or isinstance(y, list):
        return None
    by = [x, *([asked["groupBy"]] if "groupBy" in asked and asked["groupBy"] != x else [])]
    with contextlib.suppress(ValueError):
        found = group(frame, by, value=y, how="count" if y is None else "sum")
        if y is None:
            asked["valueColumn" if kind == "pie_chart" else "yColumn"] = "count"
        return found if len(found.rows) == found.total_rows else None
    return None


def _reads_back(table: Table) -> bool:
    """Whether every text would still be one when it is read from CSV."""
    return not any(
        column.kind in {"text", "other"} and isinstance(value, str) and _ambiguous.fullmatch(value)
        for number, column in enumerate(table.columns)
        for value in (row[number] for row in table.rows)
    )


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return text.getvalue()


def _cell(value: Value) -> Any:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _write(path: Path, text: str) -> None:
    """All of a file or nothing: somebody may look while it is written."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8", errors="backslashreplace")
    part.replace(path)


# Figures of all rows for a chart that shows them together: groups, and how often values fall where.

How: TypeAlias = Literal["sum", "mean", "count", "min", "max"]

HOWS = ("sum", "mean", "count", "min", "max")

MAX_GROUPS = 10_000

MAX_BINS = 1_000


def group(frame: Frame, by: Sequence[str], *, value: str | None = None, how: How = "count") -> Table:
    """One row for each group, in the order in which they first come, of all rows of a frame.

    Raises:
        KeyError: there is no such column.
        ValueError: the column has no numbers, or there is no such figure.
    """
    if how not in HOWS:
        raise ValueError(f"there is no figure {how!r}; there are {', '.join(HOWS)}")
    if value is None and how != "count":
        raise ValueError(f"a {how} needs a column to take it of: give `value`")
    keys = [_column_index(frame, name) for name in by]
    held = None if value is None else _column_index(frame, value)
    if held is not None and how != "count" and _kind(frame, held) != "number":
        raise ValueError(f"{value!r} has no numbers to take a {how} of")
    rows = _grouped(frame, keys, held, how)
    name = value if value is not None and how != "count" else "count"
    kept = rows[:MAX_GROUPS]
    columns = [
        _column(each, [row[number] for row in kept], frame, keys[number]) for number, each in enumerate(by)
    ]
    notice = (f"the first {MAX_GROUPS:,} of {len(rows):,} groups",) if len(rows) > MAX_GROUPS else ()
    about = f"{how} over {frame.total_rows:,} rows"
    return Table((*columns, Column(name, "number")), tuple(kept), len(rows), (about, *notice))


def _column(name: str, values: list[Value], frame: Frame, place: int) -> Column:
    kind = frame.fields[place].kind or kind_of(values)
    return Column(name, kind, frame.fields[place].dtype, sum(1 for value in values if value is None))


def _column_index(frame: Frame, name: str) -> int:
    names = [field.name for field in frame.fields]
    if name not in names:
        raise KeyError(f"there is no column {name!r}; there are {', '.join(names[:40])}")
    return names.index(name)


def _kind(frame: Frame, place: int) -> str:
    known = frame.fields[place].kind
    return (
        known if known is not None else kind_of(frame.take(range(min(1_000, frame.total_rows)), [place])[0])
    )


def _grouped(frame: Frame, keys: list[int], held: int | None, how: How) -> list[tuple[Value, ...]]:
    wanted = [*keys, *([] if held is None else [held])]
    is_plain = all(
        frame.fields[place].kind not in {None, "other"} or _is_text(frame, place) for place in wanted
    )
    top = frame.type.partition(".")[0]
    found: Iterable[Sequence[Any]]
    if top == "pandas" and is_plain:
        found = _by_pandas(frame, keys, held, how)
    elif top == "polars" and is_plain:
        found = _by_polars(frame, keys, held, how)
    elif top in {"pyarrow", "duckdb"} and is_plain and not isinstance(frame.column(wanted[0]), list):
        found = _by_arrow(frame, keys, held, how)
    else:
        found = _by_hand(frame, keys, held, how)
    return [tuple(plain(value) for value in row) for row in found]


def _is_text(frame: Frame, place: int) -> bool:
    """Whether a column of pandas holds texts by its type: those of objects may hold anything."""
    return frame.fields[place].dtype in {"str", "string", "category"}


def _by_pandas(frame: Frame, keys: list[int], held: int | None, how: How) -> Iterable[Sequence[Any]]:
    pandas: Any = library("pandas")
    made = pandas.DataFrame({f"k{number}": frame.column(place).array for number, place in enumerate(keys)})
    names = list(made.columns)
    if held is not None:
        made["v"] = frame.column(held).array
    groups = made.groupby(names, sort=False, dropna=False, observed=True)
    figures = groups.size() if held is None else getattr(groups["v"], how)()
    table = figures.reset_index()
    return zip(*(table.iloc[:, number].tolist() for number in range(table.shape[1])), strict=True)


def _by_polars(frame: Frame, keys: list[int], held: int | None, how: How) -> Iterable[Sequence[Any]]:
    polars: Any = library("polars")
    names = [f"k{number}" for number in range(len(keys))]
    made = polars.DataFrame(
        [frame.column(place).alias(name) for name, place in zip(names, keys, strict=True)]
    )
    figure = polars.len()
    if held is not None:
        made = made.with_columns(frame.column(held).alias("v"))
        figure = getattr(polars.col("v"), how)()
    found: Iterable[Sequence[Any]] = made.group_by(names, maintain_order=True).agg(figure.alias("f")).rows()
    return found


def _by_arrow(frame: Frame, keys: list[int], held: int | None, how: How) -> Iterable[Sequence[Any]]:
    arrow: Any = library("pyarrow")
    names = [f"k{number}" for number in range(len(keys))]
    columns = {name: frame.column(place) for name, place in zip(names, keys, strict=True)}
    if held is not None:
        columns["v"] = frame.column(held)
    asked: list[Any] = [([], "count_all")] if held is None else [("v", how)]
    made = arrow.table(columns).group_by(names, use_threads=False).aggregate(asked)
    figure = "count_all" if held is None else f"v_{how}"
    return zip(*(made.column(name).to_pylist() for name in (*names, figure)), strict=True)


def _by_hand(frame: Frame, keys: list[int], held: int | None, how: How) -> Iterable[Sequence[Any]]:
    places = [*keys, *([] if held is None else [held])]
    taken = frame.take(range(frame.total_rows), places)
    groups: dict[tuple[Value, ...], list[Any]] = {}
    for row in zip(*taken, strict=True):
        key = tuple(plain(value) for value in row[: len(keys)])
        groups.setdefault(key, []).append(1 if held is None else plain(row[-1]))
    return [
        (*key, _figure([value for value in values if value is not None], how))
        for key, values in groups.items()
    ]


def _figure(values: list[Any], how: How) -> Value:
    if how == "count":
        return len(values)
    if how == "sum":
        return math.fsum(values) if any(type(value) is float for value in values) else sum(values)
    if not values:
        return None
    return math.fsum(values) / len(values) if how == "mean" else min(values) if how == "min" else max(values)


# How often values fall where -----------------------------------------------------------------------------------------


def histogram(frame: Frame, column: str, *, bins: int) -> Table:
    """How many of a column's numbers fall into each of so many equal parts of their range; of all rows.

    Raises:
        KeyError: there is no such column.
        ValueError: the column has no numbers.
    """
    place = _column_index(frame, column)
    if _kind(frame, place) != "number":
        raise ValueError(f"{column!r} has no numbers to count")
    bins = max(1, min(bins, MAX_BINS))
    numbers = _numbers(frame, place)
    counts, edges = _counts(numbers, bins)
    rows = tuple((low, high, count) for low, high, count in zip(edges, edges[1:], counts, strict=False))
    columns = (Column("from", "number"), Column("to", "number"), Column("count", "number"))
    left = frame.total_rows - len(numbers)
    notices = (f"{left:,} of {frame.total_rows:,} rows have no finite number",) if left else ()
    return Table(columns, rows, len(rows), notices)


def _numbers(frame: Frame, place: int) -> Any:
    numpy = library("numpy")
    held = frame.column(place)
    if numpy is None or isinstance(held, (list, tuple, range)) or frame.fields[place].kind is None:
        taken = frame.take(range(frame.total_rows), [place])[0]
        made = [plain(value) for value in taken if kind_of_type(type(value)) == "number"]
        return [float(value) for value in made if value is not None and not isinstance(value, str)]
    if frame.type.startswith("pandas"):
        held = held.to_numpy(dtype="f8", na_value=math.nan)
    elif hasattr(held, "to_numpy"):
        held = held.to_numpy()
    array = numpy.asarray(held).astype("f8")
    return array[numpy.isfinite(array)]


def _counts(numbers: Any, bins: int) -> tuple[list[int], list[float]]:
    if len(numbers) == 0:
        return [], []
    if not isinstance(numbers, list):
        numpy: Any = library("numpy")
        counts, edges = numpy.histogram(numbers, bins=bins)
        return counts.tolist(), edges.tolist()
    low, high = min(numbers), max(numbers)
    # As numpy does it: around a single value there is a range as well.
    low, high = (low, high) if low < high else (low - 0.5, high + 0.5)
    counts_by_hand = [0] * bins
    for number in numbers:
        counts_by_hand[min(bins - 1, int((number - low) / (high - low) * bins))] += 1
    return counts_by_hand, [low + (high - low) * number / bins for number in range(bins + 1)]


# Graphs as nodes and links: networkx's, and plain data that is written as one.

Graph: TypeAlias = dict[str, Any]

MAX_NODES = 5_000

MAX_LINKS = 20_000

MAX_ATTRIBUTES = 10

_NETWORKS = ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")

_ENDS = (("source", "target"), ("from", "to"))

_IDENTITIES = ("id", "name", "label", "key")

_PAIR = 2


def graph_of(value: Any, *, also_records: bool = False) -> Graph | None:
    """A value as ``nodes`` and ``links``; ``None`` if it is no graph. A list of links counts where it is asked to."""
    kind = type(value)
    if is_of(kind, "networkx", *_NETWORKS):
        return _network(value)
    if kind is dict:
        links = value.get("links", value.get("edges"))
        if type(links) in (list, tuple):
            return _plain(value.get("nodes", ()), links)
    if (
        also_records
        and kind in (list, tuple)
        and value
        and all(_ends(link) for link in islice(value, MAX_LINKS))
    ):
        return _plain((), value)
    return None


def _network(graph: Any) -> Graph:
    # By place, not by name: a node may be anything that can be hashed, and hashing would ask it.
    adjacency = [(node, list(neighbours)) for node, neighbours in graph.adjacency()]
    places = {id(node): number for number, (node, _) in enumerate(adjacency)}
    names = _names([label(node) for node, _ in adjacency])
    directed = bool(graph.is_directed())
    links = [
        {"source": names[number], "target": names[places[id(other)]]}
        for number, (_, neighbours) in enumerate(adjacency)
        for other in neighbours
        if id(other) in places and (directed or places[id(other)] >= number)
    ]
    return _bounded([{"id": name} for name in names], links)


def _names(labels: list[str]) -> list[str]:
    """Names that differ, also of nodes that are told alike."""
    seen: dict[str, int] = {}
    names = []
    for name in labels:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def _plain(nodes: Any, links: Sequence[Any]) -> Graph | None:
    found: dict[str, dict[str, Any]] = {}
    for number, node in enumerate(nodes if type(nodes) in (list, tuple) else ()):
        made = _node(node, number)
        found.setdefault(made["id"], made)
    made_links = []
    for link in links:
        ends = _ends(link)
        if ends is None:
            return None
        source, target = ends
        attributes = (
            _attributes(link, skip=frozenset({"source", "target", "from", "to"}))
            if type(link) is dict
            else {}
        )
        made_links.append({"source": source, "target": target, **attributes})
        for end in ends:
            found.setdefault(end, {"id": end})
    return _bounded(list(found.values()), made_links)


def _node(node: Any, number: int) -> dict[str, Any]:
    if type(node) is not dict:
        return {"id": label(node)}
    name = next((label(node[key]) for key in _IDENTITIES if key in node), str(number))
    return {"id": name, **_attributes(node, skip=frozenset({"id"}))}


def _ends(link: Any) -> tuple[str, str] | None:
    if type(link) in (list, tuple) and len(link) >= _PAIR:
        return label(link[0]), label(link[1])
    if type(link) is dict:
        for source, target in _ENDS:
            if source in link and target in link:
                return label(link[source]), label(link[target])
    return None


def _attributes(held: dict[Any, Any], *, skip: frozenset[str]) -> dict[str, Any]:
    some: Iterable[tuple[Any, Any]] = (
        (key, value) for key, value in held.items() if type(key) is str and key not in skip
    )
    return {key: plain(value) for key, value in islice(some, MAX_ATTRIBUTES)}


def _bounded(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> Graph:
    notices = []
    if len(nodes) > MAX_NODES:
        notices.append(f"the first {MAX_NODES:,} of {len(nodes):,} nodes")
        kept = {node["id"] for node in nodes[:MAX_NODES]}
        links = [link for link in links if link["source"] in kept and link["target"] in kept]
    if len(links) > MAX_LINKS:
        notices.append(f"the first {MAX_LINKS:,} of {len(links):,} links")
    return {"nodes": nodes[:MAX_NODES], "links": links[:MAX_LINKS], "notices": notices}

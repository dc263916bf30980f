"""Figures of all rows for a chart that shows them together: groups, and how often values fall where.

The frame's own library computes them where it can. A column of anything is first told in plain values: to group by an
object would ask it what it equals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

from cellwright_kernel.framefields import Frame
from cellwright_kernel.genuine import library
from cellwright_kernel.scalars import kind_of, kind_of_type, plain
from cellwright_kernel.tables import Column, Table, Value

__all__ = ["How", "group", "histogram"]

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

"""Answers what a grid over a live frame asks for: its columns, some of its rows, figures of a column, a whole file.

The frame stays where it is: of a million rows those go out that somebody looks at. What an order or a filter leaves
is kept as row numbers until the next cell runs.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import weakref
from array import array as numbers_array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cellwright_kernel._chart_manifest import histogram
from cellwright_kernel.digests import cut, library, part_of
from cellwright_kernel.frames import Frame, frame_of
from cellwright_kernel.tables import is_missing, plain

if TYPE_CHECKING:
    from cellwright_kernel._value_digests import Digests

__all__ = ["Grids", "condition_of"]

MOST_COLUMNS = 200
MOST_ROWS = 1_000
MOST_TEXT = 300
MOST_FILTERS = 20
BINS = 16
COMMON = 3
# A reply is a message, and a message has a bound.
FILE_ROWS = 20_000
FILE_BYTES = 4 << 20
MOST_KEPT = 3
MOST_SHOWN = 50
MOST_HELD_VALUES = 1_000_000
"""A displayed table of more values than this is remembered only as long as code has it."""


@dataclass(slots=True)
class _Kept:
    """A frame that somebody looks at, with the orders and filters asked for last."""

    value: Any
    frame: Frame
    runs: int
    views: dict[str, Sequence[int]] = field(default_factory=dict)
    parquet: bytes | None = None


class Grids:
    """The frames of one kernel that grids look at."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str | None], _Kept] = {}
        self._shown: dict[tuple[int, str], Callable[[], Any]] = {}

    def remember(self, value: Any, digest: str, run: int) -> None:
        """Have a table that cell ``[run]`` displays found again by its digest. Never raises."""
        try:
            frame = frame_of(value)
            if frame is None:
                return
            is_small = frame.total_rows * len(frame.fields) <= MOST_HELD_VALUES
            found: Callable[[], Any] = partial(_itself, value) if is_small else weakref.ref(value)
        except Exception:  # noqa: BLE001  # boundary: whatever a library does with its own, the value is still shown
            return
        self._shown.pop((run, digest), None)
        self._shown[run, digest] = found
        while len(self._shown) > MOST_SHOWN:
            del self._shown[next(iter(self._shown))]

    def forget(self) -> None:
        """Let go of all frames: a cell runs, and may want their memory."""
        self._kept.clear()

    def answer(
        self, shell: Any, *, run: int, want: str, digest: str | None = None, **asked: Any
    ) -> dict[str, Any]:
        """The reply to a question about the result of cell ``[run]``, or about what it displayed with this digest.

        Raises:
            LookupError: the result is gone, or there is no such column.
            ValueError: it is no table, or what is asked makes no sense.
        """
        acts: dict[str, Callable[..., dict[str, Any]]] = {
            "open": self._open,
            "rows": self._rows,
            "column": self._column,
            "csv": self._csv,
            "parquet": self._parquet,
        }
        if want not in acts:
            raise ValueError(f"a grid cannot be asked for {want!r}; it answers {', '.join(acts)}")
        kept = self._of(shell, run, digest)
        reply = acts[want](kept, shell, **asked) if want == "open" else acts[want](kept, **asked)
        return {**reply, "runs": kept.runs, "total": kept.frame.total_rows}

    def _of(self, shell: Any, run: int, digest: str | None) -> _Kept:
        key, runs = (run, digest), shell.execution_count
        value = self._value(shell, run, digest)
        kept = self._kept.get(key)
        # A cell may have changed the frame in place since: row numbers and sizes of before say nothing then.
        if kept is None or kept.value is not value or kept.runs != runs:
            frame = frame_of(value)
            if frame is None:
                raise ValueError(f"what cell [{run}] showed is no table any more")
            kept = _Kept(value, frame, runs)
        self._kept.pop(key, None)
        self._kept[key] = kept
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept

    def _value(self, shell: Any, run: int, digest: str | None) -> Any:
        if digest is not None:
            value = self._shown.get((run, digest), _nothing)()
            if value is None:
                raise LookupError(
                    f"what cell [{run}] displayed is no longer in the kernel: give it a name, and run the cell again"
                )
            return value
        results = dict.get(shell.user_ns, "_oh")
        if type(results) is not dict or run not in results:
            raise LookupError(f"the result of cell [{run}] is no longer in the kernel: run the cell again")
        return results[run]

    def _open(self, kept: _Kept, shell: Any) -> dict[str, Any]:
        frame = kept.frame
        shown = frame.fields[:MOST_COLUMNS]
        columns = [
            {"name": one.name, "kind": _kind(frame, place), "dtype": one.dtype, "index": one.is_index}
            for place, one in enumerate(shown)
        ]
        digests: Digests = shell.digests
        told = (digests.of(kept.value), digests.hidden(kept.value))
        known = [digest for digest in told if digest is not None]
        return {
            "type": frame.type,
            "columns": columns,
            "width": len(frame.fields),
            "digests": known,
            "name": _name_of(kept.value, shell.user_ns),
        }

    def _rows(
        self, kept: _Kept, *, start: int, count: int, sort: Sequence[Any] = (), filters: Sequence[Any] = ()
    ) -> dict[str, Any]:
        frame = kept.frame
        places = list(range(min(len(frame.fields), MOST_COLUMNS)))
        view = self._view(kept, sort, filters)
        found = frame.total_rows if view is None else len(view)
        start = max(0, min(start, found))
        end = min(found, start + max(0, min(count, MOST_ROWS)))
        if view is None:
            columns = frame.take(range(start, end), places)
        else:
            columns = [[] for _ in places]
            for number in view[start:end]:
                for held, values in zip(columns, frame.take(range(number, number + 1), places), strict=True):
                    held.extend(values)
        told = [[_shown(value) for value in held] for held in columns]
        return {"start": start, "found": found, "rows": [list(row) for row in zip(*told, strict=True)]}

    def _view(self, kept: _Kept, sort: Sequence[Any], filters: Sequence[Any]) -> Sequence[int] | None:
        """The numbers of the rows that are left, in order; None for all rows as they are."""
        if not sort and not filters:
            return None
        if len(filters) > MOST_FILTERS:
            raise ValueError(f"{len(filters)} filters are more than {MOST_FILTERS}")
        key = repr((list(sort), [list(one) for one in filters]))
        if key not in kept.views:
            rows = _filtered(kept.frame, filters)
            kept.views.clear()
            kept.views[key] = _sorted(kept.frame, rows, sort) if sort else rows
        return kept.views[key]

    def _column(self, kept: _Kept, *, name: str) -> dict[str, Any]:
        frame, place = kept.frame, _place(kept.frame, name)
        kind, missing = _kind(frame, place), frame.missing(place)
        if kind == "number":
            table = histogram(frame, name, bins=BINS)
            extent = frame.extent(place)
            if extent is None and table.rows:
                extent = (table.rows[0][0], table.rows[-1][1])
            bars = [row[2] for row in table.rows]
            least, most = (None, None) if extent is None else map(_shown, extent)
            return {"missing": missing, "least": least, "most": most, "bars": bars}
        values = [value for value in frame.take(range(frame.total_rows), [place])[0] if not is_missing(value)]
        if kind == "time" and values:
            return {"missing": missing, "least": _shown(min(values)), "most": _shown(max(values))}
        counted = Counter(value if type(value) is str else str(_shown(value)) for value in values)
        common = [[cut(value, MOST_TEXT), count] for value, count in counted.most_common(COMMON)]
        return {"missing": missing, "distinct": len(counted), "common": common}

    def _csv(self, kept: _Kept, *, start: int) -> dict[str, Any]:
        frame, file = kept.frame, io.StringIO()
        writer = csv.writer(file)
        places = list(range(len(frame.fields)))
        if not start:
            writer.writerow(one.name for one in frame.fields)
        end = min(frame.total_rows, start + FILE_ROWS)
        columns = frame.take(range(start, end), places)
        writer.writerows(zip(*([_written(value) for value in held] for held in columns), strict=True))
        return {"text": file.getvalue(), "next": end if end < frame.total_rows else None}

    def _parquet(self, kept: _Kept, *, start: int) -> dict[str, Any]:
        if kept.parquet is None or not start:
            kept.parquet = _parquet_of(kept.value)
        end = min(len(kept.parquet), start + FILE_BYTES)
        part, last = kept.parquet[start:end], end >= len(kept.parquet)
        if last:
            kept.parquet = None
        return {"text": base64.b64encode(part).decode(), "next": None if last else end}


def _itself(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None


def _place(frame: Frame, name: str) -> int:
    for place, one in enumerate(frame.fields):
        if one.name == name:
            return place
    raise LookupError(f"there is no column {name!r}")


def _kind(frame: Frame, place: int) -> str:
    kind = frame.fields[place].kind
    if kind is not None:
        return kind
    seen = frame.take(range(min(frame.total_rows, FILE_ROWS)), [place])[0]
    types = {type(value) for value in seen if not is_missing(value)}
    if types and types <= {int, float}:
        return "number"
    return "bool" if types == {bool} else "text"


def _name_of(value: Any, namespace: dict[str, Any]) -> str | None:
    """What code calls a value; a name that a person gave rather than one that the shell did."""
    for name, held in list(namespace.items()):
        if held is value and type(name) is str and name.isidentifier() and not name.startswith("_"):
            return name
    return None


def _shown(value: Any) -> Any:
    """A value as JSON has it: numbers as they are, long texts cut."""
    if type(value) is float and not math.isfinite(value):
        return None if math.isnan(value) else ("∞" if value > 0 else "-∞")
    made = plain(value)
    if type(made) is int and abs(made) > 1 << 53:
        return str(made)
    return cut(made, MOST_TEXT) if type(made) is str else made


def _written(value: Any) -> Any:
    """A value as a file has it: whole, and nothing where nothing is."""
    if is_missing(value):
        return ""
    return value if type(value) in (str, int, float, bool) else plain(value)


def _parquet_of(value: Any) -> bytes:
    file = io.BytesIO()
    kind = type(value).__module__.partition(".")[0]
    try:
        if kind == "polars":
            frame = value if hasattr(value, "write_parquet") else value.to_frame()
            frame.write_parquet(file)
        elif kind == "pandas":
            frame = value if value.ndim > 1 else value.to_frame(name=value.name or "value")
            frame.to_parquet(file)
        elif kind == "pyarrow":
            table = value if hasattr(value, "to_batches") else part_of("pyarrow").Table.from_batches([value])
            part_of("pyarrow.parquet").write_table(table, file)
        else:
            raise ValueError(
                f"Parquet is written of pandas, polars and Arrow tables, and this is {kind}: take CSV"
            )
    except ImportError as error:
        raise ValueError(
            f"Parquet needs pyarrow, which this kernel does not have ({error.name}): "
            'package_install(["pyarrow"]), or take CSV'
        ) from None
    return file.getvalue()


# Which rows a filter leaves, and in what order: by numpy where it holds the column, else value by value.


def _held(frame: Frame, place: int) -> Any | None:
    """A column as an array that numpy compares and sorts; None where it has none."""
    numpy: Any = library("numpy")
    column = frame.column(place)
    if numpy is None or isinstance(column, (list, tuple, range)):
        return None
    if type(column) is not numpy.ndarray:
        dtype = getattr(column, "dtype", None)
        # Of pandas only what numpy holds: all else is copied into objects.
        if frame.type.startswith("pandas") and type(dtype).__module__.partition(".")[0] != "numpy":
            return None
        if not hasattr(column, "to_numpy"):
            return None
        column = column.to_numpy()
    return column if column.ndim == 1 and column.dtype.kind in "iufbmM" else None


def _values(frame: Frame, place: int) -> list[Any]:
    return frame.take(range(frame.total_rows), [place])[0]


def _filtered(frame: Frame, filters: Sequence[Any]) -> Sequence[int]:
    rows: Sequence[int] = range(frame.total_rows)
    for name, text in filters:
        place = _place(frame, name)
        holds = condition_of(text, is_number=_kind(frame, place) == "number")
        values = _values(frame, place)
        rows = numbers_array("q", (number for number in rows if holds(values[number])))
    return rows


def _sorted(frame: Frame, rows: Sequence[int], sort: Sequence[Any]) -> Sequence[int]:
    name, down = sort
    place = _place(frame, name)
    held = _held(frame, place)
    if held is not None:
        numpy: Any = library("numpy")
        chosen = numpy.asarray(rows, dtype="i8")
        part = held[chosen]
        gaps = part != part
        order = numpy.argsort(part[~gaps], kind="stable")
        found: Sequence[int] = numpy.concatenate(
            [chosen[~gaps][order[::-1] if down else order], chosen[gaps]]
        ).tolist()
        return found
    values = _values(frame, place)
    full = [number for number in rows if not is_missing(values[number])]
    empty = [number for number in rows if is_missing(values[number])]
    try:
        full.sort(key=values.__getitem__, reverse=bool(down))
    except TypeError:  # of several types
        full.sort(key=lambda number: str(values[number]), reverse=bool(down))
    return numbers_array("q", [*full, *empty])


def condition_of(text: str, *, is_number: bool) -> Callable[[Any], bool]:
    """What a person wrote into a column's filter, as a test of a value.

    ``>5``, ``<=2``, ``=x``, ``!=x``, ``empty``, ``filled``; anything else is looked for in the value's text.

    Raises:
        ValueError: a number is compared with what is none.
    """
    text = text.strip()
    if text in ("empty", "filled"):
        return lambda value: is_missing(value) == (text == "empty")
    for sign, compare in _COMPARISONS.items():
        if text.startswith(sign):
            wanted = text[len(sign) :].strip()
            if is_number:
                return _compared(compare, _number(wanted))
            return _compared_as_text(compare, wanted.casefold())
    wanted = text.casefold()
    return lambda value: not is_missing(value) and wanted in _text(value)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    "!=": lambda one, other: one != other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    "=": lambda one, other: one == other,
}


def _compared(compare: Callable[[Any, Any], bool], wanted: float) -> Callable[[Any], bool]:
    return lambda value: not is_missing(value) and bool(compare(value, wanted))


def _compared_as_text(compare: Callable[[Any, Any], bool], wanted: str) -> Callable[[Any], bool]:
    return lambda value: not is_missing(value) and compare(_text(value), wanted)


def _text(value: Any) -> str:
    return (value if type(value) is str else str(plain(value))).casefold()


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise ValueError(f"{text!r} is no number to compare with") from None

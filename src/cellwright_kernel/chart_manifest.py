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
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellwright_kernel.aggregates import group
from cellwright_kernel.framefields import Frame
from cellwright_kernel.frames import frame_of, table_of
from cellwright_kernel.graphs import graph_of
from cellwright_kernel.scalars import type_label
from cellwright_kernel.tables import Table, Value

__all__ = ["show"]

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
    if kind not in TYPES:
        raise ValueError(
            f"there is no type {given!r}{_near(kind, (*TYPES, *_SHORT))}; types are {', '.join(TYPES)}"
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

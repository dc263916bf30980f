"""What somebody asks to see of a kernel's data, and what the kernel answers. Pure; draws nothing (see ``charts``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.charts import Output, Picture, read_manifest
from cellwright.charts.auto import choose
from cellwright.charts.encodings import shape_of
from cellwright.errors import ChartRefused, NoSuchData
from cellwright_kernel.tables import Table

__all__ = [
    "DATA_REQUEST",
    "MOST_ROWS",
    "Form",
    "Held",
    "Visual",
    "checked_entry",
    "entry_for",
    "exact_figures",
    "held_in",
    "output_for",
]

DATA_REQUEST = "cellwright_data_request"
MOST_ROWS = 20_000
"""What a kernel sends of a table; beyond that it chooses rows evenly."""
Form: TypeAlias = Literal["chart", "table", "graph", "auto"]
_NAME = "data.json"
_CONFIG = {
    "x": "xColumn",
    "y": "yColumn",
    "group": "groupBy",
    "group_by": "groupBy",
    "label": "labelColumn",
    "value": "valueColumn",
    "x_label": "xLabel",
    "y_label": "yLabel",
    "max_rows": "maxRows",
}


@dataclass(frozen=True, slots=True)
class Held:
    """A value of a kernel's, as far as it can be shown."""

    type: str
    digest: str
    table: Table | None = None
    graph: dict[str, Any] | None = None
    figures: Table | None = None
    """Exact sums or counts over all rows, where those were asked for."""

    @property
    def data(self) -> Table | bytes | None:
        """What a chart is drawn from."""
        return json.dumps(self.graph).encode() if self.graph is not None else self.figures or self.table


@dataclass(frozen=True, slots=True)
class Visual:
    """A picture or table, and what it was made from."""

    picture: Picture
    held: Held


def output_for(form: Form, options: Mapping[str, Any] | None) -> Output:
    """What is to be drawn, checked as a manifest's output is.

    ``options`` has ``type``, ``title`` and the columns, by the manifest's names or shorter ones.

    Raises:
        ChartRefused: an option is none, or says what cannot be.
    """
    asked = dict(options or {})
    kind = asked.pop("type", "auto") if form in ("chart", "auto") else form
    return checked_entry(entry_for(kind, asked) | {"id": "visual", "dataFile": _NAME}, source="")


def entry_for(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of an output, from options by its own names or shorter ones; yet without id and file."""
    asked = dict(options)
    about: dict[str, Any] = {"type": kind}
    if (title := asked.pop("title", None)) is not None:
        about["title"] = title
    config = {_CONFIG.get(name, name): value for name, value in asked.items()}
    nested = config.pop("config", None)
    if config := config | (dict(nested) if isinstance(nested, Mapping) else {}):
        about["config"] = config
    return about


def checked_entry(entry: Mapping[str, Any], *, source: str) -> Output:
    """One output of a manifest that is to be drawn by itself; ``source`` is what messages call its data.

    Raises:
        ChartRefused: a field is none, or says what cannot be.
    """
    manifest = read_manifest(json.dumps({"version": "1.0", "outputs": [dict(entry)]}).encode())
    if manifest.problems:
        raise ChartRefused(*(str(problem).removeprefix("outputs[0].") for problem in manifest.problems))
    found = manifest.outputs[0]
    return Output(found.id, found.type, source, found.title, found.config, notices=found.notices)


def held_in(reply: Mapping[str, Any]) -> Held:
    """Read the kernel's answer.

    Raises:
        NoSuchData: the kernel has no such value.
    """
    if reply.get("status") != "ok":
        raise NoSuchData(str(reply.get("evalue") or reply.get("ename")))
    graph = reply.get("graph")
    if graph is not None and not isinstance(graph, dict):
        raise NoSuchData("the kernel's answer is no graph")
    return Held(
        str(reply.get("type", "")),
        str(reply.get("digest", "")),
        _table(reply.get("table")),
        graph,
        _table(reply.get("aggregates")),
    )


def _table(held: Any) -> Table | None:
    """A table as a kernel sent it, in whose name code may speak."""
    if held is None:
        return None
    try:
        table = msgspec.convert(held, Table)
    except msgspec.ValidationError as error:
        raise NoSuchData(f"the kernel's answer is no table: {error}") from None
    if any(len(row) != len(table.columns) for row in table.rows):
        raise NoSuchData("the kernel's answer is no table: its rows are not as wide as its head")
    return table


def exact_figures(output: Output, table: Table) -> dict[str, Any] | None:
    """What to ask the kernel for, where a chart of chosen rows would add up to less than all; None where it need not."""
    if len(table.rows) >= table.total_rows:
        return None
    choice = choose(shape_of(table), output.config, output.type)
    encodings = choice.encodings
    name = encodings.label if choice.type == "pie_chart" else encodings.x
    values = (encodings.value,) if choice.type == "pie_chart" else encodings.y
    if choice.type not in ("bar_chart", "pie_chart") or name is None or len(values) > 1:
        return None
    group_by = [name, encodings.group] if encodings.group is not None else [name]
    value = values[0] if values else None
    return {"group_by": group_by, "value": value, "how": "sum" if value is not None else "count"}

"""JSON data to tables: records, columns, pandas' split, one value a line, and graphs of nodes and links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.charts.columns import json_column, table_of
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import Table

__all__ = ["graph_columns", "table_from_json"]

_LINKS = ("links", "edges")
_ENVELOPES = ("data", "records", "rows", "values", "items", "results")


def table_from_json(text: str, name: str) -> Table:
    """Read JSON as a table; NaN and Infinity may stand in it as Python writes them.

    Raises:
        ChartRefused: it is no JSON, or no table.
    """
    held = _parsed(text, name)
    try:
        return table_of([json_column(title, values) for title, values in _columns(held, name).items()])
    except RecursionError:
        raise ChartRefused(f"{name}: its values are nested too deeply") from None


def graph_columns(nodes: Sequence[Any], links: Sequence[Any]) -> dict[str, list[object]]:
    """A graph as a table: a row for every link, and one without a target for every node."""
    rows: list[dict[str, object]] = []
    for node in nodes:
        held = node if isinstance(node, Mapping) else {"id": node}
        identity = next(
            (held[key] for key in ("id", "key", "name", "label") if held.get(key) is not None), None
        )
        kept = {key: value for key, value in held.items() if key not in ("id", "key", "source", "target")}
        rows.append({"source": identity, "target": None, **kept})
    for link in links:
        if isinstance(link, Mapping):
            ends = {"source": _end(link, "source", "from"), "target": _end(link, "target", "to")}
            rows.append({**{key: value for key, value in link.items() if key not in ("from", "to")}, **ends})
        elif isinstance(link, Sequence) and not isinstance(link, str):
            rows.append(dict(zip(("source", "target", "value"), link, strict=False)))
    return _from_records(rows, {"source": [], "target": []})


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ChartRefused(f"{name}: its values are nested too deeply") from None
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise ChartRefused(f"{name}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise ChartRefused(f"{name}: {error}") from None
    return _lines(text, name)


def _lines(text: str, name: str) -> list[Any]:
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise ChartRefused(f"{name}: line {number:,}: {said}") from None
    return records


def _columns(held: Any, name: str) -> dict[str, list[object]]:
    if isinstance(held, list):
        return _from_list(held, name)
    if isinstance(held, Mapping):
        return _from_mapping(held, name)
    raise ChartRefused(
        f"{name}: it holds a single value; a table is a list of records or an object of columns"
    )


def _from_list(held: list[Any], name: str) -> dict[str, list[object]]:
    if not held:
        raise ChartRefused(f"{name}: it is an empty list")
    if all(isinstance(entry, Mapping) for entry in held):
        return _from_records(held, {})
    if all(isinstance(entry, list) for entry in held):
        width = max(map(len, held))
        return {
            f"column {index + 1}": [entry[index] if index < len(entry) else None for entry in held]
            for index in range(width)
        }
    stray = next((index for index, entry in enumerate(held) if isinstance(entry, Mapping | list)), None)
    if stray is not None:
        raise ChartRefused(f"{name}: it mixes records with other values (the first at [{stray}])")
    return {"value": held}


def _from_records(
    records: Sequence[Mapping[str, Any]], columns: dict[str, list[object]]
) -> dict[str, list[object]]:
    titles = dict.fromkeys([*columns, *(key for record in records for key in record)])
    return {title: [record.get(title) for record in records] for title in titles}


def _from_mapping(held: Mapping[str, Any], name: str) -> dict[str, list[object]]:
    links = next((held[key] for key in _LINKS if isinstance(held.get(key), list)), None)
    if links is not None and isinstance(held.get("nodes", []), list):
        return graph_columns(held.get("nodes", []), links)
    if isinstance(held.get("columns"), list) and isinstance(held.get("data"), list):
        return _from_split(held["columns"], held["data"], name)
    for envelope in _ENVELOPES:
        if isinstance(held.get(envelope), list) and held[envelope] and isinstance(held[envelope][0], Mapping):
            return _from_list(held[envelope], name)
    if held and all(isinstance(column, list) for column in held.values()):
        return _of_one_length({str(title): list(column) for title, column in held.items()}, name)
    if held and all(isinstance(column, Mapping) for column in held.values()):
        return _from_indexed(held)
    if held and not any(isinstance(value, Mapping | list) for value in held.values()):
        return {"name": list(held), "value": list(held.values())}
    raise ChartRefused(f"{name}: it is neither a list of records nor an object of columns")


def _from_split(titles: list[Any], data: list[Any], name: str) -> dict[str, list[object]]:
    for index, row in enumerate(data):
        if not isinstance(row, list) or len(row) != len(titles):
            raise ChartRefused(
                f"{name}: data[{index}] has not one value for each of the {len(titles)} columns"
            )
    return {str(title): [row[index] for row in data] for index, title in enumerate(titles)}


def _from_indexed(held: Mapping[str, Mapping[str, Any]]) -> dict[str, list[object]]:
    """Pandas' own default: columns of values by index."""
    index = dict.fromkeys(key for column in held.values() for key in column)
    named = not all(key.isdecimal() for key in index)
    columns: dict[str, list[object]] = {"index": list(index)} if named else {}
    return {**columns, **{str(title): [column.get(key) for key in index] for title, column in held.items()}}


def _of_one_length(columns: dict[str, list[object]], name: str) -> dict[str, list[object]]:
    lengths = {title: len(column) for title, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{title} {length:,}" for title, length in list(lengths.items())[:6])
        raise ChartRefused(f"{name}: its columns differ in length: {told}")
    return columns


def _end(link: Mapping[str, Any], *names: str) -> object:
    return next((link[name] for name in names if link.get(name) is not None), None)

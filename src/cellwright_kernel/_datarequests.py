"""Answers requests for the data of a variable or of a cell's result, from which the engine draws charts and tables.

A name is a path of identifiers and literal keys. It is followed as ``subjects`` does it, through dictionaries and
columns, without a call: whatever would need one is refused.
"""

from __future__ import annotations

import ast
import difflib
import json
from typing import Any

from cellwright_kernel._chart_manifest import graph_of, group, histogram
from cellwright_kernel._subjects import UNKNOWN, Scope, columns_of
from cellwright_kernel.digests import cut, describe, is_of
from cellwright_kernel.figuredigests import figure_digest
from cellwright_kernel.frames import DEFAULT_ROWS, Frame, frame_of, table_of
from cellwright_kernel.tables import type_label

__all__ = ["answer", "value_at"]

MAX_ROWS = 100_000
MAX_PATH = 1_000
MAX_VALUE = 100_000
WANTS = ("auto", "table", "graph")
_COLUMNED = (
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
)


def answer(
    shell: Any,
    *,
    name: str | None = None,
    execution_count: int | None = None,
    max_rows: int = DEFAULT_ROWS,
    columns: list[str] | None = None,
    want: str = "auto",
    aggregates: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The reply to a request for data.

    Raises:
        LookupError: there is no such variable, result or column.
        ValueError: the path needs a call, or what is asked of the value cannot be had.
    """
    if want not in WANTS:
        raise ValueError(f"there is no form {want!r}; there are {', '.join(WANTS)}")
    value = value_at(shell.user_ns, name) if name is not None else _result(shell.user_ns, execution_count)
    reply: dict[str, Any] = {
        "type": type_label(type(value)),
        "digest": shell.digests.of(value) or _words(value),
    }
    graph = graph_of(value, also_records=want == "graph") if want != "table" else None
    if graph is not None:
        return {**reply, "kind": "graph", "graph": graph}
    if want == "graph":
        raise ValueError(f"{reply['type']} is no graph: give nodes and links, or a list of source and target")
    frame = frame_of(value)
    if frame is None:
        return {**reply, **_other(value)}
    table = table_of(frame, max_rows=max(0, min(max_rows, MAX_ROWS)), columns=columns)
    if table is not None:
        reply |= {"kind": "table", "table": table.to_wire()}
    if aggregates is not None:
        reply["aggregates"] = _aggregated(frame, **aggregates).to_wire()
    return reply


def _aggregated(
    frame: Frame,
    *,
    group_by: str | list[str] | None = None,
    value: str | None = None,
    how: Any = "count",
    bins: int | None = None,
) -> Any:
    if bins is not None and value is not None:
        return histogram(frame, value, bins=bins)
    if group_by is None:
        raise ValueError("aggregates need `group_by`, or `value` with `bins`")
    return group(frame, [group_by] if isinstance(group_by, str) else group_by, value=value, how=how)


def _result(namespace: dict[str, Any], execution_count: int | None) -> Any:
    if execution_count is None:
        raise ValueError("give `name` or `execution_count`")
    held = dict.get(namespace, "_oh")
    if type(held) is not dict or execution_count not in held:
        raise LookupError(
            f"cell [{execution_count}] left no result: end it with the expression, or name a variable"
        )
    return held[execution_count]


def _other(value: Any) -> dict[str, Any]:
    if figure_digest(value) is not None:
        return {"kind": "figure"}
    try:
        text = json.dumps(value, allow_nan=False) if type(value) in _JSON else ""
    except (TypeError, ValueError, RecursionError):
        text = ""
    return {"kind": "value", "value": json.loads(text)} if 0 < len(text) <= MAX_VALUE else {"kind": "value"}


_JSON = frozenset({bool, int, float, str, type(None)})


def _words(value: Any) -> str:
    about = describe(value)
    told: str = about.get("digest") or f"<{about['type']}>"
    return told


# Following a path ----------------------------------------------------------------------------------------------------


def value_at(namespace: dict[str, Any], path: str) -> Any:
    """What stands at a path such as ``results["sales"][0].frame``."""
    if len(path) > MAX_PATH:
        raise ValueError(f"a name of {len(path):,} characters is longer than {MAX_PATH:,}")
    try:
        tree = ast.parse(path.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"{cut(path, 60)!r} is no name: {error}") from None
    return _follow(tree.body, namespace)


def _follow(node: ast.expr, namespace: dict[str, Any]) -> Any:
    match node:
        case ast.Name(name):
            return _variable(namespace, name)
        case ast.Attribute(inner, name):
            return _step(_follow(inner, namespace), name, node)
        case ast.Subscript(inner, key):
            return _step(_follow(inner, namespace), _literal(key), node)
        case _:
            raise ValueError(
                f"{ast.unparse(node)!r} is no name; only names, attributes and literal keys are followed"
            )


def _variable(namespace: dict[str, Any], name: str) -> Any:
    found = dict.get(namespace, name, UNKNOWN)
    if found is UNKNOWN:
        known = [key for key in list(namespace) if type(key) is str and not key.startswith("_")]
        near = difflib.get_close_matches(name, known[:2_000], n=1)
        raise LookupError(f"there is no variable {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"{ast.unparse(node)!r} is no literal key") from None


def _step(holder: Any, key: Any, node: ast.Attribute | ast.Subscript) -> Any:
    columns = columns_of(holder) or ()
    if key in columns and any(is_of(type(holder), *each) for each in (*_COLUMNED, ("numpy", "ndarray"))):
        return holder[key]
    if isinstance(node, ast.Attribute):
        found = Scope(None, {"it": holder}).value_of(ast.Attribute(ast.Name("it"), key))
    else:
        found = Scope(None, {"it": holder}).value_of(ast.Subscript(ast.Name("it"), ast.Constant(key)))
    if found is UNKNOWN:
        what = "attribute" if isinstance(node, ast.Attribute) else "key"
        raise LookupError(
            f"{cut(ast.unparse(node), 80)!r}: there is no {what} {key!r} that can be read without a call"
        )
    return found

"""Finds the object that a failing expression was applied to, without running any of the user's code.

Names are looked up in dictionaries, attributes in those of instances and modules, items in plain lists and
dictionaries; whatever would need a call, a property or a foreign ``__getitem__`` is left unknown. See ``digests`` for
what may be looked into.
"""

from __future__ import annotations

import ast
import inspect
import pathlib
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from types import FrameType, FunctionType, ModuleType
from typing import Any

from cellwright_kernel._exceptions import Span
from cellwright_kernel.digests import describe, is_a, type_name

__all__ = [
    "UNKNOWN",
    "Scope",
    "about",
    "columns_of",
    "is_frame",
    "node_at",
    "public_names",
    "statement_at",
    "subject_of",
]

MAX_COLUMNS = 500
MAX_ATTRIBUTES = 1_000
MAX_TEXT = 200

UNKNOWN: Any = object()

_CO_OPTIMIZED = 0x01
_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__
_dict_of_type: Any = type.__dict__["__dict__"].__get__
_mro_of: Any = type.__dict__["__mro__"].__get__
_PATHS = frozenset({pathlib.PosixPath, pathlib.PurePosixPath})

_SAME_COLUMNS = frozenset(
    [
        "at",
        "copy",
        "drop_duplicates",
        "dropna",
        "ffill",
        "fillna",
        "groupby",
        "head",
        "iat",
        "iloc",
        "loc",
        "nlargest",
        "nsmallest",
        "query",
        "sample",
        "sort",
        "sort_index",
        "sort_values",
        "tail",
        "unique",
    ]
)
"""What gives something with the same columns as the frame that it is asked of."""


class Scope:
    """The names that code in a frame could use, and what plain expressions of them are."""

    def __init__(self, frame: FrameType | None, namespace: dict[str, Any]) -> None:
        self.globals = frame.f_globals if frame is not None else namespace
        self.locals = _locals_of(frame) if frame is not None else {}

    def value_of(self, node: ast.AST | None) -> Any:
        """What an expression is, or ``UNKNOWN``."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self.named(name)
            case ast.Attribute(inner, name):
                return _attribute(self.value_of(inner), name)
            case ast.Subscript(inner, key):
                return _item(self.value_of(inner), self.value_of(key))
            case ast.BinOp(left, ast.Add() | ast.Div(), right):
                return _joined(self.value_of(left), self.value_of(right), isinstance(node.op, ast.Div))
            case _:
                return UNKNOWN

    def named(self, name: str) -> Any:
        if name in self.locals:
            return self.locals[name]
        return dict.get(self.globals, name, UNKNOWN)


def _locals_of(frame: FrameType) -> dict[str, Any]:
    held = frame.f_locals
    # A class body may have a mapping of anybody's making.
    is_ours = frame.f_code.co_flags & _CO_OPTIMIZED or type(held) is dict
    return dict(held) if is_ours and held is not frame.f_globals else {}


def _attribute(holder: Any, name: str) -> Any:
    if holder is UNKNOWN:
        return UNKNOWN
    if is_a(holder, ModuleType):
        return _dict_of_module(holder).get(name, UNKNOWN)
    try:
        found = inspect.getattr_static(holder, name, UNKNOWN)
    except Exception:  # noqa: BLE001  # boundary: a type that is not built as types are
        return UNKNOWN
    # Anything with a `__get__` would be asked for the value, which may run code.
    is_descriptor = any("__get__" in _dict_of_type(kind) for kind in _mro_of(type(found)))
    return UNKNOWN if is_descriptor else found


def _item(holder: Any, key: Any) -> Any:
    if type(holder) is dict and type(key) in (str, int):
        return holder.get(key, UNKNOWN)
    if type(holder) in (list, tuple) and type(key) is int:
        return holder[key] if -len(holder) <= key < len(holder) else UNKNOWN
    return UNKNOWN


def _joined(left: Any, right: Any, is_path: bool) -> Any:
    if type(left) is str and type(right) is str and not is_path:
        return left + right if len(left) + len(right) <= MAX_TEXT * 10 else UNKNOWN
    if is_path and type(left) in _PATHS and (type(right) is str or type(right) in _PATHS):
        return left / right
    return UNKNOWN


def statement_at(tree: ast.Module, span: Span) -> ast.stmt | None:
    """The innermost statement around a place."""
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _covers(node, span):
            found = node
    return found


def node_at(tree: ast.Module, span: Span) -> ast.expr | None:
    """The expression at a place. In a chain over several lines Python tells only the last link of it."""
    start, end = span[:2], span[2:]
    alike = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and (node.end_lineno, node.end_col_offset) == end
        and (node.lineno, node.col_offset) <= start
    ]
    return max(alike, key=lambda node: (node.lineno, node.col_offset), default=None)


def _covers(node: ast.stmt, span: Span) -> bool:
    last, last_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    decorators = getattr(node, "decorator_list", [])
    first = min([(node.lineno, node.col_offset), *((each.lineno, 0) for each in decorators)])
    return first <= span[:2] and span[2:] <= (last, last_column)


def subject_of(
    node: ast.expr | None, scope: Scope, source: str, error: BaseException
) -> dict[str, Any] | None:
    """The object that the expression was applied to, and what it can be asked for safely."""
    held: ast.expr | None = None
    value = UNKNOWN
    match node:
        case ast.Attribute(held, name):
            value = _missed_on(error, name)
        case ast.Subscript(held, _) | ast.Call(ast.Attribute(held, _)):
            pass
        case ast.Call(_):
            held = _frame_argument(node, scope)
        case _:
            return None
    if value is UNKNOWN:
        value = scope.value_of(held)
    if value is UNKNOWN or (is_a(value, ModuleType) and isinstance(node, ast.Call)):
        other = _frame_argument(node, scope) if is_a(value, ModuleType) else _frame_below(held, scope)
        held, value = (other, scope.value_of(other)) if other is not None else (held, value)
    if held is None or value is UNKNOWN:
        return None
    text = ast.get_source_segment(source, held) or ""
    return {"expression": text[:MAX_TEXT], **about(value)}


def _missed_on(error: BaseException, name: str) -> Any:
    """The object that has no such attribute, where Python says so."""
    if not is_a(error, AttributeError):
        return UNKNOWN
    known = vars(AttributeError)
    if known["name"].__get__(error) != name or known["obj"].__get__(error) is None:
        return UNKNOWN
    return known["obj"].__get__(error)


def _frame_argument(node: ast.expr | None, scope: Scope) -> ast.expr | None:
    """The one argument of a call that is a frame."""
    if not isinstance(node, ast.Call):
        return None
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    frames = [each for each in given if is_frame(scope.value_of(each))]
    return frames[0] if len(frames) == 1 else None


def _frame_below(node: ast.expr | None, scope: Scope) -> ast.expr | None:
    """The frame at the beginning of a chain that keeps its columns: the ``df`` of ``df.groupby("a")["b"]``."""
    while True:
        match node:
            case ast.Call(ast.Attribute(inner, name)) if name in _SAME_COLUMNS:
                node = inner
            case ast.Attribute(inner, name) if name in _SAME_COLUMNS:
                node = inner
            case ast.Subscript(ast.Attribute(inner, "loc" | "iloc"), ast.Slice() | ast.Compare()):
                node = inner
            case ast.Subscript(inner, ast.Compare() | ast.BinOp(op=ast.BitAnd() | ast.BitOr())):
                node = inner
            case _:
                return node if node is not None and is_frame(scope.value_of(node)) else None


def about(value: Any) -> dict[str, Any]:
    """An object's type, and its columns, keys, length, shape and attributes where they can be had safely."""
    told = describe(value)
    facts: dict[str, Any] = {key: told[key] for key in ("type", "length", "shape") if key in told}
    facts["type"] = "module" if is_a(value, ModuleType) else facts["type"]
    columns, keys = columns_of(value), _keys(value)
    if columns is not None:
        facts["columns"] = columns
    if keys is not None:
        facts["keys"] = keys
    if "shape" in facts and facts["shape"] and "length" not in facts:
        facts["length"] = facts["shape"][0]
    for kind in (dict, list, tuple, str):
        if is_a(value, kind):
            facts["length"] = kind.__len__(value)
    facts["attributes"] = public_names(value)
    return facts


def is_frame(value: Any) -> bool:
    return type_name(type(value)) in _FRAMES and columns_of(value) is not None


_FRAMES = frozenset({"pandas.DataFrame", "pandas.core.frame.DataFrame", "polars.dataframe.frame.DataFrame"})
_GROUPS = frozenset({"pandas.core.groupby.generic.DataFrameGroupBy", "pandas.api.typing.DataFrameGroupBy"})


def columns_of(value: Any) -> list[str | int] | None:
    """The columns of a frame, or of what a frame was grouped into; only of exactly these libraries' types."""
    if type_name(type(value)) in _GROUPS:
        value = inspect.getattr_static(value, "obj", None)
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)
        if module is not None and _dict_of_module(module).get("DataFrame") is type(value):
            return _plain_keys(value.columns)
    numpy = sys.modules.get("numpy")
    if numpy is not None and _dict_of_module(numpy).get("ndarray") is type(value) and value.dtype.names:
        return list(value.dtype.names[:MAX_COLUMNS])
    return None


def _keys(value: Any) -> list[str | int] | None:
    if is_a(value, dict):
        return _plain_keys(dict.keys(value))
    pandas = sys.modules.get("pandas")
    if pandas is not None and _dict_of_module(pandas).get("Series") is type(value):
        return _plain_keys(value.index)
    return None


def _plain_keys(keys: Any) -> list[str | int]:
    found: list[str | int] = []
    for key in islice(keys, MAX_COLUMNS):
        if type(key) is str:
            found.append(key[:MAX_TEXT])
        elif type(key) is int or type_name(type(key)) in {"numpy.int64", "numpy.int32"}:
            found.append(int(key))
    return found


def public_names(value: Any) -> list[str]:
    """Attributes by name, from dictionaries only; ``dir`` would ask the object."""
    found = dict.fromkeys(name for held in _dictionaries(value) for name in _names_in(held))
    return list(islice(found, MAX_ATTRIBUTES))


def _names_in(held: Mapping[Any, Any]) -> Iterator[str]:
    for name in list(held):
        if type(name) is str and not name.startswith("_") and len(name) <= MAX_TEXT:
            yield name


def _dictionaries(value: Any) -> Iterator[Mapping[Any, Any]]:
    if is_a(value, ModuleType):
        yield _dict_of_module(value)
        return
    if type(value) is FunctionType:
        return
    for kind in _mro_of(type(value)):
        # A type may hide its instances' dictionaries behind a property of its own.
        slot = _dict_of_type(kind).get("__dict__")
        if slot is not None and type(slot).__name__ == "getset_descriptor":
            yield slot.__get__(value)
            break
    for kind in _mro_of(value if is_a(value, type) else type(value)):
        yield _dict_of_type(kind)

"""A few words about any object, without running any of its code.

``repr``, ``len`` and even ``isinstance`` call into an object's class, where foreign code may raise, print or never
return. So only exact builtin types, and the exact array and frame types of numpy, pandas and polars, are looked
into. Of everything else the type's name must do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = [
    "cut",
    "describe",
    "dtype_name",
    "is_a",
    "is_genuine",
    "is_of",
    "library",
    "part_of",
    "signature_of",
    "type_name",
]

MAX_DIGEST = 120

MAX_ITEMS = 4

MAX_COLUMNS = 8

MAX_INT_BITS = 256

CO_VARARGS = 0x04

CO_VARKEYWORDS = 0x08

# Reached through `type` itself: a metaclass could put code of its own behind the plain attributes.
_name_of = type.__dict__["__qualname__"].__get__

_module_of = type.__dict__["__module__"].__get__


def describe(value: Any) -> dict[str, Any]:
    """Type, and where they can be had safely: length or shape, and a digest."""
    about: dict[str, Any] = {"type": type_name(type(value))}
    try:
        about.update(_look_into(value))
    except Exception as error:  # noqa: BLE001  # boundary: a changing container or a broken array is not our error
        about["digest"] = f"<{type(error).__name__}>"
    if "digest" in about:
        about["digest"] = cut(about["digest"], MAX_DIGEST)
    return about


def type_name(kind: type) -> str:
    """The type's qualified name, with its module unless that says nothing."""
    name, module = _name_of(kind), _module_of(kind)
    if type(module) is not str or module in {"builtins", "__main__"}:
        return cut(name, MAX_DIGEST)
    return cut(f"{module}.{name}", MAX_DIGEST)


def is_a(value: Any, kind: type) -> bool:
    """Whether the value's real type descends from another; ``isinstance`` would ask the value itself."""
    return issubclass(type(value), kind)


def signature_of(function: FunctionType) -> str:
    """A function's parameters by name. Defaults are not shown, since showing them would call their ``repr``."""
    code: CodeType = function.__code__
    names = list(code.co_varnames)
    plain = names[: code.co_argcount]
    defaults = function.__defaults__ or ()
    with_default = set(plain[len(plain) - len(defaults) :] if defaults else [])
    keywords = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    with_default.update(function.__kwdefaults__ or ())
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    parts = [f"{name}=…" if name in with_default else name for name in plain]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    if code.co_flags & CO_VARARGS:
        parts.append(f"*{rest.pop(0)}")
    elif keywords:
        parts.append("*")
    parts += [f"{name}=…" if name in with_default else name for name in keywords]
    if code.co_flags & CO_VARKEYWORDS:
        parts.append(f"**{rest.pop(0)}")
    return cut(f"({', '.join(parts)})", MAX_DIGEST)


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _look_into(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind in _SCALARS:
        return {"digest": _scalar(value)}
    if kind in (str, bytes, bytearray):
        return {"length": len(value), "digest": repr(value[:MAX_DIGEST])}
    if kind is dict:
        pairs = [f"{_item(key)}: {_item(held)}" for key, held in islice(value.items(), MAX_ITEMS)]
        return {"length": len(value), "digest": "{" + _listed(pairs, len(value)) + "}"}
    if kind in _BRACKETS:
        opening, closing = _BRACKETS[kind]
        items = [_item(item) for item in islice(value, MAX_ITEMS)]
        return {"length": len(value), "digest": opening + _listed(items, len(value)) + closing}
    if kind is range:
        return {"length": len(value), "digest": repr(value)}
    looker = _looker_for(kind)
    return looker(value) if looker is not None else {}


_SCALARS = frozenset({int, float, complex, bool, type(None), type(...)})

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def _scalar(value: Any) -> str:
    # Python refuses to print integers of thousands of digits, and would take long over them.
    if type(value) is int and value.bit_length() > MAX_INT_BITS:
        return f"an integer of {value.bit_length():,} bits"
    return repr(value)


def _item(value: Any) -> str:
    """One element of a container, which may be anything."""
    if type(value) in _SCALARS:
        return _scalar(value)
    if type(value) in (str, bytes):
        return repr(value[:30])
    return f"<{type_name(type(value))}>"


def _listed(items: list[str], length: int) -> str:
    return ", ".join(items) + (", …" if length > len(items) else "")


def _looker_for(kind: type) -> Callable[[Any], dict[str, Any]] | None:
    """How to look into arrays and frames, if this is exactly such a type of a library that is loaded."""
    for library, name, looker in (
        ("numpy", "ndarray", _array),
        ("pandas", "DataFrame", _pandas_frame),
        ("pandas", "Series", _pandas_series),
        ("polars", "DataFrame", _polars_frame),
        ("polars", "Series", _polars_series),
    ):
        module = sys.modules.get(library)
        if module is not None and vars(module).get(name) is kind:
            return looker
    return None


def _array(array: Any) -> dict[str, Any]:
    about = {"shape": list(array.shape), "bytes": int(array.nbytes)}
    if array.dtype.kind in "biufc":
        # The first of a view in order: `ravel` would copy an array that is not contiguous.
        first = [_scalar(number.item()) for number in islice(array.flat, MAX_ITEMS)]
        return {**about, "digest": f"{array.dtype} [{_listed(first, array.size)}]"}
    return {**about, "digest": str(array.dtype)}


def _pandas_frame(frame: Any) -> dict[str, Any]:
    kinds = list(islice(frame.dtypes.array, MAX_COLUMNS))
    columns = [
        f"{_item(name).strip(chr(39))}: {dtype_name(kind)}"
        for name, kind in zip(frame.columns, kinds, strict=False)
    ]
    return {"shape": list(frame.shape), "digest": _listed(columns, frame.shape[1])}


def _pandas_series(series: Any) -> dict[str, Any]:
    return {"shape": list(series.shape), "digest": f"{_item(series.name)}: {dtype_name(series.dtype)}"}


def _polars_frame(frame: Any) -> dict[str, Any]:
    schema = islice(zip(frame.columns, frame.dtypes, strict=False), MAX_COLUMNS)
    columns = [f"{name}: {kind}" for name, kind in schema]
    return {"shape": list(frame.shape), "digest": _listed(columns, frame.width)}


def _polars_series(series: Any) -> dict[str, Any]:
    return {"shape": [len(series)], "digest": f"{series.name}: {series.dtype}"}


def dtype_name(kind: Any) -> str:
    """A column's type; those that other libraries add to pandas may print themselves in any way they like."""
    module = _module_of(type(kind))
    known = type(module) is str and module.partition(".")[0] in {"numpy", "pandas"}
    return str(kind) if known else type_name(type(kind))


# Whether a type is really the one of a library that it says it is.

_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__


def library(name: str) -> Any | None:
    """A library, if the session has loaded it."""
    return sys.modules.get(name)


def part_of(name: str) -> Any:
    """A module of a library that is loaded, which may be the first to need it."""
    return importlib.import_module(name)


def is_of(kind: type, module: str, *names: str) -> bool:
    """Whether a type is what a loaded module calls by one of these names."""
    held = sys.modules.get(module)
    if held is None:
        return False
    known = _dict_of_module(held)
    return any(known.get(name) is kind for name in names)


def is_genuine(kind: type, *libraries: str) -> bool:
    """Whether a type is one that a module of these libraries defines."""
    module, name = _module_of(kind), _name_of(kind)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in libraries:
        return False
    return is_of(kind, module, name)

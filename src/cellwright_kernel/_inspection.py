"""A snapshot of the live namespace, and fingerprints by which its values are compared from another process.

Runs none of the user's code (see ``digests``), and is bounded in count and size whatever the namespace holds.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from cellwright_kernel.digests import cut, describe, is_a, is_genuine, is_of, library, signature_of, type_name

__all__ = ["fingerprint", "fingerprints", "snapshot", "visible"]

MAX_ENTRIES = 200
MAX_CHARACTERS = 60_000
MAX_NAME = 100
MAX_DOC = 120
MAX_PACKAGES = 2_000
MAX_SEEN = 100_000
_dict_of_module: Any = vars(ModuleType)["__dict__"].__get__


def snapshot(namespace: dict[str, Any], hidden: dict[str, Any], *, packages: bool = False) -> dict[str, Any]:
    """Variables, functions, classes and modules by name, newest first, and where this runs."""
    found: dict[str, list[dict[str, Any]]] = {"variables": [], "functions": [], "classes": [], "modules": []}
    omitted = 0
    room = MAX_CHARACTERS
    for name, value in visible(namespace, hidden):
        kind, entry = _entry(name, value)
        room -= sum(len(field) for field in entry.values() if isinstance(field, str)) + 50
        if room > 0 and len(found[kind]) < MAX_ENTRIES:
            found[kind].append(entry)
        else:
            omitted += 1
        if room <= 0:
            break
    return {
        **found,
        "omitted": omitted + max(0, len(namespace) - MAX_SEEN),
        **_surroundings(packages=packages),
    }


def visible(namespace: dict[str, Any], hidden: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the user put there, newest first; IPython's own names and private ones left out."""
    for name in _newest(namespace):
        if type(name) is not str or name.startswith("_") or name not in namespace:
            continue
        value = namespace[name]
        if name not in hidden or hidden[name] is not value:
            yield name, value


def _newest(namespace: dict[str, Any]) -> list[Any]:
    while True:
        try:
            return list(islice(reversed(namespace), MAX_SEEN))
        except RuntimeError:  # another thread defined something meanwhile
            continue


def _entry(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    name = cut(name, MAX_NAME)
    if is_a(value, ModuleType):
        return "modules", {"name": name, **_about_module(value)}
    if type(value) is FunctionType:
        return "functions", {"name": name, **_about_function(value)}
    if is_a(value, type):
        return "classes", {"name": name, "class": type_name(value)}
    return "variables", {"name": name, **describe(value)}


def _about_module(module: ModuleType) -> dict[str, Any]:
    # Straight from the module's dictionary: a lazy module imports itself when asked for an attribute.
    held = _dict_of_module(module)
    about = {"module": held.get("__name__"), "version": held.get("__version__")}
    return {key: cut(text, MAX_NAME) for key, text in about.items() if type(text) is str}


def _about_function(function: FunctionType) -> dict[str, Any]:
    about = {"signature": signature_of(function)}
    doc = function.__doc__
    if type(doc) is str and doc.strip():
        about["doc"] = cut(doc.strip().splitlines()[0], MAX_DOC)
    module = function.__module__
    if type(module) is str and module != "__main__":
        about["module"] = cut(module, MAX_NAME)
    return about


def _surroundings(*, packages: bool) -> dict[str, Any]:
    about: dict[str, Any] = {
        "cwd": _or_none(os.getcwd),
        "interpreter": sys.executable,
        "python": sys.version.split()[0],
    }
    if packages:
        installed = {(dist.name, dist.version) for dist in importlib.metadata.distributions() if dist.name}
        about["packages"] = [f"{name}=={version}" for name, version in sorted(installed)[:MAX_PACKAGES]]
    return about


def _or_none(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except OSError:  # the directory was removed under the kernel's feet
        return None


# Fingerprints by which values can be compared from another process: an exact hash, and one that forgives
# rounding.

MOST_VALUES = 300
MOST_ITEMS = 300_000
MOST_BYTES = 512 << 20
MOST_DEPTH = 6

# Significant digits that a sum in another order still has.
_DIGITS = 9
_MANTISSA = 2.0**30
_HASHED = 16
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class _Unknown(Exception):  # not an error: a value that cannot be told
    """A value that nothing can be said of."""


class _Print:
    """Two hashes that are written side by side."""

    def __init__(self, room: int) -> None:
        self._exact = hashlib.blake2b(digest_size=_HASHED)
        self._close = hashlib.blake2b(digest_size=_HASHED)
        self._items = MOST_ITEMS
        self._room = room

    def text(self, exact: str, close: str | None = None) -> None:
        self._items -= 1
        if self._items < 0:
            raise _Unknown
        self._exact.update(f"{len(exact)}:{exact}".encode(errors="surrogatepass"))
        near = exact if close is None else close
        self._close.update(f"{len(near)}:{near}".encode(errors="surrogatepass"))

    def data(self, exact: Any, close: Any | None = None) -> None:
        self._room -= exact.nbytes
        if self._room < 0:
            raise _Unknown
        self._exact.update(exact.tobytes())
        self._close.update((exact if close is None else close).tobytes())

    def told(self) -> dict[str, str]:
        return {"exact": self._exact.hexdigest(), "close": self._close.hexdigest()}


def fingerprints(shell: Any) -> dict[str, Any]:
    """The fingerprints of the user's variables, by name; functions, classes and modules are left out."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in visible(shell.user_ns, shell.user_ns_hidden):
        if len(found) >= MOST_VALUES:
            break
        if type(value).__name__ in ("function", "type", "module"):
            continue
        found[name] = fingerprint(value)
    return {"values": found}


def fingerprint(value: Any) -> dict[str, Any]:
    """A value's type and hashes; of a frame, those of each column too."""
    told: dict[str, Any] = {"type": type_name(type(value))}
    try:
        if is_of(type(value), "pandas", "DataFrame"):
            return told | _frame(value)
        written = _Print(MOST_BYTES)
        _write(written, value, 0)
    except Exception:  # noqa: BLE001  # boundary: whatever a library does with its own, the others are still told
        return told
    number = float(value) if type(value) is float or is_of(type(value), "numpy", "float64") else None
    finite = {"number": number} if number is not None and math.isfinite(number) else {}
    return told | written.told() | finite


def _frame(frame: Any) -> dict[str, Any]:
    if not frame.columns.is_unique:
        raise _Unknown
    room = MOST_BYTES // max(1, len(frame.columns))
    parts: dict[str, dict[str, str]] = {}
    for name in frame.columns:
        written = _Print(room)
        _series(written, frame[name])
        parts[f"{type(name).__name__} {name}"] = written.told()
    index = _Print(MOST_BYTES)
    _index(index, frame.index)
    return {"columns": parts, "index": index.told()}


def _write(out: _Print, value: Any, depth: int) -> None:
    kind = type(value)
    if depth > MOST_DEPTH:
        raise _Unknown
    if kind in _PLAIN:
        _scalar(out, value)
    elif kind in (list, tuple):
        out.text(f"{kind.__name__} {len(value)}")
        for item in value:
            _write(out, item, depth + 1)
    elif kind is dict:
        out.text(f"dict {len(value)}")
        for key, item in value.items():
            _write(out, key, depth + 1)
            _write(out, item, depth + 1)
    elif kind in (set, frozenset):
        _set(out, value)
    else:
        _of_library(out, value)


def _scalar(out: _Print, value: Any) -> None:
    name = type(value).__name__
    close = f"{name} {value:.{_DIGITS}g}" if type(value) is float else None
    out.text(f"{name} {value!r}", close)


def _set(out: _Print, values: Iterable[Any]) -> None:
    listed = list(values)
    if any(type(value) not in _PLAIN for value in listed):
        raise _Unknown
    for text in sorted(f"{type(value).__name__} {value!r}" for value in listed):
        out.text(text)


def _of_library(out: _Print, value: Any) -> None:
    kind = type(value)
    numpy = library("numpy")
    if is_of(kind, "numpy", "ndarray"):
        _array(out, value)
    elif is_of(kind, "pandas", "Series"):
        out.text(repr(value.name) if type(value.name) in _PLAIN else type_name(type(value.name)))
        _series(out, value)
        _index(out, value.index)
    elif numpy is not None and issubclass(kind, numpy.generic) and is_genuine(kind, "numpy"):
        plain = value.item()
        near = f"{plain:.{_DIGITS}g}" if type(plain) is float else repr(plain)
        out.text(f"{kind.__name__} {plain!r}", f"{kind.__name__} {near}")
    elif is_of(kind, "pandas", "Timestamp", "Timedelta") or is_genuine(kind, "datetime", "decimal"):
        out.text(f"{type_name(kind)} {value!r}")
    elif is_genuine(kind, "pandas") and hasattr(value, "nlevels"):
        _index(out, value)
    else:
        raise _Unknown


def _array(out: _Print, array: Any) -> None:
    numpy: Any = library("numpy")
    out.text(f"{array.dtype} {array.shape}")
    if array.dtype.kind == "O":
        for item in array.ravel().tolist():
            _write(out, item, MOST_DEPTH - 1)
        return
    if array.dtype.kind not in "biufcmMSU":
        raise _Unknown
    if array.dtype.kind != "f":
        out.data(array)
        return
    # Nothing may be said of it in the cell's output.
    with numpy.errstate(all="ignore"):
        # One zero, and one way to write that there is no number.
        plain = numpy.where(numpy.isnan(array), numpy.nan, array + 0.0)
        mantissa, exponent = numpy.frexp(plain)
        close = numpy.ldexp(numpy.round(mantissa * _MANTISSA) / _MANTISSA, exponent)
    out.data(plain, close)


def _series(out: _Print, series: Any) -> None:
    out.text(str(series.dtype))
    numpy: Any = library("numpy")
    if isinstance(series.dtype, numpy.dtype):
        _array(out, series.to_numpy())
        return
    if not is_genuine(type(series.dtype), "pandas"):
        raise _Unknown
    _hashed(out, series)


def _index(out: _Print, index: Any) -> None:
    out.text(repr([name for name in index.names if type(name) in _PLAIN]))
    numpy: Any = library("numpy")
    if index.nlevels == 1 and isinstance(index.dtype, numpy.dtype):
        _array(out, index.to_numpy())
    else:
        _hashed(out, index)


def _hashed(out: _Print, values: Any) -> None:
    pandas: Any = library("pandas")
    keep = {"index": False} if is_of(type(values), "pandas", "Series") else {}
    out.data(pandas.util.hash_pandas_object(values, **keep).to_numpy())

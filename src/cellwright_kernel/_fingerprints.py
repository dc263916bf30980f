"""Fingerprints by which values can be compared from another process: an exact hash, and one that forgives rounding.

Only exact builtin types and the genuine types of numpy and pandas are looked into, so that none of the user's code
runs; of everything else, and of what is too large, only the type is told. Comparing is the caller's business.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

from cellwright_kernel._inspection import visible
from cellwright_kernel.digests import is_genuine, is_of, library, type_name

__all__ = ["answer", "fingerprint"]

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


def answer(shell: Any) -> dict[str, Any]:
    """Every variable of the user's, by name; functions, classes and modules are none."""
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

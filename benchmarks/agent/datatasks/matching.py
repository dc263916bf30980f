"""Whether one value is another, as DSEval's options have it: order, index, names, types and tolerances. Pure.

Runs in the process that judges, where numpy and pandas are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["How", "differs", "how_of"]

_FRAMES = (pd.DataFrame, pd.Series, pd.Index)
_NUMBERS = (int, float, complex, np.number)
_BOOLS = (bool, np.bool_)


@dataclass(frozen=True, slots=True)
class How:
    """What counts as a difference."""

    ignore_order: bool = False
    ignore_index: bool = False
    ignore_names: bool = False
    ignore_dtypes: bool = False
    match_partial: bool = False
    value_only: bool = False
    """A list, an array and a column of the same values are the same, and so are a value and a list of it."""
    type_only: bool = False
    strict_type: bool = False
    atol: float = 1e-8
    rtol: float = 1e-5
    metrictol: float | None = None
    """A number has to reach this share of what is expected."""
    code: str | None = None
    """Defines ``compare_fn(expected, given)``, which says it all."""

    @property
    def looser(self) -> How:
        """Without what is only presentation."""
        return replace(self, ignore_order=True, ignore_names=True, ignore_dtypes=True, value_only=True)


def how_of(config: Any) -> How:
    """What a validator's options say: none, a table of them, or code."""
    if isinstance(config, Mapping) and "compare_fn" in config:
        return how_of(config["compare_fn"])
    if isinstance(config, str):
        return How(code=config)
    return How(**(config or {})) if not isinstance(config, bool) else How()


def differs(expected: Any, given: Any, how: How) -> str | None:
    """How a value differs from what is expected, in a line; None where it does not."""
    if how.code is not None:
        return _by_code(how.code, expected, given)
    if how.type_only:
        return None if type(given) is type(expected) else _other_type(expected, given)
    if how.value_only:
        expected, given = _bare(expected), _bare(given)
    for kinds, compare in _COMPARERS:
        if isinstance(expected, kinds) or isinstance(given, kinds):
            both = isinstance(expected, kinds) and isinstance(given, kinds)
            return compare(expected, given, how) if both else _other_type(expected, given)
    if callable(expected) and callable(given):
        return None  # what functions do is tested, not compared
    try:
        return None if bool(expected == given) else _other_value(expected, given)
    except (TypeError, ValueError) as error:
        return f"cannot be compared: {error}"


def _by_code(code: str, expected: Any, given: Any) -> str | None:
    space: dict[str, Any] = {"np": np, "pd": pd}
    exec(code, space)  # noqa: S102  # the set's own comparison
    said = space["compare_fn"](expected, given)
    return None if said["match"] else said["reason"] or "not the same"


def _bare(value: Any) -> Any:
    if isinstance(value, pd.DataFrame):
        value = value.to_numpy()
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        value = value.tolist()
    if isinstance(value, list | tuple | set):
        value = [_bare(one) for one in value]
        return value[0] if len(value) == 1 else value
    return value


def _frames(expected: Any, given: Any, how: How) -> str | None:
    kinds = (kind for kind in _FRAME_CHECKS if isinstance(expected, kind) and isinstance(given, kind))
    kind = next(kinds, None)
    if kind is None:
        return _other_type(expected, given)
    expected, given = _ordered(expected, given, how)
    options: dict[str, Any] = {"rtol": how.rtol, "atol": how.atol, "check_names": not how.ignore_names}
    if kind is pd.Index:
        options["exact"] = not how.ignore_dtypes
    else:
        options["check_dtype"] = not how.ignore_dtypes
    try:
        _FRAME_CHECKS[kind](expected, given, **options)
    except AssertionError as error:
        return " ".join(str(error).split())
    return None


def _ordered(expected: Any, given: Any, how: How) -> tuple[Any, Any]:
    """Both, without what does not count."""
    if isinstance(expected, pd.DataFrame):
        if set(expected.columns) == set(given.columns) and (how.ignore_order or how.ignore_index):
            given = given[list(expected.columns)]
        elif how.ignore_names and len(expected.columns) == len(given.columns):
            given = given.set_axis(expected.columns, axis=1)
    if isinstance(expected, pd.Index):
        return (expected.sort_values(), given.sort_values()) if how.ignore_order else (expected, given)
    if how.ignore_order or how.ignore_index:
        expected, given = (frame.reset_index(drop=True) for frame in (expected, given))
    if how.ignore_order:
        expected, given = _sorted(expected), _sorted(given)
    return expected, given


def _sorted(frame: Any) -> Any:
    try:
        by = {"by": list(frame.columns)} if isinstance(frame, pd.DataFrame) else {}
        return frame.sort_values(**by).reset_index(drop=True)
    except (TypeError, ValueError):  # values of which none is the smaller: as they are
        return frame


def _arrays(expected: Any, given: Any, how: How) -> str | None:
    if how.strict_type and expected.dtype != given.dtype:
        return f"dtype {given.dtype}, not {expected.dtype}"
    if expected.shape != given.shape:
        return f"shape {given.shape}, not {expected.shape}"
    numeric = np.issubdtype(expected.dtype, np.number) and np.issubdtype(given.dtype, np.number)
    if numeric:
        same = bool(np.allclose(given, expected, rtol=how.rtol, atol=how.atol, equal_nan=True))
    else:
        same = bool(np.array_equal(expected, given))
    return None if same else _other_value(expected, given)


def _bools(expected: Any, given: Any, _: How) -> str | None:
    return None if expected == given else _other_value(expected, given)


def _numbers(expected: Any, given: Any, how: How) -> str | None:
    if how.metrictol is not None:
        return None if given >= expected * how.metrictol else f"{given} does not reach {expected}"
    same = np.isclose(given, expected, rtol=how.rtol, atol=how.atol, equal_nan=True)
    return None if same else _other_value(expected, given)


def _mappings(expected: Any, given: Any, how: How) -> str | None:
    if how.ignore_index:
        return _sequences(list(expected.values()), list(given.values()), how)
    if set(expected) != set(given):
        return f"keys {list(given)[:20]}, not {list(expected)[:20]}"
    parts = (differs(expected[key], given[key], how) for key in expected)
    return next((part for part in parts if part), None)


def _sequences(expected: Any, given: Any, how: How) -> str | None:
    if len(expected) != len(given):
        return f"length {len(given)}, not {len(expected)}"
    if how.ignore_order:
        expected, given = (
            sorted(one, key=lambda item: (type(item).__name__, repr(item))) for one in (expected, given)
        )
    parts = (differs(one, other, how) for one, other in zip(expected, given, strict=True))
    return next((part for part in parts if part), None)


def _sets(expected: Any, given: Any, _: How) -> str | None:
    return None if expected == given else _other_value(expected, given)


def _other_type(expected: Any, given: Any) -> str:
    return f"type {type(given).__name__}, not {type(expected).__name__}"


def _other_value(expected: Any, given: Any) -> str:
    return f"{str(given)[:200]!r}, not {str(expected)[:200]!r}"


_FRAME_CHECKS: dict[type, Callable[..., None]] = {
    pd.DataFrame: pd.testing.assert_frame_equal,
    pd.Series: pd.testing.assert_series_equal,
    pd.Index: pd.testing.assert_index_equal,
}
_COMPARERS: tuple[tuple[Any, Callable[[Any, Any, How], str | None]], ...] = (
    (_FRAMES, _frames),
    ((np.ndarray,), _arrays),
    (_BOOLS, _bools),
    (_NUMBERS, _numbers),
    ((Mapping,), _mappings),
    ((list, tuple), _sequences),
    ((set, frozenset), _sets),
)

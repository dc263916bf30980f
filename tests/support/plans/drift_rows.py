"""Compares the table of renames with the libraries that are installed: old names must be gone, new ones there."""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from cellwright.plans.fixers._drift_table import (
    COLORMAPS,
    FREQUENCIES,
    KEYWORDS,
    MODULES,
    NAMES,
    PERIODS,
    POSITIONS,
    STYLES,
    VALUES,
)

ABSENT: Any = object()


def found(path: str) -> Any:
    """What a dotted path leads to, or ``ABSENT``."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for name in parts[count:]:
            value = getattr(value, name, ABSENT)
        return value
    return ABSENT


def parameters(path: str) -> tuple[list[str], list[str], bool]:
    """What can be given by position and by name, without ``self``, and whether any name can."""
    function = found(path)
    signature = inspect.signature(function)
    kinds = inspect.Parameter
    every = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    positional = [
        each.name for each in every if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    named = [each.name for each in every if each.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    return positional, named, any(each.kind is kinds.VAR_KEYWORD for each in every)


def problems(library: str) -> list[str]:
    """What is not so, of the rows about one library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = [
            _names(library),
            _keywords(library),
            _positions(library),
            _modules(library),
            _values(library),
        ]
        special = {"matplotlib": [_styles(), _colormaps()], "pandas": [_frequencies()]}
        return [said for part in (*every, *special.get(library, ())) for said in part]


def _names(library: str) -> Iterator[str]:
    for row in NAMES:
        if row.library == library:
            if found(row.old) is not ABSENT:
                yield f"{row.old} is there"
            if found(row.new) is ABSENT:
                yield f"{row.new} is not there"
            if not row.template:
                _, named, any_name = parameters(row.new) if row.positions or row.adds else ([], [], True)
                wanted = () if any_name else (*row.positions, *row.adds)
                yield from (f"{row.new} takes no {name}" for name in wanted if name not in named)


def _keywords(library: str) -> Iterator[str]:
    for row in KEYWORDS:
        for path in row.callables if row.library == library else ():
            _, named, any_name = parameters(path)
            owner = path.rpartition(".")[0]
            if row.old in named:
                yield f"{path} takes {row.old}"
            if row.callee:
                yield from (
                    f"{owner} has no {name}"
                    for name in row.values.values() or (row.callee,)
                    if found(f"{owner}.{name}") is ABSENT
                )
            elif row.new and not any_name:
                yield from (f"{path} takes no {name}" for name in (row.new, *row.adds) if name not in named)


def _positions(library: str) -> Iterator[str]:
    for row in POSITIONS:
        for path in row.callables if row.library == library else ():
            positional, named, _ = parameters(path)
            yield from (f"{path} takes no {name}" for name in row.names if name not in named)
            if tuple(positional[: len(row.names)]) == row.names:
                yield f"{path} takes all of {row.names} by position"


def _modules(library: str) -> Iterator[str]:
    for row in MODULES:
        if row.library == library:
            if found(row.old) is not ABSENT:
                yield f"{row.old} is there"
            yield from (
                f"{row.new}.{name} is not there" for name in row.names if found(f"{row.new}.{name}") is ABSENT
            )


def _values(library: str) -> Iterator[str]:
    for row in VALUES:
        for path in row.callables if row.library == library else ():
            for value, works in ((row.old, False), (eval(row.new), True)):  # noqa: S307  # a literal of our own
                try:
                    found(path)(**{row.parameter: value}).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
                except ValueError:
                    if works:
                        yield f"{path} refuses {row.parameter}={value!r}"
                else:
                    if not works:
                        yield f"{path} takes {row.parameter}={value!r}"


def _styles() -> Iterator[str]:
    available = found("matplotlib.style.available")
    for row in STYLES:
        if any(
            name == row.old or (name.startswith(f"{row.old}-") and not name.startswith(row.new))
            for name in available
        ):
            yield f"there are styles of the name {row.old}"
        if not any(name.startswith(row.new) for name in available):
            yield f"there are no styles of the name {row.new}"


def _colormaps() -> Iterator[str]:
    known = list(found("matplotlib.colormaps"))
    yield from (f"the colour map {old} is there" for old in COLORMAPS if old in known)
    yield from (f"the colour map {new} is not there" for new in COLORMAPS.values() if new not in known)


def _frequencies() -> Iterator[str]:
    pandas = found("pandas")

    def knows(kind: str, alias: str) -> bool:
        try:
            if kind == "offset":
                pandas.tseries.frequencies.to_offset(alias)
            else:
                pandas.Period("2024-01-01", freq=alias)
        except ValueError:
            return False
        return True

    for kind, table in (("offset", FREQUENCIES), ("period", PERIODS)):
        yield from (f"the {kind} {old} is known" for old in table if knows(kind, old))
        yield from (f"the {kind} {new} is not known" for new in table.values() if not knows(kind, new))


if __name__ == "__main__":
    sys.exit("\n".join(problems(sys.argv[1])) or None)

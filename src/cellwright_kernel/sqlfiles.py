"""Where a file lies that a query did not find: beside, above or below the working directory, or under a similar name.

Looks at names only, and at few of them. What DuckDB said stands in ``sqlerrors``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice

from cellwright_kernel.sqlerrors import Fault

__all__ = ["located"]

_NOT_FOUND = re.compile(r'No files found that match the pattern "(?P<path>[^"]+)"')
_LEVELS = 3
_MOST_ENTRIES = 2_000
_MOST_TOLD = 3
_GLOBBING = frozenset("*?[")


def located(fault: Fault) -> Fault:
    """The same with where the file was looked for, and the path of one of that name or a similar one."""
    found = _NOT_FOUND.search(fault.message)
    if found is None:
        return fault
    path = found["path"]
    told = f"{fault.message}\nPaths begin at the working directory, {os.getcwd()}."  # noqa: PTH109  # a text
    meant = [] if _GLOBBING & set(path) else _meant(path)
    if meant:
        told += f" Did you mean {' or '.join(repr(one) for one in meant)}?"
    return replace(fault, message=told)


def _meant(path: str) -> list[str]:
    folder, name = os.path.split(path)
    above = (os.path.join(*[os.pardir] * level, name) for level in range(1, _LEVELS + 1))  # noqa: PTH118
    below = (f"{other}/{name}" for other in _names(os.curdir))
    same = [one for one in (name, *above, *below) if one != path and os.path.isfile(one)]  # noqa: PTH113
    similar = get_close_matches(name, _names(folder or os.curdir), _MOST_TOLD)
    return same[:_MOST_TOLD] or [os.path.join(folder, one) for one in similar]  # noqa: PTH118


def _names(folder: str) -> list[str]:
    return sorted(islice(_entries(folder), _MOST_ENTRIES))


def _entries(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name

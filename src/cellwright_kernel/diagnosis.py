"""What the last execution raised, and what lies around it, for whoever has to mend it.

Only what the last execution raised: one that went well leaves nothing to tell, whatever failed before it. Runs none of
the user's code but ``str()`` of the exceptions (see ``exceptions``, ``subjects``), and stays small and quick whatever
the namespace and the directory hold.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import sys
from collections.abc import Callable
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from cellwright_kernel.cellcode import CellCode, Place, own_nodes
from cellwright_kernel.digests import describe, is_a
from cellwright_kernel.exceptions import Told, lineage_of, text
from cellwright_kernel.subjects import UNKNOWN, Scope, node_at, statement_at, subject_of
from cellwright_kernel.surroundings import files_in, heads_of, importable, members_of, paths_in

__all__ = ["diagnose"]

MAX_NAMES = 2_000
MAX_NAME = 200
MAX_VALUES = 50
MAX_REPLY = 400_000

_SHED = ("heads", "files", "modules", "members", "names", "values", "chain", "subject")
"""What is left out first where everything together is too large."""

_traceback_of: Any = vars(BaseException)["__traceback__"].__get__

_Found = TypeVar("_Found")


def diagnose(shell: Any, project: str | None = None) -> dict[str, Any]:
    """The error of the shell's last execution; ``raised`` is None where there is none.

    ``project`` is how far up files are of interest.
    """
    error, before_it_ran = _last_error(shell)
    if error is None:
        return {"raised": None}
    code = _code_of(shell, error)
    told = Told(code, before_it_ran=before_it_ran)
    roots, rest = lineage_of(error)
    span = told.span_of(error)
    first, led_to = roots[0]
    # A cause raised and caught in a library never passed through the cell; what it became did.
    tracebacks = (_traceback_of(each) for each in (first, led_to, error))
    place = next((found for traceback in tracebacks if (found := code.place_of(traceback))), None)
    directory = _part(os.getcwd)
    reply = {
        "raised": told.raised(error),
        "roots": [told.raised(root, told.span_of(led_to) or span) for root, led_to in roots],
        "chain": [told.raised(each, span) for each in rest],
        "names": _part(lambda: _names(shell, place)),
        "modules": _part(importable),
        "files": _part(lambda: files_in(directory, project)) if directory is not None else None,
        "directory": None if directory is None else text(directory),
        "python": sys.version.split()[0],
        **(_part(lambda: _around(code, place, shell.user_ns, first)) or {}),
    }
    return _small(reply)


def _last_error(shell: Any) -> tuple[BaseException | None, bool]:
    """What the last execution raised, and whether that was before any of it ran."""
    result = shell.last_execution_result
    if result is None:
        return None, False
    # Where both are there, the other is one of showing it.
    if result.error_before_exec is not None and result.error_in_exec is None:
        return result.error_before_exec, True
    if result.error_in_exec is None and getattr(shell, "_last_traceback_during_displayhook", False):
        # Its value could not be shown: IPython calls that a success, and tells the error all the same.
        return getattr(sys, "last_value", None), False
    return result.error_in_exec, False


def _code_of(shell: Any, error: BaseException) -> CellCode:
    info = shell.last_execution_result.info
    filename = _cell_filename(_traceback_of(error), shell.user_global_ns)
    ran = getattr(info, "transformed_cell", None)
    if ran is None:
        # IPython before 9.16 keeps it for its tracebacks only.
        entry = linecache.cache.get(filename) if filename is not None else None
        ran = "".join(entry[2]) if entry is not None and len(entry) > 2 else info.raw_cell  # noqa: PLR2004
    return CellCode(written=info.raw_cell, ran=ran, filename=filename)


def _cell_filename(traceback: TracebackType | None, namespace: dict[str, Any]) -> str | None:
    """The name of the cell's code: of the outermost frame that runs in the user's namespace."""
    while traceback is not None:
        if traceback.tb_frame.f_globals is namespace:
            return traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next
    return None


def _names(shell: Any, place: Place | None) -> list[str]:
    hidden = shell.user_ns_hidden
    scope = Scope(place.frame if place is not None else None, shell.user_ns)
    own = [name for name in scope.locals if type(name) is str]
    known = list(islice(reversed(shell.user_ns), MAX_NAMES * 2))
    public = [
        name
        for name in known
        if type(name) is str
        and not name.startswith("_")
        and not (name in hidden and hidden[name] is shell.user_ns.get(name))
    ]
    found = dict.fromkeys(text(name) for name in (*own, *public) if len(name) <= MAX_NAME)
    return list(islice(found, MAX_NAMES))


def _around(
    code: CellCode, place: Place | None, namespace: dict[str, Any], error: BaseException
) -> dict[str, Any]:
    """What the failing statement and expression are about."""
    tree = code.tree()
    if place is None or tree is None:
        return {}
    scope = Scope(place.frame, namespace)
    found: dict[str, Any] = {
        "subject": _part(lambda: subject_of(node_at(tree, place.span), scope, code.ran, error))
    }
    statement = statement_at(tree, place.span)
    if statement is not None:
        found["values"] = _part(lambda: _values(statement, scope))
        found["members"] = _part(lambda: members_of(statement, scope))
        found["heads"] = _part(lambda: heads_of(paths_in(tree, statement, scope)))
    return found


def _values(statement: ast.stmt, scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in own_nodes(statement):
        if isinstance(node, ast.Name) and node.id not in found and len(found) < MAX_VALUES:
            value = scope.named(node.id)
            if value is not UNKNOWN and not is_a(value, ModuleType):
                told = describe(value)
                found[node.id] = text(told.get("digest") or f"<{told['type']}>")
    return found


def _part(look: Callable[[], _Found]) -> _Found | None:
    """What a look finds; the rest of a diagnosis is worth having where one part of it cannot be made."""
    try:
        return look()
    except Exception:  # noqa: BLE001  # boundary: whatever the namespace holds, the asker is answered
        return None


def _small(reply: dict[str, Any]) -> dict[str, Any]:
    reply = {key: value for key, value in reply.items() if value is not None}
    for part in _SHED:
        if len(json.dumps(reply)) <= MAX_REPLY:
            break
        reply.pop(part, None)
    return reply

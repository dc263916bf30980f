"""Calls that read or write files: which they are, where they name the file, and how an argument is added to one.

Goes by names as people use them (``read_csv``, ``savefig``, ``open`` with its mode); knows nothing of errors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cellwright.plans.fixers.cells import Cell, Edit

__all__ = ["called", "calls_in", "keyword_of", "path_of", "with_argument", "write_target"]

_PATH_KEYWORDS = frozenset(
    [
        "path_or_buf",
        "filepath_or_buffer",
        "path",
        "fname",
        "file",
        "filename",
        "excel_writer",
        "buf",
        "source",
    ]
)
_WRITE_FIRST = frozenset(
    [
        "imsave",
        "imwrite",
        "save",
        "save_npz",
        "savefig",
        "savetxt",
        "savez",
        "savez_compressed",
        "sink_csv",
        "sink_parquet",
    ]
    + [f"to_{kind}" for kind in ("csv", "excel", "feather", "hdf", "html", "json", "latex", "markdown")]
    + [f"to_{kind}" for kind in ("orc", "parquet", "pickle", "stata", "string", "xml", "netcdf", "file")]
    + [
        f"write_{kind}"
        for kind in ("csv", "excel", "html", "image", "ipc", "json", "ndjson", "parquet", "table")
    ]
)
"""What writes to the file that its first argument names."""
_WRITE_SECOND = frozenset(["copy", "copy2", "copyfile", "dump", "move"])
_WRITE_SELF = frozenset(["write_text", "write_bytes", "touch"])
_OPEN_MODE = 1


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of an expression or of a statement itself, not of the statements in it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Call):
            yield each
        waiting += [child for child in ast.iter_child_nodes(each) if not isinstance(child, ast.stmt)]


def called(call: ast.Call) -> str:
    """The last name of what is called: ``read_csv`` of ``pd.read_csv``."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def keyword_of(call: ast.Call, *names: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg in names), None)


def path_of(call: ast.Call) -> ast.expr | None:
    """Where a call names its file: the first argument, or a keyword that says so."""
    if call.args and not isinstance(call.args[0], ast.Starred):
        return call.args[0]
    keyword = keyword_of(call, *_PATH_KEYWORDS)
    return keyword.value if keyword is not None else None


def write_target(call: ast.Call) -> ast.expr | None:
    """What a call writes to; None where it writes nothing."""
    name = called(call)
    if name in _WRITE_FIRST and isinstance(call.func, ast.Attribute):
        return path_of(call)
    if name in _WRITE_SECOND and isinstance(call.func, ast.Attribute):
        # What is opened there is a target of its own.
        second = call.args[1] if len(call.args) > 1 else None
        return None if isinstance(second, ast.Call) and called(second) == "open" else second
    if name in _WRITE_SELF and isinstance(call.func, ast.Attribute):
        return call.func.value
    if name == "open":
        return _opened(call)
    return None


def _opened(call: ast.Call) -> ast.expr | None:
    """The file of an ``open`` for writing: the builtin's, a module's such as gzip's, or a path's own."""
    of_path = isinstance(call.func, ast.Attribute) and not (call.args and len(call.args) > _OPEN_MODE)
    given = keyword_of(call, "mode")
    mode: ast.expr | None = given.value if given is not None else None
    if mode is None and len(call.args) > _OPEN_MODE:
        mode = call.args[_OPEN_MODE]
    if mode is None and of_path and call.args:
        mode = call.args[0]
    letters = set(str(mode.value)) if isinstance(mode, ast.Constant) else set()
    if letters - set("rwaxbt+") or not letters & set("wax"):
        return None
    if isinstance(call.func, ast.Attribute) and (not call.args or mode is call.args[0]):
        return call.func.value
    return path_of(call)


def with_argument(cell: Cell, call: ast.Call, name: str, value: str, *also_called: str) -> Edit | None:
    """Give a call a keyword argument, in place of what it says now; None where that is not a plain value."""
    said = keyword_of(call, name, *also_called)
    if said is not None:
        return cell.replace(said.value, value) if isinstance(said.value, ast.Constant) else None
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not given:
        end = cell.place(call)[1] - 1
        return Edit(end, end, f"{name}={value}")
    end = max(cell.place(each)[1] for each in given)
    # A bracketed argument ends before its bracket: the comma has to come after it.
    rest = cell.text[end : cell.place(call)[1] - 1]
    closing = len(rest) - len(rest.lstrip(" \t)")) if ")" in rest.split(",")[0].split("#")[0] else 0
    end += rest[:closing].rfind(")") + 1 if closing else 0
    return Edit(end, end, f", {name}={value}")

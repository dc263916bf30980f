"""Names that a cell uses and no cell of its notebook defines, with where they stand. Pure; runs nothing.

Says nothing where it cannot be sure: of cells that define names in ways that cannot be seen, and of other languages.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from cellwright.notebook.python_names import CellNames, cell_names, python_cell

__all__ = ["UndefinedName", "undefined_names"]

# What every Python kernel has beside the builtins: IPython's own names, and those of a module.
_GIVEN = {*dir(builtins), "get_ipython", "display", "In", "Out", "exit", "quit", "put", "get"}
_GIVEN |= {"__name__", "__file__", "__builtins__", "__annotations__", "_exit_code"}

_PAST = re.compile(r"_+|_i+|_(i|o)?h|_dh|_i?\d+")
"""What IPython calls earlier inputs and results."""


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """One place where such a name is used, in characters from the beginning of the source."""

    name: str
    start: int
    end: int


def undefined_names(source: str, cells: Iterable[CellNames]) -> list[UndefinedName]:
    """The names in a Python source that neither it nor one of the notebook's ``cells`` defines."""
    own, others = cell_names(source), list(cells)
    if own.opaque or any(other.opaque for other in others):
        return []
    known = _GIVEN.union(own.defines if own.later else (), *(other.defines for other in others))
    unknown = {name for name in own.uses | own.later if name not in known and not _PAST.fullmatch(name)}
    tree = python_cell(source).tree
    if not unknown or tree is None:
        return []
    return sorted(_places(source, tree, unknown), key=lambda place: place.start)


def _places(source: str, tree: ast.Module, unknown: Collection[str]) -> Iterator[UndefinedName]:
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for node in _names(tree, frozenset(unknown)):
        if node.lineno > len(lines):
            continue
        line = lines[node.lineno - 1]
        column = len(line.encode(errors="surrogatepass")[: node.col_offset].decode(errors="replace"))
        # A magic was read as other code than stands there.
        if line.startswith(node.id, column):
            start = starts[node.lineno - 1] + column
            yield UndefinedName(node.id, start, start + len(node.id))


def _names(node: ast.AST, unknown: frozenset[str]) -> Iterator[ast.Name]:
    """Where one of the names is read, but in a function that has a variable of that name."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        unknown -= _bound_in(node)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in unknown:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _names(child, unknown)


def _bound_in(function: ast.AST) -> set[str]:
    bound = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    return bound | {
        one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }

"""A cell's Python as a syntax tree, with what only IPython understands taken out. Pure; runs nothing.

Magics that run Python (``%time``, ``%%capture`` and the like) leave their code behind. What other magics and shell
commands do to names cannot be known: those that may define any are said to be ``opaque``.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

__all__ = ["PythonCell", "python_cell", "text_constants"]

# Their body is Python that runs in the notebook's own namespace.
_RUNS_BODY = frozenset({"time", "capture", "prun"})
# Their body is Python too, but what it defines is gone afterwards.
_RUNS_APART = frozenset({"timeit"})
_ANY_NAMES = frozenset({"run", "pylab", "store", "load", "loadpy", "sql", "px", "autopx", "rehashx", "reset"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)[^\S\n]*([^\n]*)\n?(.*)", re.DOTALL)
_LINE_MAGIC = re.compile(r"(\s*)%(\w+)[^\S\n]*(.*)")
_OPTIONS = re.compile(r"(?:-\w+(?:\s+\d+)?\s+)*")
_ASSIGNED = re.compile(r"(\s*[A-Za-z_][\w, ]*=\s*)[!%].*")


@dataclass(frozen=True, slots=True)
class PythonCell:
    """What can be read of a cell. ``tree`` is none where it is no Python."""

    tree: ast.Module | None = None
    opaque: bool = False
    """Whether it may define names that cannot be seen in it."""
    defines: frozenset[str] = frozenset()
    """Names that magics define by being told them."""
    keeps: bool = True
    """Whether what its code defines is there afterwards."""


@dataclass(slots=True)
class _Cleaning:
    opaque: bool = False
    lines: list[str] = field(default_factory=list)


def python_cell(source: str) -> PythonCell:
    """Read a cell; one that cannot be read has no tree, and is not opaque for that."""
    magic = _CELL_MAGIC.fullmatch(source)
    if magic is None:
        return _parsed(source)
    name, rest, body = magic.groups()
    if name in _RUNS_BODY:
        found = _parsed(body if name != "time" or body.strip() else rest)
        told = frozenset(word for word in rest.split() if word.isidentifier()) if name == "capture" else None
        return PythonCell(found.tree, found.opaque, told or frozenset())
    if name in _RUNS_APART:
        found = _parsed(body)
        return PythonCell(found.tree, found.opaque, keeps=False)
    return PythonCell(opaque=name in _ANY_NAMES)


def text_constants(source: str) -> list[str]:
    """Every plain text in a cell's code, in order, also where the code can only be read in part."""
    tree = python_cell(source).tree
    if tree is None:
        return []
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def _parsed(source: str) -> PythonCell:
    tree = _tree(source)
    if tree is not None:
        return PythonCell(tree)
    cleaning = _Cleaning()
    for line in source.splitlines():
        cleaning.lines.append(_without_magic(line, cleaning))
    return PythonCell(_tree("\n".join(cleaning.lines)), cleaning.opaque)


def _tree(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stray backslash the kernel tells
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _without_magic(line: str, cleaning: _Cleaning) -> str:
    if (magic := _LINE_MAGIC.fullmatch(line)) is not None:
        indent, name, rest = magic.groups()
        cleaning.opaque = cleaning.opaque or name in _ANY_NAMES
        code = _OPTIONS.sub("", rest, count=1) if name in {"time", "timeit", "prun"} else ""
        return indent + (code if code.strip() and _tree(code) is not None else "pass")
    if (assigned := _ASSIGNED.fullmatch(line)) is not None:
        return f"{assigned[1]}None"
    stripped = line.strip()
    if stripped.startswith(("!", "?", "%")) or stripped.endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return line

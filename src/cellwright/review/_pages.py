"""A notebook's cells as rules read them: parsed, with what the kernel held around them. Pure; runs nothing.

Also what rules have in common: walking a tree with the scope and the loops around each node, aliases of modules, and
who uses a name later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cellwright.engine.introspection import Frame
from cellwright.notebook import Cell
from cellwright.notebook.languages import canonical_language
from cellwright.notebook.python_names import CellNames, cell_names, python_cell

__all__ = ["Case", "NodeLocation", "Page", "names_stored", "node_locations", "page_of", "uses_of"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class Page:
    """One code cell."""

    cell_id: str
    number: int
    """Its place in the notebook, from 1."""
    source: str
    tree: ast.Module | None
    """None where it is no Python that can be read."""
    names: CellNames
    plain: bool = True
    """Whether the lines of its code are those of the cell: a cell magic's body has others."""


@dataclass(frozen=True)
class Case:
    """A cell among the others, and what names stand for around it."""

    page: Page
    above: tuple[Page, ...] = ()
    below: tuple[Page, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, Frame] = field(default_factory=dict)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Modules by the name that code has them under, here and above: ``numpy`` is ``np``."""
        found: dict[str, str] = {}
        for page in (*self.above, self.page):
            for node in ast.walk(page.tree) if page.tree is not None else ():
                if isinstance(node, ast.Import):
                    found |= {one.name: one.asname or one.name for one in node.names}
        return found

    def is_called(self, call: ast.Call, module: str, *names: str) -> bool:
        """Whether a call is of a module's function, by the module's own name."""
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == self.aliases.get(module)
            and function.attr in names
        )

    def used_later(self, name: str, after: ast.AST) -> bool:
        """Whether code below a node, in this cell or others, may read what the node leaves under a name."""
        end = getattr(after, "end_lineno", 0) or 0
        here = any(use.lineno > end for use in uses_of(self.page.tree, name))
        return here or any(
            name in page.names.uses or name in page.names.later or page.names.opaque for page in self.below
        )

    def is_free(self, name: str) -> bool:
        """Whether nobody has a name for anything."""
        pages = (*self.above, self.page, *self.below)
        return name not in self.types and not any(
            isinstance(node, ast.Name) and node.id == name
            for page in pages
            if page.tree is not None
            for node in ast.walk(page.tree)
        )


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """A node and where it stands."""

    node: ast.AST
    scope: str
    """The function around it; empty at the top level."""
    loops: tuple[ast.For | ast.AsyncFor | ast.While, ...]
    """Loops of the same scope whose bodies it is in, the outermost first."""
    statement: ast.stmt
    """The innermost statement that it is, or is part of."""
    parent: ast.AST


def page_of(cell: Cell, number: int, notebook: str = "python") -> Page:
    """Read a cell of a notebook in a language."""
    language = canonical_language(cell.language or notebook)
    tree = python_cell(cell.source).tree if language == "python" else None
    plain = not cell.source.lstrip().startswith("%%")
    return Page(cell.id, number, cell.source, tree, cell_names(cell.source, language), plain)


def node_locations(tree: ast.Module | None) -> Iterator[NodeLocation]:
    """Every node below a tree's top, in the order of its text."""
    for statement in tree.body if tree is not None else ():
        yield from _below(statement, NodeLocation(statement, "", (), statement, tree or statement))


def _below(node: ast.AST, place: NodeLocation) -> Iterator[NodeLocation]:
    yield place
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _below(child, _child(node, name, child, place))


def _child(node: ast.AST, name: str, child: ast.AST, place: NodeLocation) -> NodeLocation:
    scope, loops = place.scope, place.loops
    if isinstance(node, _Function) and name == "body":
        scope, loops = getattr(node, "name", "<lambda>"), ()
    elif isinstance(node, _LOOPS) and name == "body":
        loops = (*loops, node)
    statement = child if isinstance(child, ast.stmt) else place.statement
    return NodeLocation(child, scope, loops, statement, node)


def uses_of(tree: ast.AST | None, name: str) -> list[ast.Name]:
    """Where a name is read."""
    return [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]


def names_stored(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are bound anywhere in these nodes."""
    return {
        node.id
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }

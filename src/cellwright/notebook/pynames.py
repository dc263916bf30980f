"""The names that a cell's Python defines, and those that it takes from elsewhere. Pure; runs nothing.

Read in the order in which the code runs, as far as that can be told: what is defined in one branch of an ``if`` counts
as defined after it. What a function's body uses it uses when it is called: in this very cell, if the function is named
again in it, else at some later time. What is made of the names stands in ``verification`` and ``mcp.knowledge``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from cellwright.notebook.cells import Cell
from cellwright.notebook.languages import canonical_language
from cellwright.notebook.pyscopes import Scope, arguments_of, read_scope
from cellwright.notebook.pysource import python_cell
from cellwright_kernel.sqltext import result_name

__all__ = ["CellNames", "Names", "cell_names", "names_defined", "names_of"]

_SHOWN_ARGUMENTS = 6
_ANY_NAMES = frozenset({"exec", "globals"})
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Names:
    """Names by what they are; values say more: what was imported, a function's parameters."""

    imports: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def add(self, other: Names) -> None:
        for name in [*other.imports, *other.functions, *other.variables]:
            for kind in (self.imports, self.functions, self.variables):
                kind.pop(name, None)
        self.imports |= other.imports
        self.functions |= other.functions
        self.variables |= other.variables

    def all(self) -> set[str]:
        return {*self.imports, *self.functions, *self.variables}


@dataclass(frozen=True, slots=True)
class CellNames:
    """What a cell has to do with names at the top level."""

    defines: frozenset[str] = frozenset()
    """Names that it has defined when it is over."""
    uses: frozenset[str] = frozenset()
    """Names that must be there already when it runs."""
    later: frozenset[str] = frozenset()
    """Names that only its functions use, none of which it calls itself."""
    deletes: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    """Top-level modules that it imports, by their own names."""
    opaque: bool = False
    """Whether it may define names that cannot be seen in it: by ``from m import *``, ``%run``, ``exec``."""


def names_defined(source: str, language: str = "python") -> Names:
    """The public names that code gives the Python kernel at its top level; none where it cannot be read."""
    names = Names()
    if language != "python":
        names.variables |= dict.fromkeys(sorted(cell_names(source, language).defines), "")
        return names
    for name, (kind, about) in _read(source).bound.items():
        if not name.startswith("_"):
            getattr(names, kind)[name] = about
    return names


def names_of(cell: Cell) -> CellNames:
    """What a cell of a Python notebook defines and uses; of another language, what it gives to Python."""
    return cell_names(cell.source, canonical_language(cell.language or "python"))


@lru_cache(maxsize=4096)
def cell_names(source: str, language: str = "python") -> CellNames:
    """What a cell defines and uses in the Python kernel; nothing where it cannot be read, or runs elsewhere."""
    if language != "python":
        return CellNames(defines=_bound_by_sql(source) if language == "sql" else frozenset())
    cell, reader = python_cell(source), _read(source)
    later = frozenset(name for uses in reader.bodies.values() for name in uses)
    defines = frozenset(reader.bound) if cell.keeps else frozenset()
    return CellNames(
        defines=defines | cell.defines,
        uses=frozenset(reader.needed),
        later=later - reader.needed - set(reader.bound),
        deletes=frozenset(reader.deleted - set(reader.bound)),
        modules=frozenset(reader.modules),
        opaque=cell.opaque or reader.opaque,
    )


def _bound_by_sql(source: str) -> frozenset[str]:
    """The variable that a query's result becomes."""
    try:
        name = result_name(source)
    except ValueError:  # it is none, and the cell fails
        return frozenset()
    return frozenset({name}) if name is not None else frozenset()


def _read(source: str) -> _Reader:
    reader, tree = _Reader(), python_cell(source).tree
    if tree is not None:
        try:
            reader.read(tree.body)
        except RecursionError:  # nested deeper than anybody writes
            return _Reader()
    return reader


class _Reader(ast.NodeVisitor):
    """Goes through a cell's statements in order."""

    def __init__(self) -> None:
        self.bound: dict[str, tuple[str, str]] = {}
        """Each name with its kind, as ``Names`` calls it, and what else is to be told."""
        self.needed: set[str] = set()
        self.bodies: dict[str, frozenset[str]] = {}
        """What functions and classes of the cell use once they are called."""
        self.deleted: set[str] = set()
        self.modules: set[str] = set()
        self.opaque = False

    def read(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    # Names -------------------------------------------------------------------------------------------------------

    def _bind(self, name: str, kind: str = "variables", about: str = "") -> None:
        self.bound.pop(name, None)
        self.bound[name] = (kind, about)

    def _use(self, name: str) -> None:
        if name in _ANY_NAMES:
            self.opaque = True
        if name not in self.bound:
            self.needed.add(name)
        body = self.bodies.pop(name, frozenset())
        for inner in body:  # taken out first: functions that call each other would not end
            self._use(inner)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id)
        elif isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            if node.id not in self.bound:
                self.needed.add(node.id)
            self.bound.pop(node.id, None)
            self.deleted.add(node.id)

    # Statements whose parts run in another order than they are written in ----------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Lambda) and all(isinstance(one, ast.Name) for one in node.targets):
            self._visit_all(arguments_of(node.value.args))
            for target in node.targets:
                self.visit(target)
                self.bodies[target.id] = read_scope(node.value).free  # type: ignore[attr-defined]  # a Name
            return
        self.visit(node.value)
        self._visit_all(node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit_all([node.iter, node.target, *node.body, *node.orelse])

    visit_AsyncFor = visit_For

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._bind(node.name)
        self.read(node.body)
        if node.name is not None:
            self.bound.pop(node.name, None)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.modules.add(top)
            self._bind(alias.asname or top, "imports", alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level and node.module:
            self.modules.add(node.module.partition(".")[0])
        for alias in node.names:
            if alias.name == "*":
                self.opaque = True
            else:
                about = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                self._bind(alias.asname or alias.name, "imports", about)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name is not None:
            self._bind(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            self._bind(node.rest)

    # Scopes of their own -----------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: _Function) -> None:
        self._visit_all([*node.decorator_list, *arguments_of(node.args)])
        self._bind(node.name, "functions", _parameters(node.args))
        self._take_body(node.name, read_scope(node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        scope = read_scope(node)
        for name in scope.free:
            self._use(name)
        self._bind(node.name, "functions", "class")
        self._take_body(node.name, scope.inner)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        # Most are given to something that calls them there and then.
        self._visit_all(arguments_of(node.args))
        for name in read_scope(node).free:
            self._use(name)

    def _visit_comprehension(self, node: _Comprehension) -> None:
        self.visit(node.generators[0].iter)
        scope = read_scope(node)
        for name in scope.free:
            self._use(name)
        for name in scope.leaks:
            self._bind(name)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _take_body(self, name: str, scope: Scope) -> None:
        self.bodies[name] = scope.free
        for declared in scope.sets_global:
            self._bind(declared)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _parameters(arguments: ast.arguments) -> str:
    every = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    shown = every[:_SHOWN_ARGUMENTS] + (["…"] if len(every) > _SHOWN_ARGUMENTS else [])
    return f"({', '.join(shown)})"

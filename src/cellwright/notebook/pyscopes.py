"""What a function, a class body or a comprehension takes from the namespace around it. Pure.

Order does not matter in here: a name that a function assigns anywhere is its own everywhere. What runs at a cell's top
level, where order does matter, is read in ``pynames``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Scope", "arguments_of", "read_scope"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
ScopeNode: TypeAlias = _Function | ast.ClassDef | _Comprehension


@dataclass(slots=True)
class Scope:
    """One scope and all that lie in it."""

    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    """Names that it says are global."""
    sets_global: set[str] = field(default_factory=set)
    """Names at the top level that it sets, or something in it does."""
    leaks: set[str] = field(default_factory=set)
    """Names that ``:=`` in a comprehension gives to whatever holds the comprehension."""
    methods: set[str] = field(default_factory=set)
    """What the functions in a class body use."""

    @property
    def free(self) -> frozenset[str]:
        """Names that it uses and does not have."""
        return frozenset(self.loads - (self.stores - self.declared))

    @property
    def inner(self) -> Scope:
        """Of a class: its functions, taken together."""
        return Scope(loads=self.methods, sets_global=self.sets_global)


def read_scope(node: ScopeNode) -> Scope:
    """Read one scope."""
    reader = _ScopeReader(is_class=isinstance(node, ast.ClassDef))
    match node:
        case ast.Lambda():
            reader.take_parameters(node.args)
            reader.visit(node.body)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            reader.take_parameters(node.args)
            reader.take_type_parameters(node)
            reader.visit_all(node.body)
        case ast.ClassDef():
            reader.take_type_parameters(node)
            reader.visit_all(node.body)
        case _:
            reader.take_comprehension(node)
    scope = reader.scope
    scope.sets_global |= scope.stores & scope.declared
    return scope


def arguments_of(arguments: ast.arguments) -> list[ast.expr]:
    """What is evaluated where a function is defined: defaults and annotations."""
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    annotations = [one.annotation for one in every if one is not None and one.annotation is not None]
    return [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None), *annotations]


class _ScopeReader(ast.NodeVisitor):
    def __init__(self, *, is_class: bool) -> None:
        self.scope = Scope()
        self._is_class = is_class
        self._is_comprehension = False

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def take_parameters(self, arguments: ast.arguments) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        self.scope.stores |= {argument.arg for argument in [*every, *rest]}

    def take_type_parameters(self, node: ast.AST) -> None:
        # From Python 3.12 on.
        self.scope.stores |= {parameter.name for parameter in getattr(node, "type_params", ())}

    def take_comprehension(self, node: _Comprehension) -> None:
        """All of it but what its first ``for`` goes through, which is evaluated outside."""
        self._is_comprehension = True
        for place, generator in enumerate(node.generators):
            self.visit(generator.target)
            self.visit_all([generator.iter] if place else [])
            self.visit_all(generator.ifs)
        self.visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    # Names -------------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        (self.scope.loads if isinstance(node.ctx, ast.Load) else self.scope.stores).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.scope.loads.add(node.target.id)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        if self._is_comprehension:
            self.scope.leaks.add(node.target.id)
        self.visit(node.target)

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.declared |= set(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.loads |= set(node.names)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.scope.stores |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.scope.stores.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name is not None:
            self.scope.stores.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self.scope.stores.add(node.rest)
        self.generic_visit(node)

    # Scopes in it ------------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all([*node.decorator_list, *arguments_of(node.args)])
        self.scope.stores.add(node.name)
        self._take(read_scope(node), called_later=True)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        self.scope.stores.add(node.name)
        inner = read_scope(node)
        inner.loads = set(inner.free) | inner.methods
        inner.stores = set()
        self._take(inner, called_later=False)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all(arguments_of(node.args))
        self._take(read_scope(node), called_later=True)

    def _visit_comprehension(self, node: _Comprehension) -> None:
        self.visit(node.generators[0].iter)
        inner = read_scope(node)
        self._take(inner, called_later=False)
        if self._is_comprehension:
            self.scope.leaks |= inner.leaks
        self.scope.stores |= inner.leaks

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _take(self, inner: Scope, *, called_later: bool) -> None:
        # A class body's own names are not seen by its methods, so theirs are kept apart.
        (self.scope.methods if self._is_class and called_later else self.scope.loads).update(inner.free)
        self.scope.sets_global |= inner.sets_global

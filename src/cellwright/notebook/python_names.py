"""The names that a cell's Python defines, and those that it takes from elsewhere. Pure; runs nothing.

Read in the order in which the code runs, as far as that can be told: what is defined in one branch of an ``if`` counts
as defined after it. What a function's body uses it uses when it is called: in this very cell, if the function is named
again in it, else at some later time. What is made of the names stands in ``verification`` and ``mcp.context``.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from cellwright.notebook.cells import Cell
from cellwright.notebook.languages import canonical_language
from cellwright_kernel.sqltext import result_name

__all__ = [
    "CellNames",
    "Names",
    "cell_names",
    "names_defined",
    "names_of",
    "python_cell",
    "text_constants",
    "undefined_names",
]

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


@lru_cache(maxsize=32)  # a cell that ran is asked about by whoever knows the session, and for each client
def _read(source: str) -> _Reader:
    """Read a cell; what it found is not changed afterwards."""
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


# What a function, a class body or a comprehension takes from the namespace around it. Pure.

_AnyFunction: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode: TypeAlias = _AnyFunction | ast.ClassDef | _Comprehension


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


# A cell's Python as a syntax tree, with what only IPython understands taken out. Pure; runs nothing.

# Their body is Python that runs in the notebook's own namespace.
_RUNS_BODY = frozenset({"time", "capture", "prun"})

# Their body is Python too, but what it defines is gone afterwards.
_RUNS_APART = frozenset({"timeit"})

_ANY_IN_SOURCE = frozenset(
    {"run", "pylab", "store", "load", "loadpy", "sql", "px", "autopx", "rehashx", "reset"}
)

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
        names = frozenset(word for word in rest.split() if word.isidentifier()) if name == "capture" else None
        return PythonCell(found.tree, found.opaque, names or frozenset())
    if name in _RUNS_APART:
        found = _parsed(body)
        return PythonCell(found.tree, found.opaque, keeps=False)
    return PythonCell(opaque=name in _ANY_IN_SOURCE)


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
        cleaning.opaque = cleaning.opaque or name in _ANY_IN_SOURCE
        code = _OPTIONS.sub("", rest, count=1) if name in {"time", "timeit", "prun"} else ""
        return indent + (code if code.strip() and _tree(code) is not None else "pass")
    if (assigned := _ASSIGNED.fullmatch(line)) is not None:
        return f"{assigned[1]}None"
    stripped = line.strip()
    if stripped.startswith(("!", "?", "%")) or stripped.endswith("?"):
        return line[: len(line) - len(line.lstrip())] + "pass"
    return line


# Names that a cell uses and no cell of its notebook defines, with where they stand. Pure; runs nothing.

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

"""A cell's source with its syntax tree, and edits of it by exact place: what is not edited stays as it is, byte for byte.

Knows nothing of errors. IPython's own lines and top-level ``await`` do not hinder it.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cellwright.engine import Diagnosis
from cellwright.engine.introspection import Raised, Span
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._regions import blanked, line_starts, regions

__all__ = [
    "MAX_TEXT",
    "Case",
    "Cell",
    "Edit",
    "called",
    "calls_in",
    "case_at_top",
    "case_of",
    "error_of",
    "is_gone_since",
    "keyword_of",
    "literal_like",
    "parse",
    "path_of",
    "syntax_error",
    "with_argument",
    "write_target",
]

MAX_TEXT = 100_000
"""What is longer was written by no hand, and is left alone: looking into it takes too long."""

_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

_LITERAL = re.compile(r"(?P<prefix>[rRuUbB]*)(?P<quote>\"\"\"|'''|\"|')(?P<inner>.*)(?P=quote)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands between two places."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A source that parses."""

    text: str
    tree: ast.Module
    starts: tuple[int, ...]
    parents: dict[ast.AST, ast.AST]

    def offset(self, line: int, column: int) -> int:
        """A place of the tree's (column in bytes) as one in the text."""
        start = self.starts[min(line, len(self.starts)) - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="ignore"))

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Where a node stands. Inside f-strings old Pythons tell wrong places: compare before relying on it."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        return self.offset(line, column), self.offset(end_line, column if end_column is None else end_column)

    def segment(self, node: ast.AST) -> str:
        start, end = self.place(node)
        return self.text[start:end]

    def replace(self, node: ast.AST, text: str) -> Edit:
        start, end = self.place(node)
        return Edit(start, end, text)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What it stands in, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        if isinstance(node, ast.stmt):
            return node
        return next((above for above in self.ancestors(node) if isinstance(above, ast.stmt)), None)

    def within(self, span: Span | None) -> ast.stmt | None:
        """The innermost statement around a place; of a compound one, the line that leads it counts as its own."""
        if span is None:
            return None
        start, end = self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)
        around = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.stmt)
            and node.lineno <= span.line
            and (node.end_lineno or 0) >= span.end_line
            if self.place(node)[0] <= start and self.place(node)[1] >= end
        ]
        return max(around, key=lambda node: self.place(node)[0], default=None)

    def at(self, span: Span | None) -> tuple[ast.expr, ...]:
        """The expressions that stand exactly there."""
        if span is None:
            return ()
        exact = (self.offset(span.line, span.column), self.offset(span.end_line, span.end_column))
        return tuple(
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.expr) and node.lineno == span.line and self.place(node) == exact
        )

    def edited(self, edits: Iterable[Edit]) -> str | None:
        """The text with these edits, if there are any, none overlaps another, and the result compiles."""
        parts, upto = list[str](), len(self.text) + 1
        ordered = sorted(set(edits), key=lambda edit: (edit.start, edit.end), reverse=True)
        for edit in ordered:
            if edit.end > upto or (edit.end == upto == edit.start):
                return None
            parts += [self.text[edit.end : upto], edit.text]
            upto = edit.start
        text = "".join(reversed([*parts, self.text[:upto]]))
        return text if ordered and text != self.text and syntax_error(text) is None else None

    def names(self) -> Iterator[ast.Name]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Name))

    def is_use(self, node: ast.Name) -> bool:
        """Whether the name must be there already: read, deleted, or changed in place."""
        return not isinstance(node.ctx, ast.Store) or isinstance(self.parents.get(node), ast.AugAssign)

    def binds(self, name: str) -> bool:
        """Whether the cell itself gives the name a meaning somewhere."""
        return any(name in _bound(node, self) for node in ast.walk(self.tree))

    def strings(self, value: str) -> tuple[ast.Constant, ...]:
        """The string literals of this value, but for those in places that old Pythons do not tell right."""
        return tuple(
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value == value
            and literal_like(self.segment(node), value, value) is not None
        )

    def line_start(self, offset: int) -> int:
        return self.starts[bisect_right(self.starts, offset) - 1]

    def import_edit(self, statement: str) -> Edit:
        """A line with this import before the first statement that may follow one."""
        for node in self.tree.body:
            docstring = node is self.tree.body[0] and _is_text(node)
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            if not docstring and not future:
                first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
                start = self.starts[first - 1]
                return Edit(start, start, f"{statement}\n")
        return Edit(
            len(self.text), len(self.text), ("" if self.text.endswith("\n") else "\n") + statement + "\n"
        )


def _bound(node: ast.AST, cell: Cell) -> tuple[str, ...]:
    match node:
        case ast.Name() if not cell.is_use(node):
            return (node.id,)
        case ast.arg():
            return (node.arg,)
        case ast.alias():
            return (node.asname or node.name.partition(".")[0],)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
    return tuple(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else ()


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


# Every fixer looks at the same one.
@lru_cache(maxsize=1)
def parse(text: str) -> Cell | None:
    """The cell, or None where it is no Python that this interpreter can parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(blanked(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Cell(text, tree, line_starts(text), parents)


@lru_cache(maxsize=32)
def syntax_error(text: str) -> SyntaxError | None:
    """Why it does not compile; None where it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(blanked(text), "<cell>", "exec", _FLAGS, dont_inherit=True)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error))
    return None


def literal_like(segment: str, old: str, new: str) -> str | None:
    """A string literal with another value, quoted as the old one was where that can be; None where it is not that one."""
    match = _LITERAL.fullmatch(segment)
    if match is None or "b" in match["prefix"].lower():
        return None
    try:
        if ast.literal_eval(segment) != old:
            return None
    except (ValueError, SyntaxError):
        return None
    plain = new.isprintable() and "\\" not in new and match["quote"][0] not in new and match["inner"] == old
    return f"{match['prefix']}{match['quote']}{new}{match['quote']}" if plain else repr(new)


# Calls that read or write files: which they are, where they name the file, and how an argument is added to
# one.

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


# A failure made ready for a fixer: its one root, the cell as a tree, and the place that failed.

_TWICE = "What the cell did before it failed was not undone, and would be done twice: see to that first."


@dataclass(frozen=True, slots=True)
class Case:
    """One error of one cell."""

    failure: Failure
    error: Raised
    cell: Cell

    @property
    def diagnosis(self) -> Diagnosis:
        return self.failure.diagnosis or Diagnosis((self.error,), self.error)

    @property
    def details(self) -> dict[str, Any]:
        return {**self.diagnosis.raised.details, **self.error.details}

    @property
    def span(self) -> Span | None:
        """The innermost place of the cell that led to the error: a cause's own, or what was made of it."""
        return self.error.span or self.diagnosis.raised.span

    @property
    def statement(self) -> ast.stmt | None:
        return self.cell.within(self.span)

    @property
    def can_run_again(self) -> bool:
        """Whether the cell can be run once more: from where it began, or because it did nothing that counts."""
        return self.failure.surroundings.has_checkpoint or is_repeatable(self.cell, self.span)

    def uses(self, name: str) -> tuple[ast.Name, ...]:
        """Where a name is used, but for those places where old Pythons do not tell it right."""
        return tuple(
            node
            for node in self.cell.names()
            if node.id == name and self.cell.segment(node) == name and self.cell.is_use(node)
        )

    def proposal(
        self,
        fixer: str,
        reason: str,
        edits: Iterable[Edit] = (),
        *,
        certain: bool,
        packages: tuple[str, ...] = (),
    ) -> Proposal:
        """The edits as a proposal; where they do not lead to a source that compiles, only what they were for."""
        source = self.cell.edited(edits)
        if certain and not self.can_run_again:
            certain, reason = False, f"{reason} {_TWICE}"
        return Proposal(
            fixer, reason, source, packages, certain=certain and (source is not None or bool(packages))
        )

    def choice(self, fixer: str, reason: str, *ways: Iterable[Edit]) -> Proposal:
        """A suggestion of one source or several, each by its edits, of which none is certain before it was tried."""
        edited = (self.cell.edited(edits) for edits in ways)
        sources = list(dict.fromkeys(source for source in edited if source is not None))
        return Proposal(fixer, reason, sources[0] if sources else None, alternatives=tuple(sources[1:]))


def error_of(failure: Failure) -> Raised | None:
    """What a failure comes down to; None where that is not one thing."""
    if failure.diagnosis is None:
        return Raised(failure.error_type, failure.message)
    return failure.diagnosis.roots[0] if len(failure.diagnosis.roots) == 1 else None


def case_of(failure: Failure, *types: str) -> Case | None:
    """The case, if Python code that parses raised one of these and nothing else."""
    error = error_of(failure)
    if failure.state != "error" or failure.language != "python" or error is None or error.type not in types:
        return None
    cell = parse(failure.source) if len(failure.source) <= MAX_TEXT else None
    return None if cell is None else Case(failure, error, cell)


# Whether what a cell did before it failed can be done once more: where nothing brings back the state before
# the cell, a repaired cell does all of it again.

_CHANGING = """
    add append clear commit discard execute executemany extend insert next pop popitem popleft appendleft put post
    remove reverse send setdefault shuffle sort submit to_sql truncate unlink update write writelines
"""

_CHANGES = frozenset(_CHANGING.split())

_ACTING = frozenset(["next", "input", "exec", "eval", "setattr", "delattr", "compile"])

_PLAIN = frozenset(dir(builtins)) - _ACTING

_LED_ONCE = (ast.With, ast.If, ast.For)
"""Statements whose head is looked at once, before anything in them is done."""


def is_repeatable(cell: Cell, span: Span | None) -> bool:
    """Whether nothing that a cell did before it failed at a place is another thing when it is done twice."""
    if span is None or any(region.kind == "magic" for region in regions(cell.text)):
        return False
    body = cell.tree.body
    number = next(
        (place for place, each in enumerate(body) if each.lineno <= span.line <= (each.end_lineno or 0)), None
    )
    if number is None or not _did_nothing_yet(body[number], cell.within(span)):
        return False
    return all(_is_harmless(statement) for statement in body[:number])


def _did_nothing_yet(statement: ast.stmt, failing: ast.stmt | None) -> bool:
    """Whether a statement that failed cannot have done part of what it does."""
    if failing is not statement or not all(_is_plain(call) for call in calls_in(statement)):
        return False
    return not hasattr(statement, "body") or isinstance(statement, _LED_ONCE)


def _is_harmless(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Pass():
            return not getattr(statement, "decorator_list", [])
        case ast.Expr(value=value):
            return all(_is_plain(call) for call in calls_in(value))
        case ast.Assign(targets=targets, value=value):
            given = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            fresh = all(isinstance(target, ast.Name) for target in targets)
            read = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            return fresh and not given & read and all(_is_plain(call) for call in calls_in(value))
    return False


def _is_plain(call: ast.Call) -> bool:
    """Whether a call is not known to change anything; of somebody's own functions nobody knows."""
    name = called(call)
    if write_target(call) is not None or name in _CHANGES or name in _ACTING:
        return False
    return isinstance(call.func, ast.Attribute) or name in _PLAIN or name[:1].isupper()


def case_at_top(failure: Failure, *types: str) -> Case | None:
    """The failure by the error that reached the top: a library's words about a value are there, not in its cause."""
    if failure.state != "error" or failure.language != "python" or len(failure.source) > MAX_TEXT:
        return None
    known = failure.diagnosis
    error = known.raised if known is not None else Raised(failure.error_type, failure.message)
    cell = parse(failure.source) if error.type in types else None
    return None if cell is None else Case(failure, error, cell)


def is_gone_since(case: Case, library: str, since: str) -> bool:
    """Whether the installed release is one from which the old name is gone; an unknown one may be."""
    installed = case.diagnosis.versions.get(library)
    return installed is None or _release(installed) >= _release(since)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])

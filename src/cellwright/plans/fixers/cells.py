"""A cell's source with its syntax tree, and edits of it by exact place: what is not edited stays as it is, byte for byte.

Knows nothing of errors. IPython's own lines and top-level ``await`` do not hinder it.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from cellwright.engine.introspection import Span
from cellwright.plans.fixers.regions import blanked, line_starts

__all__ = ["MAX_TEXT", "Cell", "Edit", "literal_like", "parse", "syntax_error"]

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

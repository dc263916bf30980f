"""Reads words, names and the kind of a statement off SQL as text. Pure; parses nothing.

DuckDB's own parser splits and checks statements (see ``sql``). It does not tell which names a statement uses before
those exist, so names are found here, generously: a word too many does no harm.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Token", "connection_name", "names_in", "result_name", "tokens_of", "what_happened"]

Kind: TypeAlias = Literal["comment", "text", "quoted", "parameter", "word", "other"]

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<text>'(?:[^']|'')*(?:'|\Z)|(?P<dollar>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=dollar)|\Z))
    | (?P<quoted>"(?:[^"]|"")*(?:"|\Z))
    | (?P<parameter>\$\w+)
    | (?P<word>[^\W\d]\w*)
    | (?P<other>\d[\w.]*|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(
    r"[ \t]*--[ \t]*(?P<what>result|connection)[ \t]*:(?P<name>[^\n]*)(?:\n|\Z)", re.IGNORECASE
)
_CONNECTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

_VERBS = {
    "INSERT": "inserted into",
    "UPDATE": "updated in",
    "DELETE": "deleted from",
    "MERGE_INTO": "changed in",
}
_DONE = {"CREATE": "created", "DROP": "dropped", "ALTER": "altered"}
_THINGS = frozenset(
    {"TABLE", "VIEW", "SCHEMA", "INDEX", "SEQUENCE", "MACRO", "FUNCTION", "TYPE", "SECRET", "TRIGGER"}
)
_BEFORE_NAME = frozenset({"IF", "NOT", "EXISTS", "INTO", "FROM", "TABLE", "ONLY"})


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int
    """In characters."""

    @property
    def name(self) -> str:
        """What an identifier names."""
        return self.text.strip('"').replace('""', '"') if self.kind == "quoted" else self.text

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens_of(sql: str) -> Iterator[Token]:
    """Everything but blanks."""
    for match in _TOKEN.finditer(sql):
        kinds: tuple[Kind, ...] = ("comment", "text", "quoted", "parameter", "word", "other")
        yield next(Token(kind, match[0], match.start()) for kind in kinds if match[kind] is not None)


def names_in(sql: str) -> list[str]:
    """Whatever may name a table, in the order of appearance, each once."""
    return list(dict.fromkeys(token.name for token in tokens_of(sql) if token.kind in {"word", "quoted"}))


def connection_name(cell: str) -> str | None:
    """The connection that one of the first lines, ``-- connection: name``, asks for.

    Raises:
        ValueError: that is no name.
    """
    name = _directives(cell).get("connection")
    if name is not None and not _CONNECTION_NAME.fullmatch(name):
        raise ValueError(f"`-- connection: {name}` must name a connection, such as `-- connection: sales`")
    return name


def result_name(cell: str) -> str | None:
    """What one of the first lines, ``-- result: name``, asks the result to be called.

    Raises:
        ValueError: that is no name.
    """
    name = _directives(cell).get("result")
    if name is None:
        return None
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"`-- result: {name}` must name a Python variable, such as `-- result: totals`")
    return name


def _directives(cell: str) -> dict[str, str]:
    """What the first lines say: ``-- result: name`` and ``-- connection: name``."""
    found: dict[str, str] = {}
    place = 0
    while (match := _DIRECTIVE.match(cell, place)) is not None:
        found.setdefault(match["what"].lower(), match["name"].strip())
        place = match.end()
    return found


def what_happened(kind: str, sql: str, count: int | None) -> str | None:
    """One line about a statement that has no rows to show; None where there is nothing to tell."""
    words = [token for token in tokens_of(sql) if token.kind != "comment"]
    upper = [token.text.upper() for token in words]
    if kind in _VERBS and count is not None:
        return f"{_rows(count)} {_VERBS[kind]} {_name_from(words, 1)}"
    if kind == "COPY":
        return _copied(words, upper, count)
    if kind in _DONE:
        at = next((place for place, text in enumerate(upper) if text in _THINGS), None)
        if at is None:
            return None
        with_rows = f", {_rows(count)}" if count is not None else ""
        return f"{upper[at].lower()} {_name_from(words, at + 1)} {_DONE[kind]}{with_rows}"
    return None


def _copied(words: list[Token], upper: list[str], count: int | None) -> str | None:
    target = next((token.text for token in reversed(words) if token.kind == "text"), None)
    depth = 0
    for token, text in zip(words, upper, strict=True):
        depth += {"(": 1, ")": -1}.get(text, 0)
        if depth == 0 and text in {"TO", "FROM"}:
            after = next((later.text for later in words if later.start > token.start), target)
            rows = _rows(count) if count is not None else "rows"
            return (
                f"{rows} written to {after}" if text == "TO" else f"{rows} read into {_name_from(words, 1)}"
            )
    return None


def _name_from(words: list[Token], place: int) -> str:
    """The name, with its qualifiers, that a statement's head leads to."""
    is_replacing = len(words) > place and words[place].text.upper() == "OR"
    rest = words[place + 2 :] if is_replacing else words[place:]
    while rest and rest[0].kind == "word" and rest[0].text.upper() in _BEFORE_NAME:
        rest = rest[1:]
    parts = [rest[0].text] if rest else []
    for dot, after in zip(rest[1::2], rest[2::2], strict=False):
        if dot.text != "." or after.kind not in {"word", "quoted"}:
            break
        parts += [".", after.text]
    return "".join(parts)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"

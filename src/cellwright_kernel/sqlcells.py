"""SQL as a language whose cells run in the Python kernel: what is run in their place, and what can follow at the cursor.

Completion asks the catalogue and the session's frames, and runs nothing of the user's.
"""

from __future__ import annotations

import re
from typing import Any

from cellwright_kernel import _sqlframes, sqltext
from cellwright_kernel.sql import Database, database_of

__all__ = ["complete", "python_of"]

MOST_MATCHES = 500
COLUMNS = "SELECT DISTINCT column_name, table_name FROM duckdb_columns() WHERE NOT internal"
KEYWORDS = "SELECT keyword_name FROM duckdb_keywords()"
_WORD = re.compile(r"\w*\Z")
_AFTER_DOT = re.compile(r"(?:\"(?P<quoted>[^\"]+)\"|(?P<word>\w+))\s*\.\s*\w*\Z")


def python_of(source: str) -> str:
    """What runs in a cell's place: an expression, so that its value is shown as any cell's. Loads DuckDB on first use."""
    return f"__import__('cellwright_kernel.sql', fromlist=['run']).run({source!r})\n"


def complete(shell: Any, cell: str, cursor: int) -> dict[str, Any]:
    """The content of a reply to a completion request."""
    before = cell[:cursor]
    word = _WORD.search(before)
    typed = word[0] if word else ""
    try:
        matches = _matches(database_of(shell), shell.user_ns, cell, before)
    except ModuleNotFoundError:
        matches = _sqlframes.tables_in(shell.user_ns)
    folded = typed.casefold()
    fitting = [match for match in dict.fromkeys(matches) if match.casefold().startswith(folded)]
    return {
        "status": "ok",
        "matches": [_quoted(match) for match in fitting[:MOST_MATCHES]],
        "cursor_start": cursor - len(typed),
        "cursor_end": cursor,
        "metadata": {},
    }


def _matches(database: Database, namespace: dict[str, Any], cell: str, before: str) -> list[str]:
    columns = _columns(database, namespace, cell)
    owner = _AFTER_DOT.search(before)
    if owner is not None:
        name = owner["quoted"] or owner["word"]
        table = _aliases(cell, columns).get(name.casefold(), name.casefold())
        return columns.get(table, [])
    every = [column for held in columns.values() for column in held]
    keywords = [str(keyword) for (keyword,) in database.rows_of(KEYWORDS, {})]
    is_upper = bool(re.search(r"\b[A-Z]{3,}\b", before)) or not re.search(r"\b[a-z]{3,}\b", before)
    return [*every, *database.tables(), *(word.upper() if is_upper else word for word in sorted(keywords))]


def _columns(database: Database, namespace: dict[str, Any], cell: str) -> dict[str, list[str]]:
    """The columns of each table that the cell names, by its name in lower case."""
    named = {name.casefold() for name in sqltext.names_in(cell)}
    found: dict[str, list[str]] = {}
    for column, table in database.rows_of(COLUMNS, {}):
        if table.casefold() in named:
            found.setdefault(table.casefold(), []).append(column)
    for variable in _sqlframes.tables_in(namespace):
        if variable.casefold() in named and variable.casefold() not in found:
            found[variable.casefold()] = _sqlframes.columns_of(namespace[variable])
    return found


def _aliases(cell: str, columns: dict[str, list[str]]) -> dict[str, str]:
    """What tables are called in the cell: ``sales AS s``, ``sales s``."""
    names = [token for token in sqltext.tokens_of(cell) if token.kind in {"word", "quoted"}]
    found: dict[str, str] = {}
    for place, token in enumerate(names[:-1]):
        after = names[place + 1]
        if after.text.upper() == "AS" and place + 2 < len(names):
            after = names[place + 2]
        if token.name.casefold() in columns:
            found.setdefault(after.name.casefold(), token.name.casefold())
    return {alias: table for alias, table in found.items() if alias not in columns}


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d]\w*", name) else '"' + name.replace('"', '""') + '"'

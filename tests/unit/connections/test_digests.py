"""What a connection has, as agents read it: within a budget of tokens, and what was left out is counted."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.connections.digests import answer_digest, schema_digest
from cellwright.text_budget import CHARACTERS_PER_TOKEN

TABLES = {
    "tables": [
        {"name": f"table_{n}", "columns": [[f"column_{c}", "integer"] for c in range(20)], "rows": n}
        for n in range(500)
    ],
    "more": 7,
}
OPERATIONS = {
    "operations": [
        {"name": f"get_{n}", "about": "word " * 90, "arguments": [["id", True, "integer"]]}
        for n in range(900)
    ],
    "more": 0,
}
ROWS = {"columns": [{"name": "a", "values": ["x" * 900] * 2_000}], "rows": 2_000, "truncated": ""}


@pytest.mark.parametrize("tokens", [100, 400, 1_500, 4_000])
@pytest.mark.parametrize("schema", [TABLES, OPERATIONS], ids=["tables", "operations"])
def test_a_schema_stays_within_its_budget_and_says_how_much_is_left_out(
    schema: dict[str, Any], tokens: int
) -> None:
    text = schema_digest(schema, tokens)
    assert len(text) <= tokens * CHARACTERS_PER_TOKEN
    *shown, last = text.splitlines()
    assert shown
    total = sum(len(held) for held in schema.values() if isinstance(held, list)) + schema["more"]
    assert last.startswith(f"… {total - len(shown):,} more")


def test_columns_go_before_names_of_tables_do() -> None:
    few = {"tables": TABLES["tables"][:12], "more": 0}
    assert "column_19 integer" in schema_digest(few, 4_000)
    assert "table_11(column_0 integer, column_1 integer, column_2 integer, column_3 integer, 16 more)" in (
        schema_digest(few, 400)
    )
    assert "table_11(20 columns) ~11 rows" in schema_digest(few, 150)


@pytest.mark.parametrize("answer", [ROWS, {"result": "y" * 100_000}], ids=["rows", "text"])
def test_an_answer_stays_within_its_budget(answer: dict[str, Any]) -> None:
    text = answer_digest(answer, 300, str)
    assert len(text) <= 300 * CHARACTERS_PER_TOKEN
    assert "more rows" in text or "left out" in text

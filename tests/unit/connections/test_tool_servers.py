"""What a broker of an MCP server makes of what the server says."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import Tool

from cellwright.connections._mcp import _is_an_answer, _told


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "array", "items": True}, "[]"),
        ({"anyOf": [True, {"type": "string"}]}, "string"),
        ({"type": ["string", "null"], "enum": None}, "string|null"),
        ({"enum": ["a", 1]}, '"a"|1'),
    ],
)
def test_a_schema_that_is_unusual_hides_no_tool(schema: dict[str, object], kind: str) -> None:
    tool = Tool(name="odd", input_schema={"type": "object", "properties": {"it": schema}, "required": None})
    assert _told(tool)["arguments"] == [["it", False, kind]]


def test_a_server_that_has_forgotten_us_is_opened_again_and_one_that_refuses_is_not() -> None:
    assert not _is_an_answer(MCPError(-32600, "Session terminated"))
    assert not _is_an_answer(MCPError(-32000, "Connection closed"))
    assert _is_an_answer(MCPError(-32602, "No such tool"))

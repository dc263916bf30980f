from __future__ import annotations

import pytest
from tests.mcp.conftest import ask, new_session, read

from mcp import Client

pytestmark = pytest.mark.anyio


async def test_a_cell_is_added_and_run_and_its_output_comes_back(client: Client) -> None:
    session = await new_session(client)
    added = await ask(client, "cell_add", session_id=session, content="print('hello'); 6 * 7")
    text = await read(client, "cell_execute", session_id=session, cell_id=added["cell_id"])
    assert text.startswith(f"session {session} | cell {added['cell_id']} | execution x-")
    assert "| ok | generation 1 |" in text
    assert "outputs: stdout 6 B, text/plain 2 B\nhello\n42" in text

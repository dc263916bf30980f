"""One agent's acts in each system's own tools: create a notebook, add and run a cell, run a cell again, end.

Each act is the best single call that a system has for it. Nothing is measured here and no process is started (see
``peers``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import httpx2
from mcp import Client
from mcp.types import CallToolResult

from peers import Peer, call, data_of, text_of

__all__ = ["Agent", "OurAgent", "PeerAgent"]


class Agent(Protocol):
    """What the benchmarks ask of a system; the notebook is the one that was created last."""

    client: Client

    async def create(self, name: str) -> CallToolResult:
        """Make a notebook with a kernel of its own."""

    async def add_and_run(self, code: str) -> CallToolResult:
        """Put a cell at the end and run it."""

    async def run_again(self) -> CallToolResult:
        """Run the cell that was added last."""

    async def end(self) -> None:
        """End the notebook and its kernel."""


@dataclass(slots=True)
class OurAgent:
    client: Client
    session_id: str = ""
    _cell_id: str = field(default="", init=False)

    async def create(self, name: str) -> CallToolResult:
        result = await call(self.client, "notebook_create", name=name)
        self.session_id = data_of(result)["session_id"]
        return result

    async def add_and_run(self, code: str) -> CallToolResult:
        result = await call(self.client, "cell_add_and_run", session_id=self.session_id, content=code)
        self._cell_id = _cell_of(result)
        return result

    async def run_again(self) -> CallToolResult:
        return await call(self.client, "cell_execute", session_id=self.session_id, cell_id=self._cell_id)

    async def end(self) -> None:
        await call(self.client, "notebook_delete", session_id=self.session_id, remove_file=True)

    async def last_seconds(self) -> float:
        """How long the execution that ended last took, as it is recorded."""
        listed = await call(self.client, "execution_list", session_id=self.session_id, limit=1)
        return float(data_of(listed)["executions"][0]["duration_ms"]) / 1_000


def _cell_of(result: CallToolResult) -> str:
    """The cell in the first line of a reply: ``ok | cell 6f1c2a9d``."""
    facts = text_of(result).splitlines()[0].split(" | ")
    return next(fact.removeprefix("cell ") for fact in facts if fact.startswith("cell "))


@dataclass(slots=True)
class PeerAgent:
    client: Client
    peer: Peer
    _name: str = field(default="", init=False)
    _cells: int = field(default=0, init=False)

    async def create(self, name: str) -> CallToolResult:
        path = f"{name}.ipynb"
        result = await call(
            self.client, "use_notebook", notebook_name=name, notebook_path=path, mode="create"
        )
        self._name = name
        self._cells = 1  # the heading that it writes by itself
        return result

    async def add_and_run(self, code: str) -> CallToolResult:
        result = await call(self.client, "insert_execute_code_cell", cell_index=self._cells, cell_source=code)
        self._cells += 1
        return result

    async def run_again(self) -> CallToolResult:
        return await call(self.client, "execute_cell", cell_index=self._cells - 1)

    async def end(self) -> None:
        await call(self.client, "unuse_notebook", notebook_name=self._name)
        headers = {"Authorization": f"token {self.peer.token}"}
        async with httpx2.AsyncClient(headers=headers, base_url=self.peer.url, trust_env=False) as http:
            for session in (await http.get("/api/sessions")).json():
                await http.delete(f"/api/sessions/{session['id']}")
            for kernel in (await http.get("/api/kernels")).json():
                await http.delete(f"/api/kernels/{kernel['id']}")

"""One MCP server for each dialect and choice of tools in use, made when first asked for."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.abc

from cellwright.daemon._agents import Agents
from cellwright.engine import Engine
from cellwright.errors import CellwrightError
from cellwright.settings.modelkeys import model_environment

if TYPE_CHECKING:
    from cellwright.mcp import McpServer
    from cellwright.mcp.clients import ClientGrants
    from cellwright.plans import Planner
    from cellwright.tools.web.fetch import Fetcher
    from cellwright.verification import Verifier

__all__ = ["McpServers", "take_grants"]


class UnknownDialect(CellwrightError):
    code = "unknown_dialect"


class McpServers:
    """Owns the MCP servers of one engine and what they do in the background."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mcp_servers: dict[tuple[str | None, tuple[str, ...]], McpServer] = {}
        self._planner: Planner | None = None
        self._verifier: Verifier | None = None
        self._fetcher: Fetcher | None = None
        self._making = anyio.Lock()
        self._tasks = anyio.create_task_group()
        self._agents = Agents(engine, self._tasks, self.of)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(exc_type, exc, traceback)

    @property
    def asked(self) -> int:
        """How many questions the agent is answering."""
        return self._agents.running

    @property
    def delegate(self) -> Agents:
        """The data agent."""
        return self._agents

    async def plans_and_proofs(self) -> tuple[Planner, Verifier]:
        """What all MCP servers share, for one that speaks no MCP."""
        await self.of(None)
        if self._planner is None or self._verifier is None:
            raise AssertionError("a MCP server has both")
        return self._planner, self._verifier

    async def of(self, dialect: str | None, toolset: str | None = None) -> McpServer:
        """The MCP server that speaks a dialect, with the tools of these sets.

        Raises:
            UnknownDialect: there is no such dialect.
            UnknownToolset: there is no such set of tools.
        """
        from cellwright.mcp import McpServer, every_dialect  # the SDK takes a second to import
        from cellwright.mcp.toolsets import chosen_sets  # as above
        from cellwright.plans import Planner  # as above
        from cellwright.tools.web.fetch import Fetcher  # as above
        from cellwright.verification import Verifier  # as above

        if dialect is not None and dialect not in every_dialect():
            raise UnknownDialect(
                f"There is no dialect {dialect!r}", hint=f"Choose one of: {', '.join(every_dialect())}"
            )
        key = dialect, chosen_sets(toolset)
        async with self._making:
            if key not in self._mcp_servers:
                self._planner = self._planner or Planner(self._engine)
                self._verifier = self._verifier or Verifier(self._engine)
                self._fetcher = self._fetcher or Fetcher(self._engine.settings)
                mcp_server = McpServer(
                    self._engine,
                    planner=self._planner,
                    verifier=self._verifier,
                    fetcher=self._fetcher,
                    delegate=self._agents,
                    dialect=dialect,
                    toolset=toolset,
                )
                await self._tasks.start(_run, mcp_server)
                self._mcp_servers[key] = mcp_server
        return self._mcp_servers[key]


async def _run(mcp_server: McpServer, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    await mcp_server.run(task_status=task_status)


# What a person gives along with a connection, read from its hello: keys, files, servers. Only the private
# socket has it.


def take_grants(handshake: dict[str, Any]) -> ClientGrants:
    """What a hello grants, out of it; whatever is of the wrong kind is left aside."""
    from cellwright.mcp.clients import ClientGrants  # the SDK takes a second to import

    environment, files, servers, models, applied = (
        handshake.pop(name, None) for name in ("environment", "files", "servers", "models", "applied")
    )
    return ClientGrants(
        environment=model_environment(_texts(environment)) if isinstance(environment, dict) else None,
        files=frozenset(Path(file) for file in _list(files) if isinstance(file, str)),
        servers=tuple(
            (name, target)
            for name, target in (
                pair for pair in _list(servers) if isinstance(pair, list) and len(pair) == 2
            )  # a pair
            if isinstance(name, str) and isinstance(target, str)
        ),
        models=frozenset(model for model in _list(models) if isinstance(model, str)),
        applied=frozenset(path for path in _list(applied) if isinstance(path, str)),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: dict[Any, Any]) -> dict[str, str]:
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}

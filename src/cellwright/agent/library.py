"""Asking from a program: one call over an engine that it has open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from cellwright.agent.budgets import Budget, parse_budget
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.models.keys import ENVIRONMENT
from cellwright.agent.questions import Question, Server
from cellwright.agent.trace.steps import Watcher
from cellwright.delegation import Outcome
from cellwright.engine import Engine
from cellwright.errors import CellwrightError
from cellwright.mcp.server import McpServer

__all__ = ["ask"]


async def ask(  # noqa: PLR0913  # what a question has, by name
    engine: Engine,
    question: str,
    *,
    data: Sequence[str | Path] = (),
    pattern: str | None = None,
    model: str | Sequence[str] = (),
    budget: Budget | str | None = None,
    conversation: str | None = None,
    session: str | None = None,
    servers: Sequence[Server] = (),
    environment: Mapping[str, str] | None = None,
    verify: bool = True,
    watchers: Sequence[Watcher] = (),
) -> Outcome:
    """Ask the data agent, and wait for what comes of it.

    ``environment`` has the keys of models, by default this process's own. ``model`` may name several: the first is
    asked, the others step in.

    Raises:
        NoModel: there is no model to ask.
        AgentError: it cannot be begun as asked.
    """
    variables = os.environ if environment is None else environment
    wanted = Question(
        question,
        data=tuple(Path(path) for path in data),
        pattern=pattern,
        models=(model,) if isinstance(model, str) else tuple(model),
        budget=parse_budget(budget) if isinstance(budget, str) else budget or Budget(),
        conversation_id=conversation,
        session_id=session,
        directory=Path.cwd(),
        environment={name: variables[name] for name in ENVIRONMENT if name in variables},
        servers=tuple(servers),
        verify=verify,
    )
    found: Outcome | CellwrightError
    async with anyio.create_task_group() as tasks:
        mcp_server = McpServer(engine)
        await tasks.start(lambda task_status: mcp_server.run(task_status=task_status))
        try:
            found = await DataAgent(mcp_server).ask(wanted, watchers)
        except CellwrightError as error:
            found = error  # raised in here it would become a group
        tasks.cancel_scope.cancel()
    if isinstance(found, CellwrightError):
        raise found
    return found

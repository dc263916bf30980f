"""The real agent over a real engine, face and kernels; only the models' replies are written down."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.models.chain import Chain
from cellwright.agent.questions import Question
from cellwright.delegation import Outcome
from cellwright.mcp.clients import Pace
from cellwright.mcp.server import McpServer
from tests.kernel.engine.conftest import engine, forked_hosts, shared_engine
from tests.kernel.mcp.conftest import running
from tests.support.agent.scripting import Script
from tests.waiting import scaled

__all__ = ["engine", "forked_hosts", "shared_engine"]

Ask = Callable[..., Awaitable[Outcome]]
PACE = Pace(wait_s=scaled(60))


@pytest.fixture(scope="module")
async def face(engine: Engine) -> AsyncIterator[McpServer]:
    async with running(McpServer(engine, pace=PACE)) as face:
        yield face


@pytest.fixture
def ask(face: McpServer, engine: Engine) -> Ask:
    """Ask the agent, whose models are these scripts, the first of which is asked."""

    async def ask(
        text: str, *scripts: Script, watchers: Any = (), clock: Any = time.monotonic, **about: Any
    ) -> Outcome:
        async def connect(_: Question) -> Chain:
            return Chain(scripts)

        question = Question(text, **{"verify": False, "directory": Path(engine.settings.root), **about})
        return await DataAgent(face, connect=connect, clock=clock).ask(question, watchers)

    return ask

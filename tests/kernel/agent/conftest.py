"""The real agent over a real engine, face and kernels; only the models' replies are written down."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.agent.asking import DataAgent
from cellwright.agent.models.chain import Chain
from cellwright.agent.questions import Outcome, Question
from cellwright.mcp.face import Face
from cellwright.mcp.pace import Pace
from tests.kernel.engine.conftest import end_host, open_at
from tests.support.agent.scripting import Script
from tests.waiting import UNHURRIED, scaled

Ask = Callable[..., Awaitable[Outcome]]
PACE = Pace(wait_s=scaled(60))


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("agent")
    async with open_at(root, max_sessions=200, standby_kernels=1, **UNHURRIED) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture(scope="module")
async def face(engine: Engine) -> AsyncIterator[Face]:
    async with anyio.create_task_group() as tasks:
        face = Face(engine, pace=PACE)
        await tasks.start(lambda task_status: face.run(task_status=task_status))
        yield face
        tasks.cancel_scope.cancel()


@pytest.fixture
def ask(face: Face, engine: Engine) -> Ask:
    """Ask the agent, whose models are these scripts, the first of which is asked."""

    async def ask(
        text: str, *scripts: Script, watchers: Any = (), clock: Any = time.monotonic, **about: Any
    ) -> Outcome:
        async def connect(_: Question) -> Chain:
            return Chain(scripts)

        question = Question(text, **{"verify": False, "directory": Path(engine.settings.root), **about})
        return await DataAgent(face, connect=connect, clock=clock).ask(question, watchers)

    return ask

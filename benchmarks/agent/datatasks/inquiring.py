"""An engine, its face and the agent over it, for as long as the questions of a set take."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import anyio

from cellwright import Settings, open_engine
from cellwright.agent.budgets import parse_budget
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.models.connect import connect_models
from cellwright.agent.models.providers import key_variables
from cellwright.agent.patterns import JIT, PATTERNS
from cellwright.errors import AgentError
from cellwright.mcp.server import McpServer
from datatasks.asked import Inquiry, ask_all
from datatasks.records import Asked
from datatasks.tasks import TaskSet

__all__ = ["inquire"]

_RESULTS = Path(__file__).resolve().parents[3] / ".cache" / "bench" / "agent"
_BRANCHES = 8
"""What one question may have open at a time, at most."""


async def inquire(
    tasks: TaskSet, options: argparse.Namespace, directory: Path, say: Callable[[str], None]
) -> list[Asked]:
    """Ask the configured model what the options say."""
    named = tuple(filter(None, options.patterns.split(",")))
    if options.patterns != "all" and (unknown := set(named) - {*PATTERNS, JIT}):
        known = f"Choose from: all, {', '.join((JIT, *PATTERNS))}"
        raise AgentError(f"There is no pattern {min(unknown)!r}", hint=known)
    inquiry = Inquiry(
        options.model,
        tuple(PATTERNS) if options.patterns == "all" else named,
        parse_budget(options.budget),
        options.parallel,
        {name: os.environ[name] for name in key_variables() if name in os.environ},
    )
    out = options.out or _RESULTS / f"{tasks.name}.jsonl"
    say(f"what is settled goes to {out}")
    settings = Settings.model_validate(
        {"root": directory, "max_sessions": _BRANCHES * (options.parallel + 1)}
    )
    # Whether anybody can be asked is found out once, not question by question.
    async with await connect_models((inquiry.model,), inquiry.environment, settings):
        pass
    async with open_engine(settings, ephemeral=True) as engine, anyio.create_task_group() as group:
        face = McpServer(engine)
        await group.start(lambda task_status: face.run(task_status=task_status))
        asked = await ask_all(
            engine, DataAgent(face).ask, tasks, inquiry, scratch=directory / "work", out=out, say=say
        )
        group.cancel_scope.cancel()
    return asked

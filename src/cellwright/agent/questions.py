"""A question to the data agent, as every frontend asks it. Only data; what came of it is ``delegation.Outcome``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp.server.session import ServerSession

from cellwright.agent.budgets import Budget
from cellwright.connections.known import Connection

__all__ = ["Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how it may be answered."""

    text: str
    data: tuple[Path, ...] = ()
    """Files that are put into the notebook's working directory first."""
    pattern: str | None = None
    """A row of ``patterns.PATTERNS``; None: chosen by the shape of the task."""
    models: tuple[str, ...] = ()
    """Names as ``models.table`` knows them, the first is asked, the others step in; empty: what there are keys for."""
    budget: Budget = field(default_factory=Budget)
    conversation_id: str | None = None
    """Goes on with this conversation; None begins one."""
    session_id: str | None = None
    """Works in this notebook; None: the conversation's, or a new one."""
    directory: Path | None = None
    """Where the asker works."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The asker's, as far as it holds keys and addresses of models. Never written anywhere."""
    servers: tuple[Connection, ...] = ()
    """MCP servers whose tools the model is offered: named in settings, or lent for this question."""
    verify: bool = True
    run_id: str | None = None
    """The name of the run, where the asker has to know it before its end; None: one is made."""
    client: ServerSession | None = field(default=None, repr=False)
    """The connection that asks, for a model named ``client``."""

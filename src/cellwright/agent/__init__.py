"""The data agent: a question in words becomes a notebook that proves its answer.

Above the MCP server, whose tools it calls like any other client; below are the MCP servers that people ask through. The engine
knows nothing of it. Needs the extra ``agent``; nothing here imports a provider's library before it is spoken to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.agent.data_agent import DataAgent, ask
    from cellwright.agent.questions import Question
    from cellwright.delegation import Outcome

__all__ = ["DataAgent", "Outcome", "Question", "ask"]

_FROM = {
    "DataAgent": "cellwright.agent.data_agent",
    "Outcome": "cellwright.delegation",
    "Question": "cellwright.agent.questions",
    "ask": "cellwright.agent.data_agent",
}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(name)
    from importlib import import_module  # the libraries behind it take a second

    return getattr(import_module(_FROM[name]), name)

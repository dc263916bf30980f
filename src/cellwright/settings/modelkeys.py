"""The variables that hold keys and addresses of models, and nothing else of an environment.

Whoever asks the data agent has them; the daemon, which was started long ago with another environment, is told them over
its private socket. Standard library only, and quick to import: ``cellwright mcp`` sends them too. What each means is in
``agent.models``.
"""

from __future__ import annotations

import os

__all__ = ["MODEL_VARIABLES", "model_environment"]

MODEL_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "XAI_API_KEY",
    "XAI_BASE_URL",
    "CELLWRIGHT_MODEL_KEY",
)
_LONGEST = 4_096

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def model_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The part of an environment, by default of this process's, that tells of models."""
    given = os.environ if environment is None else environment
    return {name: value for name in MODEL_VARIABLES if (value := given.get(name)) and len(value) <= _LONGEST}

"""Names that are short enough to be read aloud and long enough not to meet."""

from __future__ import annotations

import secrets

__all__ = [
    "new_agent_run_id",
    "new_checkpoint_id",
    "new_conversation_id",
    "new_execution_id",
    "new_plan_run_id",
    "new_replay_id",
    "new_run_id",
    "new_session_id",
    "new_verification_id",
]

# No vowels and no look-alikes: an id never spells a word and survives being typed.
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"


def new_session_id() -> str:
    return "s-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_execution_id() -> str:
    return "x-" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_checkpoint_id() -> str:
    return "c-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_conversation_id() -> str:
    return "c-" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_plan_run_id() -> str:
    return "p-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_replay_id() -> str:
    return "r-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_run_id() -> str:
    return "run-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_agent_run_id() -> str:
    return "a-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def new_verification_id() -> str:
    return "v-" + "".join(secrets.choice(_ALPHABET) for _ in range(7))

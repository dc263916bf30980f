"""Limits of one session below the operator's: asked for, checked, explained where they are reached. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cellwright.errors import LimitReached
from cellwright.sandbox.policy import SETTINGS, Narrowing, Policy, limit_text, narrowed, refuse_wider
from cellwright.settings.model import Size

__all__ = [
    "SessionLimits",
    "checked_narrowing",
    "explained",
    "refuse_other_limits",
    "session_policy",
    "told_limits",
    "whole_policy",
]

_WORDS = {
    "memory_bytes": "memory",
    "processes": "processes",
    "cpu_seconds": "cpu_s",
    "cpus": "cpus",
    "cell_seconds": "cell_s",
    "disk_bytes": "disk",
    "network": "network",
    "read": "read_paths",
    "write": "write_paths",
}


class SessionLimits(BaseModel):
    """Each at most what the operator allows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Size | None = None
    disk: Size | None = None
    processes: int | None = None
    cpu_s: int | None = None
    cpus: float | None = None
    cell_s: float | None = None
    network: Literal["off"] | None = None
    read_paths: tuple[str, ...] | None = Field(default=None, max_length=100)
    write_paths: tuple[str, ...] | None = Field(default=None, max_length=100)

    def narrowing(self) -> Narrowing:
        """The same for the engine."""
        return Narrowing(**{field: getattr(self, word) for field, word in _WORDS.items()})


def session_narrowing(words: dict[str, Any] | None) -> Narrowing | None:
    """What a person asked for in words.

    Raises:
        LimitReached: a word or its value is not one of them.
    """
    try:
        return SessionLimits.model_validate(words).narrowing() if words else None
    except ValidationError as error:
        wrong = error.errors()[0]
        raise LimitReached(
            f"limit {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}",
            setting="limits",
            hint=f"There are: {', '.join(SessionLimits.model_fields)}",
        ) from None


def checked_narrowing(policy: Policy | None, narrowing: Narrowing | None) -> Narrowing | None:
    """What a session may be given of what it asks for below the operator's ``policy``: all of it.

    Raises:
        LimitReached: it is more than the settings allow, or cannot be kept.
    """
    if not narrowing:
        return None
    if policy is None:
        raise LimitReached(
            "Without a sandbox no session's limits are kept",
            setting="unsafe_no_sandbox",
            hint="Leave `limits` out, or let the operator unset CELLWRIGHT_UNSAFE_NO_SANDBOX",
        )
    refuse_wider(policy, narrowing)
    return narrowing


def refuse_other_limits(session_id: str, has: Narrowing | None, asked: Narrowing | None) -> None:
    """Raise where a session that there is already was asked for with other limits than it has."""
    if asked is not None and asked != has:
        raise LimitReached(
            f"Session {session_id} has this notebook open with {told_limits(has) or 'no limits of its own'}",
            setting="limits",
            hint="Leave `limits` out to work with it, or delete the session first",
        )


def session_policy(policy: Policy | None, narrowing: Narrowing | None) -> Policy | None:
    """A session's own policy; None where it has the operator's."""
    if not narrowing or policy is None:
        return None
    own = narrowed(policy, narrowing)
    return own if own != policy else None


def whole_policy(policy: Policy | None, narrowing: Narrowing | None) -> Policy | None:
    """What a session's code may do, by the operator's ``policy`` and its own; None where nothing confines it."""
    return session_policy(policy, narrowing) or policy


def told_limits(narrowing: Narrowing | None) -> dict[str, Any]:
    """What a session asked for, in its own words."""
    asked = asdict(narrowing) if narrowing is not None else {}
    return {
        _WORDS[name]: limit_text(name, value) if not name.endswith("_seconds") else value
        for name, value in asked.items()
        if value is not None
    }


def explained(text: str | None, narrowing: Narrowing | None) -> str | None:
    """Why something stopped, with what a session itself had to do with it: raising the setting would not help."""
    if text is None or narrowing is None:
        return text
    told = {name: f"({setting})" for name, setting in SETTINGS.items()}
    told["cell_seconds"] = f"over its limit of {narrowing.cell_seconds or 0:g} s"
    own = [
        _WORDS[name] for name, mark in told.items() if getattr(narrowing, name) is not None and mark in text
    ]
    if not own:
        return text
    return f"{text}. The session itself asked for this limit ({', '.join(own)}): create one with a higher or none"

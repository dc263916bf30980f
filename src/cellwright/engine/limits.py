"""What the host and every session are told of the settings, and how a session asks for less. Pure."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cellwright.engine.environment import package_store
from cellwright.engine.network_log import network_opening
from cellwright.errors import LimitReached
from cellwright.hosts import protocol
from cellwright.sandbox.policy import SETTINGS, Narrowing, Policy, narrowed, refuse_wider, told_value
from cellwright.settings import Settings
from cellwright.settings.model import Size

__all__ = [
    "SessionLimits",
    "checked_narrowing",
    "explained",
    "host_options",
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


def checked_narrowing(settings: Settings, narrowing: Narrowing | None) -> Narrowing | None:
    """What a session may be given of what it asks for: all of it.

    Raises:
        LimitReached: it is more than the settings allow, or cannot be kept.
    """
    if not narrowing:
        return None
    if settings.unsafe_no_sandbox:
        raise LimitReached(
            "Without a sandbox no session's limits are kept",
            setting="unsafe_no_sandbox",
            hint="Leave `limits` out, or let the operator unset CELLWRIGHT_UNSAFE_NO_SANDBOX",
        )
    refuse_wider(_policy(settings), narrowing)
    return narrowing


def refuse_other_limits(session_id: str, has: Narrowing | None, asked: Narrowing | None) -> None:
    """Raise where a session that there is already was asked for with other limits than it has."""
    if asked is not None and asked != has:
        raise LimitReached(
            f"Session {session_id} has this notebook open with {told_limits(has) or 'no limits of its own'}",
            setting="limits",
            hint="Leave `limits` out to work with it, or delete the session first",
        )


def session_policy(settings: Settings, narrowing: Narrowing | None) -> Policy | None:
    """A session's own policy; None where it has the operator's."""
    if not narrowing or settings.unsafe_no_sandbox:
        return None
    policy = _policy(settings)
    own = narrowed(policy, narrowing)
    return own if own != policy else None


def whole_policy(settings: Settings, narrowing: Narrowing | None) -> Policy | None:
    """What a session's code may do, whoever said so; None where nothing confines it."""
    if settings.unsafe_no_sandbox:
        return None
    return session_policy(settings, narrowing) or _policy(settings)


def told_limits(narrowing: Narrowing | None) -> dict[str, Any]:
    """What a session asked for, in its own words."""
    asked = asdict(narrowing) if narrowing is not None else {}
    return {
        _WORDS[name]: told_value(name, value) if not name.endswith("_seconds") else value
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


def host_options(settings: Settings, home: Path) -> protocol.HostOptions:
    """The limits that the host keeps.

    Raises:
        NetworkRuleInvalid: an entry of a network list cannot be understood.
    """
    return protocol.HostOptions(
        standby_kernels=settings.standby_kernels,
        preload=settings.preload,
        max_concurrent_starts=settings.max_concurrent_starts,
        start_timeout_s=settings.start_timeout_s,
        interrupt_grace_s=settings.interrupt_grace_s,
        max_output_bytes=settings.max_output_bytes,
        max_output_messages=settings.max_output_messages,
        max_memory_fraction=settings.max_memory_fraction,
        idle_s=settings.host_idle_s,
        policy=None if settings.unsafe_no_sandbox else _policy(settings),
        secret=(str(home), str(settings.storage)),
        passed_environment=settings.pass_environment,
        namespaces=settings.sandbox_namespaces,
        packages=str(package_store(settings)),
        opening=network_opening(settings),
        max_checkpoints=settings.max_checkpoints,
        max_checkpoint_memory=settings.max_checkpoint_memory,
        allocation_idle_s=settings.slurm_idle_s,
    )


def _policy(settings: Settings) -> Policy:
    return Policy(
        memory_bytes=settings.max_session_memory,
        processes=settings.max_session_processes,
        open_files=settings.max_session_open_files,
        cpu_seconds=settings.max_session_cpu_s,
        cpus=settings.max_session_cpus,
        cell_seconds=settings.cell_timeout_s,
        disk_bytes=settings.max_session_disk,
        disk_files=settings.max_session_files,
        network="proxy" if network_opening(settings) is not None else "off",
        read=tuple(str(path) for path in settings.read_paths),
        write=tuple(str(path) for path in settings.write_paths),
    )

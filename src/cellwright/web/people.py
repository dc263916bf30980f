"""Who looks at the page, and what each may do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

__all__ = ["OWNER", "ROLES", "Person", "Role", "may"]

Role: TypeAlias = Literal["view", "run", "own"]
"""``view`` looks; ``run`` also edits, runs, asks and takes over; ``own`` also suspends, deletes and lets others in."""

ROLES: tuple[Role, ...] = get_args(Role)
OWNER = "owner"
"""Whoever has the listener's own token."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in."""

    name: str
    role: Role


def may(person: Person, needed: Role) -> bool:
    """Whether somebody's role is enough."""
    return ROLES.index(person.role) >= ROLES.index(needed)

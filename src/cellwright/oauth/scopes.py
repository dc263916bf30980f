"""The scopes of access tokens. Each scope includes those before it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

__all__ = ["SCOPES", "USUAL", "Scope", "allows", "upto", "widest"]

Scope: TypeAlias = Literal["read", "run", "admin"]
"""``read`` looks; ``run`` also edits and runs; ``admin`` also deletes notebooks, and starts and stops hosts."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

USUAL: Scope = "run"
"""The scope that a client is advised to request first: it covers nearly all of its work."""


def upto(scope: Scope) -> tuple[Scope, ...]:
    """A scope, after those that it includes."""
    return SCOPES[: SCOPES.index(scope) + 1]


def widest(granted: Collection[str]) -> Scope | None:
    """The widest of the granted scopes; None where none is a scope of ours."""
    return next((scope for scope in reversed(SCOPES) if scope in granted), None)


def allows(granted: Collection[str], needed: Scope) -> bool:
    """Whether the granted scopes include the needed one."""
    has = widest(granted)
    return has is not None and needed in upto(has)

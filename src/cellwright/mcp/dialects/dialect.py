"""What a dialect is: the tools of another system, and how a client that knows only these is spoken to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cellwright.mcp.calls import Definition

__all__ = ["Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One system's tools over our engine."""

    tools: tuple[Definition, ...]
    about: str
    """The instructions that a client is sent first."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Its tool, by ours: for errors and notes, which are written for ours."""

"""What a dialect is: the tools of another system, and how a client that knows only these is spoken to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cellwright.engine import Engine
from cellwright.mcp.calls import Definition

__all__ = ["Dialect", "DialectPlugin", "DialectResource"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One system's tools over our engine."""

    tools: tuple[Definition, ...]
    about: str
    """The instructions that a client is sent first."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Its tool, by ours: for errors and notes, which are written for ours."""


@dataclass(frozen=True, slots=True)
class DialectResource:
    """A resource that the other system has, as JSON."""

    uri: str
    name: str
    read: Callable[[Engine], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class DialectPlugin:
    """How a dialect is registered."""

    speak: Callable[[Dialect], Dialect]
    """The dialect, given our own tools and words: it may build on them."""
    language: str | None = None
    """Of notebooks for which none is named; the operator's default where that is None."""
    resources: tuple[DialectResource, ...] = ()

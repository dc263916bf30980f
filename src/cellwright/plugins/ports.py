"""What a plugin of each kind is: the kinds, the version of all ports, and the port of tools, which no other package owns.

The types behind the other kinds belong to the packages that use them and are named here, so that reading this loads none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

__all__ = ["API_VERSION", "KINDS", "VERSION_NAME", "Kind", "Tool", "ToolFinding", "ToolParameter"]

API_VERSION = 1
"""Raised when a port changes so that plugins of before no longer work."""

VERSION_NAME = "CELLWRIGHT_API"
"""What a plugin's module says it was written for, next to what its entry point names."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of plugin. Its entry points stand in the group ``cellwright.NAME``."""

    name: str
    what: str
    """One plugin of it, in words."""
    port: str
    """The type that one is of, as ``module:Class``; ``module:callable`` for any function."""
    several: bool = False
    """Whether one entry point may give a sequence of them."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("hosts", "a kind of host", "cellwright.engine.providers:HostKindPlugin"),
            Kind("languages", "a language", "cellwright.notebook.languages:Language"),
            Kind("formats", "a format", "cellwright.formats.model:Format"),
            Kind("chart_types", "a chart type", "cellwright.charts.kinds:ChartKind"),
            Kind("digests", "a digest", "cellwright_kernel.digests:callable"),
            Kind("fixers", "a fixer", "cellwright.plans.fixers:callable", several=True),
            Kind(
                "error_classes", "an error class", "cellwright.plans.error_classes:ErrorClass", several=True
            ),
            Kind("approval_rules", "an approval rule", "cellwright.engine.approval_rules:callable"),
            Kind("providers", "a provider of models", "cellwright.agent.models.providers:Provider"),
            Kind("dialects", "a dialect", "cellwright.mcp.dialects.dialect:DialectPlugin"),
            Kind("templates", "a folder of templates", "pathlib:Path"),
            Kind("tools", "a tool", "cellwright.plugins.ports:Tool"),
        )
    }
)


ToolFunction: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function as a tool: its name, signature and docstring are the tool's.

    Arguments are ``str``, ``int``, ``float``, ``bool``, ``list`` of these, ``dict``, ``Literal`` of texts, or one of these
    and None. What it returns is text, or goes through JSON. A ``ValueError`` tells the caller that an argument is wrong.
    """

    function: ToolFunction
    reads_only: bool = False
    """Whether it changes nothing anywhere: it needs no leave to be called."""
    timeout_s: float = 60.0


class ToolParameter(msgspec.Struct, frozen=True):
    """One argument of a tool."""

    name: str
    schema: dict[str, Any]
    """As JSON Schema."""
    required: bool


class ToolFinding(msgspec.Struct, frozen=True):
    """What callers are told of a tool, so that the daemon need not import it."""

    name: str
    description: str
    parameters: tuple[ToolParameter, ...]
    reads_only: bool
    timeout_s: float

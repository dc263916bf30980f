"""The tree that an expression is parsed to. Sums and products are flat, so that a long one is not a deep one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import TypeAlias

__all__ = [
    "Apply",
    "Assign",
    "Call",
    "Chain",
    "Compare",
    "Convert",
    "Each",
    "Items",
    "Moment",
    "Name",
    "Node",
    "Number",
    "Percent",
    "Power",
    "Span",
]


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, or a date with a time."""

    value: date


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A sign, ``!``, ``|…|`` or ``√`` on one operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Percent:
    operand: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one rank, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Power:
    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Compare:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """``first..last``: whole numbers, both ends included."""

    first: Node
    last: Node


@dataclass(frozen=True, slots=True)
class Each:
    """``body for name in source``."""

    body: Node
    name: str
    source: Node


@dataclass(frozen=True, slots=True)
class Convert:
    """``value to target``; ``text`` is the target as it was written, which may be a time zone's name."""

    value: Node
    target: Node
    text: str


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Node


Node: TypeAlias = (
    Number
    | Moment
    | Name
    | Apply
    | Percent
    | Chain
    | Power
    | Compare
    | Call
    | Items
    | Span
    | Each
    | Convert
    | Assign
)

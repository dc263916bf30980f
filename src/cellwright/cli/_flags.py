"""Settings as flags: ``--set NAME=VALUE``, stronger than variables and files; and a session's own limits."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any

from cellwright.cli._arguments import BadArgument, Option

__all__ = [
    "HostOption",
    "LimitOption",
    "ModeOption",
    "OnError",
    "OnErrorOption",
    "SetOption",
    "UnsafeOption",
    "WorkMode",
    "apply_settings",
    "limit_values",
]


class WorkMode(StrEnum):
    OVERLAY = "overlay"
    PRIVATE = "private"
    DIRECT = "direct"


LimitOption = Annotated[
    list[str] | None,
    Option(
        "--limit",
        metavar="NAME=VALUE",
        help="Allow its code less: memory, disk, processes, cpu_s, cpus, cell_s, network=off, read_paths, write_paths; "
        "may be repeated.",
    ),
]
HostOption = Annotated[
    str | None,
    Option(
        "--host",
        help="Where its kernel lives: local, slurm, an allocation's name, jupyter, jupyter:NAME. "
        "[default: as `cellwright host list` says]",
        show_default=False,
    ),
]
ModeOption = Annotated[
    WorkMode | None,
    Option("--mode", help="Where code writes: a layer over the project, its own folder, here."),
]


class OnError(StrEnum):
    KEEP = "keep"
    ROLLBACK = "rollback"


OnErrorOption = Annotated[
    OnError, Option("--on-error", help="A failing cell keeps what it did, or leaves no trace.")
]

SetOption = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]


UnsafeOption = Annotated[
    bool, Option("--unsafe-no-sandbox", help="Confine nothing: code can do whatever you can.")
]


def apply_settings(pairs: list[str] | None, *, unsafe: bool = False) -> None:
    """Take flags over into this process's variables, from which everything that it starts has them too."""
    for pair in [*(pairs or []), *(["unsafe_no_sandbox=true"] if unsafe else [])]:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BadArgument(f"{pair!r} is not NAME=VALUE", argument="--set")
        os.environ[f"CELLWRIGHT_{name.strip().upper()}"] = value.strip()


def limit_values(pairs: list[str] | None) -> dict[str, Any] | None:
    """A session's own limits, as the tools take them."""
    lists = {"read_paths", "write_paths"}
    found: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise BadArgument(f"{pair!r} is not NAME=VALUE", argument="--limit")
        found[name] = [path for path in value.split(":") if path] if name in lists else value
    return found or None

"""Settings as flags: ``--set NAME=VALUE``, stronger than variables and files."""

from __future__ import annotations

import os
from typing import Annotated

import typer

__all__ = ["SetOption", "apply_settings"]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]


def apply_settings(pairs: list[str] | None) -> None:
    """Take flags over into this process's variables, from which everything that it starts has them too."""
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--set")
        os.environ[f"CELLWRIGHT_{name.strip().upper()}"] = value.strip()

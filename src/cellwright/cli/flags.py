"""Settings as flags: ``--set NAME=VALUE``, stronger than variables and files."""

from __future__ import annotations

import os
from typing import Annotated

import typer

__all__ = ["SetOption", "UnsafeOption", "apply_settings"]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]


UnsafeOption = Annotated[
    bool, typer.Option("--unsafe-no-sandbox", help="Confine nothing: code can do whatever you can.")
]


def apply_settings(pairs: list[str] | None, *, unsafe: bool = False) -> None:
    """Take flags over into this process's variables, from which everything that it starts has them too."""
    for pair in [*(pairs or []), *(["unsafe_no_sandbox=true"] if unsafe else [])]:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--set")
        os.environ[f"CELLWRIGHT_{name.strip().upper()}"] = value.strip()

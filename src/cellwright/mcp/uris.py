"""The addresses of what can be read of a session and of the data directory, and what an address means. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

__all__ = [
    "DATA",
    "NETWORK_URI",
    "Address",
    "View",
    "cell_output_uri",
    "data_path",
    "data_uri",
    "output_uri",
    "read_address",
    "session_uri",
]

DATA = "cellwright://data/"

View: TypeAlias = Literal["state", "history", "context", "network", "export", "cell", "execution"]

NETWORK_URI = "cellwright://network"
"""What was fetched for no session."""

_address = re.compile(
    r"notebook://session/(?P<session>[^/]+)/(?:(?P<view>state|history|context|network)|export/(?P<format>[a-z.]+)"
    r"|(?P<kind>cells|executions)/(?P<id>[^/]+)/outputs/(?P<index>\d{1,6}))"
)


@dataclass(frozen=True, slots=True)
class Address:
    """What an address names: a view of a session, an export, or one output of a cell or an execution."""

    session_id: str
    view: View
    item: str = ""
    index: int = 0


def session_uri(session_id: str, view: str) -> str:
    return f"notebook://session/{quote(session_id, safe='')}/{view}"


def output_uri(session_id: str, execution_id: str, index: int) -> str:
    """One output of one execution, which later runs of its cell leave alone."""
    return session_uri(session_id, f"executions/{quote(execution_id, safe='')}/outputs/{index}")


def cell_output_uri(session_id: str, cell_id: str, index: int) -> str:
    """One output that a cell shows now."""
    return session_uri(session_id, f"cells/{quote(cell_id, safe='')}/outputs/{index}")


def read_address(uri: str) -> Address | None:
    """What an address means; none where it is not one of ours."""
    match = _address.fullmatch(uri)
    if match is None:
        return None
    session_id = unquote(match["session"])
    if match["view"] is not None:
        return Address(session_id, match["view"])  # type: ignore[arg-type]  # the pattern's words
    if match["format"] is not None:
        return Address(session_id, "export", match["format"])
    view: View = "cell" if match["kind"] == "cells" else "execution"
    return Address(session_id, view, unquote(match["id"]), int(match["index"]))


def data_uri(path: str) -> str:
    """A file of the data directory."""
    return DATA + quote(os.fsencode(path), safe="/")


def data_path(uri: str) -> str | None:
    """The path in the data directory that an address names; none where it is not one of those."""
    if not uri.startswith(DATA):
        return None
    return os.fsdecode(unquote_to_bytes(uri.removeprefix(DATA)))

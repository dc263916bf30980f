"""Where somebody goes on to who has signed in: to a place of this page, whatever a link says. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from starlette.requests import Request

__all__ = ["asked_path", "own_path", "sign_in_path"]

# What begins with two slashes, or with what browsers take for them, leads to another site. So do line ends within.
_OWN = re.compile(r"/(?:[\w.~!$&'()*+,;=:@%?-][\w.~!$&'()*+,;=:@%?/-]*)?", re.ASCII)


def own_path(text: str) -> str:
    """A path of this page, or its first page where it is none."""
    return text if _OWN.fullmatch(text) else "/"


def asked_path(request: Request) -> str:
    """The path of a request, with its query."""
    path, query = (request.scope.get(part, b"").decode("latin-1") for part in ("raw_path", "query_string"))
    return f"{path}?{query}" if query else path


def sign_in_path(ahead: str) -> str:
    """Where one signs in who wanted to go somewhere."""
    ahead = own_path(ahead)
    return f"/enter?{urlencode({'next': ahead})}" if ahead != "/" else "/enter"

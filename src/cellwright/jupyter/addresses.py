"""Addresses of Jupyter servers, with their tokens. Pure; ``rest``, ``hubs`` and ``channels`` connect to them."""

from __future__ import annotations

import ipaddress
from urllib.parse import quote, urlsplit, urlunsplit

__all__ = ["is_loopback", "joined", "websocket_url"]


def joined(url: str, *parts: str) -> str:
    """An address below another; what is special in a part is quoted."""
    return "/".join((url.rstrip("/"), *(quote(part, safe="") for part in parts)))


def websocket_url(url: str) -> str:
    """The same address for a WebSocket."""
    split = urlsplit(url)
    return urlunsplit(split._replace(scheme="wss" if split.scheme == "https" else "ws"))


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own, so that nobody in between can listen."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

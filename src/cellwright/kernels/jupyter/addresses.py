"""Addresses of Jupyter servers, with their tokens. Pure; ``rest``, ``hubs`` and ``channels`` connect to them."""

from __future__ import annotations

import ipaddress
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

__all__ = ["JupyterServer", "is_loopback", "joined", "websocket_url"]


class JupyterServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Jupyter server, gateway or hub. Only ever sent over a private socket, and never written down."""

    name: str
    url: str
    token: str
    username: str = ""
    """Whom kernels are for, where a gateway asks, and whose server it is, where a hub does."""
    start_s: float = 300.0
    """How long a hub may take to start the user's server."""
    unreachable_s: float = 60.0
    """How long it may be out of reach before its kernels are given up for the time being."""

    def __repr__(self) -> str:
        return f"JupyterServer({self.name!r}, {self.url!r})"


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

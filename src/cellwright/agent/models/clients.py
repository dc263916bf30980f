"""HTTP clients for the providers' libraries. Whom to trust is read once for all of them: it takes a tenth of a second."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2

__all__ = ["http_client", "trust_for"]

_CONNECT_S = 10.0


def http_client(address: str, timeout_s: float) -> httpx2.AsyncClient:
    """A client, which its owner closes. ``timeout_s`` is how long the other side may say nothing."""
    timeout = httpx2.Timeout(timeout_s, connect=_CONNECT_S)
    return httpx2.AsyncClient(timeout=timeout, verify=trust_for(address))


def trust_for(address: str) -> ssl.SSLContext:
    """Whom a client of this address trusts. Without encryption it is nobody: a redirect to TLS then fails."""
    return _authorities() if address.startswith("https://") else _nobody()


@cache
def _authorities() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@cache
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

"""One small document of a host that the operator named, for the server itself and not for code: read as it is, or not at all.

Behind the same guard as ``fetch``: what a name leads to is judged where it is connected to. No redirect is followed.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeAlias

import anyio

from cellwright.errors import FetchFailed
from cellwright.sandbox.network_rules import NetworkRules
from cellwright.sandbox.relay import Cut, EgressLimits
from cellwright.tools.web._client import WebClient
from cellwright.tools.web.urls import parse_url

__all__ = ["DocumentReader", "document_reader"]

DocumentReader: TypeAlias = Callable[[str], Awaitable[bytes]]

_WITHIN_S = 10.0


def document_reader(
    hosts: Sequence[str],
    most_bytes: int,
    *,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> DocumentReader:
    """A function that reads what is at a URL of these hosts, over TLS.

    Raises:
        NetworkRuleInvalid: an entry of ``hosts`` cannot be understood.
    """
    limits = EgressLimits(max_download_bytes=most_bytes, head_timeout_s=_WITHIN_S, idle_timeout_s=_WITHIN_S)
    client = WebClient(NetworkRules.parse("allow", allow=hosts), limits, tls=tls)

    async def read(address: str) -> bytes:
        url = parse_url(address)
        if url.scheme != "https":
            raise FetchFailed(f"{url} was not read: it is not encrypted")
        try:
            answer = await client.get(
                url, {"Accept": "application/json"}, until=anyio.current_time() + _WITHIN_S
            )
        except Cut as cut:
            raise FetchFailed(f"{url} was not read: {cut.reason}") from None
        if answer.status != HTTPStatus.OK:
            raise FetchFailed(f"{url} was not read: the host answered {answer.status}")
        return answer.body

    return read

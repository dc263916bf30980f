"""Clients whose id is the address of a document about them (client ID metadata documents).

The address identifies the client: nobody else can put a document there. The ``Reader`` that the composition root puts in
decides which addresses are read, and how.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, Field, ValidationError

from cellwright.errors import CellwrightError
from cellwright.oauth.grants import Client

__all__ = ["MOST_BYTES", "PUBLIC_CLIENT", "ClientDocuments", "Reader", "document_host"]

_log = logging.getLogger(__name__)

Reader: TypeAlias = Callable[[str], Awaitable[bytes]]

PUBLIC_CLIENT: Final = "none"
"""How a client authenticates that has no secret."""

MOST_BYTES = 8 * 1024
_KEPT_S = 3_600.0
_AGAIN_S = 10.0
"""The least time between two reads of a document that was missing: any stranger can cause one."""
_MOST = 100


class _Document(BaseModel):
    """The fields that are used of a document. A document that requires a secret is refused."""

    client_id: str
    client_name: str = "A program without a name"
    redirect_uris: tuple[str, ...] = Field(min_length=1)
    token_endpoint_auth_method: Literal["none"] = PUBLIC_CLIENT
    client_secret: None = None


class ClientDocuments:
    """Reads the documents of clients, and keeps what it read for a while."""

    def __init__(self, read: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Client | None]] = OrderedDict()
        self._reading = anyio.Lock()

    async def client(self, client_id: str) -> Client | None:
        """The client that a document describes; None where the id is no such address, or what is there is wrong."""
        if document_host(client_id) is None:
            return None
        async with self._reading:
            until, found = self._known.get(client_id, (0.0, None))
            if self._clock() >= until:
                found = await self._described(client_id)
                self._known[client_id] = (self._clock() + (_KEPT_S if found else _AGAIN_S), found)
                self._known.move_to_end(client_id)
                if len(self._known) > _MOST:
                    self._known.popitem(last=False)
            return found

    async def _described(self, client_id: str) -> Client | None:
        try:
            about = _Document.model_validate_json(await self._read(client_id))
        except CellwrightError as error:
            _log.warning("client_document_unread %s", error)
            return None
        except ValidationError as error:
            _log.warning("client_document_refused url=%s %s", client_id, error.errors(include_input=False))
            return None
        if about.client_id != client_id:
            _log.warning("client_document_refused url=%s it is about %s", client_id, about.client_id)
            return None
        return Client(client_id, about.client_name, about.redirect_uris)


def document_host(client_id: str) -> str | None:
    """The host of an id that is a document's address: with a path, and nothing in it that two could read differently."""
    try:
        parts = urlsplit(client_id)
    except ValueError:
        return None
    is_plain = not parts.fragment and "@" not in parts.netloc and "\\" not in client_id
    segments = parts.path.split("/")
    if parts.scheme != "https" or not is_plain or parts.path in ("", "/") or {".", ".."} & set(segments):
        return None
    return parts.hostname

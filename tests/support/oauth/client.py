"""A client that signs in by itself: the SDK's, which knows nothing but an address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

BACK = "http://127.0.0.1:47111/callback"
"""Where answers go: nobody listens there, and who follows the browser reads the address."""


class AtABrowser(Protocol):
    """Whoever answers what a program's link asks."""

    async def answers(self, url: str) -> dict[str, str]: ...


class Memory:
    """What a client keeps."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def signed_in(
    address: str, user: AtABrowser, memory: Memory, mode: str = "auto", document: str | None = None
) -> AsyncIterator[Client]:
    """The SDK's client, which knows nothing but the address."""
    answers: list[dict[str, str]] = []

    async def opens(url: str) -> None:
        answers.append(await user.answers(url))

    async def hears() -> AuthorizationCodeResult:
        said = answers.pop()
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said["iss"])

    url = f"http://{address}/mcp"
    about = OAuthClientMetadata.model_validate({"client_name": "Sky <b>Reader</b>", "redirect_uris": [BACK]})
    auth = OAuthClientProvider(url, about, memory, opens, hears, client_metadata_url=document)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client

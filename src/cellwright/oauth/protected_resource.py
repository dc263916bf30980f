"""What a listener is to OAuth: a protected resource with metadata (RFC 9728) and challenges (RFC 6750)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cellwright.oauth.scopes import SCOPES, Scope, upto

__all__ = ["ProtectedResource", "json_route"]

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_REALM = "cellwright"

Problem: TypeAlias = Literal["invalid_token", "insufficient_scope"]


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """The MCP server at one address, and who issues tokens for it."""

    url: str
    """Of the MCP endpoint: what tokens are for (RFC 8707)."""
    issuer: str

    @property
    def metadata_url(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{_WELL_KNOWN}{parts.path}"

    @property
    def routes(self) -> list[Route]:
        """The metadata, for the endpoint and, where a client does not look there, for the whole server."""
        metadata = {
            "resource": self.url,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "Cellwright",
        }
        paths = dict.fromkeys((urlsplit(self.metadata_url).path, _WELL_KNOWN))
        return [json_route(path, metadata) for path in paths]

    def challenge(self, needed: Scope, problem: Problem | None = None, about: str = "") -> str:
        """The ``WWW-Authenticate`` of a refusal: where a token comes from, and which scopes to ask for."""
        parts = {
            "realm": _REALM,
            "error": problem,
            "error_description": about,
            "scope": " ".join(upto(needed)),
            "resource_metadata": self.metadata_url,
        }
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


def json_route(path: str, content: dict[str, Any]) -> Route:
    """An address that answers everybody with the same data."""

    async def respond(_: Request) -> Response:
        return JSONResponse(content, headers={"cache-control": "no-store"})

    return Route(path, respond, methods=["GET"])

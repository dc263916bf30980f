"""Guards a listener: verifies access tokens, and serves the addresses at which clients learn where to get one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.applications import Starlette
from starlette.routing import Route

from cellwright.oauth.client_documents import ClientDocuments, Reader
from cellwright.oauth.grants import Grants
from cellwright.oauth.openid_issuer import OpenIdIssuer
from cellwright.oauth.options import OWN, SignInOptions
from cellwright.oauth.own_issuer import OwnIssuer, authorization_server
from cellwright.oauth.protected_resource import ProtectedResource

if TYPE_CHECKING:
    from cellwright.audit import AuditLog

__all__ = ["SignedIn", "TokenGate"]


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who brought an access token; a request has them in its state as ``signed_in``."""

    token: AccessToken
    resource: ProtectedResource

    @property
    def user(self) -> AuthenticatedUser:
        """The same as the SDK has it."""
        return AuthenticatedUser(self.token)


class TokenGate:
    """Sign-in at one listener."""

    def __init__(
        self, resource: ProtectedResource, verifier: OwnIssuer | OpenIdIssuer, routes: list[Route]
    ) -> None:
        self.resource = resource
        self._verifier = verifier
        routes = [*resource.routes, *routes]
        self.paths = frozenset(route.path for route in routes)
        """The addresses that need no token."""
        self.app = Starlette(routes=list(routes))
        """Serves these addresses."""
        self.asks = verifier if isinstance(verifier, OwnIssuer) else None
        """Our own issuer, whose clients the page asks the user about; None with an OpenID issuer."""

    @classmethod
    def at(
        cls,
        listener_url: str,
        options: SignInOptions,
        storage: Path,
        audit: AuditLog,
        read: Reader | None = None,
    ) -> Self:
        """The gate of a listener, as the settings say; ``read`` is how documents about clients are had, if they are.

        Raises:
            SignInRefused: nothing says by which address clients reach it.
        """
        base = options.base_url(listener_url)
        if options.issuer != OWN:
            resource = ProtectedResource(f"{base}/mcp", options.issuer)
            audience = options.audience or resource.url
            return cls(resource, OpenIdIssuer(options.issuer, audience, options.subjects), [])
        resource = ProtectedResource(f"{base}/mcp", base)
        grants = Grants(storage, token_s=options.token_s, idle_s=options.idle_s)
        documents = ClientDocuments(read) if read is not None else None
        issuer = OwnIssuer(resource, grants, audit, documents=documents)
        return cls(resource, issuer, authorization_server(issuer, resource))

    async def admit(self, token: str) -> SignedIn | None:
        """Who brings that token; None where it is not good here.

        Raises:
            IssuerUnreachable: nobody can tell now.
        """
        found = await self._verifier.verify_token(token)
        return SignedIn(found, self.resource) if found is not None else None

"""Our own authorization server, for the one user whose engine this is: OAuth 2.1 by the SDK's handlers.

A client registers itself (RFC 7591), or is known by a document (``client_documents``), and sends the user's browser to ``/authorize``. From there it goes to the page, where
the user signs in as ever and allows or refuses; the grants are kept by ``grants``. Clients have no secrets: a code is worth
nothing without the PKCE verifier of the client that it was issued to.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cellwright.oauth.client_documents import PUBLIC_CLIENT, ClientDocuments, document_host
from cellwright.oauth.grants import Client, Grants, Tokens, digest
from cellwright.oauth.options import UnknownConnectRequest
from cellwright.oauth.protected_resource import ProtectedResource, json_route
from cellwright.oauth.scopes import SCOPES, USUAL, Scope, upto, widest

if TYPE_CHECKING:
    from cellwright.audit import AuditLog

__all__ = ["OwnIssuer", "authorization_server"]

CONNECT = "/connect"
"""Where the page asks the user."""

_Value = TypeVar("_Value")
_MOST_WAITING = 100
_ASKED_S = 600.0
_CODE_S = 60.0
_MOST_NAME = 80
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

# A browser would run or show these itself. Programs have schemes of their own, such as `cursor:`.
_NO_PROGRAMS = frozenset(
    {"about", "blob", "data", "file", "filesystem", "ftp", "javascript", "vbscript", "ws", "wss"}
)


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """A client that waits for the user's word."""

    id: str
    client: Client
    scope: Scope
    params: AuthorizationParams
    until: float

    @property
    def known_by(self) -> str | None:
        """The host that has a document about the client: the client cannot choose it, as it can its name."""
        return document_host(self.client.id)

    @property
    def goes_to(self) -> str:
        """Where the answer goes: a web site's name, a program's scheme, or a program on the browser's machine."""
        parts = urlsplit(str(self.params.redirect_uri))
        if parts.hostname in _LOOPBACK:
            return "a program on this browser's machine"
        return (
            parts.netloc if parts.scheme in ("http", "https") else f"the program that opens {parts.scheme}:"
        )


@dataclass(slots=True)
class _Code:
    """A code that was given out."""

    code: AuthorizationCode
    client: Client
    grant_id: str | None = None
    """What it was exchanged for: then it is no longer good."""


class _PublicClient(OAuthClientInformationFull):
    """A client as the SDK's handlers know it. A program on the browser's machine takes any port (RFC 8252, 7.3)."""

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        if redirect_uri is not None and _without_port(redirect_uri) in map(
            _without_port, self.redirect_uris or ()
        ):
            return redirect_uri
        return super().validate_redirect_uri(redirect_uri)


class OwnIssuer(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The provider behind the SDK's handlers, for one listener, and behind the question that the page puts to the user."""

    def __init__(
        self,
        resource: ProtectedResource,
        grants: Grants,
        audit: AuditLog,
        *,
        documents: ClientDocuments | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._resource = resource
        self._grants = grants
        self._audit = audit
        self._documents = documents
        self._clock = clock
        # Any stranger can fill these: each is bounded, and the file has only clients that the user let in.
        self._registered: OrderedDict[str, Client] = OrderedDict()
        self._asked: OrderedDict[str, ConnectRequest] = OrderedDict()
        self._codes: OrderedDict[str, _Code] = OrderedDict()

    # Clients -----------------------------------------------------------------------------------------------------

    @property
    def reads_documents(self) -> bool:
        """Whether a client may be known by a document."""
        return self._documents is not None

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if self._documents is not None and (described := await self._documents.client(client_id)) is not None:
            self._know(described)
        client = self._client(client_id)
        if client is None:
            return None
        return _PublicClient(
            client_id=client.id,
            client_name=client.name,
            redirect_uris=[AnyUrl(uri) for uri in client.redirect_uris],
            token_endpoint_auth_method="none",  # noqa: S106  # a method's name
            scope=" ".join(SCOPES),
        )

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client, always without a secret.

        Raises:
            RegistrationError: a redirect would go to an address that is no program's.
        """
        uris = tuple(str(uri) for uri in client_info.redirect_uris or ())
        name = client_info.client_name or "A program without a name"
        if not self._know(Client(client_info.client_id, name, uris)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "Redirect to https, to http on loopback, or to a scheme of the program's own",
            )
        client_info.token_endpoint_auth_method = PUBLIC_CLIENT
        client_info.client_secret = client_info.client_secret_expires_at = None

    def _know(self, client: Client) -> bool:
        """Register a client; False where a redirect would go to an address that is no program's."""
        uris = client.redirect_uris
        if not uris or not all(map(_may_be_answered_at, uris)):
            return False
        name = " ".join(client.name.split())[:_MOST_NAME]
        _put(self._registered, client.id, Client(client.id, name, uris))
        return True

    def _client(self, client_id: str) -> Client | None:
        return self._registered.get(client_id) or self._grants.client(client_id)

    # Asking the user ---------------------------------------------------------------------------------------------

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """The address at which the page asks the user.

        Raises:
            AuthorizeError: the token is for another server, or for no scope of this one.
        """
        if params.resource is not None and params.resource.rstrip("/") != self._resource.url:
            raise AuthorizeError("invalid_target", f"Tokens of this issuer are for {self._resource.url}")
        scope = widest(params.scopes) if params.scopes else USUAL
        known = self._client(client.client_id)
        if scope is None or known is None:
            raise AuthorizeError("invalid_scope", f"Ask for one of: {', '.join(SCOPES)}")
        request = ConnectRequest(secrets.token_urlsafe(16), known, scope, params, self._clock() + _ASKED_S)
        _put(self._asked, request.id, request)
        return f"{self._resource.issuer}{CONNECT}/{request.id}"

    def asked(self, request_id: str) -> ConnectRequest:
        """A request that waits for the user.

        Raises:
            UnknownConnectRequest: none does.
        """
        found = self._asked.get(request_id)
        if found is None or found.until < self._clock():
            raise UnknownConnectRequest
        return found

    def approve(self, request_id: str, scope: Scope) -> str:
        """Let a client in, within the scope that it asked for. Returns the address that the browser goes on to.

        Raises:
            UnknownConnectRequest: none waits.
        """
        request = self._taken(request_id)
        granted = upto(min(scope, request.scope, key=SCOPES.index))
        code = secrets.token_urlsafe(32)
        about = AuthorizationCode(
            code=digest(code),
            scopes=list(granted),
            expires_at=self._clock() + _CODE_S,
            client_id=request.client.id,
            code_challenge=request.params.code_challenge,
            redirect_uri=request.params.redirect_uri,
            redirect_uri_provided_explicitly=request.params.redirect_uri_provided_explicitly,
            resource=self._resource.url,
        )
        _put(self._codes, about.code, _Code(about, request.client))
        self._audit.note("sign_in", client=request.client.name, scopes=list(granted), goes_to=request.goes_to)
        return self._answer(request, code=code)

    def refuse(self, request_id: str) -> str:
        """Refuse a client. Returns the address that the browser goes on to, which reports it.

        Raises:
            UnknownConnectRequest: none waits.
        """
        request = self._taken(request_id)
        self._audit.note("sign_in", refused="the user said no", client=request.client.name)
        return self._answer(request, error="access_denied")

    def _taken(self, request_id: str) -> ConnectRequest:
        request = self.asked(request_id)
        del self._asked[request_id]
        return request

    def _answer(self, request: ConnectRequest, **about: str) -> str:
        uri = str(request.params.redirect_uri)
        return construct_redirect_uri(uri, **about, state=request.params.state, iss=self._resource.issuer)

    # Tokens ------------------------------------------------------------------------------------------------------

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """A code that is good. One that comes again was stolen, before or now: what it was exchanged for ends."""
        known = self._codes.get(digest(authorization_code))
        if known is None or known.client.id != client.client_id:
            return None
        if known.grant_id is not None:
            self._end(known.grant_id, known.client, "a code was brought twice")
            return None
        return known.code

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        known = self._codes[authorization_code.code]
        tokens = self._grants.begin(known.client, tuple(known.code.scopes), self._resource.url)
        known.grant_id = tokens.grant.id
        return self._told(tokens, known.code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """A refresh token that is good. One that comes again was stolen, before or now: its grant ends."""
        grant = self._grants.with_refresh(refresh_token)
        if grant is None or (grant.client_id, grant.resource) != (client.client_id, self._resource.url):
            return None
        if grant.refresh != digest(refresh_token):
            known = self._client(client.client_id)
            self._end(grant.id, known, "a refresh token was brought twice")
            return None
        return RefreshToken(
            token=refresh_token,
            client_id=grant.client_id,
            scopes=list(grant.scopes),
            expires_at=int(grant.until),
            resource=grant.resource,
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        grant = self._grants.with_refresh(refresh_token.token)
        tokens = self._grants.renew(grant, tuple(scopes)) if grant is not None else None
        if tokens is None:
            raise TokenError("invalid_grant", "refresh token does not exist")
        return self._told(tokens, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """An access token that is good here: one for another listener is not."""
        if (found := self._grants.with_access(token)) is None or found[0].resource != self._resource.url:
            return None
        grant, access = found
        return AccessToken(
            token=digest(token),
            client_id=grant.client_id,
            scopes=list(access.scopes),
            expires_at=int(access.until),
            resource=grant.resource,
            subject="owner",
            claims={"iss": self._resource.issuer, "grant": grant.id},
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """As ``load_access_token``, for ``TokenGate``."""
        return await self.load_access_token(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the whole grant of a token that its client gives back."""
        if isinstance(token, AccessToken):
            self._grants.end(str((token.claims or {}).get("grant")))
        elif (grant := self._grants.with_refresh(token.token)) is not None:
            self._grants.end(grant.id)

    def _end(self, grant_id: str, client: Client | None, why: str) -> None:
        if self._grants.end(grant_id):
            self._audit.note("sign_in", refused=why, client=client.name if client is not None else None)

    def _told(self, tokens: Tokens, scopes: list[str]) -> OAuthToken:
        until = tokens.grant.access[digest(tokens.access)].until
        return OAuthToken(
            access_token=tokens.access,
            expires_in=round(until - self._clock()),
            scope=" ".join(scopes),
            refresh_token=tokens.refresh,
        )


def _without_port(uri: AnyUrl) -> str:
    """An address as it is compared: that of a program on the browser's machine without its port."""
    parts = urlsplit(str(uri))
    if parts.scheme != "http" or parts.hostname not in _LOOPBACK or "@" in parts.netloc:
        return str(uri)
    return parts._replace(netloc=parts.hostname).geturl()


def _may_be_answered_at(uri: str) -> bool:
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return parts.scheme == "https" or parts.hostname in _LOOPBACK
    return parts.scheme not in _NO_PROGRAMS


def _put(kept: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    kept[key] = value
    if len(kept) > _MOST_WAITING:
        kept.popitem(last=False)


# The addresses of our own issuer: metadata (RFC 8414), registration, authorization, tokens and their return
# (RFC 7009).

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_MOST_BYTES = 64 * 1024
_NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}


def authorization_server(issuer: OwnIssuer, resource: ProtectedResource) -> list[Route]:
    """The routes at which clients of a resource register, and get and return tokens. The question to the user is the page's."""
    register = RegistrationHandler(issuer, ClientRegistrationOptions(enabled=True, valid_scopes=list(SCOPES)))
    return [
        json_route("/.well-known/oauth-authorization-server", _metadata(resource.issuer, issuer)),
        Route("/register", _bounded(register.handle), methods=["POST"]),
        Route("/authorize", _bounded(_authorize(issuer, resource)), methods=["GET", "POST"]),
        Route("/token", _bounded(_token(issuer, resource)), methods=["POST"]),
        Route("/revoke", _bounded(_revoke(issuer)), methods=["POST"]),
    ]


def _metadata(issuer: str, provider: OwnIssuer) -> dict[str, object]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": provider.reads_documents,
    }


def _bounded(handler: _Handler) -> _Handler:
    """Refuse long requests: the client is not signed in yet."""

    async def respond(request: Request) -> Response:
        length = request.headers.get("content-length", "0")
        if "transfer-encoding" in request.headers or not length.isdecimal() or int(length) > _MOST_BYTES:
            return JSONResponse({"error": "invalid_request", "error_description": "This is too long"}, 413)
        return await handler(request)

    return respond


def _authorize(issuer: OwnIssuer, resource: ProtectedResource) -> _Handler:
    handler = AuthorizationHandler(issuer)

    async def respond(request: Request) -> Response:
        response = await handler.handle(request)
        to = response.headers.get("location")
        # A refusal goes back to the client, and names us as every answer does (RFC 9207).
        if to is not None and not to.startswith(f"{resource.issuer}{CONNECT}/"):
            response.headers["location"] = construct_redirect_uri(to, iss=resource.issuer)
        return response

    return respond


def _token(issuer: OwnIssuer, resource: ProtectedResource) -> _Handler:
    handler = TokenHandler(issuer, ClientAuthenticator(issuer))

    async def respond(request: Request) -> Response:
        target = (await request.form()).get("resource")
        if isinstance(target, str) and target.rstrip("/") != resource.url:
            problem = {"error": "invalid_target", "error_description": f"Tokens here are for {resource.url}"}
            return JSONResponse(problem, 400, headers=_NO_STORE)
        response: Response = await handler.handle(request)
        return response

    return respond


def _revoke(issuer: OwnIssuer) -> _Handler:
    async def respond(request: Request) -> Response:
        form = await request.form()
        client_id, token = str(form.get("client_id", "")), str(form.get("token", ""))
        client = await issuer.get_client(client_id)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, 401, headers=_NO_STORE)
        found = await issuer.load_access_token(token) or await issuer.load_refresh_token(client, token)
        if found is not None and found.client_id == client_id:
            await issuer.revoke_token(found)
        return Response(headers=_NO_STORE)

    return respond

"""The addresses of our own issuer: metadata (RFC 8414), registration, authorization, tokens and their return (RFC 7009)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import construct_redirect_uri
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cellwright.oauth.own_issuer import CONNECT, OwnIssuer
from cellwright.oauth.protected_resource import ProtectedResource, json_route
from cellwright.oauth.scopes import SCOPES

__all__ = ["authorization_server"]

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_MOST_BYTES = 64 * 1024
_NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}


def authorization_server(issuer: OwnIssuer, resource: ProtectedResource) -> list[Route]:
    """Where clients of a resource register, ask and are given tokens. The user is asked elsewhere."""
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
    """Nobody who is not signed in has anything long to say."""

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
        wanted = (await request.form()).get("resource")
        if isinstance(wanted, str) and wanted.rstrip("/") != resource.url:
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

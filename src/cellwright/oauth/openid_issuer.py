"""Access tokens of an issuer of the operator's: any OpenID Connect provider whose tokens are signed JWTs (RFC 9068).

Its keys are fetched when the first token comes, kept for an hour, and fetched again for a key that is not among them.
What is wrong with a token is logged by its kind; the token never is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import httpx2
import jwt
from jwt import PyJWK, PyJWKSet
from mcp.server.auth.provider import AccessToken

from cellwright.errors import CellwrightError
from cellwright.oauth.grants import digest

__all__ = ["IssuerUnreachable", "OpenIdIssuer"]

_log = logging.getLogger(__name__)

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""The algorithms with a public key: with a shared one, every verifier of tokens could make them."""
_KEPT_S = 3_600.0
_AGAIN_S = 10.0
"""At least between two looks for keys: anybody can bring tokens that name one that is not there."""
_TIMEOUT_S = 10.0
_LEEWAY_S = 30
_PLACES = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


class IssuerUnreachable(CellwrightError):
    """The issuer's keys cannot be had."""

    code = "issuer_unreachable"


class OpenIdIssuer:
    """Verifies an issuer's access tokens for one audience and the people who are let in."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        subjects: tuple[str, ...],
        *,
        client: Callable[[], httpx2.AsyncClient] = lambda: httpx2.AsyncClient(timeout=_TIMEOUT_S),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``subjects`` are let in by ``sub`` or verified ``email``; ``*`` is everybody whom the issuer gives a token."""
        self._issuer = issuer
        self._audience = audience
        self._subjects = frozenset(subjects)
        self._client = client
        self._clock = clock
        self._keys: dict[str | None, PyJWK] = {}
        self._fetched_at = float("-inf")
        self._failure: Exception | None = None
        """Why the last look for keys failed, if it did."""
        self._fetching = anyio.Lock()

    async def verify_token(self, token: str) -> AccessToken | None:
        """The claims of a valid token.

        Raises:
            IssuerUnreachable: its issuer's keys cannot be had.
        """
        try:
            key = await self._key(jwt.get_unverified_header(token))
            if key is None:
                return _refused("unknown_key")
            claims = jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            return _refused(type(error).__name__)
        if not self._is_welcome(claims):
            return _refused("not_in_oauth_subjects")
        return AccessToken(
            token=digest(token),
            client_id=str(claims.get("client_id") or claims.get("azp") or ""),
            scopes=_scopes(claims),
            expires_at=int(claims["exp"]),
            resource=self._audience,
            subject=str(claims["sub"]),
            claims={"iss": self._issuer},
        )

    def _is_welcome(self, claims: Mapping[str, Any]) -> bool:
        names = {str(claims["sub"])}
        if claims.get("email_verified") is True:
            names.add(str(claims.get("email")))
        return "*" in self._subjects or not names.isdisjoint(self._subjects)

    async def _key(self, header: Mapping[str, Any]) -> PyJWK | None:
        named = header.get("kid")
        async with self._fetching:
            age_s = self._clock() - self._fetched_at
            if age_s > _KEPT_S or (named not in self._keys and age_s > _AGAIN_S):
                try:
                    self._keys, self._failure = await self._fetched(), None
                except (httpx2.HTTPError, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
                    _log.warning(
                        "issuer_unreachable issuer=%s %s: %s", self._issuer, type(error).__name__, error
                    )
                    self._failure = error
                self._fetched_at = self._clock()
            if self._failure is not None and not self._keys:
                raise IssuerUnreachable(
                    f"The keys of {self._issuer} cannot be had: {type(self._failure).__name__} {self._failure}",
                    hint="Check oauth_issuer, and whether this machine reaches it",
                ) from self._failure
        if named is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(named)

    async def _fetched(self) -> dict[str | None, PyJWK]:
        async with self._client() as http:
            keys = await http.get(await self._keys_url(http))
            keys.raise_for_status()
        return {
            key.key_id: key for key in PyJWKSet.from_dict(keys.json()).keys if key.public_key_use != "enc"
        }

    async def _keys_url(self, http: httpx2.AsyncClient) -> str:
        found: httpx2.Response | None = None
        for place in _PLACES:
            found = await http.get(f"{self._issuer.rstrip('/')}{place}")
            if found.is_success:
                break
        assert found is not None
        found.raise_for_status()
        metadata = found.json()
        if metadata["issuer"] != self._issuer:
            raise ValueError(f"it calls itself {metadata['issuer']}")
        return str(metadata["jwks_uri"])


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """As most issuers write them (``scope``, a text), or as some do (``scp``, a text or a list)."""
    scopes = claims.get("scope", claims.get("scp", ""))
    return scopes.split() if isinstance(scopes, str) else [str(one) for one in scopes]


def _refused(why: str) -> AccessToken | None:
    _log.info("access_token_refused reason=%s", why)
    return None

"""Which access tokens of an OpenID issuer are good: everything about one must be right."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cellwright.oauth.openid_issuer import IssuerUnreachable, OpenIdIssuer

pytestmark = pytest.mark.anyio

ISSUER, AUDIENCE = "https://id.example", "https://notebooks.example/mcp"


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class Provider:
    """An issuer with keys, of which it publishes some."""

    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=lambda: {"first": new_key()})
    says: str = ISSUER
    greeted: int = 0
    asked: int = 0

    def client(self) -> httpx2.AsyncClient:
        routes = [Route("/.well-known/openid-configuration", self._about), Route("/keys", self._keys)]
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(Starlette(routes=routes)))

    async def _about(self, _: Request) -> Response:
        self.greeted += 1
        return JSONResponse({"issuer": self.says, "jwks_uri": f"{ISSUER}/keys"})

    async def _keys(self, _: Request) -> Response:
        self.asked += 1
        public = {kid: ECAlgorithm.to_jwk(key.public_key(), as_dict=True) for kid, key in self.keys.items()}
        return JSONResponse({"keys": [{**jwk, "kid": kid, "alg": "ES256"} for kid, jwk in public.items()]})

    def token(self, kid: str = "first", **claims: Any) -> str:
        said = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ada",
            "exp": time.time() + 60,
            "scope": "openid read run",
            "client_id": "reader",
        }
        said |= claims
        told = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(told, self.keys[kid], "ES256", {"kid": kid})


def issuer(provider: Provider, *subjects: str, clock: Callable[[], float] = time.monotonic) -> OpenIdIssuer:
    return OpenIdIssuer(ISSUER, AUDIENCE, subjects or ("ada",), client=provider.client, clock=clock)


async def test_a_token_that_is_right_says_who_brings_it_and_what_they_may() -> None:
    provider = Provider()
    found = await issuer(provider).verify_token(provider.token(aud=["another", AUDIENCE]))
    assert found is not None
    assert (found.subject, found.client_id, found.scopes) == ("ada", "reader", ["openid", "read", "run"])
    assert found.token not in provider.token()


@pytest.mark.parametrize(
    "wrong",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": None},
        {"iss": "https://other.example"},
        {"exp": time.time() - 60},
        {"exp": None},
        {"nbf": time.time() + 600},
        {"sub": "eve"},
        {"sub": "eve", "email": "ada", "email_verified": False},
    ],
    ids=str,
)
async def test_a_token_with_one_thing_wrong_is_not_good(wrong: dict[str, Any]) -> None:
    provider = Provider()
    assert await issuer(provider).verify_token(provider.token(**wrong)) is None


async def test_a_token_that_others_can_make_is_not_good() -> None:
    provider = Provider()
    asked = issuer(provider)
    claims = jwt.decode(provider.token(), options={"verify_signature": False})
    others = Provider().token()
    unsigned = jwt.encode(claims, None, "none", {"kid": "first"})
    by_a_secret = jwt.encode(claims, "s" * 32, "HS256", {"kid": "first"})
    for token in (others, unsigned, by_a_secret, "no token", ""):
        assert await asked.verify_token(token) is None


async def test_people_are_let_in_by_a_verified_address_too() -> None:
    provider = Provider()
    token = provider.token(sub="17", email="ada@example.org", email_verified=True)
    assert await issuer(provider, "ada@example.org").verify_token(token) is not None
    assert await issuer(provider, "*").verify_token(provider.token(sub="anybody")) is not None


async def test_keys_are_fetched_again_for_a_new_one_and_not_for_every_name() -> None:
    provider, now = Provider(), 0.0
    asked = issuer(provider, clock=lambda: now)
    for _ in range(3):
        assert await asked.verify_token(provider.token()) is not None
    assert provider.asked == 1
    provider.keys["second"] = new_key()
    assert await asked.verify_token(provider.token("second")) is None, "a moment ago it had no such key"
    assert provider.asked == 1
    now = 11.0
    assert await asked.verify_token(provider.token("second")) is not None
    assert provider.asked == 2


async def test_an_issuer_that_calls_itself_otherwise_is_not_believed() -> None:
    provider = Provider(says="https://other.example")
    with pytest.raises(IssuerUnreachable):
        await issuer(provider).verify_token(provider.token())
    assert provider.asked == 0


async def test_an_issuer_that_cannot_be_had_is_not_asked_for_every_token() -> None:
    provider, now = Provider(says="https://other.example"), 0.0
    asked = issuer(provider, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(IssuerUnreachable):
            await asked.verify_token(provider.token())
    assert provider.greeted == 1
    provider.says, now = ISSUER, 11.0
    assert await asked.verify_token(provider.token()) is not None

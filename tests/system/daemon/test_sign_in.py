"""Clients sign in over HTTP with the page's user as the judge: metadata, PKCE, audiences, scopes, and tokens that end."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest

from tests.kernel.mcp.conftest import data_of
from tests.support.oauth.browser import User, told
from tests.support.oauth.client import BACK, Memory, signed_in
from tests.support.oauth.documents import DocumentHost, document_host
from tests.support.tools.webserver import Reply
from tests.system.daemon.conftest import files_with, place_in
from tests.system.daemon.test_listeners import Served, served, shown

pytestmark = pytest.mark.anyio

ORIGIN = "https://inspector.example"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentHost]:
    with document_host(tmp_path_factory.mktemp("documents")) as host:
        yield host


@pytest.fixture(scope="module")
def listener(documents: DocumentHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = {
        "CELLWRIGHT_OAUTH_ISSUER": "own",
        "CELLWRIGHT_ALLOWED_ORIGINS": ORIGIN,
        "CELLWRIGHT_OAUTH_CLIENT_HOSTS": documents.name,
        "SSL_CERT_FILE": str(documents.certificate),
    }
    with (
        place_in(tmp_path_factory.mktemp("sign-in"), **settings) as place,
        served(place, "--toolset", "core") as listener,
    ):
        yield listener


@pytest.fixture
async def http(listener: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"http://{listener.address}") as http:
        yield http


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_a_client_that_knows_only_the_address_signs_in_and_goes_further_when_it_must(
    listener: Served, mode: str
) -> None:
    user, memory = User(listener.token), Memory()
    async with signed_in(listener.address, user, memory, "auto" if mode < "2026" else mode) as client:
        made = await client.call_tool("notebook_create", {"name": "signed in"})
        assert not made.is_error
        assert memory.tokens is not None
        assert memory.tokens.scope == "read run"
        session = data_of(made)["session_id"]
        # What needs more is answered 403, and the client asks the user again.
        assert not (await client.call_tool("notebook_delete", {"session_id": session})).is_error
    assert memory.tokens.scope == "read run admin"
    assert "Sky <b>Reader</b>" in user.read
    assert "a program on this browser's machine" in user.read
    tokens = (memory.tokens.access_token, str(memory.tokens.refresh_token))
    for secret in tokens:
        assert files_with(listener.place.storage, secret) == []
    lines = [line["about"] for line in shown(listener.place, "--kind", "sign_in") if not line.get("refused")]
    assert ["read", "run", "admin"] in [line.get("scopes") for line in lines]


async def test_a_client_that_a_document_describes_need_not_register(
    listener: Served, documents: DocumentHost
) -> None:
    address = documents.put("/client.json", client_name="Described <i>Reader</i>")
    user, memory = User(listener.token), Memory()
    async with signed_in(listener.address, user, memory, document=address) as client:
        assert not (await client.call_tool("notebook_create", {"name": "described"})).is_error
    assert memory.client is not None
    assert memory.client.client_id == address
    assert "Described <i>Reader</i>" in user.read
    assert "described at <strong>127.0.0.1</strong>" in user.read
    assert len([asked for asked in documents.web.asked if asked.path == "/client.json"]) == 1


# The same by hand, where something is not as it should be ------------------------------------------------------------


async def register(http: httpx2.AsyncClient, **about: Any) -> httpx2.Response:
    return await http.post("/register", json={"client_name": "by hand", "redirect_uris": [BACK], **about})


async def client_id(http: httpx2.AsyncClient) -> str:
    return str((await register(http)).json()["client_id"])


def verifier() -> tuple[str, str]:
    made = secrets.token_urlsafe(32)
    return made, base64.urlsafe_b64encode(hashlib.sha256(made.encode()).digest()).decode().rstrip("=")


def authorize_url(http: httpx2.AsyncClient, client: str, challenge: str, **about: str) -> str:
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": BACK,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": "of mine",
        **about,
    }
    return f"{str(http.base_url).rstrip('/')}/authorize?{urlencode({k: v for k, v in asked.items() if v})}"


async def exchange(http: httpx2.AsyncClient, client: str, code: str, **about: str) -> httpx2.Response:
    form = {
        "grant_type": "authorization_code",
        "client_id": client,
        "code": code,
        "redirect_uri": BACK,
        **about,
    }
    return await http.post("/token", data=form)


async def granted(http: httpx2.AsyncClient, user: User, **about: str) -> tuple[str, str, dict[str, Any]]:
    """A client, the code that it was given, and the tokens that it has for it."""
    client = await client_id(http)
    kept, challenge = verifier()
    said = await user.answers(authorize_url(http, client, challenge, **about))
    assert (said["state"], said["iss"]) == ("of mine", str(http.base_url).rstrip("/"))
    answer = await exchange(http, client, said["code"], code_verifier=kept)
    assert answer.status_code == 200, answer.text
    return client, said["code"], {**answer.json(), "verifier": kept}


async def calls(
    http: httpx2.AsyncClient, token: str | None, tool: str, /, **arguments: Any
) -> httpx2.Response:
    headers = {"accept": "application/json, text/event-stream"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    params = {"name": tool, "arguments": arguments}
    return await http.post("/mcp", json={**CALL, "params": params}, headers=headers)


async def test_a_stranger_is_told_where_to_sign_in(http: httpx2.AsyncClient, listener: Served) -> None:
    base = f"http://{listener.address}"
    refused = await calls(http, None, "notebook_list")
    assert refused.status_code == 401
    challenge = refused.headers["www-authenticate"]
    where = f"{base}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{where}"' in challenge
    assert 'scope="read run"' in challenge
    resource = (await http.get(where)).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{base}/mcp", [base])
    assert resource["scopes_supported"] == ["read", "run", "admin"]
    server = (await http.get("/.well-known/oauth-authorization-server")).json()
    assert (server["issuer"], server["code_challenge_methods_supported"]) == (base, ["S256"])
    assert (
        await http.get("/.well-known/oauth-authorization-server", headers={"host": "evil.example"})
    ).status_code == 421
    wrong = await calls(http, "x" * 43, "notebook_list")
    assert (wrong.status_code, 'error="invalid_token"' in wrong.headers["www-authenticate"]) == (401, True)
    assert (await calls(http, listener.token, "notebook_list")).status_code != 401, (
        "the listener's token opens all"
    )


async def test_a_web_page_that_is_allowed_may_sign_in_and_read_what_it_is_told_and_no_other_may(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    wants = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,mcp-name",
    }
    metadata = "/.well-known/oauth-protected-resource/mcp"
    for path in ("/mcp", "/token", "/register", metadata):
        asked = await http.options(path, headers={"origin": ORIGIN, **wants})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, ORIGIN)
        assert asked.headers["access-control-allow-headers"] == wants["access-control-request-headers"]
        assert "access-control-allow-credentials" not in asked.headers, (
            "it has a token, not the page's cookie"
        )
        other = await http.options(path, headers={"origin": "https://evil.example", **wants})
        assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)
    refused = await http.post("/mcp", json=CALL, headers={"origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]
    assert (await http.get(metadata, headers={"origin": ORIGIN})).headers[
        "access-control-allow-origin"
    ] == ORIGIN
    page = await http.get("/enter", headers={"origin": ORIGIN})
    assert "access-control-allow-origin" not in page.headers, "the page itself is for people"


async def test_without_pkce_by_s256_nothing_is_asked(http: httpx2.AsyncClient) -> None:
    client = await client_id(http)
    for missing in ({"code_challenge": ""}, {"code_challenge_method": "plain"}):
        answer = await http.get(authorize_url(http, client, "x" * 43, **missing))
        said = told(answer.headers["location"])
        assert (said["error"], said["state"]) == ("invalid_request", "of mine")
        assert said["iss"] == str(http.base_url).rstrip("/")


async def test_a_code_needs_its_verifier_its_client_and_comes_once(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    user = User(listener.token)
    client, code, tokens = await granted(http, user)
    other = await client_id(http)
    kept, challenge = verifier()
    fresh = (await user.answers(authorize_url(http, client, challenge)))["code"]
    for stolen in (
        await exchange(http, client, fresh, code_verifier="y" * 43),
        await exchange(http, other, fresh, code_verifier=kept),
        await exchange(http, client, fresh),
    ):
        assert (stolen.status_code, stolen.json()["error"]) in {
            (400, "invalid_grant"),
            (400, "invalid_request"),
        }
    assert (await exchange(http, client, fresh, code_verifier=kept)).status_code == 200
    assert (await calls(http, tokens["access_token"], "notebook_list")).status_code != 401
    replayed = await exchange(http, client, code, code_verifier=tokens["verifier"])
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert (await calls(http, tokens["access_token"], "notebook_list")).status_code == 401, (
        "and its tokens end"
    )


async def test_a_refresh_token_works_once_and_ends_everything_when_it_comes_again(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    client, _, tokens = await granted(http, User(listener.token))

    async def refreshed(token: str) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "client_id": client, "refresh_token": token}
        return await http.post("/token", data=form)

    second = (await refreshed(tokens["refresh_token"])).json()
    assert (await calls(http, second["access_token"], "notebook_list")).status_code != 401
    assert (await refreshed(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await calls(http, second["access_token"], "notebook_list")).status_code == 401
    assert (await refreshed(second["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_token_for_another_server_is_neither_given_nor_taken(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    client = await client_id(http)
    answer = await http.get(authorize_url(http, client, "x" * 43, resource="https://other.example/mcp"))
    assert told(answer.headers["location"])["error"] == "invalid_target"
    asked = await exchange(http, client, "none", code_verifier="y" * 43, resource="https://other.example/mcp")
    assert asked.json()["error"] == "invalid_target"
    _, _, tokens = await granted(http, User(listener.token), resource=f"http://{listener.address}/mcp")
    with served(listener.place) as other:
        async with httpx2.AsyncClient(base_url=f"http://{other.address}") as elsewhere:
            refused = await calls(elsewhere, tokens["access_token"], "notebook_list")
    assert refused.status_code == 401
    assert (await calls(http, tokens["access_token"], "notebook_list")).status_code != 401


@pytest.mark.parametrize(
    "body",
    [
        {"name": "cell_add", "arguments": {}},
        {"name": "toolset_enable", "arguments": {"tool": "notebook_create", "arguments": {"name": "no"}}},
    ],
)
async def test_what_a_scope_does_not_reach_is_refused_by_the_scopes_name(
    http: httpx2.AsyncClient, listener: Served, body: dict[str, Any]
) -> None:
    user = User(listener.token, scope="read")
    _, _, tokens = await granted(http, user, scope="read run admin")
    assert tokens["scope"] == "read", "the user may give less than was asked for"
    assert (await calls(http, tokens["access_token"], "notebook_list")).status_code == 400, (
        "no session, but let in"
    )
    refused = await calls(http, tokens["access_token"], body["name"], **body["arguments"])
    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="read run"' in challenge


async def test_a_name_that_two_readers_read_differently_is_read_once(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    _, _, tokens = await granted(http, User(listener.token, scope="read"))
    headers = {"authorization": f"Bearer {tokens['access_token']}", "content-type": "application/json"}
    twice = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"notebook_list","name":"cell_add"}}'
    )
    assert (await http.post("/mcp", content=twice, headers=headers)).status_code == 403
    assert (await http.post("/mcp", content=b"\xff\xfe{", headers=headers)).status_code == 400


async def test_the_user_may_say_no_and_only_the_page_itself_may_say_yes(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    client = await client_id(http)
    said = await User(listener.token, says_no=True).answers(authorize_url(http, client, verifier()[1]))
    assert (said["error"], said["state"]) == ("access_denied", "of mine")
    answer = await http.get(authorize_url(http, client, verifier()[1]))
    asked = urlsplit(answer.headers["location"]).path
    unsigned = await http.get(asked)
    assert (unsigned.status_code, unsigned.headers["location"].startswith("/enter?")) == (303, True)
    assert (await http.post(f"{asked}/allow", data={"scope": "run"})).status_code == 401
    member = listener.place.run("people", "add", "eve", "--role", "run").stdout.strip()
    signed = await http.post("/enter", data={"token": member, "next": asked})
    assert (await http.get(signed.headers["location"])).status_code == 403, "it is the owner's to say"


@pytest.mark.parametrize("uri", ["http://evil.example/cb", "javascript:alert(1)", "data:text/html,x"])
async def test_answers_go_to_programs_only(http: httpx2.AsyncClient, uri: str) -> None:
    refused = await register(http, redirect_uris=[uri])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri")
    client = await client_id(http)
    moved = await http.get(authorize_url(http, client, "x" * 43, redirect_uri=uri))
    assert (moved.status_code, "location" in moved.headers) == (400, False)


async def test_the_user_sees_who_is_signed_in_and_ends_it_at_once(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    _, _, ours = await granted(http, User(listener.token, scope="read"))
    _, _, others = await granted(http, User(listener.token))
    listed = json.loads(listener.place.run("sign-ins", "--json").stdout)["sign_ins"]
    mine = [one for one in listed if one["scopes"] == ["read"] and one["client"] == "by hand"][-1]
    assert listener.place.run("sign-ins", "end").returncode == 2, "which one?"
    assert listener.place.run("sign-ins", "end", "of-nobody").returncode == 1
    ended = listener.place.run("sign-ins", "end", mine["id"])
    assert "by hand is signed out" in ended.stdout, ended.stderr
    assert (await calls(http, ours["access_token"], "notebook_list")).status_code == 401
    assert (await calls(http, others["access_token"], "notebook_list")).status_code != 401
    assert listener.place.run("sign-ins", "end", "--all").returncode == 0
    assert (await calls(http, others["access_token"], "notebook_list")).status_code == 401
    assert mine["id"] in [line["about"].get("ended") for line in shown(listener.place, "--kind", "sign_in")]


async def test_a_document_that_is_not_as_it_must_be_describes_nobody(
    http: httpx2.AsyncClient, documents: DocumentHost
) -> None:
    right = documents.put("/right.json")
    documents.web.routes["/moved.json"] = Reply("", status=302, headers={"Location": right})
    wrong = [
        documents.put("/another.json", client_id=right),
        documents.put("/secret.json", client_secret="of everybody's"),  # noqa: S106  # none of anything real
        documents.put("/outward.json", redirect_uris=["http://127.0.0.1.evil.example/callback"]),
        documents.put("/long.json", about="x" * 10_000),
        right.replace("right", "moved"),
        right.replace("right", "none"),
        right.replace("https:", "http:"),
        right.replace("127.0.0.1", "localhost"),  # not among the hosts that are asked
        right.replace("127.0.0.1", "127.0.0.1@localhost"),
        "https://[evil/client.json",
    ]
    for client in wrong:
        answer = await http.get(authorize_url(http, client, "x" * 43))
        assert (answer.status_code, "location" in answer.headers) == (400, False), client
    asked = await http.get(authorize_url(http, right, "x" * 43))
    assert "/connect/" in asked.headers["location"], "another port of the program's own machine is the same"
    other = authorize_url(http, right, "x" * 43, redirect_uri=BACK.replace("callback", "other"))
    assert (await http.get(other)).status_code == 400


async def test_a_client_has_no_secret_and_may_give_its_tokens_back(
    http: httpx2.AsyncClient, listener: Served
) -> None:
    method = {"token_endpoint_auth_method": "client_secret_post"}
    registered = (await register(http, **method)).json()
    assert (registered["token_endpoint_auth_method"], "client_secret" in registered) == ("none", False)
    client, _, tokens = await granted(http, User(listener.token))
    given_back = {"client_id": client, "token": tokens["refresh_token"]}
    assert (await http.post("/revoke", data=given_back)).status_code == 200
    assert (await calls(http, tokens["access_token"], "notebook_list")).status_code == 401

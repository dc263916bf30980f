"""Clients sign in at a real OpenID Connect provider, and bring its tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.clients.installing import INSTALL_LIMIT_S
from tests.support.oauth.client import Memory, signed_in
from tests.support.oauth.provider import Person, running_provider
from tests.system.daemon.conftest import place_in
from tests.system.daemon.test_listeners import Served, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(INSTALL_LIMIT_S + 300)]


@pytest.fixture(scope="module")
def listener(
    require: Callable[[str, bool, str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("sign-in")
    with running_provider(require) as issuer:
        settings = {"CELLWRIGHT_OAUTH_ISSUER": issuer, "CELLWRIGHT_OAUTH_SUBJECTS": "ada"}
        with place_in(root, **settings) as place, served(place) as listener:
            yield listener


async def test_whom_the_settings_name_signs_in_at_the_provider_and_does_what_its_scopes_reach(
    listener: Served,
) -> None:
    memory = Memory()
    async with signed_in(listener.address, Person("ada"), memory) as client:
        assert not (await client.call_tool("notebook_create", {"name": "from elsewhere"})).is_error
    assert memory.tokens is not None
    assert memory.tokens.scope == "read run"
    beyond = {"method": "tools/call", "params": {"name": "notebook_delete", "arguments": {}}}
    with listener.ask("/mcp", method="POST", body=beyond, token=memory.tokens.access_token) as refused:
        assert refused.status == 403
        assert 'scope="read run admin"' in (refused.getheader("WWW-Authenticate") or "")


async def test_whom_the_settings_do_not_name_is_not_let_in_with_a_token_of_the_provider(
    listener: Served,
) -> None:
    memory = Memory()
    with pytest.RaisesGroup(pytest.RaisesExc(Exception), flatten_subgroups=True):
        async with signed_in(listener.address, Person("eve"), memory):
            pytest.fail("this is nobody's")
    assert memory.tokens is not None, "the provider knows them"
    with listener.ask("/mcp", method="POST", body={}, token=memory.tokens.access_token) as refused:
        assert refused.status == 401
        assert 'error="invalid_token"' in (refused.getheader("WWW-Authenticate") or "")

"""Kernels on a person's server at a real JupyterHub, which is started when it is needed."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.errors import KernelStartError
from cellwright.hosts.protocol import JupyterServer
from cellwright.jupyter._hubs import look_at
from tests.matrix import first_of
from tests.support.jupyter.desk import Desk
from tests.support.servers.hub import Hub

pytestmark = pytest.mark.anyio


async def test_a_persons_server_is_started_and_opened_by_a_token_of_its_own(
    desk: Desk, jupyterhub: Hub
) -> None:
    # A host that had no time to take its own back left it to expire.
    before = {one["id"] for one in _tokens(jupyterhub)}
    await desk.start(JupyterServer("hub", jupyterhub.url, jupyterhub.token))
    assert (await desk.run("40 + 2")).text == "42"
    (made,) = [one for one in _tokens(jupyterhub) if one["note"] == "cellwright" and one["id"] not in before]
    # Whose it is the hub adds by itself.
    may = [scope for scope in made["scopes"] if not scope.startswith("read:users:")]
    assert may == [f"access:servers!server={jupyterhub.user}/"]
    assert made["expires_at"] is not None


async def test_a_server_that_the_hub_stopped_is_told_and_started_again_on_the_next_need(
    desk: Desk, jupyterhub: Hub
) -> None:
    server = JupyterServer("hub", jupyterhub.url, jupyterhub.token)
    await desk.start(server)
    jupyterhub.server.request("DELETE", f"/hub/api/users/{jupyterhub.user}/server")
    died = await desk.died()
    assert died.cause == "culled"
    assert "hub stopped" in died.message
    await desk.start(server, "k2")
    assert (await desk.run("'again'", "k2")).text == "'again'"


async def test_a_token_that_opens_one_server_only_reaches_it_by_its_own_address(
    desk: Desk, jupyterhub: Hub
) -> None:
    whole = JupyterServer("hub", jupyterhub.url, jupyterhub.token)
    await desk.start(whole)
    narrow = jupyterhub.new_token(f"access:servers!server={jupyterhub.user}/")
    await desk.start(JupyterServer("own", f"{jupyterhub.url}/user/{jupyterhub.user}/", narrow), "k2")
    assert (await desk.run("1 + 1", "k2")).text == "2"


@pytest.mark.parametrize("page", first_of(["lab", "lab/tree/notes.ipynb", "tree"], 1))
async def test_the_address_that_a_browser_shows_is_the_persons_server_and_not_one_of_that_name(
    desk: Desk, jupyterhub: Hub, page: str
) -> None:
    shown = f"{jupyterhub.url}/user/{jupyterhub.user}/{page}"
    server = JupyterServer("hub", shown, jupyterhub.token)
    await desk.start(server)
    assert (await desk.run("40 + 2")).text == "42"
    # A look is a short one, and one that found a hub busy is not the last.
    while "did not answer within" in (looked := await look_at(server)).detail:
        pass
    assert looked.answers


async def test_a_token_that_the_hub_does_not_know_is_refused_in_words(desk: Desk, jupyterhub: Hub) -> None:
    with pytest.raises(KernelStartError, match="refuses the token"):
        await desk.start(JupyterServer("hub", jupyterhub.url, "nobodys"))


def _tokens(hub: Hub) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = hub.server.request("GET", f"/hub/api/users/{hub.user}/tokens")["api_tokens"]
    return made

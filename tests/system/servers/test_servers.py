"""The test servers themselves: what they promise to the tests that stand on them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.marked import marked
from tests.support.servers import kinds
from tests.support.servers.hub import Hub
from tests.support.servers.server import MARK, Server, ServerBrokenError

# The tests that stand on them say as much, if less plainly.
pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("kind", ["jupyter_server", "collaboration_server", "kernel_gateway"])
def test_server_starts_kernels_for_its_token_only(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(kind)

    kernel = server.request("POST", "/api/kernels", {"name": "python3"})
    server.request("DELETE", f"/api/kernels/{kernel['id']}")

    with pytest.raises(ServerBrokenError, match=r"40[13]"):
        server.request("POST", "/api/kernels", {"name": "python3"}, token="0" * 32)


def test_documents_are_shared_by_the_collaboration_server_alone(
    jupyter_server: Server, collaboration_server: Server
) -> None:
    path = "/api/collaboration/session/note.ipynb"
    asked = {"format": "json", "type": "notebook"}
    for server in (jupyter_server, collaboration_server):
        server.request("PUT", "/api/contents/note.ipynb", {"type": "notebook"})

    with pytest.raises(ServerBrokenError, match=r"404"):
        jupyter_server.request("PUT", path, asked)
    assert collaboration_server.request("PUT", path, asked)["sessionId"]


def test_killed_server_takes_its_kernels_along_and_comes_back_at_its_address(
    served: Callable[[Server], Server], server_home: Callable[[str], Path]
) -> None:
    server = served(kinds.plain_server(server_home("killed")))
    server.request("POST", "/api/kernels", {"name": "python3"})
    address = server.url

    server.kill()
    assert list(marked(MARK, str(server.home))) == []
    server.restart()

    assert server.url == address
    assert server.request("GET", "/api/kernels") == []


def test_hub_starts_a_persons_server_and_keeps_tokens_over_a_restart(jupyterhub: Hub) -> None:
    ask = jupyterhub.server.request
    narrow = jupyterhub.new_token("read:users:name!user")
    # Where another test has started it already, it is refused.
    with suppress(ServerBrokenError):
        jupyterhub.start_server()

    jupyterhub.restart()
    jupyterhub.start_server()

    assert ask("GET", "/hub/api/user", token=narrow)["name"] == jupyterhub.user
    with pytest.raises(ServerBrokenError, match=r"40[34]"):
        ask("POST", f"/hub/api/users/{jupyterhub.user}/server", token=narrow)
    assert ask("GET", f"/hub/api/users/{jupyterhub.user}")["server"] == f"/user/{jupyterhub.user}/"
    ask("DELETE", f"/hub/api/users/{jupyterhub.user}/server", token=jupyterhub.token)

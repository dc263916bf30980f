"""Who may do what, asked of every deed that the page has, past its buttons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
from starlette.routing import Route

from cellwright.web import site
from tests.browser.web.conftest import Served
from tests.waiting import LIMIT_S

ROUTES = [route for module in site._VIEWS for route in module.ROUTES if isinstance(route, Route)]
DEEDS = sorted(route.path for route in ROUTES if "POST" in (route.methods or ()))
# Anybody who looks may have a cell shown again as it is, and copy cells.
LOOKING = {"/sessions/{session_id}/cells/{cell_id}/again", "/sessions/{session_id}/edits/copy"}
OWNING = {
    "/chat/keys",
    "/chat/models",
    "/chat/models/forget",
    "/chat/{conversation_id}/delete",
    "/connect/{request_id}/allow",
    "/connect/{request_id}/refuse",
    "/hosts/stop",
    "/notebooks/offered/add",
    "/sessions/{session_id}/branches/{branch_id}/delete",
    "/sessions/{deleted_id}/restore",
    "/sessions/{session_id}/delete",
    "/sessions/{session_id}/resume",
    "/sessions/{session_id}/suspend",
    "/sessions/{session_id}/verified/share",
    "/sessions/{session_id}/verified/shares/{share_id}/end",
}


@dataclass
class Caller:
    """Somebody who is signed in and writes requests by hand."""

    client: httpx.Client
    csrf: str

    def do(self, path: str) -> httpx.Response:
        return self.client.post(path, headers={"x-cellwright-page": self.csrf})


@pytest.fixture(scope="module")
def callers(served: Served) -> Iterator[Callable[[str], Caller]]:
    clients: list[httpx.Client] = []

    def signed_in(role: str) -> Caller:
        token = served.token
        if role != "own":
            token = served.place.run("people", "add", f"Who may {role}", "--role", role).stdout.strip()
        # A line of its own for each request: one that is kept may be closed just when it is used again.
        alone = httpx.Limits(max_keepalive_connections=0)
        client = httpx.Client(base_url=served.url, follow_redirects=True, timeout=LIMIT_S, limits=alone)
        clients.append(client)
        front = client.post("/enter", data={"token": token}).text
        found = re.search(r'name="csrf" content="([^"]+)"', front)
        assert found is not None
        return Caller(client, found[1])

    yield signed_in
    for client in clients:
        client.close()
    for role in ("view", "run"):
        served.place.run("people", "remove", f"Who may {role}")


@pytest.fixture(scope="module")
def onlooker(callers: Callable[[str], Caller]) -> Caller:
    return callers("view")


@pytest.fixture(scope="module")
def runner(callers: Callable[[str], Caller]) -> Caller:
    return callers("run")


@pytest.fixture(scope="module")
def owner(callers: Callable[[str], Caller]) -> Caller:
    return callers("own")


def somewhere(path: str) -> str:
    """An address of that kind where nothing is: who may not, is told so before it is looked for."""
    return re.sub(r"\{[^}]+\}", "nothing", re.sub(r"\{[^}]+:int\}", "0", path))


@pytest.mark.parametrize("path", DEEDS)
def test_who_may_look_can_do_nothing(onlooker: Caller, path: str) -> None:
    answer = onlooker.do(somewhere(path))
    if path in LOOKING:
        assert answer.status_code == 404
    else:
        assert answer.status_code == 403
        assert "may view, and this needs the role" in answer.json()["error"]


@pytest.mark.parametrize("path", [path for path in DEEDS if path not in LOOKING])
def test_who_may_run_can_do_all_but_what_is_an_owners(runner: Caller, path: str) -> None:
    answer = runner.do(somewhere(path))
    assert (answer.status_code == 403) == (path in OWNING), answer.text


def test_every_address_that_changes_something_was_asked() -> None:
    assert len(DEEDS) > 30
    assert set(DEEDS) >= OWNING | LOOKING


def test_a_branch_is_not_taken_back_over_somebody_who_has_the_session(
    owner: Caller, runner: Caller, served: Served
) -> None:
    session_id = served.notebook("Held", "a = 1")
    branch_id = served.agent.call("session_branch", session_id=session_id)["branches"][0]["session_id"]
    assert owner.do(f"/sessions/{session_id}/take").status_code == 200
    adopted = runner.do(f"/sessions/{branch_id}/branches/{branch_id}/adopt")
    assert adopted.status_code == 409
    assert "owner took this session over" in adopted.json()["error"]
    assert owner.do(f"/sessions/{branch_id}/branches/{branch_id}/adopt").status_code == 200

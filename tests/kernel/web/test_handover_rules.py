"""Who may do what while one person has a session: asked of the real routes, with people of every role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette
from starlette.types import Message

from cellwright import Engine
from cellwright.people import Person, Role
from cellwright.plans import Planner
from cellwright.plans.model import Attempt, Plan, Todo
from cellwright.verification import Verifier
from cellwright.web import _cell_actions, _cell_edits, _notebook, _sessions
from cellwright.web.panels.plans import step_views
from tests.kernel.engine.conftest import end_host, open_at

ANN, BOB, OWNER, GUEST = (
    Person("ann", "run"),
    Person("bob", "run"),
    Person("owner", "own"),
    Person("g", "view"),
)


@dataclass
class House:
    """An engine in a thread of its own: the browsers of other tests have this one's loop."""

    engine: Engine
    portal: BlockingPortal

    def post(self, person: Person, path: str, **form: str) -> tuple[int, dict[str, Any]]:
        return self.portal.call(partial(post, self.engine, person, path, **form))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    root: Path = tmp_path_factory.mktemp("rules")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_at(root, max_sessions=20)) as engine,
    ):
        yield House(engine, portal)
    end_host(root / "state")


class _Site:
    """What these routes use of a site; nobody asks for its door."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.planner, self.verifier = engine, Planner(engine), Verifier(engine)


async def post(engine: Engine, person: Person, path: str, **form: str) -> tuple[int, dict[str, Any]]:
    """What somebody is answered who has passed the door."""
    views = (_notebook, _cell_actions, _cell_edits, _sessions)
    app = Starlette(routes=[route for view in views for route in view.ROUTES])
    app.state.site = _Site(engine)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": urlencode(form).encode(), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/x-www-form-urlencoded")],
        "state": {"person": person},
    }
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return cast(int, sent[0]["status"]), json.loads(body)


def test_while_one_person_has_a_session_others_may_only_look(house: House) -> None:
    session = house.portal.call(house.engine.create, "one at a time")
    cell = house.portal.call(session.add_cell, "1")
    at = f"/sessions/{session.id}"
    assert house.post(GUEST, f"{at}/take")[0] == 403, "who may only look takes nothing over"
    assert house.post(ANN, f"{at}/take")[0] == 200
    refused = [
        (f"{at}/cells", {}),
        (f"{at}/cells/{cell.id}/comments", {"text": "mine"}),
        (f"{at}/plan/verify", {}),
        (f"{at}/give-back", {}),
        (f"{at}/take", {}),
    ]
    for path, form in refused:
        status, told = house.post(BOB, path, **form)
        assert (status, "ann took this session over" in told["error"]) == (409, True), path
    assert house.post(OWNER, f"{at}/suspend")[0] == 409, "an owner has to take it over first"
    assert house.post(ANN, f"{at}/cells/{cell.id}/comments", text="mine")[0] == 200
    assert house.post(OWNER, f"{at}/take")[0] == 200
    assert session.held_by == "owner"
    assert house.post(ANN, f"{at}/cells")[0] == 409
    assert house.post(OWNER, f"{at}/give-back", note="done")[0] == 200
    assert house.post(BOB, f"{at}/cells")[0] == 200


@pytest.mark.parametrize(("role", "status"), [("view", 403), ("run", 403), ("own", 200)])
def test_only_an_owner_stops_a_host(house: House, role: Role, status: int) -> None:
    assert house.post(Person("x", role), "/hosts/stop", host="local")[0] == status


def test_attempts_are_shown_newest_first_by_their_true_numbers() -> None:
    tried = Todo(
        "todo-1",
        "one",
        status="failed",
        cell_id="todo-1",
        forgotten=3,
        earlier=(Attempt(state="error"),),
        attempts=(Attempt(state="rejected", diff="@@ -1 +1 @@\n-a\n+b\n c"),),
    )
    (step,) = step_views(Plan("p", (tried,)), {"todo-1": "b"})
    assert [(one.number, one.attempt.state) for one in step.attempts] == [(5, "rejected"), (4, "error")]
    assert [(line.sign, line.text) for line in step.attempts[0].changed] == [
        ("…", "@@ -1 +1 @@"),
        ("-", "a"),
        ("+", "b"),
        (" ", "c"),
    ]
    assert (step.source, step.is_current, step.needs_code) == ("b", True, False)

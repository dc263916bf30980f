"""Branches as an agent meets them: made, told apart, compared, and one taken back."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from tests.kernel.mcp.conftest import Connect, ask, new_session, read, refused

pytestmark = pytest.mark.anyio


async def run(client: Client, session: str, content: str) -> dict[str, Any]:
    found = await ask(client, "cell_add_and_run", session_id=session, content=content, response_format="json")
    assert isinstance(found, dict)
    return found


async def value(client: Client, session: str, code: str) -> Any:
    done = await ask(client, "scratch_run", session_id=session, code=code, response_format="json")
    return done["result"]


UNFORKABLE = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"


@pytest.mark.parametrize(("mode", "by"), [("legacy", "checkpoint"), ("2026-07-28", "replay")])
async def test_two_branches_go_their_own_ways_and_one_is_taken_back(
    connect: Connect, mode: str, by: str
) -> None:
    async with connect(mode) as client:
        session = await new_session(client)
        await run(client, session, "rate = 1" if by == "checkpoint" else f"{UNFORKABLE}rate = 1")
        grown = await ask(client, "session_branch", session_id=session, count=2)
        assert grown["session_id"] == session
        one, two = (branch["session_id"] for branch in grown["branches"])
        assert len({session, one, two}) == 3
        assert [branch["by"] for branch in grown["branches"]] == [by, by]
        assert all("thread" in branch["reason"] for branch in grown["branches"] if by == "replay")
        added = await run(client, one, "rate = 10; open('only_one.txt', 'w').close()")
        await run(client, two, "rate = 20")
        assert [await value(client, each, "rate") for each in (session, one, two)] == ["1", "10", "20"]
        compared = await ask(client, "branch_compare", session_id=session)
        found = {branch["session_id"]: branch for branch in compared["branches"]}
        first, second = found.pop(one), found.pop(two)
        assert not found
        assert first["added_cells"] == [added["cell_id"]]
        assert "only_one.txt" in first["files"]
        assert "rate = 10" in first["variables"]
        assert "rate = 20" in second["variables"]
        done = await ask(client, "branch_adopt", session_id=one)
        assert (done["session_id"], done["adopted"], done["dropped"]) == (session, one, [two])
        told = await read(client, "scratch_run", session_id=session, code="rate")
        assert told.rstrip().endswith("10")
        assert "is now" not in told, "the reply of the adoption said so"
        assert "There is no session" in await refused(client, "scratch_run", session_id=two, code="rate")
        listed = await ask(client, "notebook_list", filter="all")
        assert not {one, two} & {each["session_id"] for each in listed["sessions"]}


async def test_a_branch_begins_at_a_checkpoint_and_knows_its_names(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "early = 1")
    await ask(client, "checkpoint_create", session_id=session, name="early")
    late = await run(client, session, "late = 2")
    grown = await ask(client, "session_branch", session_id=session, checkpoint="early")
    branch = grown["branches"][0]["session_id"]
    assert await value(client, branch, "'late' in dir(), early") == "(False, 1)"
    await ask(client, "session_suspend", session_id=branch)
    context = await ask(client, "session_context", session_id=branch)
    assert "early" in context["variables"]
    assert "late" not in context["variables"]
    assert f"{late['cell_id']}: stale (ok)" in context["cells"]


async def test_what_has_no_branches_or_is_none_is_refused_with_the_next_call(client: Client) -> None:
    session = await new_session(client)
    assert "session_branch makes some" in await refused(client, "branch_compare", session_id=session)
    assert "is no branch" in await refused(client, "branch_adopt", session_id=session)
    assert "keeps no checkpoint 'nowhere'" in await refused(
        client, "session_branch", session_id=session, checkpoint="nowhere"
    )
    assert "count" in await refused(client, "session_branch", session_id=session, count=65)

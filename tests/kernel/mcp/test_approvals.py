"""What is asked about before it is done: through real clients that elicit, on the page, and where nobody is there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult, InputRequiredResult

from cellwright import Engine
from cellwright.audit import read_lines
from cellwright.errors import QuestionOver
from cellwright.mcp import McpServer
from cellwright.plans.failures import install_for
from cellwright.settings.model import ApprovalRules
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.mcp.conftest import PACE, ask, connected, new_session, read, refused, running, text_of
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("approvals")
    (root / "project").mkdir()
    (root / "project" / "pyproject.toml").touch()
    options = {"network": "allow", "network_allow": ["127.0.0.3"], "max_sessions": 100}
    async with open_at(root / "project", storage=root / "state", **options) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
async def face(engine: Engine) -> AsyncIterator[McpServer]:
    async with running(McpServer(engine, pace=PACE)) as face:
        yield face


@contextmanager
def rules(engine: Engine, **said: Any) -> Iterator[None]:
    """The engine's settings for as long as this lasts, and nothing remembered of it."""
    before, engine.approvals.rules = engine.approvals.rules, ApprovalRules(**said)
    try:
        yield
    finally:
        engine.approvals.rules = before
        engine.approvals.store.forget(None, None)


class Person:
    """Answers forms: by the next of these choices, or not at all where one is None."""

    def __init__(self, *choices: str | None) -> None:
        self.choices = list(choices)
        self.asked: list[tuple[str, list[str]]] = []

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        field = params.requested_schema["properties"]["decision"]
        self.asked.append((params.message, field["enum"]))
        choice = self.choices.pop(0)
        if choice is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"decision": choice})


def decisions(engine: Engine, action: str) -> list[tuple[str, str | None]]:
    """Who decided, and for how long; from the audit log."""
    lines = [json.loads(line) for line in read_lines(engine.settings.storage)]
    told = [line["about"] for line in lines if line["kind"] == "approval"]
    return [(one["decided_by"], one.get("scope")) for one in told if one.get("action") == action]


async def write(client: Client, session: str, name: str) -> None:
    await read(client, "scratch_run", session_id=session, code=f"open({name!r}, 'w').write('x')")


@ERAS
async def test_a_yes_holds_for_as_long_as_the_person_said(engine: Engine, face: McpServer, era: str) -> None:
    person = Person("refuse", None, "once", "session", "project", "always")
    folder = engine.settings.root / "notebooks"
    before = len(decisions(engine, "apply"))
    async with connected(face, era, elicitation_callback=person) as client:
        sessions = [await new_session(client, f"{era} {number}") for number in range(4)]
        for session, name in zip(sessions, "wxyz", strict=True):
            await write(client, session, f"{era}-{name}.txt")
        first, second, third, fourth = sessions

        async def apply(session: str) -> bool:
            arguments = {"session_id": session, "action": "apply"}
            return not (await client.call_tool("session_files", arguments)).is_error

        with rules(engine, apply="ask"), fail_after():
            told = await refused(client, "session_files", session_id=first, action="apply")
            assert f"Not approved: to apply notebooks/{era}-w.txt of" in told
            assert "refused it. Nothing was done. Do not work around it" in told
            assert not await apply(first)  # a form that is closed is no yes
            assert not list(folder.glob(f"{era}-*"))
            assert await apply(first)
            assert (folder / f"{era}-w.txt").exists()
            assert await apply(first)  # nothing is left to be asked about
            for name in ("more", "again"):
                await write(client, first, f"{era}-{name}.txt")
                assert await apply(first)
            assert len(person.asked) == 4
            assert [await apply(one) for one in (second, third)] == [True, True]
            assert len(person.asked) == 5
            engine.approvals.store.forget(None, None)
            # What was said of the first session is its own, and outlives what was said of the project.
            await write(client, first, f"{era}-last.txt")
            assert [await apply(one) for one in (first, fourth)] == [True, True]
            assert len(person.asked) == 6
            assert engine.approvals.store.read().always == ("apply",)
    assert {tuple(choices) for _, choices in person.asked} == {
        ("once", "session", "project", "always", "refuse")
    }
    assert all(f"asks to apply notebooks/{era}-" in message for message, _ in person.asked)
    scopes = [scope for _, scope in decisions(engine, "apply")[before:]]
    assert scopes == [*(None, None, "once", "session", "session", "project", "project", "session", "always")]


async def test_rules_decide_at_once_and_their_refusal_names_the_setting(
    engine: Engine, face: McpServer
) -> None:
    async with connected(face) as client:
        session = await new_session(client)
        with rules(engine, packages="refuse", apply="refuse", delete="refuse"):
            told = await refused(client, "package_install", session_id=session, packages=["numpy"])
            assert "install numpy" in told
            assert "the setting approvals.packages = 'refuse'" in told
            assert "[approvals] in cellwright.toml" in told
            # A step of a plan tells it, and goes on without.
            assert "Not approved: to install numpy" in str(
                await install_for(engine.session(session), ("numpy",))
            )
            assert "Not approved" in await refused(client, "notebook_delete", session_id=session)
            engine.session(session)
            await client.call_tool("file_system", {"action": "write", "path": "kept.txt", "content": "x"})
            assert "delete kept.txt" in await refused(client, "file_system", action="delete", path="kept.txt")
            assert "true" in (await read(client, "file_system", action="exists", path="kept.txt"))
        await ask(client, "notebook_delete", session_id=session)
    assert decisions(engine, "packages")[-1:] == [("rule", None)]


async def test_where_nobody_is_there_what_the_settings_state_holds_at_once(
    engine: Engine, face: McpServer
) -> None:
    async with connected(face) as client:
        session = await new_session(client)
        with rules(engine, delete="ask"):
            told = await refused(client, "notebook_delete", session_id=session)
            assert "nobody is there to ask, and approvals.unanswered = 'refuse'" in told
        # Somebody is there, and does not answer.
        with rules(engine, delete="ask", timeout_s=0.01), engine.session(session).questions.attended():
            told = await refused(client, "notebook_delete", session_id=session)
            assert "nobody answered within 0.01 s" in told
            # What has no session is shown on any page.
            told = await refused(client, "file_system", action="delete", path="nothing.txt")
            assert "nobody answered within 0.01 s" in told
        with rules(engine, delete="ask", unanswered="allow"):
            await ask(client, "notebook_delete", session_id=session)
        assert not engine.approvals.waiting(session)


async def asked(engine: Engine, session: str) -> str:
    with fail_after():
        await until(lambda: bool(engine.approvals.waiting(session)))
    (question,) = engine.approvals.waiting(session)
    return question.id


@ERAS
async def test_of_two_answers_the_first_counts_and_it_is_acted_on_once(
    engine: Engine, face: McpServer, era: str
) -> None:
    late: list[QuestionOver] = []

    async def slow(_: Any, params: ElicitRequestParams) -> ElicitResult:
        question = await asked(engine, session)
        await engine.approvals.answer(question, "once", by="page:ada")
        with pytest.raises(QuestionOver, match="somebody else answered") as over:
            await engine.approvals.answer(question, "refuse", by="page:bob")
        late.append(over.value)
        return ElicitResult(action="accept", content={"decision": "refuse"})

    async with connected(face, era, elicitation_callback=slow) as client:
        session = await new_session(client)
        with rules(engine, delete="ask"), engine.session(session).questions.attended(), fail_after():
            deleted = await ask(client, "notebook_delete", session_id=session)
            assert deleted["notes"] == ["page:ada allowed it"]
    assert len(late) == 1
    assert decisions(engine, "delete")[-1] == ("page:ada", "once")


async def test_an_answer_that_is_brought_twice_is_acted_on_once(engine: Engine, face: McpServer) -> None:
    path = Path(engine.settings.storage, "data", "twice.txt")
    elicited = ElicitResult(action="accept", content={"decision": "once"})
    async with connected(face, "2026-07-28", elicitation_callback=Person()) as client:
        with rules(engine, delete="ask"), fail_after():
            arguments = {"action": "delete", "path": "twice.txt"}
            await client.call_tool("file_system", {**arguments, "action": "write", "content": "1"})
            needed = await client.session.call_tool("file_system", arguments, allow_input_required=True)
            assert isinstance(needed, InputRequiredResult)
            assert path.exists()
            given = dict.fromkeys(needed.input_requests or {}, elicited)

            async def again(**other: str) -> Any:
                return await client.session.call_tool(
                    "file_system",
                    arguments | other,
                    input_responses=given,
                    request_state=needed.request_state,
                    allow_input_required=True,
                )

            assert not (await again()).is_error  # type: ignore[union-attr]  # it is a result
            assert not path.exists()
            await client.call_tool("file_system", {**arguments, "action": "write", "content": "2"})
            assert isinstance(await again(), InputRequiredResult)  # asked anew
            assert path.exists()
            # Of no session, it stands on every page; whoever answers there answers nothing else.
            (left,) = engine.approvals.waiting("s-other")
            await engine.approvals.answer(left.id, "refuse", by="page:ada", at="s-other")


async def test_files_that_change_while_a_person_is_asked_about_them_are_asked_about_again(
    engine: Engine, face: McpServer
) -> None:
    asked: list[str] = []

    async def slow(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        if len(asked) == 1:
            Path(engine.session(session).place.written, "more.txt").write_text("x")
        return ElicitResult(action="accept", content={"decision": "once"})

    async with connected(face, elicitation_callback=slow) as client:
        session = await new_session(client)
        await write(client, session, "asked.txt")
        with rules(engine, apply="ask"), fail_after():
            applied = await ask(client, "session_files", session_id=session, action="apply")
    assert [message.partition(" of ")[0].rpartition("apply ")[2] for message in asked] == [
        "notebooks/asked.txt",
        "more.txt, notebooks/asked.txt",
    ]
    assert [one["path"] for one in applied["applied"]] == ["more.txt", "notebooks/asked.txt"]


@ERAS
async def test_taking_a_branch_back_asks_about_the_files_that_it_applies_and_the_branches_that_it_deletes(
    engine: Engine, face: McpServer, era: str
) -> None:
    person = Person("refuse", "once", "refuse", "once", "once")
    async with connected(face, era, elicitation_callback=person) as client:
        origin = str((await ask(client, "notebook_create", name="origin", mode="direct"))["session_id"])
        grown = await ask(client, "session_branch", session_id=origin, count=2)
        one, two = (str(branch["session_id"]) for branch in grown["branches"])
        await write(client, one, f"{era}-branch.txt")
        there = engine.session(origin).cwd / f"{era}-branch.txt"
        with rules(engine, apply="ask", delete="ask"), fail_after():
            assert f"apply notebooks/{era}-branch.txt" in str(
                await refused(client, "branch_adopt", session_id=one)
            )
            told = await refused(client, "branch_adopt", session_id=one)
            assert f"delete {two}, the other branches of" in told
            assert not there.exists()
            assert engine.session(two)
            done = await ask(client, "branch_adopt", session_id=one)
    assert (done["adopted"], done["dropped"]) == (one, [two])
    assert there.exists()
    assert not person.choices


async def test_a_call_that_is_taken_back_takes_its_question_along(engine: Engine, face: McpServer) -> None:
    async with connected(face) as client:
        session = await new_session(client)
        with rules(engine, delete="ask"), engine.session(session).questions.attended():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "notebook_delete", {"session_id": session})
                question = await asked(engine, session)
                tasks.cancel_scope.cancel()
            with fail_after():
                await until(lambda: not engine.approvals.waiting(session))
            with pytest.raises(QuestionOver):
                await engine.approvals.answer(question, "once", by="page:ada")
        engine.session(session)
        kinds = [one.kind for one in engine.events(since=0, session_id=session)]
        assert kinds.count("notebook.approval.requested") == kinds.count("notebook.approval.settled") == 1


@ERAS
async def test_a_person_who_has_a_session_may_let_an_agent_work_beside(
    engine: Engine, face: McpServer, era: str
) -> None:
    person = Person("refuse", "session", "once")
    async with connected(face, era, elicitation_callback=person) as client:
        session = await new_session(client)
        await engine.session(session).take_over("ada")
        assert "ada took this session over" in await refused(
            client, "cell_add", session_id=session, content="1"
        )
        with rules(engine, take_over="ask"), fail_after():
            told = await refused(client, "cell_add", session_id=session, content="1")
            assert "which ada has" in told
            for _ in range(2):
                await ask(client, "cell_add", session_id=session, content="1")
            assert len(person.asked) == 2
            assert len(engine.session(session).cells) == 3
            # What was said of Ada's time with it does not bind the next who has it.
            await engine.session(session).take_over("bob")
            await ask(client, "cell_add", session_id=session, content="1")
        assert "which bob has" in person.asked[-1][0]


@ERAS
async def test_code_reaches_the_network_only_where_its_session_was_allowed_to(
    engine: Engine, face: McpServer, era: str
) -> None:
    person = Person("refuse", "once", "always", "once", "once")
    code = "import socket; socket.create_connection(('127.0.0.3', 9), 5)"
    async with connected(face, era, elicitation_callback=person) as client:
        unasked = await new_session(client)
        with rules(engine, network="ask"), fail_after():
            closed = await ask(client, "notebook_create", name="closed")
            assert closed["network"] == "off: it was not approved"
            opened = await ask(client, "notebook_create", name="open")
            assert opened["network"] == "allow"
            assert "reach the hosts 127.0.0.3" in person.asked[-1][0]
            # One that was made before anybody was asked is asked about when it is opened, and closed until then.
            assert engine.session(unasked).network == "off"
            path = str(engine.session(unasked).path)
            assert (await ask(client, "notebook_open", path=path))["network"] == "allow"
            policy = engine.session(closed["session_id"]).policy
            assert policy is not None
            assert policy.network == "off"
            run = await client.call_tool("scratch_run", {"session_id": closed["session_id"], "code": code})
            assert "Error" in text_of(run)
            # Taken back, it is asked about again; what was refused stays so.
            assert {one["of"] for one in engine.approvals.kept()} >= {"", opened["session_id"], unasked}
            assert await engine.approvals.forget("network", None) == 3
            assert engine.session(opened["session_id"]).network == "off"
            run_once = {"code": "1", "packages": ["json"]}
            engine.approvals.rules = ApprovalRules(network="ask", packages="ask")
            assert not (await client.call_tool("python_execute", run_once)).is_error
            assert [choices for _, choices in person.asked[3:]] == [["once", "always", "refuse"]] * 2
        with rules(engine, network="refuse"):
            assert engine.session(opened["session_id"]).network == "off"
    assert len(person.asked) == 5


async def test_an_allocation_is_asked_about_before_slurm_is(engine: Engine, face: McpServer) -> None:
    person = Person("refuse", "once")
    async with connected(face, elicitation_callback=person) as client:
        with rules(engine, allocation="ask"), fail_after():
            start = {"host": "slurm:gpu"}
            told = await refused(client, "host_start", **start)
            assert "Not approved: to ask SLURM for an allocation named gpu" in told
            # Here SLURM is not, and says so.
            assert "Not approved" not in await refused(client, "host_start", **start)
    assert [choices for _, choices in person.asked] == [["once", "always", "refuse"]] * 2
    assert decisions(engine, "allocation")[-1][1] == "once"

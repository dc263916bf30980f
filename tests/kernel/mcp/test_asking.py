"""The tool that hands a question over: what it answers, how it waits, and what stops it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import CreateMessageRequestParams, CreateMessageResult, TextContent

from cellwright import Engine
from cellwright.agent.questions import Question
from cellwright.daemon._agents import Agents
from cellwright.errors import NoModel
from cellwright.mcp import McpServer
from cellwright.mcp.clients import Client as FaceClient
from cellwright.mcp.clients import ClientGrants
from cellwright.mcp.toolsets import toolsets
from tests.kernel.mcp.conftest import (
    PACE,
    ask,
    connected,
    data_of,
    images_of,
    read,
    refused,
    running,
    text_of,
)
from tests.support.mcp.delegation import Proof, ScriptedAgent
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def proof(engine: Engine) -> Proof:
    return await Proof.made(engine)


@pytest.fixture
def agent(proof: Proof) -> ScriptedAgent:
    return ScriptedAgent(proof)


@asynccontextmanager
async def face_with(engine: Engine, agent: ScriptedAgent) -> AsyncIterator[McpServer]:
    async with anyio.create_task_group() as tasks:

        async def server_for(_: str | None, toolset: str | None) -> McpServer:
            # A tool that asks would ask itself; whatever a plugin or a connection brings is there.
            assert {*toolsets(), "agent"} - set(str(toolset).split(",")) == {"agent"}
            return McpServer(engine, pace=PACE)

        agents = Agents(engine, tasks, server_for, make=lambda _: agent.ask)
        pace = replace(PACE, stream_s=0.0)
        async with running(McpServer(engine, delegate=agents, pace=pace)) as face:
            yield face
        tasks.cancel_scope.cancel()


@pytest.fixture
async def face(engine: Engine, agent: ScriptedAgent) -> AsyncIterator[McpServer]:
    async with face_with(engine, agent) as face:
        yield face


@pytest.fixture
async def client(face: McpServer) -> AsyncIterator[Client]:
    async with connected(face) as client:
        yield client


async def test_the_answer_comes_first_then_what_proves_it_and_what_it_took(
    client: Client, agent: ScriptedAgent
) -> None:
    result = await client.call_tool("ask", {"question": "How much is six times seven?"})
    text = text_of(result)
    run_id = agent.asked[0].run_id
    assert text.startswith("It is 42, not 43.\n\nrun ")
    assert (
        f"run {run_id} | conversation c-2345678 | ok | verified | react (one cell does) | "
        "1 request, 1.2k (1.0k cached) + 34 tokens, $0.0125, 2 s | scripted:one"
    ) in text
    assert "\nnotebook: " in text
    assert "\nsession_id: s-" in text
    assert "\ncharts: notebook://session/" in text
    assert "\nfiles: out.csv" in text
    assert text.endswith("no output has these numbers of the answer: 43")
    assert len(images_of(result)) == 1


async def test_what_is_asked_reaches_the_agent(client: Client, agent: ScriptedAgent, engine: Engine) -> None:
    (engine.settings.root / "sales.csv").write_text("a\n1\n")
    await ask(
        client,
        "ask",
        question=" Sum it ",
        data=["sales.csv"],
        pattern="reflection",
        model="openai, anthropic:claude",
        budget="50k tokens, 0.5 usd",
        conversation="c-bbbbbbb",
        verify=False,
        response_format="json",
    )
    (question,) = agent.asked
    assert question.text == "Sum it"
    assert question.data == (engine.settings.root / "sales.csv",)
    assert question.models == ("openai", "anthropic:claude")
    assert (question.budget.tokens, question.budget.money, question.budget.steps) == (50_000, 0.5, 60)
    assert (question.pattern, question.conversation_id, question.verify) == ("reflection", "c-bbbbbbb", False)
    assert question.directory == engine.settings.root
    assert question.client is not None


async def test_past_its_wait_the_run_is_handed_back_and_waited_for_by_its_id(
    client: Client, agent: ScriptedAgent
) -> None:
    agent.hold = anyio.Event()
    text = await read(client, "ask", question="Long?", wait=0)
    run_id = agent.asked[0].run_id if agent.asked else text.split()[1]
    assert f"Still running: ask(run_id='{run_id}') to go on waiting" in text
    with fail_after():
        await agent.begun.wait()
    assert "step 1: act asks" in await read(client, "ask", run_id=run_id, wait=0)
    agent.hold.set()
    assert (await read(client, "ask", run_id=run_id)).startswith("It is 42")
    assert (await read(client, "ask", run_id=run_id, wait=0)).startswith("It is 42"), "it is told again"
    assert len(agent.asked) == 1


async def test_progress_tells_the_step(client: Client, agent: ScriptedAgent) -> None:
    agent.hold = anyio.Event()
    told: list[str] = []

    async def hear(_: float, total: float | None, message: str | None) -> None:  # the SDK's
        told.append(message or "")
        if "act asks scripted:one" in told[-1] and agent.hold is not None:
            agent.hold.set()

    with fail_after():
        await client.call_tool("ask", {"question": "And?"}, progress_callback=hear)
    assert any(message.startswith("step 1: act asks scripted:one, running for") for message in told)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_cancelled_call_stops_the_run(face: McpServer, agent: ScriptedAgent, mode: str) -> None:
    agent.hold = anyio.Event()
    async with connected(face, mode) as client:
        with fail_after():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "ask", {"question": "Long?"})
                await agent.begun.wait()
                tasks.cancel_scope.cancel()
            await agent.stopped.wait()
        run_id = agent.asked[0].run_id
        assert "was stopped" in await refused(client, "ask", run_id=run_id)


async def test_a_client_that_goes_away_does_not_stop_the_run(face: McpServer, agent: ScriptedAgent) -> None:
    agent.hold = anyio.Event()
    async with connected(face) as client:
        await read(client, "ask", question="Long?", wait=0)
    agent.hold.set()
    async with connected(face) as client:
        await agent.begun.wait()
        run_id = agent.asked[0].run_id
        assert (await read(client, "ask", run_id=run_id)).startswith("It is 42")
    assert not agent.stopped.is_set()


async def test_as_json_it_is_one_object_and_a_stream_tells_each_step_once(
    client: Client, agent: ScriptedAgent
) -> None:
    entries: list[dict[str, Any]] = []

    async def hear(_: float, total: float | None, message: str | None) -> None:  # the SDK's
        entries.extend(json.loads(message or "[]"))

    agent.hold = anyio.Event()
    begun = await ask(client, "ask", question="Six times seven?", wait=0, response_format="json")
    assert begun["status"] == "running"
    agent.hold.set()
    result = await client.call_tool(
        "ask",
        {"run_id": begun["run_id"], "stream": True, "response_format": "json"},
        progress_callback=hear,
    )
    found = data_of(result)
    assert (found["status"], found["answer"], found["usd"]) == ("ok", "It is 42, not 43.", 0.0125)
    assert (found["tokens_in"], found["tokens_cached"], found["verified"]) == (1_200, 1_000, True)
    assert [entry["number"] for entry in entries] == sorted({entry["number"] for entry in entries})
    assert [(entry["event"], entry.get("kind")) for entry in entries] == [
        ("began", "request"),
        ("heard", "thinking"),
        ("ended", "request"),
        ("began", "call"),
        ("ended", "call"),
    ]
    assert entries[1]["text"] == "I think of numbers"
    assert entries[2]["text"] == "I run a cell."
    assert entries[2]["total"]["usd"] == 0.0125
    assert entries[4]["runs"][0]["stdout"] == "42\n"
    late = await client.call_tool(
        "ask",
        {
            "run_id": begun["run_id"],
            "stream": True,
            "since": entries[-1]["number"],
            "response_format": "json",
        },
        progress_callback=hear,
    )
    assert data_of(late) == found
    assert len(entries) == 5


async def test_what_cannot_be_answered_says_why_and_what_to_do(client: Client, agent: ScriptedAgent) -> None:
    async def no_key(_: Question) -> None:
        raise NoModel("No model is set up", hint="Set OPENAI_API_KEY")

    agent.before = no_key
    assert "No model is set up. Set OPENAI_API_KEY" in await refused(client, "ask", question="Well?")
    found = await ask(client, "ask", question="Well?", response_format="json")
    assert (found["status"], found["code"], found["hint"]) == ("failed", "no_model", "Set OPENAI_API_KEY")


async def test_a_defect_of_the_agent_is_told_without_its_insides(
    client: Client, agent: ScriptedAgent, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: Question) -> None:
        raise ZeroDivisionError("the insides")

    agent.before = broken
    told = await refused(client, "ask", question="Well?")
    assert "failed inside Cellwright" in told
    assert "the insides" not in told
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "There is no question"),
        ({"question": "  "}, "There is no question"),
        ({"question": "x", "budget": "much"}, "'much' is no part of a budget"),
        ({"question": "x", "data": ["none.csv"]}, "There is no file none.csv"),
        ({"question": "x", "data": ["/etc/passwd"]}, "/etc/passwd"),
        ({"question": "x", "session_id": "s-none"}, "s-none"),
        ({"run_id": "a-none"}, "There is no run 'a-none'"),
    ],
)
async def test_what_is_not_there_is_refused_before_anybody_is_asked(
    client: Client, agent: ScriptedAgent, arguments: dict[str, Any], said: str
) -> None:
    assert said in await refused(client, "ask", **arguments)
    assert not agent.asked


async def test_a_server_without_an_agent_says_so(engine: Engine) -> None:
    async with connected(McpServer(engine, pace=PACE)) as client:
        assert "This server has no agent" in await refused(client, "ask", question="Well?")


async def test_without_its_extra_the_command_that_installs_it_is_told(engine: Engine) -> None:
    def missing(_: McpServer) -> Any:
        raise ModuleNotFoundError("No module named 'pydantic_ai'", name="pydantic_ai")

    async with anyio.create_task_group() as tasks:

        async def server_for(*_: Any) -> McpServer:
            return McpServer(engine, pace=PACE)

        agents = Agents(engine, tasks, server_for, make=missing)
        async with connected(McpServer(engine, delegate=agents, pace=PACE)) as client:
            told = await refused(client, "ask", question="Well?")
    assert "needs pydantic_ai, which is not installed. pip install 'cellwright[agent]'" in told


async def test_the_callers_own_model_answers_where_it_lends_it(engine: Engine) -> None:
    replies = ["I run it.\n```python\nprint(6 * 7)\n```", "It is 42."]
    heard: list[CreateMessageRequestParams] = []

    async def lend(_: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        heard.append(params)
        content = TextContent(text=replies[len(heard) - 1])
        return CreateMessageResult(role="assistant", content=content, model="a-model")

    async with anyio.create_task_group() as tasks:

        async def server_for(*_: Any) -> McpServer:
            return McpServer(engine, pace=PACE)

        async with running(McpServer(engine, delegate=Agents(engine, tasks, server_for), pace=PACE)) as face:
            async with connected(face, sampling_callback=lend) as client:
                asked = {
                    "question": "Six times seven?",
                    "model": "client",
                    "pattern": "react",
                    "verify": False,
                }
                text = text_of(await client.call_tool("ask", asked))
            async with connected(face) as client:
                told = await refused(client, "ask", question="Six times seven?", model="client")
        tasks.cancel_scope.cancel()
    assert text.startswith("It is 42."), text
    assert len(heard) == 2
    assert "does not" in told or "sampling" in told


# What only the person at the other end can give ----------------------------------------------------------------------


async def test_files_and_servers_come_with_the_connection_and_never_with_a_call(
    engine: Engine, agent: ScriptedAgent, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text("a\n1\n")
    grants = ClientGrants(
        files=frozenset({outside}), servers=(("shop", "python shop.py --all"), ("web", "http://x/mcp"))
    )
    async with face_with(engine, agent) as face, connected(face, grants=grants) as client:
        await read(client, "ask", question="Sum it", data=[str(outside)])
        assert "servers" in await refused(client, "ask", question="x", servers=[["a", "b"]])
    (question,) = agent.asked
    assert question.data == (outside,)
    shop, web = question.servers
    assert (shop.name, shop.command) == ("shop", ("python", "shop.py", "--all"))
    assert shop.directory == str(engine.settings.root)
    assert (web.name, web.url) == ("web", "http://x/mcp")


async def test_keys_are_the_askers_own_and_shown_by_nothing(
    engine: Engine, agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-daemon")
    grants = ClientGrants(environment={"ANTHROPIC_API_KEY": "sk-of-the-asker"})
    async with face_with(engine, agent) as face:
        async with connected(face, grants=grants) as client:
            await read(client, "ask", question="Mine?")
        async with connected(face, grants=ClientGrants(environment={})) as client:
            await read(client, "ask", question="None?")
        async with connected(face) as client:
            await read(client, "ask", question="The daemon's?")
    environments = [dict(question.environment) for question in agent.asked]
    assert environments[0] == {"ANTHROPIC_API_KEY": "sk-of-the-asker"}
    assert environments[1] == {}
    assert environments[2]["OPENAI_API_KEY"] == "sk-of-the-daemon"
    shown = repr(grants) + repr(FaceClient(None, grants)) + repr(agent.asked)
    assert "sk-of" not in shown


async def test_where_a_model_is_served_is_not_for_the_caller_to_say(
    engine: Engine, agent: ScriptedAgent
) -> None:
    theirs = "http://127.0.0.1:9/v1#mine"
    async with face_with(engine, agent) as face:
        async with connected(face) as client:
            for model in ("http://evil.example/v1#m", "gpt,https://evil.example/v1#m", "local:/etc/passwd"):
                assert "nobody's choice but the user's" in await refused(
                    client, "ask", question="x", model=model
                )
        async with connected(face, grants=ClientGrants(models=frozenset({theirs}))) as client:
            await read(client, "ask", question="x", model=theirs)
    (question,) = agent.asked
    assert question.models == (theirs,)

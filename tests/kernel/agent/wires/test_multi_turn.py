"""Conversations over each provider's wire with the real tools: one notebook, what it knows, and what went wrong in it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.agent.data_agent import DataAgent
from cellwright.agent.questions import Question
from cellwright.delegation import Outcome
from cellwright.mcp.server import McpServer
from tests.kernel.agent.conftest import PACE
from tests.kernel.engine.conftest import end_host, open_at
from tests.matrix import first_of
from tests.support.agent.wires.servers import Call, Entry, Fault, Server, reply, serve, serve_grok
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

PROVIDERS = ("openai", "anthropic", "google", "xai", "grok-grpc", "compatible")


class Talk:
    """A conversation with one provider after another, over a real engine."""

    def __init__(self, agent: DataAgent, root: Path) -> None:
        self._agent = agent
        self._root = root
        self.conversation: str | None = None

    async def ask(self, text: str, provider: str, *entries: Entry, **about: Any) -> tuple[Outcome, Server]:
        with ExitStack() as stack:
            server = stack.enter_context(serve_grok(entries) if provider == "grok-grpc" else serve(entries))
            model = f"{server.url}/v1#some-model" if provider == "compatible" else provider
            question = Question(
                text,
                models=about.pop("models", (model,)),
                environment=server.environment,
                conversation_id=self.conversation,
                directory=self._root,
                pattern="react",
                verify=False,
                **about,
            )
            outcome = await self._agent.ask(question)
        self.conversation = outcome.conversation_id
        return outcome, server


@pytest.fixture
def talk(face: McpServer, engine: Engine) -> Talk:
    return Talk(DataAgent(face), engine.settings.root)


def cell(code: str) -> Entry:
    return reply(Call("cell_add_and_run", {"content": code}))


def _said(outcome: Outcome) -> str:
    """The answer without the status lines that models of xAI have below theirs."""
    return outcome.answer.partition("\n\n---\n")[0]


# What each provider says and hears is in ``test_wires``, and what one said the next goes on with in ``test_moves``.
@pytest.mark.parametrize("provider", first_of(PROVIDERS, 1))
async def test_a_notebook_is_made_added_to_remembered_and_recovered(
    provider: str, talk: Talk, engine: Engine
) -> None:
    made, server = await talk.ask(
        "Create a math notebook",
        provider,
        reply(Call("notebook_create", {"name": "math"})),
        reply("It is there."),
    )
    assert (made.ok, server.left) == (True, 0), made.report
    name = engine.session(made.session_id or "").name

    added, server = await talk.ask(
        "Import math and set x to 5", provider, cell("import math\nx = 5\nprint(x)"), reply("x is 5.")
    )
    assert (added.session_id, server.left) == (made.session_id, 0), "it was added to the same notebook"
    assert name in server.requests[0].text, "the notebook is named with its time"

    used, server = await talk.ask(
        "The root of x + 4?", provider, cell("print(math.sqrt(x + 4))"), reply("It is 3.")
    )
    assert (_said(used), used.untraced, server.left) == ("It is 3.", (), 0)
    assert "math" in server.requests[0].text
    assert "x: int" in server.requests[0].text, "what is defined is told"

    mended, server = await talk.ask(
        "Divide x by zero, or by two",
        provider,
        cell("print(x / 0)"),
        cell("print(x / 2)"),
        reply("It is 2.5."),
    )
    assert (_said(mended), server.left) == ("It is 2.5.", 0)
    assert "ZeroDivisionError" in server.requests[1].text
    sources = [one.source for one in engine.session(made.session_id or "").cells if one.runs]
    assert sources == ["import math\nx = 5\nprint(x)", "print(math.sqrt(x + 4))", "print(x / 2)"]


@pytest.mark.parametrize("provider", first_of(PROVIDERS, 1))
async def test_an_answer_that_names_another_notebook_is_corrected(
    provider: str, talk: Talk, engine: Engine
) -> None:
    outcome, server = await talk.ask(
        "Print seven",
        provider,
        cell("print(7)"),
        reply("7, in math_notebook_20200101_000000.ipynb."),
        reply("It is 7."),
    )
    assert (_said(outcome), server.left) == ("It is 7.", 0)
    assert engine.session(outcome.session_id or "").name in server.requests[2].text


@pytest.mark.matrix  # `test_moves` has the next provider step in
async def test_a_conversation_goes_on_with_the_next_provider_when_one_fails(talk: Talk) -> None:
    with serve([cell("y = 11\nprint(y)"), *[Fault(529)] * 8]) as first, serve([reply("y is 11.")]) as second:
        environment = {
            **first.environment,
            "OPENAI_BASE_URL": second.environment["OPENAI_BASE_URL"],
        }
        question = Question(
            "Set y to 11",
            models=("anthropic", "openai"),
            environment=environment,
            pattern="react",
            verify=False,
        )
        outcome = await talk._agent.ask(question)
    assert outcome.answer == "y is 11."
    assert [name.split(":")[0] for name in outcome.models] == ["anthropic", "openai"]
    assert "y = 11" in second.requests[0].text, "what was said before went with it"


async def test_a_conversation_is_resumed_on_another_provider_after_a_restart(tmp_path: Path) -> None:
    async def ask(provider: str, *entries: Entry, **about: Any) -> tuple[Outcome, Server]:
        async with open_at(tmp_path, **UNHURRIED) as engine, anyio.create_task_group() as tasks:
            face = McpServer(engine, pace=PACE)
            await tasks.start(lambda task_status: face.run(task_status=task_status))
            talk = Talk(DataAgent(face), tmp_path)
            talk.conversation = about.pop("conversation", None)
            found = await talk.ask("Go on", provider, *entries)
            tasks.cancel_scope.cancel()
        return found

    first, _ = await ask("google", cell("z = 13\nprint(z)"), reply("z is 13."))
    again, server = await ask(
        "anthropic", cell("print(z + 1)"), reply("It is 14."), conversation=first.conversation_id
    )
    end_host(tmp_path / "state")
    assert (again.answer, again.session_id) == ("It is 14.", first.session_id)
    assert "z is 13." in server.requests[0].text

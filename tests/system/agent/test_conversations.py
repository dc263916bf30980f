from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from cellwright.agent._notebook_names import Notebook
from cellwright.agent.conversations import FIRST, VERSION, Conversations, folded, pack, unpack
from cellwright.errors import ConversationBusy, ConversationUnreadable, UnknownConversation

pytestmark = pytest.mark.anyio

WHEN = datetime(2026, 11, 16, tzinfo=UTC)
PICTURE = BinaryImage(bytes(range(256)) * 8, media_type="image/png")
TURN: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart(["What is in sales.csv?", PICTURE])], instructions="Be brief."),
    ModelResponse(
        parts=[ThinkingPart("hm", signature="sig"), ToolCallPart("cell_add_and_run", {"content": "1"}, "k1")]
    ),
    ModelRequest(parts=[ToolReturnPart("cell_add_and_run", ["1", PICTURE], "k1")]),
    ModelResponse(parts=[TextPart("Ein Ä, ein \u2028 und ein 🦊")], model_name="m", provider_name="p"),
]


@pytest.fixture
def conversations(tmp_path: Path) -> Conversations:
    return Conversations(tmp_path / "conversations")


async def begun(conversations: Conversations) -> str:
    return (await conversations.create("What is in sales.csv?")).id


async def test_a_conversation_is_the_same_after_a_restart(
    conversations: Conversations, tmp_path: Path
) -> None:
    first = Notebook("s-2345678", "20261116_100000_sales", "/data/sales.ipynb")
    second = Notebook("s-bcdfghj", "20261116_110000_more")
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.begin_run("run-1", "What is in sales.csv?")
        await conversation.worked_with(first)
        await conversation.worked_with(second)
        await conversation.worked_with(first)
        await conversation.answered_by("openai:gpt")
        await conversation.say(TURN)
        await conversation.end_run("run-1", "Three rows", ok=True)
        await conversation.entitle("  Sales\nof\tthe year ")
    history = await Conversations(tmp_path / "conversations").get(conversation_id)
    assert history == conversation.history
    assert history.messages() == TURN
    assert history.notebooks == (second, first)
    assert history.notebook == first
    assert (history.model, history.title) == ("openai:gpt", "Sales of the year")
    assert [(run.run_id, run.answer, run.ok) for run in history.runs] == [("run-1", "Three rows", True)]


texts = st.text(max_size=20)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
pictures = st.builds(
    lambda seed, many: BinaryImage(seed * many, media_type="image/png"),
    st.binary(min_size=1, max_size=8),
    st.integers(1, 400),
)
# What a tool answers may look just like a picture of ours, or like the place of one.
lookalikes = st.fixed_dictionaries(
    {
        "kind": st.just("binary"),
        "data": st.sampled_from(["", "x" * 2_000, "A" * 2_000, "+/" * 1_000, "x" * 2_001]),
        "media_type": texts,
    }
)
requests = st.builds(
    lambda parts: ModelRequest(parts=parts),
    st.lists(
        st.builds(UserPromptPart, texts | st.lists(texts | pictures, min_size=1, max_size=3))
        | st.builds(ToolReturnPart, texts, texts | st.lists(pictures | texts, max_size=2), texts),
        min_size=1,
        max_size=2,
    ),
)
responses = st.builds(
    lambda parts: ModelResponse(parts=parts),
    st.lists(
        st.builds(TextPart, texts)
        | st.builds(ThinkingPart, texts, signature=st.none() | texts)
        | st.builds(ToolCallPart, texts, st.dictionaries(texts, json_values | lookalikes, max_size=2), texts),
        max_size=3,
    ),
)
said = st.lists(requests | responses, min_size=1, max_size=4)


@given(st.lists(said, min_size=1, max_size=3))
def test_messages_come_back_as_they_were_said(turns: list[list[ModelMessage]]) -> None:
    history = folded(
        None, {"kind": "conversation", "version": VERSION, "id": "c-1", "title": "", "created": 0.0}
    )
    for turn in turns:
        packed = pack(turn)
        told = {"kind": "messages", "segment": FIRST, "messages": packed.messages, "pictures": packed.places}
        line = unpack(json.loads(json.dumps(told)), packed.pictures.__getitem__)
        history = folded(history, line)
    assert history.messages() == [message for turn in turns for message in turn]


async def test_a_picture_is_stored_once(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        for _ in range(5):
            await conversation.say(TURN)
    directory = conversations.directory_of(conversation_id)
    [stored] = (directory / "pictures").iterdir()
    assert stored.read_bytes() == PICTURE.data
    assert (directory / "log.jsonl").stat().st_size < 5 * len(PICTURE.data) * 2
    assert (await conversations.get(conversation_id)).messages() == TURN * 5


async def test_nobody_else_can_read_it(conversations: Conversations, tmp_path: Path) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.say(TURN)
    found = [tmp_path / "conversations", *(tmp_path / "conversations").rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}
    assert modes == {(True, 0o700), (False, 0o600)}


async def test_ways_that_were_not_taken_stay_readable(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.say(TURN)
        grown = await conversation.branch(parent=FIRST, taken=1, label="main.1")
        await conversation.say(TURN[3:], segment=grown)
        await conversation.say(TURN)
    history = await conversations.get(conversation_id)
    assert history.messages() == history.messages(FIRST) == TURN * 2
    assert history.messages(grown) == [TURN[0], TURN[3]]
    assert history.segments[grown].label == "main.1"


async def test_a_history_that_goes_on_is_added_to(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        for many in (1, 3, 3, 4):
            await conversation.keep(TURN[:many])
    log = conversations.directory_of(conversation_id) / "log.jsonl"
    size = log.stat().st_size
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.keep(conversation.history.messages())
        assert log.stat().st_size == size, "nothing was new"
        await conversation.keep([*conversation.history.messages(), *TURN])
    history = await conversations.get(conversation_id)
    assert history.messages() == TURN * 2
    assert list(history.segments) == [FIRST]


async def test_a_request_that_was_not_sent_yet_may_grow(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    returned = TURN[2]
    assert isinstance(returned, ModelRequest)
    grown = ModelRequest(parts=[*returned.parts, UserPromptPart("And now?")])
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.keep(TURN[:3])
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.keep([*conversation.history.messages()[:2], grown, TURN[3]])
    history = await conversations.get(conversation_id)
    assert history.messages() == [*TURN[:2], grown, TURN[3]]
    assert list(history.segments) == [FIRST]


async def test_a_history_that_is_another_is_a_branch_and_the_old_one_stays(
    conversations: Conversations,
) -> None:
    conversation_id = await begun(conversations)
    other = ModelResponse(parts=[TextPart("another way")])
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.keep(TURN)
        await conversation.keep([*TURN[:3], other], why="adopted")
        await conversation.keep([*TURN[:3], other, *TURN])
        await conversation.keep(TURN[:1], why="compacted")
        await conversation.keep([ModelRequest(parts=[*TURN[0].parts, UserPromptPart("more")]), other])
    history = await conversations.get(conversation_id)
    assert history == conversation.history
    assert history.messages("h1") == TURN
    assert history.messages("h2") == [*TURN[:3], other, *TURN]
    assert history.messages("h3") == TURN[:1]
    assert [(one.parent, one.taken, one.why) for one in history.segments.values()][1:3] == [
        ("h1", 3, "adopted"),
        ("h2", 1, "compacted"),
    ]
    first, second = history.messages()
    assert first.parts[-1] == UserPromptPart("more", timestamp=first.parts[-1].timestamp)
    assert second == other


histories = st.lists(st.integers(0, 3), max_size=6).map(
    lambda drawn: [
        ModelRequest(parts=[UserPromptPart(str(one), timestamp=WHEN)])
        if one % 2
        else ModelResponse(parts=[TextPart(str(one))], timestamp=WHEN)
        for one in drawn
    ]
)


@settings(max_examples=25)
@given(st.lists(histories, max_size=5))
def test_whatever_history_is_kept_is_the_one_that_is_found(kept: list[list[ModelMessage]]) -> None:
    async def check() -> None:
        with TemporaryDirectory() as directory:
            conversations = Conversations(Path(directory, "c"))
            conversation_id = await begun(conversations)
            for messages in kept:
                async with conversations.work_on(conversation_id) as conversation:
                    await conversation.keep(messages)
                assert conversation.history.messages() == messages
                assert (await conversations.get(conversation_id)).messages() == messages

    anyio.run(check)


async def test_two_runs_cannot_work_with_one_conversation(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        with pytest.raises(ConversationBusy, match="Another run"):
            async with conversations.work_on(conversation_id):
                raise AssertionError
        with pytest.raises(ConversationBusy):
            await conversations.delete(conversation_id)
        await conversation.say(TURN)
        assert (await conversations.get(conversation_id)).messages() == TURN
    with pytest.raises(ConversationBusy, match="is over"):
        await conversation.say(TURN)
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.say(TURN)


@pytest.mark.parametrize("torn", [b'{"kind":"mess', b'{"kind":"title","title":"x"}', b"\0" * 40, b"\0\0\n"])
async def test_a_line_that_was_cut_short_is_taken_away(conversations: Conversations, torn: bytes) -> None:
    conversation_id = await begun(conversations)
    async with conversations.work_on(conversation_id) as conversation:
        await conversation.say(TURN)
    log = conversations.directory_of(conversation_id) / "log.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    assert (await conversations.get(conversation_id)).messages() == TURN
    assert log.read_bytes() == whole + torn, "whoever only reads changes nothing"
    async with conversations.work_on(conversation_id) as conversation:
        assert log.read_bytes() == whole
        await conversation.say(TURN[:1])
    assert (await conversations.get(conversation_id)).messages() == [*TURN, TURN[0]]


async def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    script = """
import sys, anyio
from pathlib import Path
from pydantic_ai.messages import ModelRequest, UserPromptPart
from cellwright.agent.conversations import Conversations
async def main():
    conversations = Conversations(Path(sys.argv[1]))
    history = await conversations.create("killed")
    print(history.id, flush=True)
    async with conversations.work_on(history.id) as conversation:
        for number in range(1_000_000):
            await conversation.say([ModelRequest(parts=[UserPromptPart(f"{number} " + "x" * 5_000)])])
            print(number, flush=True)
anyio.run(main)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "c")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        conversation_id = process.stdout.readline().strip()
        while process.stdout.readline() != "5\n":
            pass
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = 5 + len(process.stdout.read().splitlines())
    conversations = Conversations(tmp_path / "c")
    async with conversations.work_on(conversation_id) as conversation:
        messages = conversation.history.messages()
        assert len(messages) > acknowledged
        await conversation.say(TURN)
    assert (await conversations.get(conversation_id)).messages() == [*messages, *TURN]


async def test_a_newer_versions_conversation_is_refused_with_the_reason(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    log = conversations.directory_of(conversation_id) / "log.jsonl"
    line = json.loads(log.read_text())
    log.write_text(json.dumps({**line, "version": 99}) + "\n")
    with pytest.raises(ConversationUnreadable, match=r"newer version .* \(format 99, this one reads 1\)"):
        async with conversations.work_on(conversation_id):
            raise AssertionError
    [brief] = await conversations.list()
    assert "newer version" in str(brief.trouble)


@pytest.mark.parametrize(
    "damaged", [b"{]\n", b'{"kind":"dance"}\n', b'{"kind":"messages","segment":"h9"}\n', b"7\n"]
)
async def test_damage_is_told_with_its_line(conversations: Conversations, damaged: bytes) -> None:
    conversation_id = await begun(conversations)
    log = conversations.directory_of(conversation_id) / "log.jsonl"
    log.write_bytes(log.read_bytes() + damaged + b'{"kind":"title","title":"x"}\n')
    with pytest.raises(ConversationUnreadable, match="line 2"):
        await conversations.get(conversation_id)


async def test_a_full_disk_leaves_no_half_line(conversations: Conversations, tmp_path: Path) -> None:
    script = """
import resource, signal, sys, anyio
from pathlib import Path
from pydantic_ai.messages import ModelRequest, UserPromptPart
from cellwright.agent.conversations import Conversations
from cellwright.errors import SaveFailed
async def main():
    conversations = Conversations(Path(sys.argv[1]))
    async with conversations.work_on(sys.argv[2]) as conversation:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
        try:
            await conversation.say([ModelRequest(parts=[UserPromptPart("x" * 20_000)])])
        except SaveFailed as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await conversation.entitle("went on")
anyio.run(main)
"""
    conversation_id = await begun(conversations)
    where = str(tmp_path / "conversations")
    done = await anyio.run_process([sys.executable, "-c", script, where, conversation_id])
    assert b"could not be written: File too large" in done.stdout
    history = await conversations.get(conversation_id)
    assert (history.title, history.messages()) == ("went on", [])


async def test_secrets_are_taken_out_of_what_is_written(conversations: Conversations) -> None:
    conversation_id = await begun(conversations)
    clean = lambda text: text.replace("sk-geheim", "***")  # noqa: E731
    async with conversations.work_on(conversation_id, clean=clean) as conversation:
        await conversation.begin_run("run-1", "my key is sk-geheim")
        call = ToolCallPart("cell_add", {"content": {"deep": ["key='sk-geheim'"]}}, "k")
        await conversation.say([ModelResponse(parts=[TextPart("sk-geheim"), call])])
        await conversation.end_run("run-1", "sk-geheim it is", ok=True)
        await conversation.entitle("sk-geheim")
    log = (conversations.directory_of(conversation_id) / "log.jsonl").read_text()
    assert "geheim" not in log
    assert log.count("***") == 5


async def test_conversations_are_listed_newest_first_and_deleted(conversations: Conversations) -> None:
    assert await conversations.list() == []
    first, second = await begun(conversations), await begun(conversations)
    async with conversations.work_on(first) as conversation:
        await conversation.begin_run("run-1", "more")
        await conversation.say(TURN)
    briefs = await conversations.list()
    assert [(brief.id, brief.runs, brief.title) for brief in briefs] == [
        (first, 1, "What is in sales.csv?"),
        (second, 0, "What is in sales.csv?"),
    ]
    directory = conversations.directory_of(first)
    await conversations.delete(first)
    assert not directory.exists()
    assert [brief.id for brief in await conversations.list()] == [second]


@pytest.mark.parametrize("wanted", ["c-nowhere", "../conversations", "", "c-../x", "s-2345678", "c-\n2345"])
async def test_what_is_no_conversation_is_refused(conversations: Conversations, wanted: str) -> None:
    await begun(conversations)
    for verb in (conversations.get, conversations.delete):
        with pytest.raises(UnknownConversation, match="There is no conversation"):
            await verb(wanted)

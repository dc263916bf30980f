"""The dialect of text actions: calls become text and come back, and what small models write is read or told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from cellwright.agent.models.requests import RequestParams, text_of
from cellwright.agent.models.text_actions import instructions, problem, read, told, written


def tool(name: str, needed: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> ToolDefinition:
    properties = {one: {"type": "string"} for one in (*needed, *optional)}
    schema = {"type": "object", "properties": properties, "required": list(needed)}
    return ToolDefinition(name=name, parameters_json_schema=schema, description=f"What {name} does.")


RUN = tool("cell_add_and_run", ("code",), ("language", "position"))
FILES = tool("file_digest", ("path",), ("rows",))
LIST = tool("notebook_list")
WANT = RequestParams("act", tools=(RUN, FILES, LIST))


class Verdict(BaseModel):
    """Whether it is good."""

    good: bool


def said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def called(text: str, want: RequestParams = WANT) -> tuple[str, dict[str, Any]] | None:
    """The call that a reply is read as."""
    for part in read(said(text), want).parts:
        if isinstance(part, ToolCallPart):
            return part.tool_name, part.args_as_dict()
    return None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CODE = st.text(alphabet=st.sampled_from("a`'\"{}()\n\r \t\\#é"))
CALLS = st.one_of(
    st.builds(ToolCallPart, st.just(RUN.name), st.fixed_dictionaries({"code": CODE})),
    st.builds(
        ToolCallPart,
        st.sampled_from([one.name for one in WANT.tools]),
        st.dictionaries(
            st.text() | st.sampled_from(["arguments", "tool", "name", "content"]), JSON, max_size=4
        ),
    ),
)


@settings(max_examples=60)
@given(CALLS)
@example(ToolCallPart(RUN.name, {"code": "a = 1\n```\nb = 2"}))
@example(ToolCallPart(RUN.name, {"code": "`````"}))
def test_any_call_comes_back_from_its_written_form(call: ToolCallPart) -> None:
    assert called(written(call)) == (call.tool_name, call.args_as_dict())


@settings(max_examples=40)
@given(CALLS, st.text(alphabet="ab .\n"))
def test_words_around_an_action_change_nothing_in_it(call: ToolCallPart, words: str) -> None:
    assert called(f"{words}\n\n{written(call)}\n{words}") == (call.tool_name, call.args_as_dict())


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from("`{}[]()'\"\\:,\n actionpythonjson123")) | st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    response = read(said(text), WANT)
    problem(response, WANT)


REQUESTS = st.one_of(
    st.builds(UserPromptPart, st.text()),
    st.builds(SystemPromptPart, st.text()),
    st.builds(ToolReturnPart, st.just("file_digest"), JSON, tool_call_id=st.just("1")),
)
HISTORIES = st.lists(
    st.builds(ModelRequest, st.lists(REQUESTS, max_size=3))
    | st.builds(ModelResponse, st.lists(CALLS | st.builds(TextPart, st.text()), max_size=3)),
    max_size=5,
)


@settings(max_examples=40)
@given(HISTORIES, st.integers(0, 5))
def test_a_longer_history_begins_with_the_text_of_a_shorter_one(
    history: list[ModelMessage], cut: int
) -> None:
    for brief in (False, True):
        whole = told(history, WANT, brief=brief)
        assert told(history[:cut], WANT, brief=brief) == whole[:cut]
        assert len(whole) == len(history)


@settings(max_examples=40)
@given(HISTORIES)
def test_what_is_told_has_no_calls_and_no_returns(history: list[ModelMessage]) -> None:
    kinds = {type(part) for message in told(history, WANT) for part in message.parts}
    assert kinds <= {TextPart, SystemPromptPart, UserPromptPart}


def test_a_conversation_reads_as_plain_turns() -> None:
    history: list[ModelMessage] = [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("How many rows?")], instructions="Rules.", timestamp=None),
        ModelResponse([ThinkingPart("hm"), TextPart("I look."), ToolCallPart(RUN.name, {"code": "print(3)"})]),
        ModelRequest([ToolReturnPart(RUN.name, "3", tool_call_id="1")]),
        ModelResponse([ToolCallPart(FILES.name, '{"path": "a.csv"}')]),
        ModelRequest([ToolReturnPart(FILES.name, "no such file", tool_call_id="2", outcome="failed")]),
    ]  # fmt: skip
    plain = told(history, WANT)
    assert isinstance(plain[0], ModelRequest)
    assert plain[0].instructions == f"Rules.\n\n{instructions(WANT)}"
    assert [[getattr(part, "content", None) for part in message.parts] for message in plain] == [
        ["Be brief.", "How many rows?"],
        ["I look.\n\n```python\nprint(3)\n```"],
        ["Result of cell_add_and_run:\n3"],
        ['```action\n{"tool": "file_digest", "arguments": {"path": "a.csv"}}\n```'],
        ["Error of file_digest:\nno such file"],
    ]


def test_a_picture_stays_where_it_was_or_is_named() -> None:
    picture = BinaryContent(b"png", media_type="image/png")
    request = ModelRequest([ToolReturnPart(RUN.name, ["drawn", picture], tool_call_id="1")])
    (seen,) = told([request], WANT)[0].parts
    (unseen,) = told([request], WANT, pictures=False)[0].parts
    assert isinstance(seen, UserPromptPart)
    assert isinstance(unseen, UserPromptPart)
    assert picture in seen.content
    assert isinstance(unseen.content, str)
    assert "picture" in unseen.content


def test_feedback_on_a_reply_is_told_in_words() -> None:
    feedback = RetryFeedbackPart("Too long.", retry=RetryInfo(cause="model_retry"))  # type: ignore[call-arg]
    (part,) = told([ModelRequest([feedback])], WANT)[0].parts
    assert part == UserPromptPart("Too long.", timestamp=part.timestamp)  # type: ignore[union-attr]


def test_instructions_name_every_tool_with_what_it_needs_first() -> None:
    text = instructions(WANT)
    assert "- cell_add_and_run(code: string, language?: string, position?: string) What" in text
    assert "- notebook_list() What notebook_list does." in text
    # The examples are read as they are meant.
    example = text[text.index("```action") :]
    assert called(example) == ("file_digest", {"path": "…"})
    assert called(text) == ("cell_add_and_run", {"code": "print(6 * 7)"})


def test_the_shape_of_an_answer_is_told_with_and_without_tools() -> None:
    assert instructions(RequestParams("critic", shape=Verdict)).startswith("Answer with one JSON object")
    assert "When you are done: Answer with one JSON object" in instructions(
        RequestParams("act", tools=(RUN,), shape=Verdict)
    )
    assert instructions(RequestParams("act")) == ""


def test_a_small_model_is_told_of_code_and_nothing_else() -> None:
    request = ModelRequest(
        [SystemPromptPart("Many rules."), UserPromptPart("How many?")], instructions="More rules."
    )
    (plain,) = told([request], WANT, brief=True)
    assert isinstance(plain, ModelRequest)
    assert plain.instructions is not None
    assert "rules" not in plain.instructions
    assert "file_digest" not in plain.instructions
    assert [part.content for part in plain.parts if isinstance(part, UserPromptPart)] == ["How many?"]
    assert called(plain.instructions) is not None


ACTION = ("file_digest", {"path": "a.csv"})


@pytest.mark.parametrize(
    "text",
    [
        '```action {"tool": "file_digest", "arguments": {"path": "a.csv"}}```',
        '```json\n{"tool": "file_digest", "arguments": {"path": "a.csv"}}\n```',
        '```\n{"tool": "file_digest", "arguments": {"path": "a.csv"}}\n```',
        '```file_digest\n{"path": "a.csv"}\n```',
        'I will look at it: {"tool": "file_digest", "arguments": {"path": "a.csv"}} and then answer.',
        "```action\n{'tool': 'file_digest', 'arguments': {'path': 'a.csv',},}\n```",
        "```action\n{tool: 'file_digest', arguments: {path: 'a.csv'}} // looks\n```",
        '```action\n{"tool": "file_digest", "arguments": {"path": "a.csv"\n```',
        '{"tool": "file_digest", "arguments": {"path": "a.csv"}',
        '{"name": "file_digest", "parameters": {"path": "a.csv"}}',
        '<tool_call>{"name": "file_digest", "arguments": "{\\"path\\": \\"a.csv\\"}"}</tool_call>',
        '{"function": {"name": "file_digest", "arguments": {"path": "a.csv"}}}',
        '{"action": "file_digest", "action_input": "a.csv"}',
        '{"tool": "file_digest", "path": "a.csv"}',
        '{"tool": "functions.File-Digest", "arguments": {"path": "a.csv"}}',
        'file_digest(path="a.csv")',
        'Action: file_digest({"path": "a.csv"})',
        '```python\nfile_digest("a.csv")\n```',
        '<think>{"tool": "notebook_list"}</think>{"tool": "file_digest", "arguments": {"path": "a.csv"}}',
    ],
)
def test_an_action_is_read_however_a_small_model_writes_it(text: str) -> None:
    assert called(text) == ACTION
    assert problem(read(said(text), WANT), WANT) is None


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```",
        "Sure!\n```py\nprint(1)\n```\nThis prints 1, so the answer is 1.",
        "```python print(1)``` and more",
        "```python\nprint(1)",
        "```\nprint(1)\n```",
        "````python\nprint(1)\n````",
        '```python\ncell_add_and_run(code="print(1)")\n```',
        '```action\n{"tool": "cell_add_and_run", "arguments": {"code": """print(1)"""}}\n```',
    ],
)
def test_a_block_of_code_is_run(text: str) -> None:
    assert called(text) == ("cell_add_and_run", {"code": "print(1)"})


def test_line_ends_inside_a_text_are_kept() -> None:
    text = '{"tool": "cell_add_and_run", "arguments": {"code": "a = 1\nprint(a)"}}'
    assert called(text) == ("cell_add_and_run", {"code": "a = 1\nprint(a)"})


def test_a_block_in_another_language_says_so() -> None:
    wanted = ("cell_add_and_run", {"code": "select 1", "language": "sql"})
    assert called("```sql\nselect 1\n```") == wanted


def test_only_the_first_action_counts_and_what_follows_it_is_left_out() -> None:
    reply = read(said("First.\n```python\nprint(1)\n```\nIt printed 7.\n```python\nprint(2)\n```"), WANT)
    first, call = reply.parts
    assert isinstance(first, TextPart)
    assert first.content == "First."
    assert isinstance(call, ToolCallPart)
    assert call.args_as_dict() == {"code": "print(1)"}
    assert "7" not in text_of(reply)


@pytest.mark.parametrize(
    "text",
    [
        "The sum is 60.",
        'The rows are {"name": "Bob", "age": 3} and {"name": "notes"}.',
        "It printed:\n```\n   a  b\n0  1  2\n```",
        "```\n60\n```",
        "I ran cell_add_and_run(content='x') and got 60.",
        "Use {braces} with care.",
    ],
)
def test_an_answer_stays_an_answer(text: str) -> None:
    assert called(text) is None
    assert problem(read(said(text), WANT), WANT) is None


def test_a_reply_to_a_request_without_tools_is_left_alone() -> None:
    want = RequestParams("critic", shape=Verdict)
    reply = said('```python\nprint(1)\n```\n{"good": true}')
    assert read(reply, want) == reply
    assert problem(reply, want) is None


def test_thinking_aloud_is_taken_out() -> None:
    reply = read(said("<think>so\nso</think>\nThe sum is 60."), WANT)
    assert reply.parts == [ThinkingPart("so\nso"), TextPart("The sum is 60.")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ('```action\n{"tool": "nothing", "arguments": {}}\n```', "no tool 'nothing'"),
        ('{"tool": "nothing"}', "no tool 'nothing'"),
        ('```action\n{"arguments": {}}\n```', "names no tool"),
        ('```action\n{"tool": "file_digest" "arguments"}\n```', "comma"),
        ('{"tool": "file_digest", "arguments": {"path": "a.c', "not closed"),
        ("```python\n```", "empty"),
    ],
)
def test_what_cannot_be_read_is_told_with_the_way_to_write_it(text: str, why: str) -> None:
    reply = read(said(text), WANT)
    assert not any(isinstance(part, ToolCallPart) for part in reply.parts)
    told_problem = problem(reply, WANT)
    assert told_problem is not None
    assert why in told_problem
    assert called(told_problem[told_problem.index("```action") :]) == ("file_digest", {"path": "…"})


def test_without_the_notebooks_tool_code_goes_to_the_one_that_takes_it() -> None:
    want = RequestParams("act", tools=(tool("note", ("content",)), tool("answer", ("code",))))
    assert called("```python\nprint(1)\n```", want) == ("answer", {"code": "print(1)"})
    assert called("```python\nprint(1)\n```", RequestParams("act", tools=(FILES,))) is None


def test_an_action_far_down_a_long_reply_of_brackets_is_given_up_in_time() -> None:
    assert called("{" * 100_000 + json.dumps({"tool": "notebook_list"})) is None

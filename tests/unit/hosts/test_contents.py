"""Whatever code says in its kernel's name, what the host passes on has the shape that everybody after it relies on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.hosts._runner import OUTPUTS, output_of, reply_of
from cellwright.hosts.protocol import DigestFailure
from cellwright.notebook.outputs import OutputCollector

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)
FIELDS = ["name", "text", "data", "metadata", "transient", "ename", "evalue", "traceback", "wait"]
CONTENTS = st.one_of(
    JSON, st.dictionaries(st.sampled_from([*FIELDS, "execution_count", "status"]), JSON, max_size=6)
)


def told(kind: str, content: Any) -> tuple[str, Any]:
    found, passed = output_of(kind, json.dumps(content).encode())
    return found, json.loads(passed)


@given(st.sampled_from(sorted(OUTPUTS)), CONTENTS)
def test_anything_can_be_folded_and_written(kind: str, content: Any) -> None:
    collector = OutputCollector()
    collector.add(*told(kind, content))
    json.dumps(collector.outputs, ensure_ascii=False).encode()


@given(st.sampled_from(sorted(OUTPUTS)), st.binary(max_size=50))
def test_bytes_that_are_no_json_are_told(kind: str, content: bytes) -> None:
    _, passed = output_of(kind, content)
    assert isinstance(json.loads(passed), dict)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", {"name": "stdout", "text": "a", "more": [1]}),
        ("display_data", {"data": {"text/plain": "a", "x+json": [{}]}, "metadata": {}, "transient": None}),
        ("display_data", {"data": {"text/plain": ["a\n", "b"]}, "transient": {"display_id": "d"}}),
        ("execute_result", {"data": {}, "execution_count": 3, "metadata": {"text/html": {"isolated": True}}}),
        ("error", {"ename": "E", "evalue": "v", "traceback": ["t"]}),
        ("clear_output", {"wait": True}),
    ],
)
def test_a_good_message_stays_as_it_is(kind: str, content: dict[str, Any]) -> None:
    assert told(kind, content) == (kind, content)


def test_what_is_left_out_is_told_with_its_reason() -> None:
    kind, content = told("display_data", {"data": {"image/png": 5}})
    assert (kind, content["name"]) == ("stream", "stderr")
    assert "display_data" in content["text"]
    assert "image/png" in content["text"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_what_is_nested_deeper_than_others_can_go_is_left_out(opening: str) -> None:
    for depth in (150, 900, 100_000):
        ends = ("]" if opening == "[" else "}") * depth
        nested = f'{{"data": {{"application/json": {opening * depth}1{ends}}}}}'
        assert output_of("display_data", nested.encode())[0] == "stream", depth


def test_numbers_that_json_does_not_know_become_none() -> None:
    assert told("display_data", {"data": {"application/json": [float("nan")]}}) == (
        "display_data",
        {"data": {"application/json": [None]}},
    )


@given(CONTENTS, CONTENTS)
def test_any_reply_can_be_told(content: Any, metadata: Any) -> None:
    reply = reply_of(json.dumps(content).encode(), json.dumps({"cellwright": metadata}).encode())
    assert isinstance(reply["status"], str)
    assert isinstance(reply["execution_count"], int | None)
    assert all(isinstance(line, str) for line in reply["traceback"])
    assert reply["cellwright"]["dropped_bytes"] >= 0


def test_a_good_reply_keeps_what_it_says() -> None:
    content = {"status": "error", "execution_count": 2, "ename": "E", "evalue": "v", "traceback": ["t"]}
    told = {"dropped_bytes": 5, "dropped_messages": 1, "exit_code": -9}
    failure = DigestFailure("acme.Die", "raised OSError", hangs=True)
    about = {"cellwright": {**told, "place": {}, "digest_failures": [msgspec.to_builtins(failure)]}}
    reply = reply_of(json.dumps(content).encode(), json.dumps(about).encode())
    assert reply == content | {"cellwright": told | {"digest_failures": [failure]}}

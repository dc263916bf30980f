"""The wire format and the words for an end: pure, so tested without a kernel."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_client.session import Session

from cellwright.kernels.client import BadMessageError, Codec
from cellwright.kernels.processes import explain_exit

SESSION = Session(key=b"secret")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text(), json_values))
def test_what_we_send_is_what_jupyter_reads(content: dict[str, Any]) -> None:
    session = SESSION
    frames = Codec("secret").encode("execute_request", content, message_id="m1")
    _, parts = session.feed_identities(frames)
    message = session.deserialize(parts)
    assert message["header"]["msg_id"] == "m1"
    assert message["msg_type"] == "execute_request"
    assert message["content"] == content


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text(), json_values))
def test_what_jupyter_sends_is_what_we_read(content: dict[str, Any]) -> None:
    session = SESSION
    parent = session.msg("execute_request")
    message = session.msg("stream", content, parent=parent)
    read = Codec("secret").decode("iopub", [b"topic", *session.serialize(message)])
    assert (read.kind, read.parent_id) == ("stream", parent["header"]["msg_id"])
    assert msgspec.json.decode(read.content) == content


@pytest.mark.parametrize("part", range(2, 6))
def test_a_message_that_was_changed_on_the_way_is_refused(part: int) -> None:
    frames = Codec("secret").encode("status", {"a": 1}, message_id="m1")
    frames[part] = frames[part].replace(b"}", b" }")
    with pytest.raises(BadMessageError):
        Codec("secret").decode("iopub", frames)


@given(st.lists(st.binary(max_size=20)))
def test_noise_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(BadMessageError):
        Codec("secret").decode("iopub", frames)
    with pytest.raises(BadMessageError):
        Codec("secret").decode("iopub", [b"<IDS|MSG>", *frames])


def test_an_out_of_memory_kill_is_told_apart_from_other_kills() -> None:
    killed = -int(signal.SIGKILL)
    assert explain_exit(killed, killed_by_us=None, oom_kills_seen=True).cause == "out_of_memory"
    assert explain_exit(killed, killed_by_us=None, oom_kills_seen=False).cause == "signal"
    assert explain_exit(killed, killed_by_us="it was stopped", oom_kills_seen=True).cause == "killed"
    assert explain_exit(None, killed_by_us=None, oom_kills_seen=False).cause == "unknown"


@given(st.integers(-64, 255), st.booleans())
def test_every_end_has_words_and_a_next_step(status: int, oom: bool) -> None:
    ended = explain_exit(status, killed_by_us=None, oom_kills_seen=oom)
    assert ended.message
    assert ended.next_step
    assert (ended.code is None) != (ended.signal is None)

"""Frames of a kernel's WebSocket, against our own other half and against Jupyter's."""

from __future__ import annotations

import json
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_binary_message,
    serialize_msg_to_ws_v1,
)

from cellwright.jupyter import _channels
from cellwright.kernels.client import BadMessageError

CHANNELS = st.sampled_from(["shell", "iopub", "control", "stdin"])
WORDS = st.text(max_size=30)
CONTENTS = st.dictionaries(
    WORDS, st.one_of(WORDS, st.integers(-(2**53), 2**53), st.none(), st.lists(WORDS, max_size=3)), max_size=5
)


@given(channel=CHANNELS, kind=WORDS, content=CONTENTS)
def test_what_we_encode_is_what_jupyter_reads(channel: str, kind: str, content: dict[str, object]) -> None:
    header = _channels.header_of(kind, "id-1", "session", "me")
    told_channel, parts = deserialize_msg_from_ws_v1(_channels.encode_v1(channel, header, content))
    assert told_channel == channel
    assert [json.loads(part) for part in parts] == [header, {}, {}, content]


@given(
    channel=CHANNELS,
    kind=WORDS,
    parent=WORDS,
    content=CONTENTS,
    buffers=st.lists(st.binary(max_size=9), max_size=3),
)
def test_what_jupyter_encodes_is_what_we_read(
    channel: str, kind: str, parent: str, content: dict[str, object], buffers: list[bytes]
) -> None:
    header = {"msg_type": kind, "msg_id": "s_1_7"}
    parts = [json.dumps(one).encode() for one in (header, {"msg_id": parent}, {}, content)]
    heard = _channels.decode_v1(serialize_msg_to_ws_v1([*parts, *buffers], channel))
    assert (heard.message.channel, heard.message.kind, heard.message.parent_id) == (channel, kind, parent)
    assert msgspec.json.decode(heard.message.content) == content
    assert heard.id == "s_1_7"


@given(channel=CHANNELS, kind=WORDS, content=CONTENTS, buffers=st.lists(st.binary(max_size=9), max_size=3))
def test_both_ways_without_the_subprotocol(
    channel: str, kind: str, content: dict[str, object], buffers: list[bytes]
) -> None:
    header = _channels.header_of(kind, "id-1", "session", "me")
    ours = _channels.decode_json(_channels.encode_json(channel, header, content))
    assert (ours.message.channel, ours.message.kind) == (channel, kind)
    assert msgspec.json.decode(ours.message.content) == content
    theirs = {"channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content}
    assert _channels.decode_json(
        serialize_binary_message({**theirs, "buffers": buffers})
    ) == _channels.decode_json(json.dumps(theirs))


@given(st.binary(max_size=200))
def test_nonsense_is_refused_and_nothing_else(frame: bytes) -> None:
    for decode in (_channels.decode_v1, _channels.decode_json):
        try:
            decode(frame)
        except BadMessageError:
            continue


def test_offsets_that_lead_out_of_the_frame_are_refused() -> None:
    with pytest.raises(BadMessageError, match="lead out"):
        _channels.decode_v1(struct.pack("<7Q", 6, 56, 60, 61, 62, 63, 10_000) + b"shell")

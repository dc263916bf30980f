"""ZeroMQ's frames from a peer that anybody may be: what is sent whole comes whole, and nothing else is kept."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.kernels.client import MAX_FRAMES, Oversized, ProtocolError, Reader, greeting, message_bytes

LIMIT = 4_000
OPENING = greeting("ROUTER")
EMPTY_FRAME = b"\x01\x00"
"""With more to follow."""

frames = st.lists(
    st.one_of(st.binary(max_size=20), st.binary(min_size=250, max_size=600)), min_size=1, max_size=4
)


def read(data: bytes, cuts: list[int] = []) -> list[list[bytes] | Oversized]:  # noqa: B006  # never changed
    """What a reader makes of data that come in pieces."""
    reader, ends = Reader(LIMIT), [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [
        message
        for start, end in zip([0, *ends], ends, strict=False)
        for message in reader.feed(data[start:end])
    ]


def frame_head(length: int, *, more: bool = False) -> bytes:
    return bytes([2 | more]) + length.to_bytes(8, "big")


@given(st.lists(frames, max_size=4), st.lists(st.integers(0, 10_000), max_size=6))
def test_messages_come_whole_however_their_bytes_are_cut(
    messages: list[list[bytes]], cuts: list[int]
) -> None:
    sent = OPENING + b"".join(message_bytes(message) for message in messages)
    assert read(sent, cuts) == messages


@given(st.lists(st.integers(0, 20_000), max_size=6), st.integers(1, 5))
def test_a_message_over_the_limit_is_passed_over_and_the_next_one_is_read(cuts: list[int], many: int) -> None:
    long = [b"x" * LIMIT, *[b"y"] * many]
    sent = OPENING + message_bytes(long) + message_bytes([b"next"])
    oversized, message = read(sent, cuts)
    assert isinstance(oversized, Oversized)
    assert oversized.length == LIMIT + many
    assert message == [b"next"]


def test_a_message_that_does_not_end_takes_no_memory() -> None:
    reader = Reader(1 << 20)
    list(reader.feed(OPENING + frame_head(900 << 20)))
    tracemalloc.start()
    try:
        for _ in range(64):
            assert list(reader.feed(bytes(1 << 20))) == []
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "said",
    [
        OPENING + frame_head(1 << 62),
        OPENING + EMPTY_FRAME * (MAX_FRAMES + 1),
        OPENING + b"\x04\x0d\x05ERROR\x06no way",
        OPENING + bytes([4 | 2]) + (1 << 40).to_bytes(8, "big"),
        OPENING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32),
        OPENING[:10] + b"\x02" + OPENING[11:],
        b"GET / HTTP/1.1\r\n".ljust(64),
    ],
    ids=["without end", "frames without end", "error", "long command", "secured", "version 2", "http"],
)
def test_what_is_no_peer_is_told(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(said)


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8),
    st.lists(frames, max_size=2),
    st.integers(0, 500),
)
def test_whatever_is_said_only_a_protocol_error_comes_of_it(
    said: bytes, changes: list[tuple[int, int]], messages: list[list[bytes]], cut: int
) -> None:
    valid = bytearray(OPENING + b"".join(message_bytes(message) for message in messages) + said)
    for at, value in changes:
        valid[at % len(valid)] = value
    with suppress(ProtocolError):
        read(bytes(valid), [cut])

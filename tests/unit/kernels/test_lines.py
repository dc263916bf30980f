"""Messages in a stream of bytes that anybody may write to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.kernels._pipe_client import Line, Piece, Printed, Splitter, TooLong, message_of
from cellwright.kernels.client import BadMessageError, Message

TOKEN = b"a0a1a0"
LONGEST = 50


def split(*portions: bytes) -> list[Piece]:
    splitter = Splitter(TOKEN, LONGEST)
    pieces = [piece for portion in portions for piece in splitter.feed(portion)]
    return joined([*pieces, *splitter.rest()])


def joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces with printed ones that follow each other as one: how they are cut does not matter."""
    whole: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Printed) and whole and isinstance(whole[-1], Printed):
            whole[-1] = Printed(whole[-1].content + piece.content)
        else:
            whole.append(piece)
    return whole


def line(**changes: Any) -> bytes:
    return json.dumps({"channel": "iopub", "kind": "stream", "parent": "p", "content": {}} | changes).encode()


def test_messages_and_what_was_printed_between_them_come_apart() -> None:
    stream = b"raw\n" + TOKEN + b"{1}\nno line" + TOKEN + b"{2}\n" + TOKEN + b"{3}\nlast"
    assert split(stream) == [
        Printed(b"raw\n"),
        Line(b"{1}"),
        Printed(b"no line"),
        Line(b"{2}"),
        Line(b"{3}"),
        Printed(b"last"),
    ]


@given(st.data())
def test_it_does_not_matter_in_which_portions_a_stream_comes(data: st.DataObject) -> None:
    parts = st.sampled_from([TOKEN, b"a0", b"a", b"{}", b"\n", b"x" * (LONGEST + 3), b"\xff", b"0a1"])
    stream = b"".join(data.draw(st.lists(parts, max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    portions = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert split(*portions) == split(stream)


def test_what_is_printed_is_handed_on_before_its_line_ends() -> None:
    splitter = Splitter(TOKEN, LONGEST)
    assert list(splitter.feed(b"50 %")) == [Printed(b"50 %")]


def test_a_line_that_is_too_long_is_skipped_and_never_held_whole() -> None:
    splitter = Splitter(TOKEN, LONGEST)
    assert list(splitter.feed(TOKEN)) == []
    for _ in range(100):
        assert list(splitter.feed(b"x" * 40)) == []
        assert len(splitter._held) <= LONGEST
    assert list(splitter.feed(b"\n" + TOKEN + b"{}\n")) == [TooLong(4000), Line(b"{}")]


def test_half_a_message_at_the_end_is_none() -> None:
    assert split(TOKEN + b'{"chan') == []


def test_a_message_is_read_with_its_content_as_it_came() -> None:
    content = {"text": "é", "n": 100000000000000000000, "f": 0.1}
    told = message_of(line(content=content, metadata={"a": 1}))
    assert told == Message("iopub", "stream", "p", json.dumps(content).encode(), b'{"a": 1}')


def test_half_a_character_is_replaced_and_the_rest_of_the_message_stays() -> None:
    told = message_of(line(content={"text": "a\ud800b"}))
    assert json.loads(told.content) == {"text": "a?b"}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"channel":"iopub","kind":"stream","content":{"text":"\xff"}}',
        line(channel="hb"),
        line(channel=None),
        line(kind=3),
        line(parent=3),
        line(content=[1]),
        line(content="text"),
        line(metadata=7),
        line() + line(),
    ],
)
def test_what_is_no_message_is_refused(broken: bytes) -> None:
    with pytest.raises(BadMessageError):
        message_of(broken)

"""What hosts, engines, clients, servers and browsers say to us: taken in, or refused in the way that is theirs."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from hypothesis import strategies as st
from starlette.datastructures import Headers

from cellwright.daemon._connections import Conversation
from cellwright.daemon._early_responder import Arrival
from cellwright.daemon._guard import Gate, misdirection, untrusted
from cellwright.daemon._recorded_answers import RecordedAnswers
from cellwright.errors import CellwrightError
from cellwright.hosts import HostConnection, protocol
from cellwright.hosts._event_log import EventLog, read_events
from cellwright.hosts.connection import frame
from cellwright.hosts.server import Host
from cellwright.jupyter._channels import decode_json, decode_v1
from cellwright.kernels._pipe_client import Line, Splitter, message_of
from cellwright.kernels.client import BadMessageError
from cellwright.lab._channels import BadMessage
from cellwright.lab._channels import decode as decode_from_lab
from cellwright.mcp.server import message_streams
from cellwright.unixstreams import UnixStream
from tests.support.fuzzing import each_effort, mutated_bytes, mutated_json, mutated_values, seeds, try_all

TOKEN = b"0123456789abcdef"


def packed(value: Any) -> bytes:
    """A value as MessagePack in a frame; one that cannot be written is a frame of something else."""
    try:
        payload = msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError, RecursionError):
        payload = b"\xc1"
    return len(payload).to_bytes(4, "big") + payload


def frames_of(name: str) -> st.SearchStrategy[bytes]:
    whole = st.builds(packed, mutated_values(seeds(name)))
    return st.lists(whole | mutated_bytes(whole), min_size=1, max_size=3).map(b"".join)


def pair() -> tuple[UnixStream, UnixStream]:
    one, other = socket.socketpair()
    return UnixStream(one), UnixStream(other)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(30):
            await work()

    anyio.run(bounded)


# Hosts and engines -----------------------------------------------------------------------------------------------


@each_effort
def test_whatever_an_engine_asks_its_host_answers_the_next_one(effort: float, tmp_path: Path) -> None:
    number = iter(range(10**9))

    def check(data: bytes) -> None:
        async def work() -> None:
            here = tmp_path / str(next(number))
            host = Host(incarnation="i", journal=here / "log", runtime=here / "run", cache=here / "cache")
            listener = await anyio.create_unix_listener(os.fspath(tmp_path / "s"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.serve, listener)
                async with await anyio.connect_unix(os.fspath(tmp_path / "s")) as stream:
                    await stream.send(data)
                    await stream.send_eof()
                    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                        while True:
                            await stream.receive()
                async with await anyio.connect_unix(os.fspath(tmp_path / "s")) as stream:
                    connection = HostConnection(stream)
                    tasks.start_soon(connection.read, lambda _: None)
                    assert (await connection.call(protocol.Status(), protocol.Attached)).incarnation == "i"
                host.stop()
            await listener.aclose()

        run(work)

    try_all(check, frames_of("calls.json"), examples=40, effort=effort)


@each_effort
def test_whatever_a_host_says_is_an_answer_an_event_or_its_loss(effort: float) -> None:
    def check(data: bytes) -> None:
        async def work() -> None:
            mine, theirs = pair()
            connection = HostConnection(mine)
            events: list[protocol.Event] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.read, events.extend)

                async def answer() -> None:
                    await theirs.receive()
                    await theirs.send(data)
                    await theirs.aclose()

                tasks.start_soon(answer)
                with suppress(CellwrightError):
                    await connection.call(protocol.Status(), protocol.Attached)
            assert connection.lost.is_set()
            await mine.aclose()

        run(work)

    try_all(check, frames_of("host.json"), examples=80, effort=effort)


@each_effort
def test_whatever_a_dead_hosts_journal_holds_is_read_as_far_as_it_goes(effort: float, tmp_path: Path) -> None:
    number = iter(range(10**9))
    whole = frame(protocol.Event(1, 0.0, "s.1", protocol.Started("x")))

    def check(data: bytes) -> None:
        directory = tmp_path / str(next(number))
        EventLog(directory).close()
        (directory / "events-000000000001.log").write_bytes(whole + data)
        (directory / "events-.log").touch()
        assert next(iter(read_events(directory))).seq == 1
        for event in read_events(directory):
            assert isinstance(event.seq, int)

    try_all(check, frames_of("host.json"), examples=80, effort=effort)


# Clients ---------------------------------------------------------------------------------------------------------

LINES = mutated_json(seeds("mcp.json"))


@each_effort
def test_whatever_line_a_client_says_the_next_message_is_heard(effort: float) -> None:
    def check(lines: list[bytes]) -> None:
        async def work() -> None:
            mine, theirs = pair()
            async with message_streams(mine, mine) as (incoming, _), anyio.create_task_group() as tasks:

                async def read() -> None:
                    with suppress(anyio.ClosedResourceError, anyio.EndOfStream, anyio.BrokenResourceError):
                        while True:
                            await theirs.receive()

                tasks.start_soon(read)
                await theirs.send(
                    b"".join(line + b"\n" for line in lines)
                    + b'{"jsonrpc":"2.0","id":"mark","method":"ping"}\n'
                )
                async for said in incoming:
                    assert not isinstance(said, Exception)
                    if getattr(said.message, "id", None) == "mark":
                        break
                tasks.cancel_scope.cancel()
            await theirs.aclose()
            await mine.aclose()

        run(work)

    no_breaks = LINES.map(lambda line: line.replace(b"\n", b" "))
    try_all(check, st.lists(no_breaks, max_size=4), examples=80, effort=effort)


@each_effort
def test_whoever_comes_with_whatever_first_line_is_let_in_as_somebody(effort: float) -> None:
    record = RecordedAnswers("/")

    def check(lines: list[bytes]) -> None:
        mine, theirs = socket.socketpair()
        with mine, theirs:
            arrival = Arrival(mine)
            for line in lines:
                arrival.take(line + b"\n")
            assert isinstance(arrival.wants, str)
            assert arrival.handshake is not None
            conversation = Conversation({})
            for line in lines:
                record.answer(line, arrival.handshake, greeted=True)
                conversation.heard(line + b"\n")

    try_all(check, st.lists(LINES, min_size=1, max_size=3), examples=150, effort=effort)


@each_effort
def test_whatever_lab_or_a_server_sends_is_a_message_or_is_refused(effort: float) -> None:
    def check(data: bytes) -> None:
        for decode in (decode_json, decode_v1):
            with suppress(BadMessageError):
                assert isinstance(decode(data).message.kind, str)
        with suppress(BadMessageError):
            decode_json(data.decode("utf-8", "replace"))
        with suppress(BadMessage):
            decode_from_lab(data.decode("utf-8", "replace"))

    v1 = [_v1(one) for one in seeds("server.json")]
    try_all(check, mutated_json(seeds("server.json")) | mutated_bytes(v1), examples=300, effort=effort)


def _v1(said: dict[str, Any]) -> bytes:
    parts = [said["channel"].encode()]
    parts += [json.dumps(said[key]).encode() for key in ("header", "parent_header", "metadata", "content")]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return b"".join(number.to_bytes(8, "little") for number in (len(offsets), *offsets)) + b"".join(parts)


@each_effort
def test_whatever_a_driver_writes_is_cut_into_messages_and_text(effort: float) -> None:
    def check(lines: list[bytes], cut: int) -> None:
        splitter = Splitter(TOKEN, 10_000)
        data = (
            b"".join(TOKEN + line + b"\n" for line in lines) + TOKEN + b'{"channel":"iopub","kind":"mark"}\n'
        )
        kinds = []
        for start in range(0, len(data), cut):
            for piece in splitter.feed(data[start : start + cut]):
                if isinstance(piece, Line):
                    with suppress(BadMessageError):
                        message = message_of(piece.content)
                        assert isinstance(json.loads(message.content), dict)
                        kinds.append(message.kind)
            assert len(splitter._held) <= 10_000 + cut
        assert kinds[-1:] == ["mark"]

    lines = mutated_json(seeds("lines.json")).filter(lambda line: not line.endswith(TOKEN))
    try_all(
        check, st.lists(lines, max_size=4), st.sampled_from([7, 1_000, 65_536]), examples=100, effort=effort
    )


@each_effort
def test_whatever_head_a_request_has_only_the_right_one_is_let_in(effort: float) -> None:
    gate = Gate("token", frozenset({"own.example"}), frozenset())
    names = st.sampled_from([b"host", b"origin", b"authorization", b"cookie", b""])
    values = mutated_bytes(
        [b"localhost:1", b"own.example", b"http://localhost:1", b"Bearer token", b"[::1]:80"]
    )

    def check(heads: list[tuple[bytes, bytes]]) -> None:
        headers = Headers(raw=heads)
        found = misdirection(headers, ("127.0.0.1", 1), gate) or untrusted(headers, gate)
        if found is None:
            assert any(name == b"authorization" and b"token" in value for name, value in heads)
        else:
            assert found.status in (401, 403, 421)

    try_all(check, st.lists(st.tuples(names, values), max_size=5), examples=100, effort=effort)

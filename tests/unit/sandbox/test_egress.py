"""The proxy in this process, before real servers on loopback addresses that the rules list. For clients that reach it by
the bridge see ``tests.kernel.sandbox.test_egress_bridge``.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cellwright.sandbox.network_rules import Address, NetworkRules
from cellwright.sandbox.relay import Wire
from tests.support.sandbox.origins import (
    BIG,
    LOOPBACK,
    UNHURRIED,
    Server,
    logged,
    proxying,
    rules_for,
    serving,
)
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

ELSEWHERE: Address = ipaddress.ip_address("127.0.0.2")


@pytest.fixture
def origin() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return tmp_path / "proxy"


async def knock(door: Path) -> Wire:
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(str(door))
    raw.setblocking(False)
    return Wire(raw)


async def say(door: Path, data: bytes, *, finish: bool = False) -> bytes:
    """Everything that the proxy answers to these bytes until it closes."""
    answer = b""
    with fail_after():
        async with await knock(door) as stream:
            await stream.send(data)
            if finish:
                await stream.send_eof()
            with contextlib.suppress(anyio.EndOfStream, OSError):
                while True:
                    answer += await stream.receive()
    return answer


async def in_thread(work: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(work)


async def test_socket_is_private_and_goes_with_the_proxy(door: Path) -> None:
    async with proxying(door, NetworkRules()):
        assert stat.S_IMODE(door.stat().st_mode) == 0o600
        assert stat.S_ISSOCK(door.stat().st_mode)
    assert not door.exists()


async def test_plain_request_reaches_the_origin_and_is_logged(door: Path, origin: Server) -> None:
    async with proxying(door, rules_for(origin.port)) as egress:
        target = f"http://allowed.example:{origin.port}/path?q=1"
        answer = await say(door, f"GET {target} HTTP/1.1\r\nHost: other\r\nX-Kept: 1\r\n\r\n".encode())
        (entry,) = await logged(egress, 1)
    head, _, body = answer.partition(b"\r\n\r\n")
    seen = json.loads(body)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in head
    assert seen["path"] == "/path?q=1"
    assert seen["headers"] == {
        "Host": f"allowed.example:{origin.port}",
        "X-Kept": "1",
        "Connection": "close",
    }
    assert (entry.method, entry.host, entry.port) == ("GET", "allowed.example", origin.port)
    assert (entry.verdict, entry.address, entry.execution) == ("allowed", "127.0.0.1", "exec-1")
    assert entry.bytes_up > 0
    assert entry.bytes_down == len(answer)


async def test_tunnel_carries_bytes_both_ways_and_ends_with_the_origin(door: Path, origin: Server) -> None:
    async with proxying(door, rules_for(origin.port)) as egress:
        request = "GET /inside HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        answer = await say(door, f"CONNECT allowed.example:{origin.port} HTTP/1.1\r\n\r\n{request}".encode())
        (entry,) = await logged(egress, 1)
    established, _, inner = answer.partition(b"\r\n\r\n")
    assert established == b"HTTP/1.1 200 Connection established"
    assert b'"/inside"' in inner
    assert (entry.method, entry.bytes_up, entry.bytes_down) == ("CONNECT", len(request), len(inner))


@pytest.mark.parametrize("method", ["GET http://{} HTTP/1.1", "CONNECT {} HTTP/1.1"])
async def test_refusal_names_the_list_the_setting_and_the_next_step(
    door: Path, origin: Server, method: str
) -> None:
    destination = f"unlisted.example:{origin.port}"
    async with proxying(door, rules_for(origin.port)) as egress:
        answer = (await say(door, f"{method.format(destination)}\r\n\r\n".encode())).decode()
        (entry,) = await logged(egress, 1)
    status, _, body = answer.partition("\r\n")
    assert status.startswith("HTTP/1.1 403 ")
    for text in (status, body):
        assert f"{destination} is not on the allow-list" in text
        assert "network_allow" in text
    assert f"add `{destination}` to `network_allow`" in body
    assert (entry.verdict, entry.setting, entry.address) == ("refused", "network_allow", None)
    assert origin.accepted == 0


async def test_closed_network_says_so(door: Path, origin: Server) -> None:
    async with proxying(door, NetworkRules()):
        answer = await say(door, f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n".encode())
    assert b"403" in answer.splitlines()[0]
    assert b"setting network" in answer.splitlines()[0]
    assert origin.accepted == 0


async def test_open_network_still_does_not_lead_inside(door: Path, origin: Server) -> None:
    async with proxying(door, NetworkRules.parse("open")):
        for host in ("innocent.example", "127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"):  # noqa: S104
            answer = await say(door, f"CONNECT {host}:{origin.port} HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 "), host
    assert origin.accepted == 0


async def test_name_that_changes_where_it_leads_is_judged_and_connected_by_the_same_answer(
    door: Path, origin: Server
) -> None:
    answers = [[LOOPBACK], [ELSEWHERE]]
    asked = []

    async def rebinding(host: str, _: int) -> Sequence[Address]:
        asked.append(host)
        return answers[(len(asked) - 1) % 2]

    async with proxying(door, rules_for(origin.port), resolve=rebinding) as egress:
        request = f"GET http://allowed.example:{origin.port}/ HTTP/1.1\r\n\r\n".encode()
        first, second = await say(door, request), await say(door, request)
        entries = await logged(egress, 2)
    assert first.startswith(b"HTTP/1.1 200 ")
    assert second.startswith(b"HTTP/1.1 403 ")
    assert b"127.0.0.2, which is loopback" in second
    assert [entry.address for entry in entries] == ["127.0.0.1", None]
    assert asked == ["allowed.example"] * 2
    assert origin.accepted == 1


async def test_of_several_addresses_only_those_permitted_are_tried(door: Path, origin: Server) -> None:
    async def several(_: str, __: int) -> Sequence[Address]:
        return [ELSEWHERE, ipaddress.ip_address("169.254.169.254"), LOOPBACK]

    async with proxying(door, rules_for(origin.port), resolve=several) as egress:
        answer = await say(door, f"GET http://allowed.example:{origin.port}/ HTTP/1.1\r\n\r\n".encode())
        (entry,) = await logged(egress, 1)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert entry.address == "127.0.0.1"


async def test_unlisted_name_is_never_looked_up(door: Path, origin: Server) -> None:
    asked = []

    async def resolve(host: str, _: int) -> Sequence[Address]:
        asked.append(host)
        return [LOOPBACK]

    async with proxying(door, rules_for(origin.port), resolve=resolve):
        await say(door, f"CONNECT stolen-data.evil.example:{origin.port} HTTP/1.1\r\n\r\n".encode())
    assert asked == []


async def test_name_without_address_and_closed_port_are_told_apart(door: Path) -> None:
    async def nothing(_: str, __: int) -> Sequence[Address]:
        raise OSError("no such name")

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        async with proxying(door, rules_for(port), resolve=nothing) as egress:
            lost = await say(door, f"CONNECT allowed.example:{port} HTTP/1.1\r\n\r\n".encode())
            refused = await say(door, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
            entries = await logged(egress, 2)
    assert b"502 cellwright stopped this request: no address was found for allowed.example" in lost
    assert b"cannot be reached" in refused
    assert [entry.verdict for entry in entries] == ["failed", "failed"]


async def test_second_request_on_a_connection_goes_nowhere(door: Path, origin: Server) -> None:
    first = f"POST http://allowed.example:{origin.port}/ HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
    second = "GET http://evil.example/ HTTP/1.1\r\n\r\n"
    async with proxying(door, rules_for(origin.port)) as egress:
        answer = await say(door, (first + second).encode())
        entries = await logged(egress, 1)
    assert answer.endswith(b"got hi")
    assert answer.count(b"HTTP/1.1") == 1
    assert len(entries) == 1
    assert origin.accepted == 1


async def test_answer_that_comes_before_the_upload_is_through_is_the_answer(door: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def refuse_early() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.shutdown(socket.SHUT_RD)
                connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
                connection.shutdown(socket.SHUT_WR)
                # The proxy lets go of the upload as soon as it has the answer, in the middle of it.
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(65_536):
                        pass

        thread = threading.Thread(target=refuse_early)
        thread.start()
        async with proxying(door, rules_for(port)):
            head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n"
            answer = await say(door, head.encode() + b"x" * 100_000)
        await in_thread(thread.join)
    assert answer.startswith(b"HTTP/1.1 413 Too Large")
    assert answer.endswith(b"no")


async def test_chunks_are_cut_anew(door: Path, origin: Server) -> None:
    head = f"POST http://allowed.example:{origin.port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with proxying(door, rules_for(origin.port)):
        answer = await say(door, f"{head}2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: dropped\r\n\r\n".encode())
    assert answer.endswith(b"got hello")


@pytest.mark.parametrize("chunks", ["2\r\nhello\r\n0\r\n\r\n", "zz\r\n", "5\nhello\r\n0\r\n\r\n", "-1\r\n"])
async def test_chunks_that_lie_are_refused(door: Path, origin: Server, chunks: str) -> None:
    head = f"POST http://allowed.example:{origin.port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with proxying(door, rules_for(origin.port)) as egress:
        answer = await say(door, (head + chunks).encode(), finish=True)
        (entry,) = await logged(egress, 1)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert entry.verdict == "malformed"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        b"GET http://allowed.example/ HTTP/1.1\nHost: evil\n\n\r\n\r\n",
        b"x" * 40_000,
        b"GET http://allowed.example/ HT",
    ],
)
async def test_malformed_request_is_answered_logged_and_goes_nowhere(
    door: Path, origin: Server, data: bytes
) -> None:
    async with proxying(door, rules_for(origin.port)) as egress:
        answer = await say(door, data, finish=True)
        (entry,) = await logged(egress, 1)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (entry.verdict, entry.host) == ("malformed", "")
    assert origin.accepted == 0


async def test_client_that_says_nothing_is_let_go(door: Path) -> None:
    async with proxying(door, NetworkRules(), limits=replace(UNHURRIED, head_timeout_s=0.05)) as egress:
        answer = await say(door, b"GET http://slow")
        (entry,) = await logged(egress, 1)
    assert b"took longer than 0.05 s" in answer
    assert entry.verdict == "malformed"


@pytest.mark.parametrize("limit", [{"idle_timeout_s": 0.05}, {"max_seconds": 0.05}])
async def test_origin_that_says_nothing_is_given_up(
    door: Path, origin: Server, limit: dict[str, float]
) -> None:
    async with proxying(door, rules_for(origin.port), limits=replace(UNHURRIED, **limit)) as egress:
        answer = await say(door, f"GET http://127.0.0.1:{origin.port}/silent HTTP/1.1\r\n\r\n".encode())
        (entry,) = await logged(egress, 1)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert entry.verdict == "cut"
    assert entry.setting in {"network_idle_s", "network_max_s"}


async def test_origin_that_speaks_no_http_is_told(door: Path, origin: Server) -> None:
    async with proxying(door, rules_for(origin.port)):
        answer = await say(door, f"GET http://127.0.0.1:{origin.port}/nonsense HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"not HTTP" in answer


@pytest.mark.parametrize("tunnel", [False, True])
async def test_download_stops_at_its_limit(door: Path, origin: Server, tunnel: bool) -> None:
    asked = f"GET http://127.0.0.1:{origin.port}/big HTTP/1.1\r\n\r\n"
    if tunnel:
        asked = f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\nGET /big HTTP/1.1\r\nHost: h\r\n\r\n"
    async with proxying(
        door, rules_for(origin.port), limits=replace(UNHURRIED, max_download_bytes=500_000)
    ) as egress:
        answer = await say(door, asked.encode())
        (entry,) = await logged(egress, 1)
    assert len(answer) <= 500_100
    assert (entry.verdict, entry.setting) == ("cut", "max_download_bytes")


async def test_upload_stops_at_its_limit_and_is_told_why(door: Path, origin: Server) -> None:
    head = f"POST http://127.0.0.1:{origin.port}/ HTTP/1.1\r\nContent-Length: 400000\r\n\r\n"
    async with proxying(
        door, rules_for(origin.port), limits=replace(UNHURRIED, max_upload_bytes=100_000)
    ) as egress:
        answer = await say(door, head.encode() + b"x" * 400_000)
        (entry,) = await logged(egress, 1)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"max_upload_bytes" in answer
    assert entry.verdict == "cut"


async def test_session_as_a_whole_has_a_limit(door: Path, origin: Server) -> None:
    async with proxying(
        door, rules_for(origin.port), limits=replace(UNHURRIED, max_total_bytes=600)
    ) as egress:
        request = f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n\r\n".encode()
        answers = [await say(door, request) for _ in range(4)]
        entries = await logged(egress, 4)
    assert answers[0].startswith(b"HTTP/1.1 200 ")
    assert answers[-1].startswith(b"HTTP/1.1 403 ")
    assert entries[-1].setting == "network_max_bytes"


async def test_connection_beyond_the_limit_is_told_and_the_next_works_again(
    door: Path, origin: Server
) -> None:
    request = f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n\r\n".encode()
    async with proxying(door, rules_for(origin.port), limits=replace(UNHURRIED, max_connections=2)) as egress:
        async with await knock(door), await knock(door):
            await until(lambda: egress.open_connections >= 2)
            crowded = await say(door, request)
        await logged(egress, 3)
        roomy = await say(door, request)
    assert crowded.startswith(b"HTTP/1.1 503 ")
    assert b"network_max_connections" in crowded
    assert roomy.startswith(b"HTTP/1.1 200 ")


async def test_hundreds_of_idle_connections_hold_few_descriptors(door: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with (
        proxying(door, NetworkRules(), limits=replace(UNHURRIED, max_connections=4)),
        contextlib.AsyncExitStack() as all_,
    ):
        before = descriptors()
        for _ in range(200):
            await all_.enter_async_context(await knock(door))
        # One end each of 200 connections is the test's own; the proxy's ends are few.
        assert descriptors() - before <= 200 + 4 + 8 + 2


async def test_slow_reader_slows_the_origin_and_not_the_proxy(door: Path, origin: Server) -> None:
    async with proxying(door, rules_for(origin.port)) as egress:
        request = f"GET http://127.0.0.1:{origin.port}/big HTTP/1.1\r\n\r\n".encode()
        async with await knock(door) as slow:
            await slow.send(request)
            quick = await say(door, f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n\r\n".encode())
            with fail_after():
                received = 0
                with contextlib.suppress(anyio.EndOfStream):
                    while True:
                        received += len(await slow.receive(1024))
        await logged(egress, 2)
    assert quick.startswith(b"HTTP/1.1 200 ")
    assert received > BIG

"""Fetching from real servers on loopback addresses that the settings list."""

from __future__ import annotations

import gzip
import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from cellwright import Settings
from cellwright.errors import FetchFailed, FetchRefused, FileRefused
from cellwright.sandbox.network_rules import Address
from cellwright.tools.web._client import freshness_s
from cellwright.tools.web.fetch import Fetcher, HostPace, next_turn
from tests.support.tools.webserver import Asked, Reply, WebServer, serving
from tests.system.tools.hostile_world import certified
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

HTML = {"Content-Type": "text/html; charset=utf-8"}
JSON = {"Content-Type": "application/json"}

Made = Callable[..., Fetcher]


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def fetcher_of(web: WebServer, tmp_path: Path) -> Made:
    """Fetchers of one storage directory that may reach the server."""

    def made(**changes: object) -> Fetcher:
        values = {
            "storage": tmp_path / "state",
            "fetch_interval_s": 0,
            "fetch_timeout_s": scaled(60),
            **web.allowed,
            **changes,
        }
        return Fetcher(Settings.model_validate(values))

    return made


@pytest.fixture
def fetcher(fetcher_of: Made) -> Fetcher:
    return fetcher_of()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "state" / "data"


async def test_page_comes_as_markdown_with_where_it_was_found(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/old"] = Reply(status=301, headers={"Location": "new?a=1#part"})
    web.routes["/new?a=1"] = Reply("<title>T</title><h1>Hi</h1><a href=x>y</a>", headers=HTML)
    found = await fetcher.fetch(web.url("/old"))
    assert (found.url, found.redirects) == (web.url("/new?a=1"), (web.url("/old"),))
    assert (found.title, found.text) == ("T", f"# Hi\n\n[y]({web.url('/x')})")
    assert found.saved is None


async def test_host_is_told_who_asks_and_nothing_else(web: WebServer, fetcher_of: Made) -> None:
    web.routes["/"] = Reply("hi", headers=HTML)
    await fetcher_of(fetch_user_agent="Tester/1").fetch(web.url("/"))
    assert set(web.asked[0].headers) == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert web.asked[0].headers["user-agent"] == "Tester/1"
    assert web.asked[0].headers["host"] == f"127.0.0.1:{web.port}"


async def test_cookies_and_passwords_are_not_carried_along(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/a"] = Reply(status=302, headers={"Location": "/b", "Set-Cookie": "session=1"})
    web.routes["/b"] = Reply("hi", headers=HTML)
    await fetcher.fetch(web.url("/a"))
    assert not {"cookie", "authorization", "referer"} & set(web.asked[1].headers)


async def test_coded_and_chunked_bodies_are_decoded(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/"] = Reply(
        gzip.compress(b"one") + gzip.compress(b"two"), headers={**HTML, "Content-Encoding": "gzip"}
    )
    assert (await fetcher.fetch(web.url("/"), type="text")).text == "onetwo"


async def test_json_has_an_outline_and_is_kept_as_it_was_written(
    web: WebServer, fetcher: Fetcher, data: Path
) -> None:
    written = '{"rows": [' + ", ".join('{"n": 1.10}' for _ in range(50)) + "]}"
    web.routes["/"] = Reply(written, headers=JSON)
    found = await fetcher.fetch(web.url("/"), type="json", save_beyond=100)
    assert found.outline.splitlines()[:2] == ["$: object, 1 key", "  rows: array, 50 \u00d7 object"]
    assert found.saved is not None
    assert (data / found.saved).read_text() == written


async def test_long_page_is_saved_and_a_short_one_is_not(
    web: WebServer, fetcher: Fetcher, data: Path
) -> None:
    web.routes["/long"] = Reply("<p>word " * 200, headers=HTML)
    found = await fetcher.fetch(web.url("/long"), save_beyond=100)
    assert found.saved is not None
    assert found.saved.startswith("fetched/127-0-0-1-long-")
    assert (data / found.saved).read_text() == found.text
    assert (await fetcher.fetch(web.url("/long"), save_beyond=100_000)).saved is None


async def test_file_gets_a_name_that_nothing_has_yet(web: WebServer, fetcher: Fetcher, data: Path) -> None:
    disposition = {"Content-Disposition": 'attachment; filename="../may.csv"'}
    web.routes["/d"] = Reply(b"a,b\n1,2\n", headers=disposition)
    first = await fetcher.fetch(web.url("/d"), type="file")
    second = await fetcher.fetch(web.url("/d"), type="file")
    third = await fetcher.fetch(web.url("/d"), type="file", working_dir="prices", path="june/x.csv")
    assert [first.saved, second.saved, third.saved] == [
        "fetched/may.csv",
        "fetched/may-2.csv",
        "prices/june/x.csv",
    ]
    assert all((data / str(one.saved)).read_bytes() == b"a,b\n1,2\n" for one in (first, second, third))


@pytest.mark.parametrize("path", ["../out.csv", "/etc/out.csv", "a/../../out.csv", "a\0b"])
async def test_file_never_lands_outside(web: WebServer, fetcher: Fetcher, path: str) -> None:
    with pytest.raises(FileRefused):
        await fetcher.fetch(web.url("/d"), type="file", path=path)
    assert web.asked == []


async def test_what_is_no_page_is_read_as_what_it_is(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/json"] = Reply("[1]", headers=JSON)
    web.routes["/csv"] = Reply("a,b", headers={"Content-Type": "text/csv"})
    web.routes["/x.png"] = Reply(b"\x89PNG", headers={"Content-Type": "image/png"})
    assert (await fetcher.fetch(web.url("/json"))).outline == "$: array, 1 \u00d7 number"
    assert (await fetcher.fetch(web.url("/csv"))).text == "a,b"
    picture = await fetcher.fetch(web.url("/x.png"))
    assert (picture.type, picture.saved) == ("file", "fetched/x.png")


async def test_error_answers_are_told_with_what_the_host_says(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/"] = Reply('{"error": "no such movie"}', 404, headers=JSON)
    with pytest.raises(FetchFailed, match=r"404 Not Found.*no such movie") as raised:
        await fetcher.fetch(web.url("/"))
    assert raised.value.status == 404


async def test_json_that_is_none_is_refused(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/"] = Reply("<html>no", headers=HTML)
    with pytest.raises(FetchFailed, match="cannot be read as json"):
        await fetcher.fetch(web.url("/"), type="json")


async def test_busy_host_is_asked_once_more_when_it_says_when(web: WebServer, fetcher: Fetcher) -> None:
    def answer(_: Asked) -> Reply:
        return (
            Reply("hi", headers=HTML)
            if len(web.asked) > 1
            else Reply(status=429, headers={"Retry-After": "0"})
        )

    web.routes["/soon"] = answer
    web.routes["/later"] = Reply(status=503, headers={"Retry-After": "3600"})
    web.routes["/never"] = Reply(status=503, headers={"Retry-After": "0"})
    assert (await fetcher.fetch(web.url("/soon"))).text == "hi"
    with pytest.raises(FetchFailed, match="left alone for 3600 s"):
        await fetcher.fetch(web.url("/later"))
    asked = len(web.asked)
    with pytest.raises(FetchFailed, match="503"):
        await fetcher.fetch(web.url("/never"))
    assert len(web.asked) == asked + 2


# The cache ------------------------------------------------------------------------------------------------------------


async def test_answer_is_used_again_as_long_as_it_says(web: WebServer, fetcher: Fetcher) -> None:
    web.routes["/"] = Reply("hi", headers={**HTML, "Cache-Control": "max-age=600"})
    first, second = await fetcher.fetch(web.url("/")), await fetcher.fetch(web.url("/"))
    assert (first.cached, second.cached, second.text) == ("", "fresh", "hi")
    refreshed = await fetcher.fetch(web.url("/"), refresh=True)
    assert refreshed.cached == ""
    assert len(web.asked) == 2


@pytest.mark.parametrize(
    ("told", "asks"), [({"ETag": '"v1"'}, "if-none-match"), ({"Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}, "if-modified-since")]
)  # fmt: skip
async def test_host_is_asked_whether_it_is_still_so(
    web: WebServer, fetcher: Fetcher, told: dict[str, str], asks: str
) -> None:
    def answer(asked: Asked) -> Reply:
        known = asked.headers.get(asks) == next(iter(told.values()))
        return Reply(status=304, headers=told) if known else Reply("<p>hi", headers={**HTML, **told})

    web.routes["/"] = answer
    await fetcher.fetch(web.url("/"))
    again = await fetcher.fetch(web.url("/"))
    assert (again.cached, again.text) == ("revalidated", "hi")


async def test_what_may_not_be_kept_is_not(web: WebServer, fetcher: Fetcher, tmp_path: Path) -> None:
    web.routes["/"] = Reply("hi", headers={**HTML, "ETag": '"v"', "Cache-Control": "no-store, max-age=600"})
    await fetcher.fetch(web.url("/"))
    assert (await fetcher.fetch(web.url("/"))).cached == ""
    kept = tmp_path / "state" / "fetch" / "cache"
    assert not kept.exists() or not list(kept.iterdir())


async def test_cache_keeps_to_its_bound(web: WebServer, fetcher_of: Made, tmp_path: Path) -> None:
    fetcher = fetcher_of(fetch_cache_bytes=10_000)
    for number in range(12):
        web.routes[f"/{number}"] = Reply("x" * 2_000, headers={**HTML, "ETag": '"v"'})
        await fetcher.fetch(web.url(f"/{number}"), type="text")
    kept = list((tmp_path / "state" / "fetch" / "cache").iterdir())
    assert 0 < sum(one.stat().st_size for one in kept) <= 10_000


async def test_closed_network_closes_the_cache_too(web: WebServer, fetcher_of: Made) -> None:
    web.routes["/"] = Reply("hi", headers={**HTML, "Cache-Control": "max-age=600"})
    await fetcher_of().fetch(web.url("/"))
    with pytest.raises(FetchRefused, match="network is closed") as raised:
        await fetcher_of(network="off").fetch(web.url("/"))
    assert f'"127.0.0.1:{web.port}" to network_allow' in (raised.value.hint or "")
    assert raised.value.setting == "network"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": 'private, max-age="60"', "age": "20"}, 40),
        ({"cache-control": "no-cache, max-age=60"}, 0),
        ({"cache-control": "max-age=99999999"}, 24 * 3600),
        ({"cache-control": "max-age=-5"}, 0),
        ({"expires": "Sun, 01 Nov 2026 00:01:00 GMT", "date": "Sun, 01 Nov 2026 00:00:00 GMT"}, 60),
        ({"expires": "0", "date": "Sun, 01 Nov 2026 00:00:00 GMT"}, 0),
        ({}, 0),
    ],
)
def test_freshness_is_what_an_answer_says_itself(headers: dict[str, str], expected: float) -> None:
    assert freshness_s(headers) == expected


# Turns, the log, encryption ------------------------------------------------------------------------------------------------


def test_a_few_requests_go_at_once_and_the_rest_in_turn() -> None:
    due, waits = 100.0, []
    for _ in range(6):
        wait_s, due = next_turn(due, 100.0, 2.0)
        waits.append(wait_s)
    assert waits == [0, 0, 0, 0, 2, 4]
    assert next_turn(due, 1_000.0, 2.0) == (0, 1_002)


async def test_turn_that_would_be_too_late_is_refused(web: WebServer, fetcher_of: Made) -> None:
    web.routes["/"] = Reply("hi", headers=HTML)
    fetcher = fetcher_of(fetch_interval_s=3600)
    for _ in range(4):
        await fetcher.fetch(web.url("/"), type="text")
    with pytest.raises(FetchRefused, match="asked too often") as raised:
        await fetcher.fetch(web.url("/"), type="text")
    assert raised.value.setting == "fetch_interval_s"
    last = fetcher.log.read().entries[-1]
    assert (last.verdict, last.setting, last.host) == ("refused", "fetch_interval_s", "127.0.0.1")


async def test_time_begins_when_there_is_room_for_a_fetch(web: WebServer, fetcher_of: Made) -> None:
    """Else whoever waits would have none left, however much that is."""
    released = threading.Event()

    def held(_: Asked) -> Reply:
        released.wait()
        return Reply()

    async def too_long(fetcher: Fetcher) -> None:
        with pytest.raises(FetchFailed, match="fetch_timeout_s"):
            await fetcher.fetch(web.url("/held"))

    async def last(fetcher: Fetcher) -> None:
        with suppress(FetchFailed):
            told.append((await fetcher.fetch(web.url("/"))).text)

    web.routes |= {"/held": held, "/": Reply("hi", headers=HTML)}
    told: list[str] = []
    try:
        # The first of these that is enough for a page: how long that takes depends on what else the machine does.
        for limit_s in (2, 10, 50):
            async with anyio.create_task_group() as fetches:
                fetcher = fetcher_of(fetch_timeout_s=limit_s)
                for one in (too_long, too_long, too_long, too_long, last):
                    fetches.start_soon(one, fetcher)
            if told:
                break
    finally:
        released.set()
    assert told == ["hi"]


async def test_turn_of_nobody_who_need_not_wait_is_refused() -> None:
    await HostPace(interval_s=1).turn("host", until=anyio.current_time())


async def test_disk_that_takes_neither_cache_nor_log_does_not_undo_a_fetch(
    web: WebServer, fetcher: Fetcher, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "fetch").write_text("where their directory should be")
    web.routes["/"] = Reply("hi", headers={**HTML, "Cache-Control": "max-age=600"})
    assert (await fetcher.fetch(web.url("/"))).text == "hi"
    assert "answer_not_kept host=127.0.0.1" in caplog.text
    assert "request_not_logged host=127.0.0.1 verdict=allowed" in caplog.text


async def test_every_request_is_in_the_log_and_outlives_its_fetcher(web: WebServer, fetcher_of: Made) -> None:
    web.routes["/a"] = Reply(status=302, headers={"Location": "/b"})
    web.routes["/b"] = Reply("hi", headers={**HTML, "Cache-Control": "max-age=60"})
    for _ in range(2):
        await fetcher_of().fetch(web.url("/a"))
    for refused in ("http://10.0.0.1/", "http://user@127.0.0.1/"):
        with pytest.raises(FetchRefused):
            await fetcher_of().fetch(refused)
    log = fetcher_of().log.read()
    told = [(entry.number, entry.verdict, entry.address, entry.reason) for entry in log.entries]
    assert told[:4] == [
        (1, "allowed", "127.0.0.1", ""),
        (2, "allowed", "127.0.0.1", ""),
        (3, "allowed", "127.0.0.1", ""),
        (4, "allowed", None, "from the cache"),
    ]
    assert [verdict for _, verdict, _, _ in told[4:]] == ["refused", "malformed"]
    assert log.entries[1].bytes_down > 0


async def test_encrypted_pages_come_from_whoever_proves_the_name(web: WebServer, tmp_path: Path) -> None:
    served, trusted = certified(tmp_path)
    web.socket = served.wrap_socket(web.socket, server_side=True)
    web.routes["/"] = Reply("<p>safe", headers=HTML)

    async def loopback(host: str, port: int) -> list[Address]:
        assert (host, port) == ("secure.example", web.port)
        return [ipaddress.ip_address("127.0.0.1")]

    allowed = [f"secure.example:{web.port}", f"127.0.0.1:{web.port}"]
    settings = Settings(
        storage=tmp_path / "state", network="allow", network_allow=tuple(allowed), fetch_timeout_s=scaled(60)
    )
    fetcher = Fetcher(settings, resolve=loopback, tls=lambda: trusted)
    assert (await fetcher.fetch(web.url("/", "secure.example", "https"))).text == "safe"
    assert web.asked[0].headers["host"] == f"secure.example:{web.port}"
    with pytest.raises(FetchFailed, match="not to be trusted"):
        await Fetcher(settings, resolve=loopback).fetch(web.url("/", "secure.example", "https"))


async def test_line_that_a_killed_daemon_left_half_written_is_passed_over(
    web: WebServer, fetcher_of: Made, tmp_path: Path
) -> None:
    path = tmp_path / "state" / "fetch" / "requests.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"number": 7, "ti\n')
    web.routes["/"] = Reply("hi", headers=HTML)
    await fetcher_of().fetch(web.url("/"), type="text")
    assert [entry.number for entry in fetcher_of().log.read().entries] == [1]

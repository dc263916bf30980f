"""What fetching lets through beside the request itself: the cache, the log, the files that it writes, odd redirects."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cellwright import Settings
from cellwright.errors import FetchRefused, FileRefused, FileTooLarge
from cellwright.sandbox.network_rules import Address
from cellwright.tools.web.body_reader import Order, Reading
from cellwright.tools.web.fetch import Fetcher
from tests.kernel.engine.conftest import OpenEngine
from tests.matrix import first_of
from tests.support.tools.webserver import Asked, Reply, WebServer, serving
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

FRESH = {"Content-Type": "text/plain", "Cache-Control": "max-age=600"}
Made = Callable[..., Fetcher]


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture
def fetcher_of(web: WebServer, tmp_path: Path) -> Made:
    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    def made(**changes: object) -> Fetcher:
        values = {
            "storage": tmp_path / "state",
            "fetch_interval_s": 0,
            "fetch_timeout_s": scaled(60),
            **web.allowed,
            **changes,
        }
        return Fetcher(Settings.model_validate(values), resolve=resolve)

    return made


async def test_answer_kept_from_an_address_that_is_closed_since_is_not_given_again(
    web: WebServer, fetcher_of: Made
) -> None:
    web.routes["/"] = Reply("inside", headers=FRESH)
    url, name = f"http://name.test:{web.port}/", f"name.test:{web.port}"
    opened = fetcher_of(network="allow", network_allow=[name, f"127.0.0.1:{web.port}"])
    assert (await opened.fetch(url, type="text")).text == "inside"
    assert (await opened.fetch(url, type="text")).cached == "fresh"
    with pytest.raises(FetchRefused, match=r"leads to 127\.0\.0\.1"):
        await fetcher_of(network="allow", network_allow=[name]).fetch(url, type="text")
    with pytest.raises(FetchRefused, match="deny-list"):
        await fetcher_of(
            network="allow", network_allow=[name, f"127.0.0.1:{web.port}"], network_deny=["127.0.0.0/8"]
        ).fetch(url, type="text")


async def test_answer_that_depends_on_what_is_accepted_is_kept_for_that_only(
    web: WebServer, fetcher_of: Made
) -> None:
    def negotiated(asked: Asked) -> Reply:
        as_json = asked.headers["accept"].startswith("application/json")
        kind = "application/json" if as_json else "text/plain"
        return Reply("[1]" if as_json else "one", headers={**FRESH, "Content-Type": kind, "Vary": "Accept"})

    web.routes["/"] = negotiated
    fetcher = fetcher_of()
    assert (await fetcher.fetch(web.url("/"), type="text")).text == "one"
    assert (await fetcher.fetch(web.url("/"), type="json")).text == "[1]"
    assert (await fetcher.fetch(web.url("/"), type="json")).cached == "fresh"


async def test_log_holds_no_password_and_no_address_beyond_its_host(web: WebServer, fetcher_of: Made) -> None:
    web.routes["/a?token=hush"] = Reply(status=302, headers={"Location": "ftp://u:hush@127.0.0.1/hush"})
    fetcher = fetcher_of()
    urls = ["http://u:hush@127.0.0.1/", "gopher://127.0.0.1/hush", web.url("/a?token=hush")]
    for url in urls:
        with pytest.raises(FetchRefused):
            await fetcher.fetch(url)
    told = fetcher.log.read().entries
    assert [entry.verdict for entry in told] == ["malformed", "malformed", "allowed", "refused"]
    assert "hush" not in str(told)
    with pytest.raises(FetchRefused) as raised:
        await fetcher.fetch("http://u:hush@127.0.0.1/")
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("location", ["//[", "http://[::1", "http://]/", "//[v1.x]/"])
async def test_redirect_to_no_address_is_refused_as_such(
    web: WebServer, fetcher_of: Made, location: str
) -> None:
    web.routes["/"] = Reply(status=302, headers={"Location": location})
    with pytest.raises(FetchRefused):
        await fetcher_of().fetch(web.url("/"))


async def test_url_that_is_no_text_is_refused(web: WebServer, fetcher_of: Made) -> None:
    with pytest.raises(FetchRefused, match="no character"):
        await fetcher_of().fetch(web.url("/\ud800"))


@pytest.mark.parametrize(
    "path", first_of([".git/hooks/pre-commit", ".venv/lib/evil.pth", "./.venv//evil.pth"], 1)
)
async def test_file_for_a_session_in_a_project_is_never_one_that_others_run(
    web: WebServer, open_here: OpenEngine, tmp_path: Path, path: str
) -> None:
    (tmp_path / ".git").mkdir()
    web.routes["/"] = Reply("import os", headers={"Content-Type": "text/plain"})
    async with open_here(fetch_interval_s=0, fetch_timeout_s=scaled(60), **web.allowed) as engine:
        session = await engine.create("book", mode="direct")
        assert session.mode == "direct"
        fetcher = Fetcher(engine.settings)
        with pytest.raises(FileRefused, match="others run"):
            await fetcher.fetch(web.url("/"), type="file", session=session, path=path)
        assert (await fetcher.fetch(web.url("/"), type="file", session=session, path="a/b")).saved == "a/b"


async def test_files_from_the_web_fill_no_more_than_a_directory_may_hold(
    web: WebServer, fetcher_of: Made
) -> None:
    web.routes["/"] = Reply("x" * 600_000, headers={"Content-Type": "text/plain"})
    fetcher = fetcher_of(max_session_disk=1 << 20)
    await fetcher.fetch(web.url("/"), type="file")
    with pytest.raises(FileTooLarge, match="max_session_disk"):
        await fetcher.fetch(web.url("/"), type="file")
    read = await fetcher.fetch(web.url("/"), type="text", save_beyond=1_000)
    assert read.saved is None
    assert "max_session_disk" in read.notes[-1]
    assert len(read.text) == 600_000


async def test_process_that_reads_a_page_has_neither_files_nor_network(tmp_path: Path) -> None:
    # What it does before its first page, then what a page that took it over would do.
    program = """
import socket, sys
from cellwright.tools.web import body_reader as webreading
def take_over(order):
    told = []
    for reach in (lambda: open(order.url).read(), lambda: open(order.url, "w"), socket.socket):
        try:
            told.append(str(reach()))
        except OSError as error:
            told.append("refused")
    return webreading.Reading(" ".join(told))
webreading.read = take_over
webreading.main()
"""
    secret = tmp_path / "secret.txt"
    secret.write_text("hush")
    order = Order(b"", "text/plain", str(secret), "text", 1 << 30, 10)
    done = subprocess.run(
        [sys.executable, "-c", program], input=msgspec.msgpack.encode(order), capture_output=True, check=True
    )
    told = msgspec.msgpack.decode(done.stdout, type=Reading)
    assert told.text == "refused refused refused"

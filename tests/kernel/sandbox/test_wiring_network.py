"""A session's one door to the network: real kernels, the real proxy, and servers on loopback that are listed."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine, Session
from cellwright.audit import read_lines
from cellwright.engine import Event
from cellwright.errors import CheckpointRefused, NetworkRuleInvalid
from tests.conftest import Require
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.sandbox.conftest import let_others_in
from tests.waiting import UNHURRIED, fail_after

pytestmark = pytest.mark.anyio

# Not 127.0.0.1: what is there is the box's own, and reached without the proxy.
ADDRESS = "127.0.0.2"
CODE = "import urllib.request as r\nprint(r.urlopen('{url}', timeout=60).read().decode())"


class EarlyResponder(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the standard library's name
        body = b"good day"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # the standard library's name
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer((ADDRESS, 0), EarlyResponder) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"{ADDRESS}:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, server: str) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("network")
    async with open_at(
        root, network="allow", network_allow=[server], standby_kernels=1, **UNHURRIED
    ) as engine:
        yield engine
    end_host(root / "state")


async def run(session: Session, code: str) -> tuple[str, str]:
    execution = await (await session.execute_code(code)).wait()
    return execution.id, execution.text.strip()


def audited(engine: Engine, session: Session) -> list[dict[str, Any]]:
    """What the audit log has of a session's network."""
    lines = [json.loads(line) for line in read_lines(engine.settings.storage)]
    return [line for line in lines if (line.get("session"), line["kind"]) == (session.id, "network")]


async def request_event(engine: Engine, session: Session, code: str) -> tuple[str, str, Event]:
    """Run code that makes one request; what it said, and how the request was told."""
    with engine.subscribe(session.id) as events, fail_after():
        execution_id, text = await run(session, code)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.network.request":
                return execution_id, text, event
    raise AssertionError("the stream of events ended")


async def test_code_reaches_a_listed_address_and_the_request_is_told_with_its_execution(
    engine: Engine, server: str
) -> None:
    session = await engine.create("network", mode="private")
    execution_id, text, event = await request_event(engine, session, CODE.format(url=f"http://{server}/"))
    assert text == "good day"
    assert (event.data["host"], event.data["verdict"], event.data["execution"]) == (
        ADDRESS,
        "allowed",
        execution_id,
    )
    assert event.data["bytes_down"] > 0
    use = await engine.network_log(session.id)
    assert [(entry.host, entry.port, entry.verdict) for entry in use.entries] == [
        (ADDRESS, int(server.rpartition(":")[2]), "allowed")
    ]
    opened, reached = audited(engine, session)
    assert opened["about"] == {"kernel": f"{session.id}.1", "opened": "allow", "allow": [server], "deny": []}
    assert reached["about"] == {"to": server, "verdict": "allowed"}


async def test_code_does_not_reach_an_address_that_is_not_listed_and_reads_which_list(engine: Engine) -> None:
    session = await engine.create("network", mode="private")
    _, text, event = await request_event(engine, session, CODE.format(url="http://192.0.2.7/"))
    assert "network_allow" in text
    assert (event.data["verdict"], event.data["setting"]) == ("refused", "network_allow")
    await run(session, CODE.format(url="http://192.0.2.7/again"))
    (refused,) = audited(engine, session)[1:]
    assert refused["about"] == {"to": "192.0.2.7:80", "verdict": "refused"}
    assert "(network_allow)" in refused["refused"]


async def test_nothing_leads_out_but_the_proxy(engine: Engine, server: str) -> None:
    session = await engine.create("network", mode="private")
    host, _, port = server.rpartition(":")
    _, text = await run(session, f"import socket\nsocket.create_connection(({host!r}, {port}), 3)")
    assert "Error" in text
    _, text = await run(session, "import os\nprint(os.path.exists('/ipc/net'))")
    assert text == "False"


async def test_code_neither_sees_its_relay_nor_looks_into_it_nor_ends_it(engine: Engine, server: str) -> None:
    session = await engine.create("network", mode="private")
    code = (
        "import os\n"
        "def looks(pid):\n"
        "    try:\n"
        "        return bool(os.listdir(f'/proc/{pid}/fd')) or True\n"
        "    except OSError:\n"
        "        return False\n"
        "others = [pid for pid in range(1, os.getpid())]\n"
        "seen = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]\n"
        "print(len(others), seen, [pid for pid in others if looks(pid)])"
    )
    assert (await run(session, code))[1] == "2 [] []"
    await run(session, "for pid in others:\n    try: os.kill(pid, 9)\n    except OSError: pass")
    assert (await run(session, CODE.format(url=f"http://{server}/")))[1] == "good day"


async def test_a_subprocess_finds_the_proxy_by_its_environment(engine: Engine, server: str) -> None:
    session = await engine.create("network", mode="private")
    inner = CODE.format(url=f"http://{server}/")
    code = f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {inner!r}], capture_output=True, text=True).stdout)"
    _, text, _ = await request_event(engine, session, code)
    assert text == "good day"


async def test_one_sessions_requests_are_not_anothers(engine: Engine, server: str) -> None:
    one, other = [await engine.create(name, mode="private") for name in ("one", "another")]
    await request_event(engine, one, CODE.format(url=f"http://{server}/"))
    assert len((await engine.network_log(one.id)).entries) == 1
    assert (await engine.network_log(other.id)).entries == ()


async def test_a_new_kernel_has_a_door_too_and_the_log_stays(engine: Engine, server: str) -> None:
    session = await engine.create("network", mode="private")
    await request_event(engine, session, CODE.format(url=f"http://{server}/"))
    await session.restart()
    _, text, _ = await request_event(engine, session, CODE.format(url=f"http://{server}/"))
    assert text == "good day"
    assert len((await engine.network_log(session.id)).entries) == 2


@pytest.mark.matrix  # `languages/test_contract` and `test_ends` reach none
async def test_without_the_setting_there_is_no_proxy_and_no_network(tmp_path: Path, server: str) -> None:
    async with open_at(tmp_path, **UNHURRIED) as engine:
        session = await engine.create("network", mode="private")
        _, text = await run(session, "import os\nprint([n for n in os.environ if 'proxy' in n.lower()])")
        assert text == "[]"
        _, text = await run(session, CODE.format(url=f"http://{server}/"))
        assert "Error" in text
    end_host(tmp_path / "state")


async def test_an_entry_that_cannot_be_understood_is_refused_when_the_engine_opens(tmp_path: Path) -> None:
    with pytest.raises(NetworkRuleInvalid):
        async with open_at(tmp_path, network="allow", network_allow=["http://example.org/"]):
            raise AssertionError("it opened")


async def test_without_namespaces_there_is_neither_network_nor_checkpoint_and_the_session_says_so(
    server: str, open_root: Path, require: Require
) -> None:
    let_others_in(open_root, require)
    async with open_at(
        open_root, network="allow", network_allow=[server], sandbox_namespaces=False, **UNHURRIED
    ) as engine:
        with engine.subscribe() as events:
            session = await engine.create("network", mode="private")
            told = [event async for event in _until_active(events)][-1]
        assert any("the network stays closed" in loss for loss in told.data["losses"])
        assert session.network == "off"
        _, text = await run(session, CODE.format(url=f"http://{server}/"))
        assert "Error" in text
        with pytest.raises(CheckpointRefused, match="tier C"):
            await session.checkpoint()
    end_host(open_root / "state")


async def _until_active(events: object) -> AsyncIterator[Event]:
    async for event in events:  # type: ignore[attr-defined]  # a subscription
        yield event
        if event.data.get("session") == "active":
            return

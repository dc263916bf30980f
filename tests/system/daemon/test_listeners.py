"""Who may speak to a TCP listener, and what it hears: MCP over HTTP, events as server-sent events and WebSocket."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.matrix import first_of
from tests.system.daemon.conftest import CLIENT, LONG_WAIT_MS, Place, Pump, files_with, place_in, wait_until
from tests.waiting import LIMIT_S

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT},
}
# The most that the system keeps for one connection is 4 on Linux, unless it was told otherwise.
MEGABYTES_ON_THE_WAY = 6
KINDS = {
    "notebook.cell.executing",
    "notebook.cell.output",
    "notebook.cell.completed",
    "notebook.state.changed",
}


@dataclass
class Served:
    """A listener that somebody keeps open, and its token."""

    place: Place
    process: subprocess.Popen[bytes]
    address: str
    token: str

    @contextmanager
    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Any = None,
        token: str | None = None,
        room: int | None = None,
        **headers: str,
    ) -> Iterator[http.client.HTTPResponse]:
        """Ask something; ``room`` for so many bytes that nobody has read yet, and no more."""
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT_S)
        if room is not None:
            connection.sock = socket.socket()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            connection.sock.settimeout(LIMIT_S)
            connection.sock.connect((connection.host, connection.port))
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        with closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None, sent)
            with connection.getresponse() as response:
                yield response

    def status_of(self, path: str, **options: Any) -> int:
        with self.ask(path, **options) as response:
            return response.status

    def pump(self) -> Pump:
        pump = self.place.pump()
        pump.initialize()
        return pump


@contextmanager
def served(place: Place, *arguments: str) -> Iterator[Served]:
    place.start_daemon()
    process = place.start("serve", "--port", "0", "--json", *arguments)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read().decode() if process.stderr else ""
    told = json.loads(line)
    token = place.environment.get("CELLWRIGHT_TOKEN") or Path(told["token_file"]).read_text().strip()
    yield Served(place, process, urlsplit(told["mcp"]).netloc, token)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0


@pytest.fixture(scope="module")
def http_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with place_in(tmp_path_factory.mktemp("http")) as place, served(place) as listener:
        yield listener


def test_a_listener_is_on_loopback_and_its_token_is_for_this_user_alone(http_place: Served) -> None:
    assert http_place.address.startswith("127.0.0.1:")
    file = Path(http_place.place.paths.token)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(http_place.token) >= 40


def test_where_nobody_issues_tokens_a_stranger_is_pointed_nowhere(http_place: Served) -> None:
    with http_place.ask("/mcp") as refused:
        assert refused.getheader("WWW-Authenticate") == 'Bearer realm="cellwright"'
    assert http_place.status_of("/.well-known/oauth-protected-resource/mcp") == 303, (
        "it is a path of the page"
    )


@pytest.mark.parametrize("path", ["/mcp", "/events", "/mcp/nothing", "/events/nothing"])
def test_without_the_token_nothing_answers(http_place: Served, path: str) -> None:
    assert http_place.status_of(path) == 401
    assert http_place.status_of(path, token="x" * 43) == 401
    assert http_place.status_of(path, Authorization=f"Basic {http_place.token}") == 401
    assert http_place.status_of(f"{path}?token={http_place.token}") == 401
    with http_place.ask(path) as response:
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/", "/nothing/here", "/live", "/sessions/s-1"])
def test_what_is_for_people_leads_to_signing_in_whatever_token_a_machine_brings(
    http_place: Served, path: str
) -> None:
    for token in (None, http_place.token):
        with http_place.ask(path, token=token) as response:
            assert response.status == 303
            assert response.headers["Location"].startswith("/enter")
        assert http_place.status_of(path, token=token, method="POST") == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "user@127.0.0.1", "[::1", "10.0.0.1"]
)
def test_a_wrong_host_is_refused_even_with_the_token(http_place: Served, host: str) -> None:
    assert http_place.status_of("/mcp", token=http_place.token, Host=host) in {400, 421}


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"]
)
def test_a_wrong_origin_is_refused_even_with_the_token(http_place: Served, origin: str) -> None:
    assert http_place.status_of("/mcp", token=http_place.token, Origin=origin) == 403
    with pytest.raises(InvalidStatus) as refused:
        connect_websocket(
            f"ws://{http_place.address}/events",
            origin=origin,
            additional_headers={"Authorization": f"Bearer {http_place.token}"},
        )
    assert refused.value.response.status_code == 403


def test_localhost_and_the_listeners_own_origin_are_let_in(http_place: Served) -> None:
    port = http_place.address.rpartition(":")[2]
    host = f"localhost:{port}"
    accept = "application/json, text/event-stream"
    for headers in ({}, {"Host": host}, {"Host": host, "Origin": f"http://{host}"}):
        with http_place.ask(
            "/mcp",
            method="POST",
            body=INITIALIZE,
            token=http_place.token,
            Accept=accept,
            Content_Type="application/json",
            **headers,
        ) as response:
            assert response.status == 200
            assert b"cellwright" in response.read()


def test_sessions_made_over_http_are_seen_on_the_socket(http_place: Served) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content_Type": "application/json"}
    with http_place.ask(
        "/mcp", method="POST", body=INITIALIZE, token=http_place.token, **headers
    ) as response:
        response.read()
        headers["Mcp_Session_Id"] = response.headers["Mcp-Session-Id"]
    call = {"name": "notebook_create", "arguments": {"name": "over http"}}
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    with http_place.ask("/mcp", method="POST", body=body, token=http_place.token, **headers) as response:
        told = response.read().decode()
    listed = http_place.pump().call("notebook_list", filter="all")["sessions"]
    made = [session["session_id"] for session in listed if session["notebook"].endswith("over_http")]
    assert made
    assert made[0] in told


def connect_websocket(url: str, **options: Any) -> ClientConnection:
    """A connection with the limit of all others here, which sends no pings."""
    return connect(url, open_timeout=LIMIT_S, ping_interval=None, **options)


def sse_events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def run_a_cell(pump: Pump, session: str, code: str = "print('seen')") -> None:
    cell = pump.call("cell_add", session_id=session, content=code)["cell_id"]
    run = {"session_id": session, "cell_id": cell, "wait": LONG_WAIT_MS, "response_format": "json"}
    assert pump.call("cell_execute", **run)["status"] == "ok"


def test_server_sent_events_tell_the_past_and_then_the_present(http_place: Served) -> None:
    pump = http_place.pump()
    session = pump.call("notebook_create", name="followed")["session_id"]
    run_a_cell(pump, session)
    with http_place.ask(f"/events?since=0&session={session}", token=http_place.token) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = sse_events(response)
        past = [next(events)]
        while past[-1]["kind"] != "notebook.cell.completed":
            past.append(next(events))
        run_a_cell(pump, session, "print('and now')")
        while (now := next(events))["kind"] != "notebook.cell.output":
            pass
    assert {event["kind"] for event in past} == KINDS
    assert "and now" in json.dumps(now["data"])
    assert {event["session_id"] for event in past} == {session}
    assert now["seq"] > past[-1]["seq"]


def test_a_listener_that_reconnects_goes_on_after_the_last_event_it_had(http_place: Served) -> None:
    pump = http_place.pump()
    session = pump.call("notebook_create", name="reconnected")["session_id"]
    run_a_cell(pump, session)
    with http_place.ask(f"/events?since=0&session={session}", token=http_place.token) as response:
        events = sse_events(response)
        first, second = next(events), next(events)
    with http_place.ask(
        f"/events?session={session}", token=http_place.token, Last_Event_ID=str(first["seq"])
    ) as response:
        assert next(sse_events(response)) == second


def test_a_websocket_delivers_the_same_events(http_place: Served) -> None:
    pump = http_place.pump()
    session = pump.call("notebook_create", name="by websocket")["session_id"]
    run_a_cell(pump, session)
    headers = {"Authorization": f"Bearer {http_place.token}"}
    url = f"ws://{http_place.address}/events?since=0&session={session}"
    with connect_websocket(url, additional_headers=headers) as socket:
        seen = [json.loads(socket.recv())]
        while seen[-1]["kind"] != "notebook.cell.completed":
            seen.append(json.loads(socket.recv()))
    with http_place.ask(f"/events?since=0&session={session}", token=http_place.token) as response:
        events = sse_events(response)
        assert [next(events) for _ in seen] == seen


def test_a_websocket_without_the_token_is_refused(http_place: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect_websocket(f"ws://{http_place.address}/events")
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize(
    ("query", "status"), [("since=soon", 400), ("since=-1", 400), ("session=s-none", 404)]
)
def test_an_event_feed_that_makes_no_sense_is_refused(http_place: Served, query: str, status: int) -> None:
    with http_place.ask(f"/events?{query}", token=http_place.token) as response:
        assert response.status == status
        assert "error" in json.load(response)
    with pytest.raises(InvalidStatus) as refused:
        connect_websocket(
            f"ws://{http_place.address}/events?{query}",
            additional_headers={"Authorization": f"Bearer {http_place.token}"},
        )
    assert refused.value.response.status_code == status


def test_a_listener_that_is_too_slow_is_told_what_it_missed(tmp_path: Path) -> None:
    with place_in(tmp_path, CELLWRIGHT_EVENT_BUFFER="1") as place, served(place) as listener:
        pump = listener.pump()
        session = pump.call("notebook_create", name="too fast")["session_id"]
        with listener.ask(f"/events?session={session}", token=listener.token, room=4096) as response:
            assert response.readline() == b": cellwright\n"
            events = sse_events(response)
            # More than lies on the way to somebody who does not read: then what happens is not waited for.
            for _ in range(MEGABYTES_ON_THE_WAY):
                run_a_cell(pump, session, "for n in range(200): print('x' * 5_000, flush=True)")
            while (missed := next(events))["kind"] != "missed":
                pass
        assert missed["count"] >= 1
        assert missed["first_seq"] <= missed["last_seq"]
        with listener.ask(
            f"/events?since={missed['first_seq'] - 1}&session={session}", token=listener.token
        ) as response:
            assert next(sse_events(response))["seq"] == missed["first_seq"], "and can have it"


def test_a_given_token_counts_and_is_written_nowhere(tmp_path: Path) -> None:
    token = "given-by-the-operator-0123456789"  # noqa: S105  # not one of anything real
    with place_in(tmp_path, CELLWRIGHT_TOKEN=token) as place:
        with served(place) as listener:
            assert listener.status_of("/mcp/nothing", token=token) == 404
            assert listener.status_of("/mcp/nothing", token=token[:-1]) == 401
        assert files_with(place.storage, token) == []


def test_a_short_token_is_refused(place: Place) -> None:
    place.environment["CELLWRIGHT_TOKEN"] = "short"  # noqa: S105  # what this is about
    done = place.run("serve", "--port", "0")
    assert done.returncode == 3
    assert "at least 16 characters" in done.stderr
    assert "short'" not in done.stderr


def test_a_token_that_others_can_read_is_refused(place: Place) -> None:
    home = place.storage / "daemon"
    home.mkdir(parents=True, mode=0o700)
    token = home / "token"
    token.write_text("x" * 43)
    token.chmod(0o644)
    done = place.run("serve", "--port", "0")
    assert done.returncode == 3
    assert "chmod 600" in done.stderr


def test_a_port_that_is_taken_is_said(http_place: Served) -> None:
    port = http_place.address.rpartition(":")[2]
    done = http_place.place.run("serve", "--port", port)
    assert done.returncode == 3
    assert "Address already in use" in done.stderr


def test_a_listener_closes_with_who_opened_it_and_a_detached_one_stays(place: Place) -> None:
    with served(place) as listener:
        assert place.ready()["listeners"] == [f"http://{listener.address}"]
    wait_until(lambda: not place.status()["listeners"])
    assert {"closed": f"http://{listener.address}"} in [line["about"] for line in shown(place)]
    done = place.run("serve", "--port", "0", "--detach", "--json")
    assert done.returncode == 0
    address = urlsplit(json.loads(done.stdout)["mcp"]).netloc
    assert place.status()["listeners"] == [f"http://{address}"]
    assert place.run("daemon", "stop", "--if-idle").returncode == 1, "a listener is not idle"


def test_listening_for_other_machines_is_warned_of(place: Place) -> None:
    with served(place, "--host", "0.0.0.0") as listener:  # noqa: S104  # what this is about
        port = listener.address.rpartition(":")[2]
        listener.address = f"127.0.0.1:{port}"
        assert listener.status_of("/mcp/nothing", token=listener.token) == 404
        assert (
            listener.status_of("/mcp/nothing", token=listener.token, Host=f"{os.uname().nodename}:{port}")
            == 421
        )
    assert listener.process.stderr is not None
    assert "can be reached from other machines" in listener.process.stderr.read().decode()


HALF_OPEN = 1_100
# Nothing, half a header, and a header whose body does not come.
HALF_REQUESTS = (
    b"",
    b"GET / HTTP/1.1\r\nHost:",
    b"POST /enter HTTP/1.1\r\nHost: %b\r\nContent-Length: 9\r\n\r\n",
)


@contextmanager
def open_files_at_least(count: int) -> Iterator[None]:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("said", first_of(HALF_REQUESTS, 1), ids=["silent", "half a header", "no body"])
def test_half_open_connections_shut_neither_the_owner_nor_anybody_who_is_connected_out(
    few_files: Served, said: bytes
) -> None:
    pump = few_files.pump()
    with (
        open_files_at_least(HALF_OPEN + 500),
        few_files.ask("/events", token=few_files.token) as response,
        ExitStack() as strangers,
    ):
        host, _, port = few_files.address.partition(":")
        for _ in range(HALF_OPEN):
            stranger = strangers.enter_context(socket.create_connection((host, int(port)), LIMIT_S))
            stranger.sendall(said.replace(b"%b", few_files.address.encode()))
        assert few_files.status_of("/mcp/nothing", token=few_files.token) == 404
        assert few_files.status_of("/enter") == 200
        assert few_files.place.status()["state"] == "ready"
        session = pump.call("notebook_create", name="while strangers wait")["session_id"]
        assert next(sse_events(response))["session_id"] == session, "who was let in before stays connected"


@pytest.fixture(scope="module")
def few_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A listener of a daemon that may have no more files open than systems mostly let a process have."""
    few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (512, 1_024))
    with place_in(tmp_path_factory.mktemp("few")) as place:
        assert place.start("daemon", "start", preexec_fn=few).wait(LIMIT_S) == 0
        with served(place) as listener:
            yield listener


def test_a_daemon_may_have_as_many_files_open_as_the_system_lets_it(few_files: Served) -> None:
    assert few_files.place.daemon().rlimit(psutil.RLIMIT_NOFILE) == (1_024, 1_024)


# The audit log --------------------------------------------------------------------------------------------------------


def shown(place: Place, *options: str) -> list[dict[str, Any]]:
    done = place.run("audit", "--json", *options)
    assert done.returncode == 0, done.stderr
    lines: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    return lines


def sign_in(listener: Served, token: str) -> int:
    with closing(http.client.HTTPConnection(listener.address, timeout=LIMIT_S)) as connection:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/enter", f"token={token}", form)
        return connection.getresponse().status


def test_who_came_in_what_they_did_and_what_was_refused_is_in_the_audit_log(http_place: Served) -> None:
    place = http_place.place
    token = place.run("people", "add", "ada", "--role", "run").stdout.strip()
    assert [sign_in(http_place, given) for given in ("wrong-token-of-ada", token)] == [401, 303]
    assert http_place.status_of("/mcp") == 401
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert place.run("serve", "--port", port).returncode != 0
    pump = http_place.pump()
    session = pump.call("notebook_create", name="audited")["session_id"]
    run_a_cell(pump, session, "print('a secret of mine')")
    about = {
        kind: [(line["by"], line.get("refused"), line.get("about")) for line in shown(place, "--kind", kind)]
        for kind in ("listen", "people", "sign_in")
    }
    assert ("command line", None, {"opened": f"http://{http_place.address}"}) in about["listen"]
    assert any(port in refused for _, refused, _ in about["listen"] if refused)
    assert ("command line", None, {"added": "ada", "role": "run"}) in about["people"]
    signed_in = {"role": "run", "with_a": "token", "address": "127.0.0.1"}
    assert ("page:ada", None, signed_in) in about["sign_in"]
    refusals = {refused for _, refused, _ in about["sign_in"]}
    assert {"no token, or a wrong one", "a wrong token on the page"} <= refusals
    (ran,) = shown(place, "--session", session, "--kind", "run", "--since", "1h")
    assert ran["by"] == "mcp:test"
    assert shown(place, "--since", "2999-01-01") == []
    for secret in (token, http_place.token, "a secret of mine", "wrong-token-of-ada"):
        assert files_with(place.storage / "audit", secret) == []


def test_the_audit_log_can_be_exported_and_verified(http_place: Served, tmp_path: Path) -> None:
    place, exported = http_place.place, tmp_path / "log.jsonl"
    place.run("people", "add", "bob", "--role", "view")
    assert place.run("audit", "export", "-o", str(exported)).returncode == 0
    people = place.run("audit", "export", "--kind", "people").stdout.splitlines()
    assert '"added":"bob"' in people[-1]
    assert set(people) < set(exported.read_text().splitlines())
    for options in ((), (str(exported),)):
        whole = place.run("audit", "verify", *options)
        assert (whole.returncode, whole.stdout.startswith("whole: ")) == (0, True)
    exported.write_bytes(exported.read_bytes().replace(b'"version":', b'"Version":', 1))
    broken = place.run("audit", "verify", str(exported))
    assert (broken.returncode, broken.stdout.startswith("broken: line 1 ")) == (1, True)


def test_the_page_without_its_extra_is_refused_at_the_command_and_no_link_leads_to_it(
    place: Place, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "jinja2.py").write_text('raise ModuleNotFoundError("No module named", name="jinja2")\n')
    place.environment["PYTHONPATH"] = str(blocked)
    # Not as a fork, which has imported it.
    assert place.start("daemon", "start").wait(LIMIT_S) == 0
    done = place.run("ui", "--no-open")
    assert (done.returncode, done.stdout) == (3, "")
    assert "The page needs jinja2, which is not installed" in done.stderr
    assert "hint: pip install 'cellwright[web]'" in done.stderr
    assert place.status()["listeners"] == [], "Nothing was opened for it"
    done = place.run("serve", "--port", "0", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"mcp", "events", "token_file"}
    assert "cellwright[web]" in done.stderr

"""What a client hears before the server is there: the early responder alone, with no daemon behind it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

import cellwright
from cellwright.daemon import _recorded_answers
from cellwright.daemon._connections import Conversation
from cellwright.daemon._early_responder import Arrival, EarlyResponder
from cellwright.daemon._recorded_answers import FILE, LISTS, VERSION_KEY
from cellwright.daemon.handshake import encode_handshake
from cellwright.mcp import every_dialect
from cellwright.mcp.server import _dialect, _dialect_plugin
from cellwright.mcp.toolsets import chosen_sets, tools_of
from tests.waiting import LIMIT_S

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
MODERN = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    """Talks to an early responder, and has what that hands over in the end."""

    def __init__(self, directory: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(directory / "socket"))
        self._listener.listen()
        self._responder = EarlyResponder(self._listener, {}, str(directory))
        self._responder.start()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(LIMIT_S)
        self._connection.connect(str(directory / "socket"))
        self._lines = self._connection.makefile("rb")

    def says(self, *messages: dict[str, Any], **handshake: Any) -> None:
        lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
        self._connection.sendall(encode_handshake("mcp", **handshake) + b"".join(lines))

    def hears(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._lines.readline())
        return message

    def ends(self) -> Arrival:
        """The daemon takes over; what it finds."""
        (arrival,) = self._responder.finish()
        self._lines.close()
        for one in (self._connection, self._listener, arrival.connection):
            one.close()
        return arrival


def questions(*methods: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [{"id": method, "method": method, "params": params or {}} for method in methods]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("CELLWRIGHT_CELL_TIMEOUT_S", "CELLWRIGHT_RUN_TIMEOUT_S", "CELLWRIGHT_SRCBOOK_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("dialect", "toolset", "sets"),
    [
        (None, None, None),
        (None, "plans, notebooks", ("notebooks", "plans")),
        (None, "core", ("core",)),
        (None, "core,notebooks", ("core", "notebooks")),
        ("jlab", None, None),
        ("srcbook", "once", ("once",)),
    ],
)
def test_lists_are_answered_before_there_is_a_server(
    directory: Path, dialect: str | None, toolset: str | None, sets: tuple[str, ...] | None
) -> None:
    client = Client(directory)
    hello = {"id": 0, "method": "initialize", "params": HELLO}
    client.says(hello, *questions(*LISTS), dialect=dialect, toolset=toolset)
    greeting = client.hears()["result"]
    answers = {answer["id"]: answer["result"] for answer in (client.hears() for _ in LISTS)}
    assert list(answers) == list(LISTS)
    names = [tool["name"] for tool in answers["tools/list"]["tools"]]
    if sets is not None:
        assert names == [definition.name for definition in tools_of(sets)]
    assert "execution_wait" in names or sets == ("once",)
    assert greeting["instructions"] == _dialect(_dialect_plugin(dialect), chosen_sets(toolset)).about
    assert greeting["capabilities"]["tools"] == {"listChanged": True}
    arrival = client.ends()
    assert set(arrival.answered) == {0, *LISTS}
    assert arrival.said.count(b"\n") == 1 + len(LISTS), "the server hears everything again"


@pytest.mark.parametrize("dialect", [None, *every_dialect()])
def test_recorded_instructions_are_the_servers_whatever_the_toolset(
    directory: Path, dialect: str | None
) -> None:
    answers = _recorded_answers.RecordedAnswers(str(directory))
    hello = json.dumps({"id": 0, "method": "initialize", "params": HELLO}).encode()
    for toolset in (None, "all", "once", "plans, notebooks", "core", "history,core"):
        found = answers.answer(hello, {"dialect": dialect, "toolset": toolset}, greeted=False)
        assert found is not None
        assert found.result["instructions"] == _dialect(_dialect_plugin(dialect), chosen_sets(toolset)).about


def test_only_what_is_sure_is_answered_early(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(directory)
    page = {"id": "page", "method": "tools/list", "params": {"cursor": "2", "_meta": MODERN}}
    unknown = {"id": "call", "method": "tools/call", "params": {"name": "notebook_list"}}
    modern = questions("tools/list", params={"_meta": MODERN})
    client.says(*questions("tools/list"), page, unknown, *modern)
    assert client.hears()["result"]["ttlMs"] == 0
    assert list(client.ends().answered) == ["tools/list"], "without a handshake only the newest protocol asks"
    record = json.loads(Path(FILE).read_text())
    for stale in ({"package": "0.0.1"}, {"sdk": "0.0.1"}):
        old = directory / "old.json"
        old.write_text(json.dumps(record | stale))
        monkeypatch.setattr(_recorded_answers, "FILE", str(old))
        answers = _recorded_answers.RecordedAnswers(str(directory))
        assert answers.answer(json.dumps(modern[0]).encode(), {}, greeted=True) is None
    monkeypatch.undo()
    assert record["package"] == cellwright.__version__


@pytest.mark.timeout(60)
def test_a_client_that_does_not_read_keeps_nobody_waiting(directory: Path) -> None:
    client = Client(directory)
    lists = [{"id": number, "method": "tools/list"} for number in range(1, 100)]
    hello = {"id": 0, "method": "initialize", "params": HELLO}
    client.says(hello, *lists, *questions("prompts/list"))
    assert client.hears()["id"] == 0, "so the responder is at the others by now"
    arrival = client.ends()
    answered = list(arrival.answered)
    assert answered == list(range(len(answered))), "in order, and the small one at the end waits too"
    assert 1 < len(answered) < 10, "the rest is the server's to answer"
    assert arrival.said.count(b"tools/list") == 99


def test_recorded_tools_have_the_operators_limits(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = json.dumps(questions("tools/list")[0]).encode()

    def defaults() -> tuple[Any, ...] | None:
        answers = _recorded_answers.RecordedAnswers(str(directory))
        found = answers.answer(question, {}, greeted=True)
        if found is None:
            return None
        schemas = {tool["name"]: tool["inputSchema"]["properties"] for tool in found.result["tools"]}
        return tuple(schemas[name]["timeout_s"]["default"] for name in ("cell_execute", "python_execute"))

    assert defaults() == (30, 60)
    (directory / "cellwright.toml").write_text("cell_timeout_s = 120\nrun_timeout_s = 2.5\n")
    assert defaults() == (120, 2.5)
    monkeypatch.setenv("Cellwright_Cell_Timeout_S", "7")
    assert defaults() == (7, 2.5)
    monkeypatch.setenv("CELLWRIGHT_RUN_TIMEOUT_S", "soon")
    assert defaults() is None, "what is wrong with a setting, the daemon itself says"


def test_a_client_that_was_told_an_old_list_is_told_that_it_changed() -> None:
    early = _recorded_answers.RecordedAnswer("tools/list", 2, {"tools": [{"name": "a"}]})
    conversation = Conversation({2: early})
    assert conversation.outgoing(b'{"jsonrpc":"2.0","id":1,"result":{}}\n') is not None
    changed = conversation.outgoing(b'{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}\n')
    assert changed is not None
    assert json.loads(changed) == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    again = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}\n'
    assert conversation.outgoing(again) == again, "the next one with this id is another question"
    same = Conversation({2: early})
    assert same.outgoing(b'{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}]}}\n') is None


def test_a_client_that_shows_apps_waits_for_the_servers_own_lists(tmp_path: Path) -> None:
    apps = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
    modern = MODERN | {"io.modelcontextprotocol/clientCapabilities": apps}
    client = Client(tmp_path)
    client.says(
        {"id": 1, "method": "initialize", "params": HELLO | {"capabilities": apps}},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/list", "params": {"_meta": modern}},
    )
    assert client.hears()["id"] == 1
    assert list(client.ends().answered) == [1]

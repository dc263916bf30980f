"""One daemon for all clients of a user: started on demand, found again, replaced, and ended when nobody needs it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from cellwright import Settings, open_engine
from cellwright.daemon import greeting_recorder
from cellwright.daemon._recorded_answers import FILE, LISTS, VERSION_KEY
from cellwright.daemon.connect import ask, connect, connect_or_start, read_about
from cellwright.rlimits import OWN_MEMORY_BYTES
from tests.kernel.engine.conftest import host_process
from tests.system.daemon.conftest import CLIENT, LONG_WAIT_MS, Place
from tests.waiting import LIMIT_S, fail_after, wait_until

WAITS_FOR_A_FILE = (
    "import pathlib, time\nwhile not pathlib.Path({gate!r}).exists(): time.sleep(0.01)\nprint('passed')"
)
NEWEST = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.matrix  # `test_clients_that_come_early_start_one_daemon…`
def test_the_first_client_starts_the_daemon_and_the_second_finds_it(place: Place) -> None:
    first, second = place.pump(), place.pump()
    assert first.initialize()["serverInfo"]["name"] == "cellwright"
    assert second.initialize()["serverInfo"]["name"] == "cellwright"
    created = first.call("notebook_create", name="shared by all")
    listed = second.call("notebook_list", filter="all")
    assert [session["session_id"] for session in listed["sessions"]] == [created["session_id"]]
    assert (first.finish(), second.finish()) == (0, 0)
    assert place.status()["pid"] == place.daemon().pid, "it outlives its clients"


def test_the_socket_and_everything_beside_it_is_for_this_user_alone(shared: Place) -> None:
    about = read_about(shared.paths)
    assert mode(about["socket"]) == 0o600
    assert mode(Path(about["socket"]).parent) == 0o700
    assert mode(shared.paths.log) == 0o600
    assert mode(shared.paths.about) == 0o600
    assert len(about["socket"]) <= 107


def test_daemon_and_host_have_a_limit_of_memory_which_their_kernels_have_not(shared: Place) -> None:
    pump = shared.pump()
    pump.initialize()
    pump.call("notebook_create", name="limits")
    code = "import resource; resource.getrlimit(resource.RLIMIT_DATA)[0]"
    told = pump.answer(pump.begin("scratch_run", code=code, wait=LONG_WAIT_MS, response_format="json"))
    host = host_process(shared.storage)
    assert host is not None
    for process in (shared.daemon(), host):
        assert process.rlimit(psutil.RLIMIT_DATA)[0] == OWN_MEMORY_BYTES
    assert int(_data(told)["result"]) != OWN_MEMORY_BYTES


def test_clients_that_come_early_start_one_daemon_and_are_greeted_as_the_server_itself_greets(
    place: Place,
) -> None:
    versions = ["2024-11-05", "2025-11-25", "2099-01-01"]
    pumps = [place.pump() for _ in versions]
    newest, odd, some = place.pump(), place.pump(), place.pump("--toolset", "plans,agent")
    # All ask before anybody listens for an answer: the daemon has just begun to start.
    asked = [
        pump.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)
        for pump, version in zip(pumps, versions, strict=True)
    ]
    listed = [pumps[1].ask(method) for method in LISTS]
    asked_some = some.ask("initialize", protocolVersion=versions[1], capabilities={}, clientInfo=CLIENT)
    listed_some = some.ask("tools/list")
    asked_newest = newest.ask("server/discover", _meta=NEWEST)
    listed_newest = newest.ask("tools/list", _meta=NEWEST)
    asked_oddly = odd.ask("initialize", protocolVersion=7)
    greeted = [pump.answer(ident)["result"] for pump, ident in zip(pumps, asked, strict=True)]
    lists = [pumps[1].answer(ident)["result"] for ident in listed]
    of_some = [some.answer(ident)["result"] for ident in (asked_some, listed_some)]
    discovered = newest.answer(asked_newest)
    tools = newest.answer(listed_newest)["result"]
    assert "error" in odd.answer(asked_oddly), "what is not well-formed is left to the server"
    assert odd.initialize()["serverInfo"]["name"] == "cellwright"
    assert place.ready()["clients"] == len(versions) + 3
    assert len(place.daemons()) == 1
    assert [place.pump().initialize(version) for version in versions] == greeted
    late = place.pump()
    assert late.answer(late.ask("server/discover", _meta=NEWEST)) == discovered
    assert newest.answer(newest.ask("tools/list", _meta=NEWEST))["result"] == tools
    usual, chosen = place.pump(), place.pump("--toolset", "plans,agent")
    assert usual.initialize(versions[1]) == greeted[1]
    assert [usual.answer(usual.ask(method))["result"] for method in LISTS] == lists
    assert [chosen.initialize(versions[1]), chosen.answer(chosen.ask("tools/list"))["result"]] == of_some
    for early in pumps:
        early.send({"method": "notifications/initialized"})
        # The server saw the handshake too, and its own answer to it is not told twice.
        ping = early.ask("ping")
        assert early.read() == {"jsonrpc": "2.0", "id": ping, "result": {}}


@pytest.mark.anyio
async def test_the_greetings_are_what_the_server_says() -> None:
    recorded = json.loads(Path(FILE).read_text())
    with fail_after():
        said = json.loads(json.dumps(await greeting_recorder.record()))
    assert recorded == said, "Run `python -m cellwright.daemon.greeting_recorder` and commit greetings.json"


def test_a_killed_daemon_is_told_and_the_next_one_still_has_the_sessions(place: Place) -> None:
    place.start_daemon()
    pump = place.pump()
    pump.initialize()
    created = pump.call("notebook_create", name="survives")
    run = {"session_id": created["session_id"], "wait": LONG_WAIT_MS, "response_format": "json"}
    assert pump.call("scratch_run", code="x = 41", **run)["status"] == "ok"
    daemon = place.daemon()
    daemon.kill()
    daemon.wait(LIMIT_S)
    assert pump.process.wait(LIMIT_S) == 3
    assert "cellwright daemon logs" in pump.errors()
    assert Path(read_about(place.paths)["socket"]).exists()
    assert connect(place.paths) is None, "a socket that was left over counts for nothing"
    again = place.pump()
    again.initialize()
    assert place.status()["pid"] != daemon.pid
    found = again.call("scratch_run", code="x + 1", **run)
    assert (found["result"], found["generation"]) == ("42", 1), "the kernel went on without a daemon"
    place.daemon().kill()
    again.process.wait(LIMIT_S)
    stopped = place.run("daemon", "stop", "--kernels")
    assert stopped.stdout == "no daemon was running; the kernels of the last one were ended\n"
    assert host_process(place.storage) is None


def first_execution(place: Place, session: str) -> str:
    """The id of what runs first in a session, as soon as it is there."""
    watcher = place.pump()
    watcher.initialize()
    running: list[dict[str, str]] = []
    wait_until(
        lambda: running.extend(watcher.call("execution_list", session_id=session)["executions"]) or running
    )
    return running[0]["execution_id"]


def test_a_client_killed_in_the_middle_of_a_cell_finds_it_finished_when_it_comes_back(shared: Place) -> None:
    doomed = shared.pump()
    doomed.initialize()
    created = doomed.call("notebook_create", name="outlives its client", mode="private")
    session = created["session_id"]
    # A folder of its own, which both sides see at the same path.
    gate = Path(created["cwd"], "gate")
    cell = doomed.call("cell_add", session_id=session, content=WAITS_FOR_A_FILE.format(gate=str(gate)))[
        "cell_id"
    ]
    doomed.begin("cell_execute", session_id=session, cell_id=cell)
    running = first_execution(shared, session)
    doomed.process.send_signal(signal.SIGKILL)
    doomed.process.wait(LIMIT_S)
    gate.touch()
    back = shared.pump()
    back.initialize()
    found = back.call("execution_wait", execution_id=running, wait=LONG_WAIT_MS, response_format="json")
    assert (found["status"], found["stdout"]) == ("ok", "passed\n")


def test_two_clients_on_two_sessions_do_not_mix(shared: Place) -> None:
    pumps = [shared.pump(), shared.pump()]
    for pump in pumps:
        pump.initialize()
    sessions = [pump.call("notebook_create", name="own")["session_id"] for pump in pumps]
    asked = [
        pump.begin("scratch_run", code=f"x = {number}; x", wait=LONG_WAIT_MS, response_format="json")
        for number, pump in enumerate(pumps)
    ]
    for number, pump in enumerate(pumps):
        found = _data(pump.answer(asked[number]))
        assert (found["session_id"], found["result"]) == (sessions[number], str(number))


def test_cancelling_a_call_interrupts_its_cell(shared: Place) -> None:
    pump = shared.pump()
    pump.initialize()
    session = pump.call("notebook_create", name="stops")["session_id"]
    code = "import time; time.sleep(600)"
    sleeping = pump.begin("scratch_run", session_id=session, code=code, wait=LONG_WAIT_MS)
    run = first_execution(shared, session)
    pump.send({"method": "notifications/cancelled", "params": {"requestId": sleeping}})
    watcher = shared.pump()
    watcher.initialize()
    found = watcher.call("execution_wait", execution_id=run, wait=LONG_WAIT_MS, response_format="json")
    assert found["status"] == "interrupted"
    found = pump.call(
        "scratch_run", session_id=session, code="1 + 1", wait=LONG_WAIT_MS, response_format="json"
    )
    assert found["result"] == "2"


def test_questions_that_are_piped_in_are_all_answered_before_the_end(shared: Place) -> None:
    pump = shared.pump()
    pump.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)
    pump.send({"method": "notifications/initialized"})
    pump.begin("notebook_create", name="piped")
    pump.ask("tools/list")
    assert pump.process.stdin is not None
    pump.process.stdin.close()
    assert pump.process.stdout is not None
    answers = {
        message["id"]: message for line in pump.process.stdout if "id" in (message := json.loads(line))
    }
    assert sorted(answers) == [1, 2, 3]
    assert _data(answers[2])["session_id"].startswith("s-")
    assert pump.process.wait(LIMIT_S) == 0


def test_a_client_without_our_variables_finds_the_daemon_where_it_said_it_listens(place: Place) -> None:
    with tempfile.TemporaryDirectory(prefix="cw-") as runtime:
        usual = dict(place.environment)
        place.environment["XDG_RUNTIME_DIR"] = runtime
        place.start_daemon()
        assert read_about(place.paths)["socket"].startswith(runtime)
        place.environment = usual
        place.pump().initialize()
        assert len(place.daemons()) == 1
        place.end()


def disguise(place: Place, **other: str) -> None:
    """Have the living daemon pass for another one."""
    Path(place.paths.about).write_text(json.dumps(read_about(place.paths) | other))


@pytest.mark.parametrize("other", [{"version": "0.0.1"}, {"prefix": "/elsewhere"}], ids=str)
def test_an_idle_daemon_of_another_version_or_environment_makes_way_with_its_host(
    place: Place, other: dict[str, str]
) -> None:
    assert place.run("daemon", "start").returncode == 0
    before = place.ready()["pid"]
    host = host_process(place.storage)
    assert host is not None
    disguise(place, **other)
    assert place.run("list").returncode == 0
    assert place.status()["pid"] != before
    assert len(place.daemons()) == 1
    wait_until(lambda: not host.is_running())


def test_a_daemon_with_a_deleted_session_that_can_be_brought_back_makes_no_way(place: Place) -> None:
    async def make_and_delete() -> None:
        settings = Settings(storage=place.storage, root=place.root / "work", standby_kernels=0)
        async with open_engine(settings) as engine:
            session = await engine.create("deleted")
            await engine.delete(session.id, later=True)

    anyio.run(make_and_delete)
    assert place.run("daemon", "start").returncode == 0
    before = place.ready()["pid"]
    disguise(place, prefix="/elsewhere")
    done = place.run("list")
    assert place.status()["pid"] == before
    assert "1 deleted sessions that can be brought back" in done.stderr


def test_a_busy_daemon_is_not_stopped_if_idle_and_used_in_another_version_which_is_said(place: Place) -> None:
    place.start_daemon()
    busy = place.pump()
    busy.initialize()
    before = place.ready()["pid"]
    assert place.run("daemon", "stop", "--if-idle").returncode == 1
    assert place.status()["clients"] == 1
    disguise(place, version="0.0.1")
    pump = place.pump()
    pump.initialize()
    assert place.status()["pid"] == before
    pump.finish()
    assert "version 0.0.1" in pump.errors()


def test_the_daemon_ends_itself_when_nobody_needs_it(place: Place) -> None:
    place.environment["CELLWRIGHT_DAEMON_IDLE_S"] = "0.2"
    pump = place.pump()
    pump.initialize()
    daemon = place.daemon()
    assert place.ready()["clients"] == 1
    pump.finish()
    daemon.wait(LIMIT_S)
    assert not Path(place.paths.about).exists()
    assert "idle_for_s" in Path(place.paths.log).read_text()


def test_a_daemon_that_cannot_start_is_explained_by_the_pump(place: Place) -> None:
    place.storage.mkdir()
    (place.storage / "daemon").write_text("in the way")
    pump = place.pump()
    told = pump.answer(pump.ask("initialize"))["error"]
    assert (pump.finish(), told["code"]) == (3, -32603)
    assert pump.errors().startswith("error: ")
    assert f"{place.storage}/daemon" in told["message"]


@pytest.mark.parametrize("mode", [(), ("--in-process",)])
def test_a_bad_setting_is_a_reply_with_the_file_the_key_and_the_fix(
    place: Place, mode: tuple[str, ...]
) -> None:
    options = place.root / "options.json"
    options.write_text('{"options": {"maxSession": 1}}')
    place.environment["CELLWRIGHT_SRCBOOK_FILE"] = str(options)
    pump = place.pump(*mode)
    hello = pump.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)
    assert ("error" in pump.answer(hello)) == bool(mode), "the early responder knows no settings"
    for method, params in (("tools/call", {"name": "notebook_list"}), ("resources/list", {})):
        told = pump.answer(pump.ask(method, **params))["error"]
        assert told["code"] == -32603
        for part in (str(options), "'maxSession'", "did you mean maxSessions?"):
            assert part in told["message"]
    if not mode:
        listed = place.run("list")
        assert listed.returncode == 3
        assert listed.stderr.startswith(
            f"error: {options}: there is no setting 'maxSession'\nhint: did you mean"
        )
        assert str(options) in place.run("daemon", "logs").stdout
    options.write_text('{"options": {"maxSessions": 1}}')
    corrected = place.pump(*mode)
    corrected.initialize()
    assert corrected.call("notebook_list")["sessions"] == [], "while the first client is still there"
    assert pump.finish() == (3 if mode else 0)


def test_a_settings_file_that_is_no_toml_is_a_reply_that_names_it(place: Place) -> None:
    file = place.root / "work" / "cellwright.toml"
    file.write_text("max_sessions = = 1")
    del place.environment["CELLWRIGHT_STORAGE"]
    pump = place.pump()
    told = pump.answer(pump.ask("initialize"))["error"]["message"]
    assert str(file) in told
    assert "line 1" in told
    assert pump.finish() == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.matrix)])
def test_a_signal_ends_the_daemon_cleanly_with_everything_saved(place: Place, number: signal.Signals) -> None:
    place.start_daemon()
    pump = place.pump()
    pump.initialize()
    created = pump.call("notebook_create", name="saved at the end")
    pump.call("cell_add", session_id=created["session_id"], content="kept = True")
    daemon = place.daemon()
    daemon.send_signal(number)
    daemon.wait(LIMIT_S)
    assert "kept = True" in Path(created["path"]).read_text()
    assert not Path(place.paths.about).exists()


def test_an_interrupted_pump_ends_at_once_and_leaves_the_daemon(shared: Place) -> None:
    pump = shared.pump()
    pump.initialize()
    pump.process.send_signal(signal.SIGINT)
    assert pump.process.wait(LIMIT_S) == 130
    assert shared.status()["state"] == "ready"


def test_start_status_logs_and_stop_say_what_they_did(place: Place) -> None:
    assert json.loads(place.run("daemon", "status", "--json").stdout)["state"] == "stopped"
    assert place.run("daemon", "status").returncode == 1
    started = place.run("daemon", "start", "--json")
    assert started.returncode == 0
    assert json.loads(started.stdout)["pid"] == place.daemon().pid
    place.ready()
    status = json.loads(place.run("daemon", "status", "--json").stdout)
    assert (status["state"], status["clients"], status["storage"]) == ("ready", 0, str(place.storage))
    assert "ready version=" in "\n".join(json.loads(place.run("daemon", "logs", "--json").stdout)["lines"])
    created = json.loads(place.run("new", "goes on", "--json").stdout)["session_id"]
    kept = place.run("daemon", "stop")
    assert kept.stdout.startswith(f"stopped process {status['pid']}; the kernels of {created} go on")
    place.run("daemon", "start")
    ended = json.loads(place.run("daemon", "stop", "--kernels", "--json").stdout)
    assert (ended["stopped"], ended["sessions"], ended["kernels_ended"]) == (True, [created], True)
    assert host_process(place.storage) is None, "it is gone when the command returns"
    assert json.loads(place.run("daemon", "stop", "--json").stdout)["stopped"] is False
    assert place.daemons() == []


def test_starting_while_the_last_one_is_ending_waits_for_it(place: Place) -> None:
    place.start_daemon()
    connection = connect(place.paths)
    assert connection is not None
    with connection:
        before = place.daemon().pid
        assert ask(connection, "stop")["stopping"] is True
    with connect_or_start(place.paths, str(place.root), say=lambda _: None) as again:
        found = ask(again, "status")
    assert found["state"] in {"starting", "ready"}
    assert found["pid"] != before


def test_in_process_needs_no_daemon_and_keeps_stray_prints_off_the_wire(place: Place) -> None:
    pump = place.pump("--in-process")
    pump.initialize()
    created = pump.call("notebook_create", name="alone")
    found = pump.call("scratch_run", code="print('hello')", wait=LONG_WAIT_MS, response_format="json")
    assert found["stdout"] == "hello\n"
    assert place.daemons() == []
    assert pump.finish() == 0
    assert Path(created["path"]).is_file()


def test_in_process_and_a_daemon_do_not_share_a_storage_directory(shared: Place) -> None:
    pump = shared.pump("--in-process")
    assert pump.finish() == 3
    assert f"has {shared.storage} open" in pump.errors()


def test_an_unknown_dialect_is_refused_with_the_known_ones(shared: Place) -> None:
    pump = shared.pump("--dialect", "klingon")
    refused = pump.answer(pump.ask("initialize", protocolVersion="2025-06-18"))
    assert "jlab" in refused["error"]["message"]
    assert pump.finish() == 0


def test_bad_arguments_of_the_pump_are_bad_usage(shared: Place) -> None:
    for arguments in (["--nonsense"], ["--dialect"], ["--set", "novalue"]):
        done = shared.run("mcp", *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert done.stdout == ""


def test_the_pump_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cellwright.cli import main; import cellwright.cli._mcp, cellwright.daemon.pump;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "anyio",
        "asyncio",
        "click",
        "pydantic",
        "mcp",
        "rich",
        "msgspec",
        "subprocess",
        "dataclasses",
    }
    assert heavy & set(done.stdout.split()) == set()


def test_finding_the_storage_directory_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cellwright.settings.paths import find_storage; find_storage('.');"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CELLWRIGHT_STORAGE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert {"anyio", "pydantic", "mcp", "msgspec"} & set(done.stdout.split()) == set()


def test_the_log_is_kept_to_a_size_and_what_is_printed_follows_it(place: Place) -> None:
    place.storage.mkdir()
    (place.storage / "daemon").mkdir(mode=0o700)
    log = Path(place.paths.log)
    log.write_text("old\n" * 300_000)
    place.start_daemon()
    pump = place.pump()
    pump.initialize()
    place.ready()
    assert log.stat().st_size < 100_000
    assert Path(place.paths.older_log).read_text().startswith("old\nold\n")
    assert psutil.pid_exists(place.daemon().pid)


def test_a_pump_whose_client_stops_reading_does_not_stop_the_daemon(shared: Place) -> None:
    deaf, hearing = shared.pump(), shared.pump()
    hearing.initialize()
    deaf.initialize()
    for _ in range(200):
        deaf.ask("tools/list")
    assert "tools" in hearing.answer(hearing.ask("tools/list"))["result"]


def test_a_client_may_speak_mcp_on_the_socket_without_a_hello(shared: Place) -> None:
    connection = connect(shared.paths)
    assert connection is not None
    with connection, connection.makefile("rwb") as wire:
        wire.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        wire.flush()
        assert json.loads(wire.readline())["id"] == 1


def _data(answer: dict[str, Any]) -> Any:
    return json.loads(answer["result"]["content"][-1]["text"])

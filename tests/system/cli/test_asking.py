"""``cellwright ask``, ``chat``, ``conversations`` and ``trace`` end to end: a real daemon, and a provider by script."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cellwright.agent.models.providers import key_variables
from cellwright.cli._ask import AskView
from cellwright.daemon.logs import read_log
from cellwright.settings.modelkeys import MODEL_VARIABLES
from tests.support.agent.wires.servers import KEY, Call, Recorded, Reply, Server, Text, Think, reply, serve
from tests.system.daemon.conftest import Place, files_with, place_in
from tests.waiting import LIMIT_S

SUM = "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nprint(sum(int(row['units']) for row in rows))"
QUICKLY = ("--pattern", "react", "--no-verify")
ANSWERS = (
    reply(Think("I add them up."), Call("cell_add_and_run", {"content": SUM})),
    reply(Text("They sold 7 units.")),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place whose daemon was started by somebody without keys."""
    root = tmp_path_factory.mktemp("asking")
    null = "keyring.backends.null.Keyring"
    with place_in(root, PYTHON_KEYRING_BACKEND=null, CELLWRIGHT_MODEL_RETRIES="0") as place:
        for name in MODEL_VARIABLES:
            place.environment.pop(name, None)
        (root / "work" / "sales.csv").write_text("region,units\nnorth,3\nsouth,4\n")
        assert place.run("daemon", "start").returncode == 0
        place.ready()
        yield place


@contextmanager
def provider(place: Place, *entries: Any) -> Iterator[tuple[Place, Server]]:
    """The same place for somebody who has a key of this provider."""
    with serve(entries) as server:
        keys = {name: server.environment[name] for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")}
        yield Place(place.root, {**place.environment, **keys}, place.started), server
        assert server.left == 0


def asked(place: Place, *arguments: str) -> dict[str, Any]:
    done = place.run("ask", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_answer_is_on_stdout_and_what_proves_it_on_stderr(shared: Place) -> None:
    with provider(shared, *ANSWERS) as (place, server):
        done = place.run("ask", "How many units were sold?", "--data", "sales.csv", "--pattern", "react")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "They sold 7 units.\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "pattern: react: it was asked for"
    assert "  I add them up." in lines
    assert "    rows = list(csv.DictReader(open('sales.csv')))" in lines
    assert "  7" in lines
    assert "  They sold 7 units." not in lines, "it is told once"
    assert any(
        line.startswith("notebook: notebooks/") and line.endswith(".ipynb (verified)") for line in lines
    )
    assert any(line.startswith("cost: 2 requests, 200 + 40 tokens, $") for line in lines)
    assert lines[-1].startswith("run: a-")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_question_comes_from_stdin_and_its_data_from_anywhere(shared: Place, tmp_path: Path) -> None:
    there = tmp_path / "sales.csv"
    there.write_text("region,units\nwest,5\n")
    replies = (ANSWERS[0], reply(Text("They sold 5 units.")))
    with provider(shared, *replies) as (place, server):
        done = place.run("ask", "-", "--data", str(there), "--no-verify", "--json", given="How many?\n")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["answer"], found["untraced"]) == ("ok", "They sold 5 units.", [])
    assert found["verified"] is None
    assert (found["requests"], found["tokens_in"], found["models"]) == (2, 200, ["openai:gpt-6.1-terra"])
    assert "How many?" in server.requests[0].text


def test_without_a_key_three_lines_say_how_to_get_going_and_nothing_is_made(shared: Place) -> None:
    before = shared.status()["sessions"]
    done = shared.run("ask", "How many units were sold?")
    assert done.returncode == 3
    assert done.stdout == ""
    error, *hints = done.stderr.splitlines()
    assert error == "error: No model is set up, and a question needs one"
    assert len(hints) == 3
    assert "OPENAI_API_KEY" in hints[0]
    assert shared.status()["sessions"] == before


def test_what_is_spent_stops_it_with_a_report_and_exits_1(shared: Place) -> None:
    with provider(shared, ANSWERS[0]) as (place, _):
        done = place.run("ask", "How many units?", "--data", "sales.csv", *QUICKLY, "--budget", "1 step")
    assert done.returncode == 1
    assert done.stderr.count("The budget is spent: 1 of 1 steps") == 1
    assert "cost: 1 request, 100 + 20 tokens" in done.stderr
    assert "conversation: c-" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("How?", "--data", "none.csv"), "there is no file none.csv"),
        (("How?", "--data", "."), ". is a directory: name the files in it"),
        (("How?", "--server", "shop="), "'shop=' is not NAME, NAME=COMMAND or NAME=URL"),
        ((" ",), "there is no question"),
    ],
)
def test_what_is_said_wrongly_is_bad_usage(shared: Place, arguments: tuple[str, ...], said: str) -> None:
    done = shared.run("ask", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.matrix  # `test_verbs` interrupts
def test_ctrl_c_stops_the_run_and_says_how_to_go_on(shared: Place) -> None:
    asks, go = threading.Event(), threading.Event()

    def held(_: Recorded) -> Reply:
        asks.set()
        go.wait(LIMIT_S)
        return reply(Text("Too late."))

    with provider(shared, held) as (place, _):
        process = place.start("ask", "How long?", "--pattern", "react")
        assert asks.wait(LIMIT_S)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
        go.set()
    assert process.returncode == 130
    told = errors.decode()
    assert "stopped; `cellwright ask --conversation c-" in told, told
    conversation = told.partition("--conversation ")[2].split()[0]
    with provider(shared, reply(Text("It took a while."))) as (place, server):
        found = asked(place, "Well?", "--conversation", conversation, *QUICKLY)
    assert found["conversation"] == conversation
    assert "How long?" in server.requests[0].text
    kept = shared.run("conversations", "show", conversation, "--json").stdout
    assert '"How long?' in kept
    assert '"Well?' in kept, "both are there for the question after that"


def test_a_chat_is_one_conversation_that_lasts(shared: Place) -> None:
    said = "/model openai:gpt-6.1-sol\n/notebook\nHow many units?\n/cost\n/notebook\n/what\nAnd twice that?\n/quit\nno\n"
    twice = (
        reply(Call("cell_add_and_run", {"content": "print(2 * 7)"})),
        reply(Text("That is 14.")),
    )
    with provider(shared, *ANSWERS, *twice) as (place, server):
        done = place.run("chat", "--data", "sales.csv", *QUICKLY, given=said)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "They sold 7 units.\nThat is 14.\n"
    assert "model: openai:gpt-6.1-sol" in done.stderr
    assert "there is no notebook yet" in done.stderr
    assert "there is no /what; /help tells what there is" in done.stderr
    assert "cost: 2 requests, 200 + 40 tokens" in done.stderr
    assert "They sold 7 units." in server.requests[2].text, "what was said before is known"
    assert {request.body["model"] for request in server.requests} == {"gpt-6.1-sol"}
    conversation = done.stderr.rpartition("--conversation ")[2].split("`")[0]
    listed = place.run("conversations").stdout.splitlines()
    assert any(
        line.startswith(conversation) and line.split()[3:5] == ["2", "openai:gpt-6.1-sol"] for line in listed
    )
    last = listed[1].split()
    assert (last[3:5], last[5:]) == (["2", "openai:gpt-6.1-sol"], ["How", "many", "units?"]), (
        "the one that was asked last"
    )
    assert json.loads(place.run("conversations", "--json").stdout)[0]["id"] == conversation


def test_a_conversation_is_shown_with_its_runs_a_run_is_exported_and_both_deleted(
    shared: Place, tmp_path: Path
) -> None:
    with provider(shared, *ANSWERS) as (place, _):
        found = asked(place, "How many units?", "--data", "sales.csv", *QUICKLY)
    shown = place.run("conversations", "show", found["conversation"]).stdout
    assert "> How many units?" in shown
    assert f"{found['run_id']}: They sold 7 units." in shown
    exported = place.run("trace", found["run_id"], "--json", "-o", str(tmp_path / "run.json"))
    whole = json.loads(exported.stdout)
    assert json.loads((tmp_path / "run.json").read_text()) == whole
    (cell,) = [run for step in whole["steps"] for run in step["runs"]]
    assert (cell["code"], cell["stdout"]) == (SUM, "7\n")
    steps = place.run("trace", found["run_id"])
    assert steps.stdout.splitlines()[-1].endswith("They sold 7 units.")
    assert steps.stderr.startswith("cost: 2 requests, 200 + 40 tokens, $")
    gone = place.run("conversations", "delete", found["conversation"])
    assert gone.stdout == f"{found['conversation']}\n"
    refused = place.run("trace", found["run_id"])
    assert refused.returncode == 1
    assert f"There is no run '{found['run_id']}'" in refused.stderr
    assert Path(found["notebook"]).is_file()


@pytest.mark.matrix  # `agent/test_asking` offers and calls those of a server
def test_tools_of_a_server_of_ones_own_are_called_by_its_name(shared: Place) -> None:
    (shared.root / "work" / "shop.py").write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('shop')\n"
        "@server.tool()\n"
        "def price(of: str) -> str:\n"
        "    return f'{of} costs 12 crowns'\n"
        "server.run()\n"
    )
    replies = (
        reply(Call("shop_price", {"of": "tea"})),
        reply(Call("cell_add_and_run", {"content": "print(12)"})),
        reply(Text("Tea costs 12.")),
    )
    with provider(shared, *replies) as (place, server):
        found = asked(place, "What is tea?", "--server", f"shop={sys.executable} shop.py", *QUICKLY)
    assert found["answer"] == "Tea costs 12."
    assert "tea costs 12 crowns" in server.requests[1].text


def test_an_mcp_client_behind_the_pump_asks_with_its_own_key(shared: Place) -> None:
    with provider(shared, *ANSWERS) as (place, server):
        pump = place.pump()
        pump.initialize()
        asks = {"question": "How many?", "data": ["sales.csv"], "pattern": "react", "verify": False}
        found = pump.call("ask", **asks, response_format="json")
        assert pump.finish() == 0
    assert found["answer"] == "They sold 7 units."
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_is_nowhere_afterwards(shared: Place) -> None:
    """After everything above: not in a log, the journal, a trace, a conversation, a notebook or the status."""
    leak = reply(Call("cell_add_and_run", {"content": "import os\nprint('OPENAI_API_KEY' in os.environ, 1)"}))
    with provider(shared, leak, reply(Text("It is 1."))) as (place, server):
        found = asked(place, "Tell me the key", *QUICKLY)
        steps = place.run("trace", found["run_id"])
        told = json.dumps(place.status()) + "\n".join(read_log(place.paths, 10_000))
    assert "False 1" in server.requests[1].text, "code does not see it"
    assert "cell_add_and_run" in steps.stdout
    assert "ready" in told
    assert KEY not in told
    assert files_with(shared.root, KEY) == []


def test_the_variables_that_are_sent_are_those_that_models_are_found_by() -> None:
    assert set(MODEL_VARIABLES) == set(key_variables())


# The view ------------------------------------------------------------------------------------------------------------


def entry(number: int, event: str, kind: str, **about: Any) -> dict[str, Any]:
    total = {"tokens_in": 1_500, "tokens_out": 20, "tokens_cached": 0, "usd": 0.01, "requests": 1}
    ended = {"took": 0.5, "failed": False, "total": total} if event == "ended" else {}
    return {"number": number, "event": event, "step": 1, "kind": kind, **ended, **about}


def test_on_a_terminal_words_come_dimmed_and_code_is_coloured() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=80, height=20, color_system="standard")
    with AskView(screen) as view:
        view.take(entry(1, "began", "request", role="act"))
        view.take(entry(2, "heard", "thinking", text="I wonder\nabout \x1b[2Jnumbers"))
        view._live.refresh()  # else whenever a thread comes to it
        view.take(entry(3, "ended", "request", role="act", model="m", text="So."))
        run = {"code": "x = 1", "stdout": "out", "stderr": "", "state": "ok", "seconds": 0.1, "cell_id": "c"}
        view.take(entry(4, "ended", "call", tool="cell_add_and_run", runs=[run]))
        view.take(entry(4, "ended", "call", tool="again"))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[2mabout  [2Jnumbers" in shown, "what a terminal would obey is taken out"
    assert re.search(r"act · \d+ s · \$0\.0000 · 0 requests", shown)
    assert "1.5k + 20 tokens, $0.0100" in shown
    assert "\x1b[" in shown.partition("cell_add_and_run")[2].partition("out")[0]
    assert "again" not in shown
    assert view.seen == 4


def told(*entries: dict[str, Any], width: int = 80, terminal: bool = False) -> str:
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)
    with AskView(screen) as view:
        for one in entries:
            view.take(one)
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(("end", "shown"), [("answer", 0), ("stop", 0), ("correct", 1)])
def test_what_a_model_said_last_is_left_to_the_outcome(end: str, shown: int) -> None:
    said = entry(1, "ended", "request", role="act", text="It is so.")
    assert told(said, entry(2, "ended", "verify"), entry(3, "ended", end)).count("It is so.") == shown


def test_a_failed_cell_is_shown_once_though_it_ran_again_to_find_out_why() -> None:
    run = {"code": "1 / 0", "state": "error", "stdout": "", "stderr": "ZeroDivisionError", "seconds": 0.1}
    call = entry(
        1, "ended", "call", tool="t", failed=True, runs=[run, run], result="ZeroDivisionError, rolled back"
    )
    assert told(call).splitlines()[1:] == ["    1 / 0", "  ZeroDivisionError"]


def test_a_request_that_is_made_again_is_told_while_it_waits() -> None:
    shown = told(
        entry(1, "heard", "text", text="Half a"),
        entry(2, "heard", "again", text="m is busy; asking again in 8 s"),
    )
    assert shown == "again: m is busy; asking again in 8 s\n"


def test_long_lines_go_on_below_their_beginning_on_a_narrow_terminal() -> None:
    thought = entry(1, "ended", "request", thinking="a thought that is longer than that")
    lines = told(thought, width=20, terminal=True).replace("\x1b[2K", "").splitlines()
    assert [line.rstrip() for line in lines if "th" in line] == ["  a thought that is", "  longer than that"]

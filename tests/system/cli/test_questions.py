"""Cells that ask for input, answered by a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.system.daemon.conftest import COMMAND, Place
from tests.waiting import LIMIT_S, wait_until

ASKS = "import getpass\nname = input('Name? ')\nprint(name.upper(), len(getpass.getpass('Word? ')))"


@dataclass
class Terminal:
    """A command whose stdin and stderr are a terminal, and what that shows."""

    command: subprocess.Popen[bytes]
    fd: int
    shown: bytearray = field(default_factory=bytearray)

    def see(self, text: str) -> None:
        """Return once it shows this."""

        def shows() -> bool:
            try:
                self.shown.extend(os.read(self.fd, 4096))
            except BlockingIOError:
                pass
            except OSError:  # nobody has the other side any more
                assert text.encode() in self.shown, self.shown.decode()
            return text.encode() in self.shown

        wait_until(shows)

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)


@contextmanager
def terminal(place: Place, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        cwd=place.root / "work",
        env=place.environment,
        start_new_session=True,
    ) as command:
        os.close(theirs)
        try:
            yield Terminal(command, ours)
        finally:
            command.kill()
            os.close(ours)


def test_exec_and_wait_ask_at_the_terminal_and_show_no_password(place: Place) -> None:
    session = place.run("new", "asks", "--json").stdout
    session_id = json.loads(session)["session_id"]
    with terminal(place, "exec", session_id, "--code", ASKS) as shown:
        shown.see("Name? ")
        shown.type("ada\n")
        shown.see("Word? ")
        wait_until(lambda: not shown.echoes)
        shown.type("swordfish\n")
        out, _ = shown.command.communicate(timeout=LIMIT_S)
        assert shown.command.returncode == 0, out
        assert out.decode().endswith("ADA 9\n")
        assert b"swordfish" not in shown.shown + out
    # A daemon that is killed while a cell waits takes no question with it.
    with terminal(place, "exec", session_id, "--code", "print(input('Still there? ') * 2)") as shown:
        shown.see("Still there? ")
        place.daemon().kill()
        shown.type("late\n")
        shown.see("The daemon ended")
    (execution, *_) = json.loads(place.run("logs", session_id, "--json").stdout)["executions"]
    with terminal(place, "wait", execution["execution_id"]) as shown:
        shown.see("Still there? ")
        shown.type("yes\n")
        out, _ = shown.command.communicate(timeout=LIMIT_S)
        assert out.decode().endswith("yesyes\n")
    # Where no terminal is, nobody is asked.
    refused = place.run("exec", session_id, "--code", "input('Name? ')")
    assert refused.returncode == 1
    assert "no page is open on this notebook" in refused.stderr


def test_run_asks_at_the_terminal(place: Place) -> None:
    cell = {"cell_type": "code", "id": "asks", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**cell, "source": ASKS}]}
    path = Path(place.root, "work", "asks.ipynb")
    path.write_text(json.dumps(notebook))
    with terminal(place, "run", str(path)) as shown:
        shown.see("Name? ")
        shown.type("ada\n")
        shown.see("Word? ")
        wait_until(lambda: not shown.echoes)
        shown.type("swordfish\n")
        shown.command.communicate(timeout=LIMIT_S)
        assert shown.command.returncode == 0
    written = path.read_text()
    assert "ADA 9" in written
    assert "swordfish" not in written


def test_what_is_asked_first_is_approved_at_the_terminal_and_never_done_by_a_daemon_that_was_killed(
    place: Place,
) -> None:
    place.environment["CELLWRIGHT_APPROVALS"] = '{"packages": "ask", "delete": "ask"}'
    session_id = json.loads(place.run("new", "asks first", "--json").stdout)["session_id"]
    install = ("packages", "add", session_id, "json")

    def answered(line: str) -> tuple[int, str]:
        with terminal(place, *install) as shown:
            shown.type("o\n")  # what is typed before the question is no answer to it
            shown.see("cellwright asks to install json for")
            shown.see("[o]nce, [s]ession, [p]roject, [a]lways, [r]efuse: ")
            shown.type(f"{line}\n")
            shown.command.wait(LIMIT_S)
            shown.shown.extend(os.read(shown.fd, 4096))
            return shown.command.returncode, shown.shown.decode()

    code, told = answered("")
    assert code == 1
    assert "the person at cellwright refused it. Nothing was done" in told
    # Nobody is asked where no terminal is.
    alone = place.run(*install)
    assert alone.returncode == 1
    assert "nobody is there to ask, and approvals.unanswered = 'refuse'" in alone.stderr
    assert answered("o")[0] == 0
    assert place.run(*install).returncode == 1
    assert answered("session")[0] == 0
    assert place.run(*install).returncode == 0
    assert f"session  packages  {session_id}" in place.run("approvals").stdout
    killed_between_question_and_answer(place, session_id, install)


def killed_between_question_and_answer(place: Place, session_id: str, install: tuple[str, ...]) -> None:
    """Nothing is done, the journal and the audit log say so, and the same is asked again."""
    with terminal(place, "session", "delete", session_id) as shown:
        shown.see("asks to delete session")
        assert "cellwright  delete session" in place.run("approvals").stdout.replace("mcp:", "")
        place.daemon().kill()
        shown.type("once\n")
        shown.see("The daemon ended")
        shown.command.wait(LIMIT_S)
        assert shown.command.returncode != 0
    assert session_id in place.run("list").stdout
    refused = [line for line in audited(place) if line.get("refused")]
    assert refused[-1]["refused"] == "the daemon ended before anybody answered"
    assert "WAITING" not in place.run("approvals").stdout
    with closing(sqlite3.connect(place.storage / "journal.db")) as journal:
        told = journal.execute("SELECT kind FROM events WHERE kind LIKE '%approval%' ORDER BY seq").fetchall()
    assert [kind for (kind,) in told[-2:]] == ["notebook.approval.requested", "notebook.approval.settled"]
    # What holds for the session outlived it.
    assert place.run(*install).returncode == 0
    with terminal(place, "session", "delete", session_id) as shown:
        shown.see("asks to delete session")
        shown.type("once\n")
        shown.command.wait(LIMIT_S)
        assert shown.command.returncode == 0
    assert session_id not in place.run("list").stdout
    deleted = [line["about"]["decided_by"] for line in audited(place) if line["about"]["action"] == "delete"]
    assert deleted == ["cellwright", "the person at cellwright"]


def audited(place: Place) -> list[dict[str, Any]]:
    """What was approved and refused, oldest first."""
    lines: list[dict[str, Any]] = json.loads(place.run("audit", "--kind", "approval", "--json").stdout)[
        "lines"
    ]
    return lines

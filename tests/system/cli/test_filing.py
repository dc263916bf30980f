"""Single files from the command line: a real daemon, data on stdout."""

from __future__ import annotations

import json

from tests.system.daemon.conftest import Place


def test_single_files_of_the_data_directory_and_of_a_session(place: Place) -> None:
    assert place.run("files", "write", "a/t.csv", "x,y\n1,2\n3,4\n").stdout == "a/t.csv: 12 bytes\n"
    assert "x: bigint, 1 \u2026 3" in place.run("files", "read", "a/t.csv").stdout
    paged = place.run("files", "read", "a/t.csv", "--limit", "1", "--json")
    assert json.loads(paged.stdout)["next_offset"] == 1
    assert "more: --offset 1" in paged.stderr
    place.run("files", "write", "--append", "a/t.csv", "5,6\n")
    assert json.loads(place.run("files", "info", "a/t.csv", "--json").stdout)["size"] == 16
    place.run("files", "mkdir", "b")
    assert place.run("files", "mv", "a/t.csv", "b/t.csv").stdout == "b/t.csv\n"
    assert place.run("files", "ls", "b").stdout.split()[-1] == "b/t.csv"
    assert place.run("files", "rm", "b/t.csv").stdout == "b/t.csv\n"
    assert json.loads(place.run("files", "ls", "b", "--json").stdout) == {"files": []}

    session = place.run("new", "filing").stdout.strip()
    place.run("files", "write", "--session", session, "given.txt", "hello\n")
    assert "hello" in place.run("files", "read", "--session", session, "given.txt").stdout
    assert "given.txt" not in place.run("files", "ls").stdout

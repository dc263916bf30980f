"""`cellwright tool calc`: in the terminal, and without a daemon."""

from __future__ import annotations

import json

from tests.system.daemon.conftest import Place


def test_an_expression_is_calculated_without_a_daemon(place: Place) -> None:
    done = place.run("calc", "3", "ft", "+", "20", "cm", "to", "m")
    assert (done.returncode, done.stdout) == (0, "1.1144 m\n"), done.stderr
    assert place.run("daemon", "status").returncode == 1


def test_a_note_goes_beside_the_value_and_into_the_data(place: Place) -> None:
    done = place.run("calc", "200 + 10%")
    assert (done.stdout, done.stderr) == ("220\n", "+ 10% was taken of 200\n")
    data = json.loads(place.run("calc", "--json", "200 + 10%").stdout)
    assert data == {"result": "220", "kind": "integer", "notes": ["+ 10% was taken of 200"]}


def test_a_refusal_is_an_error_and_a_hint(place: Place) -> None:
    done = place.run("calc", "3 m + 2 s")
    assert done.returncode == 1
    assert "error: Cannot add 3 m [length] and 2 s [time]" in done.stderr
    assert "hint: " in done.stderr


def test_an_expression_may_begin_with_a_minus(place: Place) -> None:
    assert place.run("calc", "-5 + 2").stdout == "-3\n"

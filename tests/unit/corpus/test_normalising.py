"""Two runs are equal after normalising exactly when they differ in nothing but what cannot be equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.corpus.normalising import RULES, normalised_cells


def _notebook(*outputs: dict[str, Any], count: int | None = 1) -> dict[str, Any]:
    cell = {"cell_type": "code", "source": "run()", "execution_count": count, "outputs": list(outputs)}
    return {"cells": [{"cell_type": "markdown", "source": "# Title"}, cell]}


def _stream(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _result(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def _outputs(notebook: dict[str, Any], *volatile: str, home: str = "/one") -> Any:
    [cell] = normalised_cells(notebook, directory="/a/copy", home=home, volatile=volatile)
    return cell["outputs"]


@given(st.lists(st.text(min_size=1), min_size=1))
def test_stream_is_the_same_however_it_was_cut_into_messages(pieces: list[str]) -> None:
    cut = _outputs(_notebook(*(_stream(piece) for piece in pieces)))
    assert cut == _outputs(_notebook(_stream("".join(pieces))))
    assert cut == _outputs(_notebook(_stream(pieces)))


def test_two_streams_flushed_in_either_order_are_the_same() -> None:
    one = _notebook(_stream("a"), _stream("!", "stderr"), _stream("b"))
    other = _notebook(_stream("!", "stderr"), _stream("a"), _stream("b"))
    assert _outputs(one) == _outputs(other) == [_stream("ab"), _stream("!", "stderr")]


def test_order_of_text_and_display_is_kept() -> None:
    before = _notebook(_stream("a"), _result("1"), _stream("b"))
    after = _notebook(_stream("a"), _stream("b"), _result("1"))
    assert _outputs(before) != _outputs(after)


def test_execution_counts_are_compared() -> None:
    one, other = (
        normalised_cells(_notebook(count=count), directory="/nowhere", home="/nowhere") for count in (1, 2)
    )
    assert one != other


@pytest.mark.parametrize("colour", ["", "\x1b[39m\x1b[38;5;28;01m"])
def test_a_frame_below_home_is_the_same_whatever_home_is(colour: str) -> None:
    shortened = _notebook(_stream(f"File {colour}~/lib/module.py:3"))
    in_full = _notebook(_stream(f"File {colour}/one/lib/module.py:3"))
    assert _outputs(shortened, home="/one") == _outputs(in_full, home="/two")
    assert _outputs(shortened, home="/other") != _outputs(in_full, home="/two")


def test_a_tilde_that_is_no_frame_is_compared() -> None:
    notebook = _notebook(_stream("saved ~/results.csv"))
    assert _outputs(notebook, home="/one") == [_stream("saved ~/results.csv")]


def test_directory_of_the_copy_and_names_of_compiled_cells_are_removed() -> None:
    notebook = _notebook(_stream("/a/copy/data.csv, /var/ipykernel_41/1234567.py:3: Warning"))
    assert _outputs(notebook) == [_stream("<directory>/data.csv, <compiled cell>:3: Warning")]


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("addresses", "<Line2D at 0x7f65e0fb0350>", "<Line2D at <address>>"),
        ("durations", "Wall time: 9.06 μs, user 2 ms", "Wall time: <duration>, user <duration>"),
        ("timestamps", "2026-11-15T03:00:50.058861Z", "<timestamp>"),
        ("timestamps", "Last executed: 2026-11-15, 03:00:50", "Last executed: <timestamp>"),
        ("timestamps", "datetime.datetime(2026, 11, 15, 3, 4, 58, 970532)", "<timestamp>"),
        ("unix times", "1794711880.364109", "<unix time>"),
        ("widget ids", "619d291fce174f90b2186a0d8e5545c7", "<widget id>"),
        (
            "svg ids",
            'clip-path="url(#p0b9e1c2d3f)" id="m0123456789"',
            'clip-path="url(#<svg id>)" id="<svg id>"',
        ),
    ],
)
def test_rule_removes_what_it_names_and_only_where_asked(rule: str, text: str, expected: str) -> None:
    assert _outputs(_notebook(_result(text)), rule) == [_result(expected)]
    assert _outputs(_notebook(_result(text))) == [_result(text)]


@pytest.mark.parametrize("rule", RULES)
def test_rule_leaves_results_alone(rule: str) -> None:
    text = "42, 3.14, 0xff, [1, 2], deadbeef, x = 10"
    assert _outputs(_notebook(_result(text)), rule) == [_result(text)]


def test_what_our_kernels_say_beside_an_output_is_not_compared_and_all_else_is() -> None:
    digested = {**_result("1"), "metadata": {"cellwright": {"digest": "one"}}}
    assert _outputs(_notebook(digested)) == _outputs(_notebook(_result("1")))
    assert _outputs(_notebook({**digested, "metadata": {"other": 1}})) != _outputs(_notebook(_result("1")))

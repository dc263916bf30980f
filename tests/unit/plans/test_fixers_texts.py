"""What fixers read text with: regions, cells and nearness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.plans.fixers._cells import Edit, literal_like, parse, syntax_error
from cellwright.plans.fixers._known_names import distributions_for, installable
from cellwright.plans.fixers._regions import blanked, brackets, code_only, regions
from cellwright.plans.fixers._similarity import distance, is_slip, nearest

LETTERS = st.text("ab\"'#\\\n\r ([{)]}%!?=x", max_size=40)


@given(LETTERS)
def test_regions_cover_a_text_without_gaps(text: str) -> None:
    found = regions(text)
    assert "".join(text[region.start : region.end] for region in found) == text
    assert all(region.end > region.start for region in found)


@given(LETTERS)
def test_blanking_keeps_every_line_and_code_its_place(text: str) -> None:
    assert blanked(text).count("\n") == text.count("\n")
    assert len(code_only(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%matplotlib inline\nx", "\nx"),
        ("if a:\n    %time b\nc", "if a:\n    pass\nc"),
        ("files = !ls 'it\nx", "files = None\nx"),
        ("!a \\\n  b\nc", "\n\nc"),
        ("x = (5\n % 3)\ny = 5 \\\n %z", "x = (5\n % 3)\ny = 5 \\\n %z"),
        ("'''\n%no\n'''", "'''\n%no\n'''"),
        ("help?\nx != y", "\nx != y"),
        ("%%time\nx = 1", "\nx = 1"),
        ("%timeit f(\n  a,\n)\nx", "\n\n\nx"),
        ("x = %timeit -o f(\n  1)\ny", "x = None\n\ny"),
        ("%timeit for a in b:\n\n    a\n    b\nc", "\n\n\n\nc"),
        ("%%timeit\n    a\n  b\nc", "\n\n\nc"),
        ("%time f(\nx = 1", "\nx = 1"),
        ("%%bash\nfor i", "\n"),
    ],
)
def test_lines_of_ipythons_own_are_blanked(text: str, expected: str) -> None:
    assert blanked(text) == expected


def test_brackets_in_strings_and_comments_count_nothing() -> None:
    assert brackets("f('(' # (\n)") == ((), None)
    open_ones, wrong = brackets("f([1)")
    assert [bracket.text for bracket in open_ones] == ["(", "["]
    assert wrong is not None
    assert wrong.place == 4


def test_edits_by_place_count_letters_not_bytes() -> None:
    cell = parse("größe = 'ä' + wert\r\nx = wert")
    assert cell is not None
    edits = [cell.replace(node, "W") for node in cell.names() if node.id == "wert"]
    assert cell.edited(edits) == "größe = 'ä' + W\r\nx = W"


def test_edits_that_overlap_or_do_not_compile_are_refused() -> None:
    cell = parse("abc = 1")
    assert cell is not None
    assert cell.edited([Edit(0, 3, "x"), Edit(1, 2, "y")]) is None
    assert cell.edited([Edit(0, 3, "1")]) is None
    assert cell.edited([Edit(0, 3, "abc")]) is None
    assert cell.edited([]) is None


def test_top_level_await_compiles_and_what_cannot_be_read_does_not_raise() -> None:
    assert syntax_error("await x\n%magic\nasync with y: pass") is None
    assert syntax_error("x = \x00") is not None
    assert parse("(" * 5_000) is None


@pytest.mark.parametrize(
    ("segment", "old", "new", "expected"),
    [
        ("'a'", "a", "b", "'b'"),
        ('r"a"', "a", "b", 'r"b"'),
        ("'''a'''", "a", "b", "'''b'''"),
        ("'a'", "a", "it's", '"it\'s"'),
        ("'a' 'b'", "ab", "c", "'c'"),
        (r"'\x61'", "a", "b", "'b'"),
        ("'a'", "x", "b", None),
        ("b'a'", "a", "b", None),
        ("f'a'", "a", "b", None),
        ("a", "a", "b", None),
    ],
)
def test_a_literal_keeps_its_quotes_where_it_can(
    segment: str, old: str, new: str, expected: str | None
) -> None:
    assert literal_like(segment, old, new) == expected


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_the_same_both_ways_and_none_only_for_the_same(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)


@pytest.mark.parametrize(
    ("one", "other", "away"),
    [
        ("abc", "acb", 1),
        ("abc", "ab", 1),
        ("abc", "abxc", 1),
        ("abc", "axc", 1),
        ("abcd", "badc", 2),
        ("abc", "xyz", 3),
    ],
)
def test_distance_counts_a_swap_as_one_slip(one: str, other: str, away: int) -> None:
    assert distance(one, other) == away


def test_the_same_but_for_case_and_separators_comes_before_a_slip() -> None:
    near = nearest("unit_price", ["Unit Price", "unit_prices", "unitprice2"])
    assert near is not None
    assert near.found == ("Unit Price",)
    assert near.certain


def test_two_that_are_the_same_but_for_case_are_unsure() -> None:
    near = nearest("price", ["Price", "PRICE"])
    assert near is not None
    assert not near.certain


def test_another_word_nearby_makes_it_unsure() -> None:
    near = nearest("summry", ["summary", "sumery"])
    assert near is not None
    assert not near.certain


def test_swapped_letters_tell_more_than_another_word_nearby() -> None:
    near = nearest("xlable", ["xlabel", "ylabel"])
    assert near is not None
    assert near.found == ("xlabel",)
    assert near.certain


@pytest.mark.parametrize(
    ("wanted", "known", "slip"),
    [
        ("quantiy", "quantity", True),
        ("quantity", "quantiy", True),  # the one that is there is misspelt
        ("read_cvs", "read_csv", False),  # where nobody knows that it is a library's
        ("x_train", "y_train", False),
        ("q1_sales", "q2_sales", False),
        ("item", "items", False),
        ("country", "county", False),
        ("rate", "date", False),
        ("ab", "abc", False),
        ("scaled", "scaler", False),
        ("xdata", "ydata", False),
        ("nrows", "rows", False),
        ("appendd", "append", True),
        ("rpint", "print", True),
    ],
)
def test_a_slip_is_no_other_word_number_or_short_part(wanted: str, known: str, slip: bool) -> None:
    assert is_slip(wanted, known) is slip


def test_what_brings_a_module_is_known_by_its_top_name() -> None:
    assert distributions_for("sklearn.linear_model") == ("scikit-learn",)
    assert distributions_for("google.protobuf.message") == ("protobuf",)
    assert distributions_for("some_thing") == ("some-thing",)
    assert installable("PIL.Image", frozenset({"pillow"})) == "pillow"
    assert installable("PIL", frozenset({"numpy"})) is None

"""Small edits of texts, and two people's edits together."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cellwright.jupyter._document_merge import TextEdit, edited, merged_text, text_edits
from tests.support.livedocs.sheetmaking import sources


@given(sources, sources)
def test_edits_make_any_text_of_any_other(before: str, after: str) -> None:
    edits = text_edits(before, after)
    assert edited(before, edits) == after
    assert all(first.stop < second.start for first, second in itertools.pairwise(edits))


def test_a_typed_character_is_one_insertion() -> None:
    assert text_edits("prin(1)", "print(1)") == [TextEdit(4, 4, "t")]


def test_two_changed_words_leave_what_stands_between_them() -> None:
    assert text_edits("total = one + two", "sum = one + three") == [
        TextEdit(0, 5, "sum"),
        TextEdit(14, 17, "three"),
    ]


def test_texts_of_many_thousand_words_are_compared_by_lines() -> None:
    before = "".join(f"word {number} of many\n" for number in range(1_500))
    after = (
        before.replace("word 3 ", "term 3 ")
        .replace("word 700 ", "term 700 ")
        .replace("word 1400 ", "term 1400 ")
    )
    edits = text_edits(before, after)
    assert edited(before, edits) == after
    assert "term 700 of many\n" in [edit.text for edit in edits]


@given(sources, sources, sources)
def test_merging_loses_nothing_that_either_wrote(base: str, ours: str, theirs: str) -> None:
    merged = merged_text(base, ours, theirs)
    for side in (ours, theirs):
        assert all(edit.text in merged for edit in text_edits(base, side))


@given(sources, sources)
def test_merging_with_what_did_not_change_is_the_other_side(base: str, other: str) -> None:
    assert (
        merged_text(base, base, other)
        == merged_text(base, other, base)
        == merged_text(base, other, other)
        == other
    )


@given(sources, st.text("xyz ", max_size=4), st.text("pq ", max_size=4))
def test_insertions_at_both_ends_are_both_there(base: str, first: str, last: str) -> None:
    assert merged_text(base + "|", first + base + "|", base + "|" + last) == first + base + "|" + last


def test_an_edit_that_came_two_ways_is_made_once() -> None:
    first, more = "a\nprint(1)\n", "a\nprint(1)\n# and more\n"
    assert merged_text("a\n", first, more) == merged_text("a\n", more, first) == more

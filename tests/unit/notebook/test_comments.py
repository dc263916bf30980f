"""Remarks of people on cells."""

from __future__ import annotations

import pytest

from cellwright.notebook import CellAdded, Document
from cellwright.notebook.document import Comment, comments_of, with_comment, without_comment


def document(metadata: dict[str, object] | None = None) -> Document:
    made = Document.new()
    made.apply(CellAdded("a", "code", "1", 0, metadata or {}))
    return made


def test_comments_are_kept_beside_what_else_is_known_of_a_cell() -> None:
    book = document({"tags": ["x"], "cellwright": {"state": "ok"}})
    book.apply(with_comment(book.cell("a"), Comment("ann", 1.2345, "Why 1?")))
    book.apply(with_comment(book.cell("a"), Comment("bob", 2.0, "Because")))
    assert [one.text for one in comments_of(book.cell("a"))] == ["Why 1?", "Because"]
    assert book.cell("a").metadata["cellwright"]["state"] == "ok"
    assert book.cell("a").tags == ("x",)
    book.apply(without_comment(book.cell("a"), "1.234"))
    book.apply(without_comment(book.cell("a"), "2.000"))
    assert dict(book.cell("a").metadata) == {"tags": ["x"], "cellwright": {"state": "ok"}}


def test_comments_survive_the_file() -> None:
    book = document()
    book.apply(with_comment(book.cell("a"), Comment("ann", 1.0, "Zahl <b> ü")))
    again = Document.from_bytes(book.to_bytes(), name="x")
    assert comments_of(again.cell("a")) == (Comment("ann", 1.0, "Zahl <b> ü"),)


@pytest.mark.parametrize(
    "held",
    [None, "x", {"by": "a"}, [1, None, {"by": 1, "at": 2, "text": "t"}, {"by": "a", "at": "x", "text": "t"}]],
)
def test_what_is_no_comment_is_passed_over(held: object) -> None:
    assert comments_of(document({"cellwright": {"comments": held}}).cell("a")) == ()


def test_of_very_many_the_newest_stay_and_long_ones_are_cut() -> None:
    book = document()
    for number in range(60):
        book.apply(with_comment(book.cell("a"), Comment("ann", float(number), "x" * 5_000)))
    kept = comments_of(book.cell("a"))
    assert (len(kept), kept[-1].at, len(kept[0].text)) == (50, 59.0, 4_000)

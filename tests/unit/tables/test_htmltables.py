"""A table for people: pages without a script, nothing of the data read as markup, what is missing visible."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright_kernel.htmltables import html_table
from cellwright_kernel.tables import Column, Table

HOSTILE = "</td></table><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;"


class Seen(HTMLParser):
    """What a browser would build: tags by number, and the text of cells."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "input":
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data


def numbers(count: int) -> Table:
    return Table((Column("n", "number", "int64"),), tuple((number,) for number in range(count)), count)


def test_long_tables_have_pages_and_no_script() -> None:
    page = html_table(numbers(45))
    seen = Seen(page)
    assert seen.open == []
    assert seen.tags.count("tbody") == seen.tags.count("input") == seen.tags.count("label") == 3
    assert "script" not in seen.tags
    assert "41\u201345" in page
    assert [value for name, value in seen.attributes if name == "checked"] == [None]
    ids = [value for name, value in seen.attributes if name == "id"]
    assert ids == [value for name, value in seen.attributes if name == "for"]
    assert "input" not in Seen(html_table(numbers(20))).tags


def test_two_tables_of_one_page_turn_by_themselves() -> None:
    first, second = html_table(numbers(45)), html_table(numbers(46))
    assert {value for name, value in Seen(first).attributes if name == "name"}.isdisjoint(
        value for name, value in Seen(second).attributes if name == "name"
    )
    assert first == html_table(numbers(45))


@pytest.mark.parametrize("place", ["value", "name", "dtype", "title", "notice"])
def test_nothing_of_the_data_is_markup(place: str) -> None:
    def at(where: str) -> str:
        return HOSTILE if place == where else "x"

    table = Table((Column(at("name"), "text", at("dtype")),), ((at("value"),),), 1, (at("notice"),))
    page = html_table(table, title=at("title"))
    seen = Seen(page)
    assert seen.open == []
    assert not {"script", "img"} & set(seen.tags)
    assert HOSTILE not in page
    if place == "value":
        assert seen.cells[-1] == HOSTILE


def test_missing_values_are_seen_and_numbers_stand_on_the_right() -> None:
    columns = (Column("x", "number", "float64", missing=1), Column("s", "text"))
    page = html_table(Table(columns, ((None, None), (0.1 + 0.2, "a")), 2))
    assert page.count("<em>missing</em>") == 2
    assert '<td class="cw-number" title="0.30000000000000004">0.3</td>' in page
    assert "float64, 1 missing" in page


def test_what_is_not_shown_is_said() -> None:
    columns = tuple(Column(f"c{number}", "number") for number in range(100))
    page = html_table(Table(columns, (tuple(range(100)),) * 1_000, 5_000, ("a sample",)))
    assert "5,000 rows \u00d7 100 columns" in page
    assert "the first 60 of 100 columns are shown" in page
    assert "the first 500 of 1,000 rows are shown" in page
    assert "a sample" in page
    assert len(page) < 1_000_000


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.text())
def test_any_values_make_a_whole_page(rows: Any, name: str) -> None:
    table = Table((Column(name, "other"), Column("b", "number")), tuple(rows), len(rows))
    page = html_table(table)
    assert Seen(page).open == []
    assert len(Seen(page).cells) == 2 + 2 * len(rows)
    page.encode("utf-8")

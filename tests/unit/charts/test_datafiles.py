"""Data files as people write them: read right, or refused with the line."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.charts.data_files import read_table
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import Table


def kinds(table: Table) -> dict[str, str]:
    return {column.name: column.kind for column in table.columns}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_out(delimiter: str) -> None:
    text = f"a{delimiter}b{delimiter}c\n1{delimiter}x, y; z{delimiter}2.5\n".replace(
        "x, y; z", '"x, y; z"' if delimiter in ",;" else "x, y; z"
    )
    table = read_table(text.encode(), "x.csv")
    assert table.rows == ((1, "x, y; z", 2.5),)
    assert kinds(table) == {"a": "number", "b": "text", "c": "number"}


def test_a_byte_order_mark_quoted_newlines_and_empty_lines_are_no_trouble() -> None:
    table = read_table('\ufeffname,note\nÅsa,"two\nlines"\n\nBo,\n'.encode(), "x.csv")
    assert table.names == ("name", "note")
    assert table.rows == (("Åsa", "two\nlines"), ("Bo", None))
    assert table.columns[1].missing == 1


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "2"], "number", (1, 2)),
        (["1", ""], "number", (1, None)),
        (["1.5", "-2e3"], "number", (1.5, -2000.0)),
        (["1.5", "NA"], "number", (1.5, None)),
        (["007", "012"], "text", ("007", "012")),
        (["1_000", "2"], "text", ("1_000", "2")),
        (["1,5", "2,5"], "text", ("1,5", "2,5")),
        (["true", "False"], "bool", (True, False)),
        (["2026-01-01", "2026-02"], "time", ("2026-01-01", "2026-02")),
        (["2026-01-01T10:00:00Z", "2026-01-01 10:00:00+02:00"], "time", None),
        (["2026-13-01", "2026-01-01"], "text", None),
        (["", ""], "text", (None, None)),
    ],
)
def test_a_column_is_what_all_of_its_values_are(
    texts: list[str], kind: str, values: tuple[object, ...] | None
) -> None:
    sink = io.StringIO()
    csv.writer(sink).writerows([("a", "b"), *((text, "x") for text in texts)])
    table = read_table(sink.getvalue().encode(), "x.csv")
    assert table.columns[0].kind == kind
    if values is not None:
        assert tuple(row[0] for row in table.rows) == values


def test_what_is_not_finite_is_left_out_and_counted() -> None:
    table = read_table(b"a,b\n1,x\nnan,y\ninf,z\n-Infinity,w\n", "x.csv")
    assert [row[0] for row in table.rows] == [1.0, None, None, None]
    assert table.notices == ("'a': 3 values are NaN or infinite, and left out",)
    table = read_table(b'[{"a": NaN}, {"a": Infinity}, {"a": 2}]', "x.json")
    assert [row[0] for row in table.rows] == [None, None, 2]
    assert "2 values are NaN or infinite" in table.notices[0]


def test_a_stray_text_among_numbers_is_told_by_its_line() -> None:
    lines = ["a,b", '"1\n",2', *("3,4" for _ in range(40)), "oops,5", *("6,7" for _ in range(20))]
    table = read_table("\n".join(lines).encode(), "x.csv")
    assert table.columns[0].kind == "text"
    assert table.notices == ("'a' holds text: 1 of 62 values are no numbers, the first is 'oops' in line 44",)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "x.csv: it is empty"),
        (b"a,b\n1,2\n3\n4,5,6\n", "x.csv: line 3 has 1 fields, the header has 2, and 1 more such lines"),
        (b'a,b\n"1\n2",3\n4\n', "x.csv: line 4 has 1 fields"),
        ("a\nÅ\n".encode("latin-1"), "x.csv: line 2 is not UTF-8"),
        (b"a\n" + b'"' + b"x" * 200_000 + b'"', "field larger than field limit"),
        (",".join(f"c{number}" for number in range(2_000)).encode(), "2,000 columns are more than 1,000"),
    ],
)
def test_what_cannot_be_read_is_told_by_line(content: bytes, told: str) -> None:
    with pytest.raises(ChartRefused) as refused:
        read_table(content, "x.csv")
    assert told in refused.value.message


def test_columns_without_a_name_of_their_own_get_one() -> None:
    table = read_table(b",a,a,\n0,1,2,3\n", "x.csv")
    assert table.names == ("index", "a", "a (2)", "column 4")
    assert table.notices == ("the column name 'a' occurs twice; the later is called 'a (2)'",)


@pytest.mark.parametrize(
    "held",
    [
        [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
        {"a": [1, 2], "b": ["x", "y"]},
        {"columns": ["a", "b"], "data": [[1, "x"], [2, "y"]]},
        {"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": "y"}},
        {"data": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]},
    ],
    ids=["records", "columns", "split", "indexed", "envelope"],
)
def test_json_is_read_in_every_form_that_frames_are_written_in(held: object) -> None:
    table = read_table(json.dumps(held).encode(), "x.json")
    assert (table.names, table.rows) == (("a", "b"), ((1, "x"), (2, "y")))


def test_json_lines_are_records() -> None:
    table = read_table(b'{"a": 1}\n\n{"a": 2, "b": null}\n', "x.ndjson")
    assert (table.names, table.rows) == (("a", "b"), ((1, None), (2, None)))


def test_a_graph_becomes_a_table_of_links_with_a_row_for_each_node() -> None:
    held = {"nodes": [{"id": "a", "group": 1}, "b"], "links": [{"source": "a", "target": "b"}, ["b", "a", 3]]}
    table = read_table(json.dumps(held).encode(), "x.json")
    assert table.names == ("source", "target", "group", "value")
    assert table.rows == (
        ("a", None, 1, None),
        ("b", None, None, None),
        ("a", "b", None, None),
        ("b", "a", None, 3),
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'[{"a": 1},\n oops]', "line 2, column 2"),
        (b'{"a": 1}\n{"a": }\n', "line 2: Expecting value"),
        (b"3", "single value"),
        (b"[]", "empty list"),
        (b'[{"a": 1}, 2]', "mixes records with other values"),
        (b'{"a": [1, 2], "b": [1]}', "its columns differ in length: a 2, b 1"),
        (b'{"columns": ["a"], "data": [[1, 2]]}', "data[0] has not one value"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_table_is_refused_with_the_reason(content: bytes, told: str) -> None:
    with pytest.raises(ChartRefused) as refused:
        read_table(content, "x.json")
    assert told in refused.value.message


@given(
    st.lists(
        st.tuples(
            st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")), st.floats()
        ),
        min_size=1,
        max_size=20,
    )
)
def test_whatever_a_csv_writer_writes_is_read_back(rows: list[tuple[str, float]]) -> None:
    sink = io.StringIO()
    csv.writer(sink).writerows([("name", "number"), *rows])
    table = read_table(sink.getvalue().encode(), "x.csv")
    assert len(table.rows) == len(rows)
    assert kinds(table)["number"] == "number"
    if kinds(table)["name"] == "text":
        assert [row[0] or "" for row in table.rows] == [name for name, _ in rows]


@given(st.binary(max_size=300), st.sampled_from(["x.csv", "x.json", "x"]))
def test_any_bytes_are_a_table_or_a_refusal(content: bytes, name: str) -> None:
    refused = ""
    try:
        table = read_table(content, name)
    except ChartRefused as error:
        refused = error.message
    assert refused.startswith(name) if refused else all(len(row) == len(table.columns) for row in table.rows)

"""Specs: the right numbers in them, whatever the data, and a message with the field where there can be no picture."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from cellwright.charts import Config, Output, chart_spec
from cellwright.charts.data_files import read_table
from cellwright.charts.encodings import ChartType
from cellwright.charts.kinds import ChartKind, ChartKindFailed, ChartKinds, Drawing, Encodings
from cellwright.charts.worker import paint
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import Column, Table
from tests.matrix import each_with_one
from tests.support.charts.making import SALES, drawn_values, output, spec


def refusal(content: bytes, type_: Any = "bar_chart", **config: Any) -> str:
    with pytest.raises(ChartRefused) as refused:
        spec(content, type_, **config)
    return refused.value.message


def test_a_wrong_column_is_told_with_its_field_what_there_is_and_what_was_meant() -> None:
    told = refusal(SALES, x_column="month", y_columns=("revnue",))
    assert told == (
        "outputs[0].config.yColumn: there is no column 'revnue' in sales.csv; it has month, revenue, cost"
        " — did you mean 'revenue'?"
    )


def test_all_wrong_columns_are_told_at_once() -> None:
    told = refusal(SALES, x_column="m", y_columns=("revenue", "x"), group_by="g").split("\n")
    assert [line.split(":")[0] for line in told] == [
        "outputs[0].config.xColumn",
        "outputs[0].config.yColumn[1]",
        "outputs[0].config.groupBy",
    ]


def test_a_column_of_text_where_numbers_must_be_is_told_with_an_example() -> None:
    told = refusal(SALES, "line_chart", x_column="revenue", y_columns=("month",))
    assert told.startswith(
        "outputs[0].config.yColumn: 'month' holds text, for instance 'Jan', and must hold numbers"
    )
    assert "numbers are in revenue, cost" in told


@pytest.mark.parametrize(
    "type_",
    ["line_chart", "bar_chart", "scatter", "pie_chart", "histogram", "area", "heatmap", "box", "graph"],
)
def test_no_rows_is_told_and_one_row_is_drawn(type_: Any) -> None:
    assert refusal(b"a,b\n", type_) == "outputs[0].dataFile: sales.csv has no rows"
    assert spec(b"a,b\nx,1\n", type_).vega_lite is not None


@pytest.mark.parametrize("type_", ["line_chart", "bar_chart", "scatter", "pie_chart", "box"])
def test_a_column_without_any_value_is_told(type_: Any) -> None:
    told = refusal(b"a,b\nx,nan\ny,nan\n", type_, y_columns=("b",))
    assert "'b' has no value that can be drawn in 2 rows" in told


def test_bars_add_up_what_shares_a_name_and_say_so() -> None:
    made = spec(b"city,sold\nRome,1\nOslo,2\nRome,3\nOslo,\n")
    assert drawn_values(made) == [{"x": "Rome", "s": "sold", "y": 4}, {"x": "Oslo", "s": "sold", "y": 2}]
    assert "several rows share a bar: sold is added up" in made.notices
    assert "'sold': 1 row without a value" in made.notices
    assert "sum of sold: highest 4 (Rome), lowest 2 (Oslo)" in made.digest


def test_bars_without_a_column_of_values_count_rows() -> None:
    made = spec(b"city\nRome\nOslo\nRome\n")
    assert [(row["x"], row["y"]) for row in drawn_values(made)] == [("Rome", 2), ("Oslo", 1)]


def test_of_a_thousand_categories_the_largest_are_drawn_and_the_others_told() -> None:
    rows = "".join(f"name {number},{number}\n" for number in range(1, 1_001))
    made = spec(f"name,value\n{rows}".encode())
    values = drawn_values(made)
    assert [row["y"] for row in values] == list(range(1_000, 961, -1))
    left = f"{sum(range(962)):,}"
    assert f"1,000 categories: the 39 largest are shown, the others add up to {left}" in made.notices


def test_a_few_small_categories_too_many_become_one_bar() -> None:
    rows = "".join(f"name {number},{100 if number < 39 else 2}\n" for number in range(50))
    values = drawn_values(spec(f"name,value\n{rows}".encode()))
    assert (len(values), values[-1]["x"], values[-1]["y"]) == (40, "other (11 more)", 22)


def test_names_that_begin_alike_stay_apart() -> None:
    made = spec(f"{'name'},v\n{'x' * 80}1,1\n{'x' * 80}2,2\n".encode())
    assert sorted(row["y"] for row in drawn_values(made)) == [1, 2]


def test_times_as_categories_are_put_together_by_the_calendar() -> None:
    rows = "".join(f"2024-{1 + day // 28:02}-{1 + day % 28:02},1\n" for day in range(300))
    made = spec(f"day,n\n{rows}".encode(), x_column="day")
    assert drawn_values(made)[0] == {"x": "Jan 2024", "s": "n", "y": 28}
    assert "day is put together by month" in made.notices


def test_a_line_keeps_its_spikes_when_it_is_thinned() -> None:
    values = [0.0] * 100_000
    values[54_321], values[77_777] = 99.0, -99.0
    rows = "".join(f"{number},{value}\n" for number, value in enumerate(values))
    made = spec(f"x,y\n{rows}".encode(), "line_chart")
    points = {(row["x"], row["y"]) for row in drawn_values(made)}
    assert {(54_321, 99.0), (77_777, -99.0), (0, 0.0), (99_999, 0.0)} <= points
    assert len(points) < 5_000
    assert any("of 100,000 points are drawn" in notice for notice in made.notices)
    assert "lowest -99 (77,777), highest 99 (54,321)" in made.digest


def test_a_line_is_drawn_in_order_and_one_value_at_each_place() -> None:
    made = spec(b"x,y\n3,1\n1,2\n3,5\n2,\n", "line_chart", x_column="x")
    assert [(row["x"], row["y"]) for row in drawn_values(made)] == [(1, 2), (2, None), (3, 3)]
    assert "several rows share a place: the line shows their mean" in made.notices


def test_different_offsets_meet_on_one_axis() -> None:
    made = spec(b"t,y\n2026-01-01T12:00:00+02:00,1\n2026-01-01T11:00:00Z,2\n", "line_chart")
    assert [row["x"] for row in drawn_values(made)] == ["2026-01-01T10:00:00", "2026-01-01T11:00:00"]
    same = spec(b"t,y\n2026-01-01T12:00:00+02:00,1\n2026-01-02T12:00:00+02:00,2\n", "line_chart")
    assert drawn_values(same)[0]["x"] == "2026-01-01T12:00:00"


def test_many_series_become_few_with_a_notice() -> None:
    rows = "".join(f"{x},{x},s{series}\n" for series in range(50) for x in range(3))
    made = spec(f"x,y,g\n{rows}".encode(), "line_chart", x_column="x", y_columns=("y",), group_by="g")
    assert len({row["s"] for row in drawn_values(made)}) == 8
    assert "8 of 50 series are drawn: those with the most rows" in made.notices


def test_a_scatter_of_many_points_keeps_its_corners() -> None:
    chance = random.Random(1)
    points = [(chance.gauss(0, 1), chance.gauss(0, 1)) for _ in range(20_000)]
    rows = "".join(f"{x},{y}\n" for x, y in points)
    made = spec(f"x,y\n{rows}".encode(), "scatter")
    drawn = [(row["x"], row["y"]) for row in drawn_values(made)]
    assert 5_000 <= len(drawn) <= 5_004
    for side in (0, 1):
        assert min(point[side] for point in drawn) == min(point[side] for point in points)
        assert max(point[side] for point in drawn) == max(point[side] for point in points)


def test_slices_of_a_pie_are_shares_and_may_not_be_negative() -> None:
    made = spec(b"label,value\na,3\nb,1\na,4\n", "pie_chart")
    assert [(row["s"], row["y"], row["p"]) for row in drawn_values(made)] == [
        ("a", 7, 0.875),
        ("b", 1, 0.125),
    ]
    told = refusal(b"label,value\na,3\nb,-1\n", "pie_chart")
    assert told.startswith("outputs[0].config.valueColumn: 'value' has -1 in row 2; slices")
    assert "add up to nothing" in refusal(b"label,value\na,0\nb,0\n", "pie_chart")


def test_a_histogram_counts_every_row() -> None:
    chance = random.Random(1)
    rows = "".join(f"{chance.gauss(10, 3)},{chance.choice('ab')}\n" for _ in range(5_000))
    made = spec(f"x,g\n{rows}".encode(), "histogram", x_column="x", group_by="g")
    values = drawn_values(made)
    assert sum(row["n"] for row in values) == 5_000
    assert all(row["y"] - row["b"] == row["n"] for row in values)
    assert 8 <= len({row["x"] for row in values}) <= 42


def test_a_histogram_puts_values_on_an_edge_into_the_bin_above() -> None:
    made = spec(b"x\n0\n10\n10\n20\n30\n40\n50\n60\n70\n80\n", "histogram")
    counts = {row["x"]: row["n"] for row in drawn_values(made)}
    assert counts[10.0] == 2
    assert sum(counts.values()) == 10


def test_a_box_has_the_quartiles_of_all_rows() -> None:
    rows = "".join(f"a,{number}\n" for number in range(1, 102))
    made = spec(f"g,v\n{rows}a,1000\na,-1000\n".encode(), "box")
    (box,) = drawn_values(made)
    assert (box["b"], box["y"], box["c"], box["n"]) == (25.5, 51, 76.5, 103)
    assert (box["a"], box["d"]) == (1, 101)
    assert "2 far out" in made.digest


def test_a_matrix_is_a_heatmap_as_it_is_written() -> None:
    made = spec(b",a,b\na,1,-0.5\nb,-0.5,1\n", "heatmap")
    assert {(row["x"], row["y"]): row["v"] for row in drawn_values(made)} == {
        ("a", "a"): 1,
        ("b", "a"): -0.5,
        ("a", "b"): -0.5,
        ("b", "b"): 1,
    }


def test_a_heatmap_of_rows_is_the_mean_of_each_pair() -> None:
    made = spec(b"x,y,v\na,p,1\na,p,3\nb,q,5\n", "heatmap")
    assert {(row["x"], row["y"]): row["v"] for row in drawn_values(made)} == {("a", "p"): 2, ("b", "q"): 5}


def test_a_graph_has_every_node_once_and_the_same_places_each_time() -> None:
    content = json.dumps(
        {
            "nodes": [{"id": "a", "group": "x"}, {"id": "b"}, {"id": "alone"}],
            "links": [{"source": "a", "target": "b"}],
        }
    ).encode()
    made, again = (spec(content, "graph", name="g.json") for _ in range(2))
    assert made == again
    assert made.vega_lite is not None
    nodes = made.vega_lite["layer"][1]["data"]["values"]
    assert [(node["n"], node["d"], node["s"]) for node in nodes] == [
        ("a", 1, "x"),
        ("b", 1, "(missing)"),
        ("alone", 0, "(missing)"),
    ]
    assert len({(node["x"], node["y"]) for node in nodes}) == 3
    assert "3 nodes, 1 link" in made.digest


def test_a_graph_of_many_nodes_is_cut_to_those_with_the_most_links() -> None:
    rows = "".join(f"n{number},n{number // 2}\n" for number in range(1, 1_000))
    made = spec(f"source,target\n{rows}".encode(), "graph")
    assert made.vega_lite is not None
    assert len(made.vega_lite["layer"][1]["data"]["values"]) == 300
    assert "300 of 1,000 nodes are drawn: those with the most links" in made.notices


def test_no_name_of_a_column_is_read_as_a_path_or_an_expression() -> None:
    names = ["a.b", "c[0]", "it's", 'say "x"', "back\\slash", "datum.x", "名前", "</script>"]
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    made = spec(
        f"{header}\n1,2,3,4,5,6,7,8\n2,3,4,5,6,7,8,9\n".encode(),
        "line_chart",
        x_column=names[0],
        y_columns=tuple(names[1:]),
    )
    assert made.vega_lite is not None
    fields = {
        channel["field"] for channel in made.vega_lite["encoding"].values() if isinstance(channel, dict)
    }
    assert fields == {"x", "y", "s"}
    assert {row["s"] for row in drawn_values(made)} == set(names[1:])


def test_a_table_shows_the_columns_and_rows_that_are_asked_for() -> None:
    made = spec(SALES, "table", columns=("cost", "month"), max_rows=2)
    assert made.vega_lite is None
    assert made.table is not None
    assert (made.table.names, made.table.rows) == (("cost", "month"), ((7, "Jan"), (8, "Feb")))
    assert "the first 2 of 3 rows are shown" in made.notices
    assert "cost" in made.digest


def test_rows_that_a_kernel_left_out_are_told() -> None:
    table = Table((Column("a", "text"), Column("b", "number")), (("x", 1),), 500)
    made = chart_spec(Output("a", "bar_chart", config=Config()), table)
    assert "made from 1 of 500 rows" in made.notices


def test_without_a_manifest_a_message_names_the_option_alone() -> None:
    with pytest.raises(ChartRefused, match=r"^yColumn: there is no column 'z' in the data; it has a"):
        chart_spec(
            Output("a", "bar_chart", config=Config(y_columns=("z",))),
            Table((Column("a", "number"),), ((1,),), 1),
        )


def test_notices_stand_below_the_title() -> None:
    made = chart_spec(
        output(), Table((Column("a", "text"), Column("b", "number")), (("x", 1),), 9, ("every third row",))
    )
    assert made.vega_lite is not None
    assert made.vega_lite["title"]["subtitle"] == ["every third row · made from 1 of 9 rows"]


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.matrix)])
def test_many_rows_make_less_than_a_megabyte(count: int) -> None:
    rows = "".join(f"{number},{number * 7919 % 1000},{'abcd'[number % 4]}\n" for number in range(count))
    table = read_table(f"x,y,g\n{rows}".encode(), "sales.csv")
    types: tuple[ChartType, ...] = ("line_chart", "scatter", "bar_chart", "histogram", "box", "heatmap")
    for type_ in types:
        config = {
            "x_column": "x" if type_ != "box" else "g",
            "y_columns": () if type_ in ("histogram", "heatmap") else ("y",),
        }
        made = chart_spec(output(type_, **config), table)
        assert len(json.dumps(made.vega_lite)) < 1_000_000, type_


WORDS = [
    "if",
    "constructor",
    "toString",
    "__proto__",
    "\\",
    '\\"+(1)+"',
    "'+datum+'",
    "${x}",
    "a\x07b\ufffe",
    "",
]
TYPES = ["bar_chart", "line_chart", "scatter", "pie_chart", "heatmap", "box", "histogram", "graph"]


@pytest.mark.parametrize(("word", "type_"), each_with_one(WORDS, TYPES))
def test_words_that_vega_stumbles_over_are_drawn(word: str, type_: Any) -> None:
    table = Table(
        (Column(word, "text"), Column("v", "number"), Column("g", "text")),
        ((word, 1, "p"), ("b", 2, word)),
        2,
    )
    for config in (
        Config(),
        Config(x_column="g", y_columns=("v",), group_by=word),
        Config(x_label=word, y_label=word),
    ):
        made = chart_spec(Output("a", type_, title=word, config=config), table)
        assert made.vega_lite is not None
        assert paint(made.vega_lite, theme=None, scale=0.3, max_width=None)


HERE = "tests.unit.charts.test_specs"
COUNTED = ChartKind(
    lambda _, readings, theme: Drawing({"mark": "text"}, theme, (f"{len(readings.table.rows)} rows",)),
    lambda _, config: Encodings(config.x_column),
)
RAISES = ChartKind(lambda *_: {}["no such key"], lambda *_: Encodings())
LIES = ChartKind(lambda *_: {"mark": "text"}, lambda *_: Encodings())


def test_a_plugins_type_makes_the_drawing_and_its_failures_are_told_as_its_own() -> None:
    table = read_table(b"a\n1\n2\n", "a.csv")
    kinds = ChartKinds({name: f"{HERE}:{name.upper()}" for name in ("counted", "raises", "lies")})
    made = chart_spec(Output("a", "counted", title="All"), table, theme="dark", kinds=kinds)
    assert made.vega_lite is not None
    assert (made.type, made.vega_lite["mark"], made.digest) == (
        "counted",
        "text",
        "counted: All\nshows dark\n2 rows",
    )
    with pytest.raises(ChartKindFailed, match="raised KeyError: 'no such key'"):
        chart_spec(Output("a", "raises"), table, kinds=kinds)
    with pytest.raises(ChartKindFailed, match="returned dict, and not Drawing"):
        chart_spec(Output("a", "lies"), table, kinds=kinds)


def test_without_any_type_there_are_tables() -> None:
    assert (
        chart_spec(Output("a", "auto"), read_table(b"a\n1\n2\n", "a.csv"), kinds=ChartKinds({})).type
        == "table"
    )

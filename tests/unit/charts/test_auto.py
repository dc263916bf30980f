"""The rules for ``auto``, row by row."""

from __future__ import annotations

import pytest

from cellwright.charts import Config
from cellwright.charts.auto import RULES, choose
from cellwright.charts.encodings import ColumnShape, Encodings, Shape


def text(name: str, distinct: int) -> ColumnShape:
    return ColumnShape(name, "text", distinct)


def number(name: str, distinct: int = 90, *, increasing: bool = False) -> ColumnShape:
    return ColumnShape(name, "number", distinct, increasing)


def time(name: str, distinct: int = 90) -> ColumnShape:
    return ColumnShape(name, "time", distinct, increasing=True)


@pytest.mark.parametrize(
    ("rule", "rows", "columns", "config", "type_", "encodings"),
    [
        (0, 0, [text("a", 0)], Config(), "table", Encodings()),
        (0, 9, [text("a", 9), number("b")], Config(columns=("a",)), "table", Encodings()),
        (1, 9, [text("source", 5), text("target", 5)], Config(), "graph", Encodings("source", ("target",))),
        (
            1,
            9,
            [text("From", 5), text("To", 5), number("weight")],
            Config(),
            "graph",
            Encodings("From", ("To",), value="weight"),
        ),
        (
            2,
            9,
            [text("a", 5), number("b")],
            Config(label_column="a"),
            "pie_chart",
            Encodings(label="a", value="b"),
        ),
        (3, 90, [number("a")], Config(), "histogram", Encodings("a")),
        (3, 90, [time("a")], Config(), "histogram", Encodings("a")),
        (4, 90, [text("n", 90), number("a")], Config(x_column="a"), "histogram", Encodings("a")),
        (5, 90, [text("a", 8)], Config(), "bar_chart", Encodings("a")),
        (6, 90, [time("t"), number("a"), number("b")], Config(), "line_chart", Encodings("t", ("a", "b"))),
        (
            6,
            90,
            [text("g", 3), time("t", 30), number("a")],
            Config(),
            "line_chart",
            Encodings("t", ("a",), "g"),
        ),
        (
            7,
            90,
            [number("year", increasing=True), number("a")],
            Config(),
            "line_chart",
            Encodings("year", ("a",)),
        ),
        (
            8,
            3,
            [text("", 3), number("a"), number("b"), number("c")],
            Config(),
            "heatmap",
            Encodings("", ("a", "b", "c")),
        ),
        (
            9,
            90,
            [text("a", 9), text("b", 10), number("v")],
            Config(),
            "heatmap",
            Encodings("a", ("b",), value="v"),
        ),
        (10, 90, [text("a", 3), number("v")], Config(), "box", Encodings("a", ("v",))),
        (
            11,
            12,
            [text("a", 12), number("v"), number("w")],
            Config(),
            "bar_chart",
            Encodings("a", ("v", "w")),
        ),
        (
            11,
            12,
            [text("a", 6), text("b", 2), number("v")],
            Config(),
            "bar_chart",
            Encodings("a", ("v",), "b"),
        ),
        (12, 90, [number("a"), number("b"), number("c")], Config(), "scatter", Encodings("a", ("b",))),
        (
            12,
            90,
            [text("g", 60), text("h", 3), number("a"), number("b"), number("c"), number("d"), number("e")],
            Config(),
            "scatter",
            Encodings("a", ("b",), "h"),
        ),
        (13, 90, [text("a", 80), text("b", 4)], Config(), "bar_chart", Encodings("b")),
        (14, 90, [text("a", 90), text("b", 80)], Config(), "table", Encodings()),
    ],
)
def test_the_rule_that_holds_first_decides(
    rule: int, rows: int, columns: list[ColumnShape], config: Config, type_: str, encodings: Encodings
) -> None:
    choice = choose(Shape(rows, tuple(columns)), config)
    assert (choice.rule, choice.type) == (RULES[rule].when, type_)
    assert choice.encodings == encodings


def test_a_type_that_is_asked_for_is_kept() -> None:
    choice = choose(Shape(90, (time("t"), number("a"))), Config(), "scatter")
    assert (choice.type, choice.rule) == ("scatter", "")

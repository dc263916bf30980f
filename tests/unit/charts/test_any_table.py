"""Whatever a table holds: a spec that can be drawn, or a message that names the field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.charts import Config, Output, Spec, chart_spec
from cellwright.charts.encodings import ChartType
from cellwright.charts.worker import paint
from cellwright.errors import ChartRefused
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

TYPES: tuple[ChartType, ...] = (
    "auto",
    "line_chart",
    "bar_chart",
    "scatter",
    "pie_chart",
    "histogram",
    "area",
    "heatmap",
    "box",
    "graph",
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TIMES = st.datetimes().map(lambda time: time.isoformat()) | st.dates().map(lambda date: date.isoformat())
NUMBERS = (
    st.integers(-5, 5)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308, 10**400])
)
VALUES: dict[ColumnKind, st.SearchStrategy[Value]] = {
    "number": NUMBERS,
    "text": TEXT,
    "time": TIMES,
    "bool": st.booleans(),
    "other": TEXT | st.integers() | st.booleans(),
}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    names = draw(
        st.lists(
            TEXT | st.sampled_from(["a.b", "x[0]", "source", "target", ""]),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    kinds = [draw(st.sampled_from(sorted(VALUES))) for _ in names]
    size = draw(st.integers(0, 12))
    columns = [draw(st.lists(st.none() | VALUES[kind], min_size=size, max_size=size)) for kind in kinds]
    rows = tuple(zip(*columns, strict=True))
    total = size + draw(st.sampled_from([0, 0, 1_000]))
    return Table(tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True)), rows, total)


@st.composite
def asked(draw: st.DrawFn) -> tuple[Output, Table]:
    table = draw(tables())
    name = st.none() | st.sampled_from(table.names)
    config = Config(
        x_column=draw(name),
        y_columns=tuple(draw(st.lists(st.sampled_from(table.names), max_size=2, unique=True))),
        group_by=draw(name),
        label_column=draw(name),
        value_column=draw(name),
        x_label=draw(st.none() | TEXT),
    )
    title = draw(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=90))
    return Output("a", draw(st.sampled_from(TYPES)), "data.csv", title, config, "outputs[0]"), table


@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.matrix)])
def test_any_table_is_drawn_or_refused_by_its_field(examples: int) -> None:
    settings(max_examples=examples)(given(asked())(is_drawn_or_refused))()


def is_drawn_or_refused(question: tuple[Output, Table]) -> None:
    output, table = question
    made: Spec | None = None
    refused: tuple[str, ...] = ()
    try:
        made = chart_spec(output, table)
    except ChartRefused as error:
        refused = error.problems
    assert all(problem.startswith(("outputs[0].config.", "outputs[0].dataFile: ")) for problem in refused)
    if made is not None and made.vega_lite is not None:
        json.dumps(made.vega_lite, allow_nan=False)
        assert made.digest
        assert paint(made.vega_lite, theme=None, scale=0.4, max_width=None)

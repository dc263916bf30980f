"""What the grid writes into cells, and what tracebacks and previews say beside it."""

from __future__ import annotations

import ast

import pytest

from cellwright.engine.grids import GridColumn, GridHead, ShownTable
from cellwright.formats import every_format
from cellwright.web._grid import chart_code
from cellwright.web._outputs import placed
from cellwright.web._tables import table_of
from cellwright.web._toolbar import export_choices

NUMBER = GridColumn("size of it", "number", "int64")
TIME = GridColumn("when", "time", "datetime64")
TEXT = GridColumn("kind's", "text", "object")
INDEX = GridColumn("shop", "text", "object", index=True)


def head(kind: str = "pandas.DataFrame", name: str | None = "sales") -> GridHead:
    return GridHead(kind, (INDEX, NUMBER, TIME, TEXT), 4, 10, 1, name=name)


@pytest.mark.parametrize(
    ("column", "kind", "drawn"),
    [
        (NUMBER, "pandas.DataFrame", "show(sales, 'histogram', x='size of it'"),
        (TIME, "pandas.DataFrame", "show(sales, 'line', x='when', y='size of it'"),
        (TEXT, "pandas.DataFrame", 'sales["kind\'s"].value_counts().head(20)'),
        (INDEX, "pandas.DataFrame", "sales.index.get_level_values('shop').value_counts()"),
        (TEXT, "polars.DataFrame", "value_counts(sort=True)"),
        (TEXT, "list of records", "show(sales)"),
    ],
)
def test_a_column_is_charted_by_what_it_holds(column: GridColumn, kind: str, drawn: str) -> None:
    code = chart_code(head(kind), column, ShownTable(3))
    ast.parse(code)
    assert drawn in code


def test_a_result_without_a_name_is_charted_by_its_number() -> None:
    assert "show(Out[3], " in chart_code(head(name=None), NUMBER, ShownTable(3))


def test_a_traceback_names_cells_by_their_places_as_far_as_they_are_known() -> None:
    lines = [
        "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[7]\x1b[39m\x1b[32m, line 1\x1b[39m",
        "Cell In[8], line 2",
    ]
    told = placed({"output_type": "error", "traceback": lines}, {7: 4})
    assert told["traceback"] == [lines[0].replace("In[7]", "4"), lines[1]]
    stream = {"output_type": "stream", "text": "Cell In[7]"}
    assert placed(stream, {7: 4}) is stream


def test_a_preview_knows_whether_rows_were_left_out() -> None:
    whole = "<table><tr><td>1</td><td>...</td></tr></table>"
    assert not table_of(whole).is_cut
    assert table_of(whole.replace(">1<", ">...<")).is_cut


def test_every_format_that_can_hold_the_notebook_is_in_the_export_menu_with_what_it_needs() -> None:
    choices = export_choices("typescript")
    assert sorted(one.format for one in choices) == sorted(one.name for one in every_format())
    assert {one.format for one in choices} - {one.format for one in export_choices("python")} == {"src.md"}
    assert {one.missing for one in choices} == {None}

"""What a manifest may say, and that every fault is told with its field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.charts import Manifest, read_manifest
from cellwright.charts._manifest import FILENAME, MAX_OUTPUTS
from cellwright.charts.kinds import chart_types
from cellwright_kernel import _chart_manifest
from tests.support.charts.making import entry, manifest


def problems(found: Manifest) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_the_example_of_the_specification_is_read_as_written() -> None:
    found = manifest(
        {"id": "revenue_table", "type": "table", "title": "Monthly Revenue", "dataFile": "revenue_data.csv"},
        {
            "id": "revenue_chart",
            "type": "bar_chart",
            "title": "Revenue Trend",
            "dataFile": "revenue_data.csv",
            "config": {
                "xColumn": "month",
                "yColumn": "revenue",
                "xLabel": "Month",
                "yLabel": "Revenue ($)",
            },
        },
    )
    assert not found.problems
    assert [output.type for output in found.outputs] == ["table", "bar_chart"]
    config = found.outputs[1].config
    assert (config.x_column, config.y_columns, config.y_label) == ("month", ("revenue",), "Revenue ($)")


@pytest.mark.parametrize(
    ("spelling", "type_"),
    [
        ("line", "line_chart"),
        ("area_chart", "area"),
        ("box_plot", "box"),
        ("Scatter Plot", "scatter"),
        ("pie", "pie_chart"),
        ("heat-map", "heatmap"),
        ("network", "graph"),
        ("auto", "auto"),
    ],
)
def test_a_type_may_be_spelt_as_people_do(spelling: str, type_: str) -> None:
    assert [output.type for output in manifest(entry(type=spelling)).outputs] == [type_]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"type": "line_chrat"},
            "outputs[0].type: there is no type 'line_chrat' — did you mean 'line_chart'?",
        ),
        ({"type": 3}, "outputs[0].type: it must be text, and is 3"),
        ({"id": ""}, "outputs[0].id: it is empty"),
        ({"id": None}, "outputs[0].id: it is missing"),
        ({"dataFile": None}, "outputs[0].dataFile: it is missing"),
        ({"dataFile": "../secret.csv"}, "outputs[0].dataFile: '../secret.csv' climbs"),
        ({"dataFile": "a/../../b.csv"}, "outputs[0].dataFile: 'a/../../b.csv' climbs"),
        ({"dataFile": "a\\..\\..\\b.csv"}, "outputs[0].dataFile: 'a\\\\..\\\\..\\\\b.csv' climbs"),
        ({"dataFile": "/etc/passwd"}, "outputs[0].dataFile: '/etc/passwd' is not relative"),
        ({"dataFile": "~/x.csv"}, "outputs[0].dataFile: '~/x.csv' is not relative"),
        ({"dataFile": "C:\\x.csv"}, "outputs[0].dataFile: 'C:\\\\x.csv' is not relative"),
        ({"dataFile": "https://example.com/x.csv"}, "is an address"),
        ({"dataFile": "a\0b.csv"}, "holds a control character"),
        ({"config": []}, "outputs[0].config: it must be an object, and is []"),
        (
            {"config": {"xcolumn": "a"}},
            "outputs[0].config.xcolumn: there is no such field — did you mean 'xColumn'?",
        ),
        (
            {"config": {"y_column": "a"}},
            "outputs[0].config.y_column: there is no such field — did you mean 'yColumn'?",
        ),
        (
            {"config": {"yColumn": [1]}},
            "outputs[0].config.yColumn: it must be a column's name or a list of names",
        ),
        ({"config": {"maxRows": 0}}, "outputs[0].config.maxRows: it must be a whole number from 1"),
        ({"config": {"maxRows": True}}, "outputs[0].config.maxRows: it must be a whole number"),
        ({"config": {"columns": "a"}}, "outputs[0].config.columns: it must be a list of column names"),
        ({"title": "x" * 3_000}, "outputs[0].title: 3,000 characters are more than 2,000"),
        ({"datafile": "x"}, "outputs[0].datafile: there is no such field — did you mean 'dataFile'?"),
    ],
)
def test_a_fault_names_its_field(fields: dict[str, object], told: str) -> None:
    found = manifest(entry(**fields))
    assert not found.outputs
    assert any(told in problem for problem in problems(found)), problems(found)


def test_all_faults_are_told_at_once_and_the_good_outputs_stay() -> None:
    found = manifest(entry(type="lin", dataFile="/x", config={"maxRows": -1}), entry(id="good"), 7)
    assert [output.id for output in found.outputs] == ["good"]
    paths = [problem.path for problem in found.problems]
    assert paths == ["outputs[0].type", "outputs[0].dataFile", "outputs[0].config.maxRows", "outputs[2]"]


def test_the_second_output_of_an_id_is_refused_with_the_place_of_the_first() -> None:
    found = manifest(entry(), entry(id="b"), entry())
    assert [output.path for output in found.outputs] == ["outputs[0]", "outputs[1]"]
    assert problems(found) == ["outputs[2].id: 'a' is taken by outputs[0]"]


def test_a_field_that_means_nothing_here_is_said_and_does_no_harm() -> None:
    found = manifest(entry(config={"colour": "red"}))
    assert not found.problems
    assert "outputs[0].config.colour does nothing" in found.outputs[0].notices[0]


def test_a_notice_of_the_writer_is_kept() -> None:
    assert manifest(entry(config={"notice": "every tenth row"})).outputs[0].notices == ("every tenth row",)


def test_only_so_many_outputs_are_looked_at() -> None:
    found = manifest(*(entry(id=str(number)) for number in range(150)))
    assert len(found.outputs) == 100
    assert problems(found) == ["outputs: 150 outputs; only the first 100 are looked at"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"version": "1.0",\n "outputs": [}', "line 2, column 14"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"[]", "it must be an object"),
        (b'{"outputs": []}', 'version: it is missing, and must be "1.0"'),
        (b'{"version": "2.0", "outputs": []}', "version: it is '2.0'"),
        (b'{"version": "1.0"}', "outputs: it must be a list"),
        (b"[" * 100_000, "it cannot be read as JSON"),
        (b" " * 2_000_000, "2,000,000 bytes are more than"),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_reason(content: bytes, told: str) -> None:
    found = read_manifest(content)
    assert not found.outputs
    assert told in problems(found)[0]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(["id", "type", "title", "dataFile", "config", "xColumn", "other"])


@given(outputs=st.lists(st.dictionaries(FIELDS, ANY_JSON, max_size=6) | ANY_JSON, max_size=4))
def test_any_json_is_read_or_refused_with_a_path(outputs: list[object]) -> None:
    found = read_manifest(json.dumps({"version": "1.0", "outputs": outputs}).encode())
    assert all(problem.path.startswith("outputs") for problem in found.problems)
    assert len(found.outputs) <= len(outputs)


def test_what_show_writes_is_what_a_manifest_may_say() -> None:
    """Code in a kernel cannot ask this package, and has the words a second time."""
    assert set(_chart_manifest.TYPES) == set(chart_types())
    assert (_chart_manifest.MANIFEST, _chart_manifest.MAX_OUTPUTS) == (FILENAME, MAX_OUTPUTS)

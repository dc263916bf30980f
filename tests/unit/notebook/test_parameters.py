from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import NotebookError
from cellwright.notebook import Document, add_cell, inject_parameters, parse_parameter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def sources(document: Document) -> list[str]:
    return [cell.source for cell in document.cells]


def notebook(*cells: tuple[str, list[str]]) -> Document:
    document = Document.new()
    for source, tags in cells:
        document.apply(add_cell(document, "code", source, max_cells=10, metadata={"tags": tags}))
    return document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=3", 3),
        ("n=2.5", 2.5),
        ("n=true", True),
        ("n=None", None),
        ('n=["a", 1]', ["a", 1]),
        ("n={'a': (1, 2)}", {"a": (1, 2)}),
        ("n=plain words", "plain words"),
        ("n=", ""),
        ("n=a=b", "a=b"),
    ],
)
def test_a_value_is_read_as_what_it_looks_like(text: str, value: object) -> None:
    assert parse_parameter(text) == ("n", value)


@pytest.mark.parametrize("text", ["", "n", "=3", "1n=3", "class=3", "a b=3"])
def test_what_cannot_be_a_variable_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(NotebookError, match="name=value"):
        parse_parameter(text)


def test_values_stand_behind_the_cell_of_defaults() -> None:
    document = notebook(("import x", []), ("n = 1", ["parameters"]), ("print(n)", []))
    for change in inject_parameters(document, {"n": 2}):
        document.apply(change)
    assert sources(document) == ["import x", "n = 1", "# Parameters\nn = 2", "print(n)"]


def test_without_defaults_values_come_first() -> None:
    document = notebook(("print(n)", []))
    for change in inject_parameters(document, {"n": 2}):
        document.apply(change)
    assert sources(document) == ["# Parameters\nn = 2", "print(n)"]


def test_values_of_an_earlier_run_are_replaced() -> None:
    document = notebook(("n = 1", ["parameters"]), ("print(n)", []))
    for value in (2, 3):
        for change in inject_parameters(document, {"n": value}):
            document.apply(change)
    assert sources(document) == ["n = 1", "# Parameters\nn = 3", "print(n)"]


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}_", fullmatch=True), VALUES, max_size=4))
def test_running_the_cell_gives_the_values_back(values: dict[str, object]) -> None:
    document = notebook()
    for change in inject_parameters(document, values):
        document.apply(change)
    namespace: dict[str, object] = {}
    exec(document.cells[0].source, namespace)  # noqa: S102  # the point of the cell
    assert {name: namespace[name] for name in values} == values

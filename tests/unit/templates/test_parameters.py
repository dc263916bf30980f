"""What papermill's ``parameters`` cell says: names, types, defaults and descriptions, and values in their place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import TemplateError
from cellwright.templates import Parameter
from cellwright.templates.parameters import read_parameters, with_values

PYTHON = """\
# How it is run
from typing import Literal

rows = 100  # How many rows
share: float = 1  # Of all
title = "Äpfel # 1"  # type: str  What it is called
kind: Literal["a", "b"] = "a"
names: list[str] = [
    "one",
    "two",
]
least: int | None = None
options = {"deep": [1]}; fast = False
start = len("abc")
"""
TYPESCRIPT = """\
// How it is run
const url: string = "http://127.0.0.1/x"; // Where
export const rows: number = 10
const kind: "a" | "b" = "a";
const names: string[] = ["one",
  "two"];
let fast = true
const started = Date.now();
"""


def test_python_assignments_are_parameters_with_types_defaults_and_descriptions() -> None:
    assert read_parameters(PYTHON, "python") == (
        Parameter("rows", "int", 100, "How many rows"),
        Parameter("share", "float", 1, "Of all"),
        Parameter("title", "str", "Äpfel # 1", "What it is called"),
        Parameter("kind", "str", "a", "", ("a", "b")),
        Parameter("names", "list", ["one", "two"]),
        Parameter("least", "int", None, "", (), optional=True),
        Parameter("options", "dict", {"deep": [1]}),
        Parameter("fast", "bool", False),
        Parameter("start", "any", "len('abc')"),
    )


def test_typescript_declarations_are_parameters_where_they_are_json() -> None:
    assert read_parameters(TYPESCRIPT, "typescript") == (
        Parameter("url", "str", "http://127.0.0.1/x", "Where"),
        Parameter("rows", "int", 10),
        Parameter("kind", "str", "a", "", ("a", "b")),
        Parameter("names", "list", ["one", "two"]),
        Parameter("fast", "bool", True),
    )


def test_values_stand_in_the_place_of_the_defaults_and_nothing_else_changes() -> None:
    values = {"title": "it's", "names": ["x"], "fast": True, "start": 4}
    written = with_values(PYTHON, "python", values)
    assert written.splitlines()[5] == 'title = "it\'s"  # type: str  What it is called'
    assert "names: list[str] = ['x']\nleast" in written
    assert written.endswith('options = {"deep": [1]}; fast = True\nstart = 4\n')
    assert "let fast = false\n" in with_values(TYPESCRIPT, "typescript", {"fast": False})


@given(
    st.dictionaries(
        st.sampled_from(["title", "rows", "names", "least", "options"]), st.text() | st.integers()
    )
)
def test_what_was_put_in_is_read_out_again(values: dict[str, Any]) -> None:
    for source, language in ((PYTHON, "python"), (TYPESCRIPT, "typescript")):
        found = {one.name: one.default for one in read_parameters(source, language)}
        again = {
            one.name: one.default for one in read_parameters(with_values(source, language, values), language)
        }
        assert again == {name: values.get(name, before) for name, before in found.items()}


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (Parameter("rows", "int", 1), "7", 7),
        (Parameter("share", "float", 1.0), 2, 2),
        (Parameter("title", "str", ""), "007", "007"),
        (Parameter("fast", "bool", default=False), "true", True),
        (Parameter("fast", "bool", default=False), "False", False),
        (Parameter("names", "list", []), '["a"]', ["a"]),
        (Parameter("least", "int", None, optional=True), "null", None),
        (Parameter("kind", "str", "a", "", ("a", "b")), "b", "b"),
        (Parameter("kind", "int", 1, "", (1, 2)), "2", 2),
    ],
)
def test_a_text_is_read_as_the_type_says(parameter: Parameter, given: Any, value: Any) -> None:
    assert parameter.value_of(given) == value


@pytest.mark.parametrize(
    ("parameter", "given", "hint"),
    [
        (Parameter("rows", "int", 5), "many", "rows=5"),
        (Parameter("rows", "int", 5), True, "rows=5"),
        (Parameter("rows", "int", 5), None, "rows=5"),
        (Parameter("share", "float", 0.5), "NaN", "share=0.5"),
        (Parameter("title", "str", ""), 7, "title=text"),
        (Parameter("names", "list", []), "a, b", "names=[]"),
        (Parameter("kind", "str", "a", "", ("a", "b")), "c", "Give one of: a, b"),
    ],
)
def test_a_value_of_another_type_is_refused_with_one_that_would_do(
    parameter: Parameter, given: Any, hint: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        parameter.value_of(given)
    assert parameter.name in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_cell_that_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(TemplateError, match="Keep assignments in it"):
        read_parameters("%load x\nrows = 1", "python")

"""DSEval's rules over values: what differs, what is only presentation, and two runs of a step held together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datatasks.judging import judge_cells
from datatasks.matching import How, differs, how_of
from datatasks.rules import Run, apply_rules, unknown_rules
from datatasks.tasks import Step, Task

pytestmark = pytest.mark.anyio

FRAME = pd.DataFrame({"a": [2, 1], "b": ["x", "y"]})


@pytest.mark.parametrize(
    ("expected", "given", "how"),
    [
        (FRAME, FRAME.copy(), How()),
        (FRAME, FRAME[["b", "a"]].iloc[::-1], How(ignore_order=True)),
        (FRAME, FRAME.rename(columns={"a": "c"}), How(ignore_names=True)),
        (FRAME.a, FRAME.a.astype("float64"), How(ignore_dtypes=True)),
        (FRAME.a, [2, 1], How(value_only=True)),
        (np.array([1.0, np.nan]), np.array([1.0 + 1e-12, np.nan]), How()),
        ({"x": [1, (2.0, "z")]}, {"x": [1, (2.0, "z")]}, How()),
        ([3, 1, 2], (1, 2, 3), How(ignore_order=True)),
        (0.8, 0.9, How(metrictol=0.99)),
        (1, 5, How(type_only=True)),
        (1, 2, how_of("def compare_fn(ref, sub):\n    return {'match': sub > ref, 'reason': ''}")),
        (FRAME.columns, pd.Index(["a", "b"]), how_of({"compare_fn": {"value_only": True}})),
    ],
)
def test_values_are_the_same_by_what_counts(expected: Any, given: Any, how: How) -> None:
    assert differs(expected, given, how) is None


@pytest.mark.parametrize(
    ("expected", "given", "how"),
    [
        (FRAME, FRAME.iloc[::-1], How()),
        (FRAME, FRAME.a, How()),
        (FRAME.a, FRAME.a.astype("float64"), How()),
        (np.zeros(2), np.zeros(3), How()),
        (np.zeros(2), np.zeros(2, dtype="int64"), How(strict_type=True)),
        ({"x": 1}, {"y": 1}, How()),
        ([1, 2], [1, 2, 3], How()),
        (True, 1, How()),
        (0.8, 0.7, How(metrictol=0.99)),
        ({1}, {2}, How()),
        ("a", "b", How()),
    ],
)
def test_values_differ_by_what_counts(expected: Any, given: Any, how: How) -> None:
    assert differs(expected, given, how)


def _found(rules: dict[str, Any], reference: Run, given: Run) -> list[tuple[str, bool]]:
    return [(one.rule, one.presentation) for one in apply_rules(rules, reference, given)]


def test_a_result_that_is_printed_or_in_another_order_is_presentation() -> None:
    reference = Run({}, result=[1, 2])
    assert _found({"result": None}, reference, Run({}, result=[1, 2])) == []
    assert _found({"result": None}, reference, Run({}, result=[2, 1])) == [("result", True)]
    assert _found({"result": None}, reference, Run({"x": [1, 2]}, last_cell="print(f'it is {x}')")) == [
        ("result", True)
    ]
    assert _found({"result": None}, reference, Run({"x": [1, 3]}, last_cell="y = x")) == [("result", False)]
    assert _found({"result": None}, Run({}), Run({}, result=5)) == []


def test_names_must_be_there_and_others_left_alone() -> None:
    reference = Run({"df": FRAME}, changed=frozenset({"df"}))
    given = Run({"df": FRAME.copy()}, changed=frozenset({"df", "raw"}))
    assert _found({"namespace_check": {"df": None}, "namespace_intact": None}, reference, given) == [
        ("namespace_intact", False)
    ]
    assert _found({"namespace_check": {"df": None}}, reference, Run({})) == [("namespace_check", False)]


def test_functions_are_tried_on_written_and_drawn_cases() -> None:
    cases = [
        "```\ndef _generate():\n    return (np.random.randint(100),)\n```",
        "//",
        ["`np.array([1, 2])`"],
        {"x": 3},
    ]
    rules = {"table_test": {"function_name": "f", "test_cases": cases}}
    reference = Run({"f": lambda x: x + 1})
    assert _found(rules, reference, Run({"f": lambda x: 1 + x})) == []
    assert _found(rules, reference, Run({"f": lambda x: x})) == [("table_test", False)]

    def spoils(x: Any) -> Any:
        result = x + 1
        if isinstance(x, np.ndarray):
            x[0] = 99
        return result

    assert _found(rules, reference, Run({"f": spoils})) == [("table_test", False)]
    assert _found(rules, reference, Run({})) == [("table_test", False)]


class _Constant:
    def __init__(self, value: float) -> None:
        self._value = value

    def predict(self, inputs: Any) -> Any:
        return np.full(len(inputs), self._value)


@pytest.mark.matrix  # `test_a_notebooks_cells_are_run_from_the_top…`
def test_models_have_to_reach_the_references_score() -> None:
    space = {"X": [0, 0, 0], "y": [1.0, 1.0, 1.2], "m": _Constant(1.0)}
    rules = {
        "model": {
            "model_name": "m",
            "inputs_name": "X",
            "labels_name": "y",
            "metric_type": "rmse",
            "tolerance": 1.05,
        }
    }
    assert _found(rules, Run(space), Run({"m": _Constant(1.01)})) == []
    assert _found(rules, Run(space), Run({"m": _Constant(3.0)})) == [("model", False)]
    assert unknown_rules({"vis": None, "crash": None, "execution": {}}) == ["vis"]


async def test_a_notebooks_cells_are_run_from_the_top_beside_the_solution(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("20")
    steps = (
        Step(cells=("raw = [1]\nx = int(open('n.txt').read())",)),
        Step("Add one", ("x + 1",), rules={"crash": None, "namespace_intact": None, "result": None}),
    )
    task = Task("t", steps, {"n.txt": tmp_path / "n.txt"})

    async def judged(*cells: str) -> list[tuple[str, bool]]:
        found = await judge_cells(task, 1, cells, tmp_path / "judge")
        return [(one["rule"], one["presentation"]) for one in found]

    assert await judged("one = 1", "one + x") == []
    assert await judged("raw.append(2)\n21") == [("namespace_intact", False)]
    assert await judged("print(x + 1)") == [("result", True)]
    assert await judged("1 / 0") == [("crash", False)]
    assert not (tmp_path / "judge").exists()

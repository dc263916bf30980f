"""DSEval's validators over two runs of the same step, the set's own and what is judged. Runs no cell (see ``judging``).

Each says why a step is wrong, or nothing. What is only presentation (another order, name or type; printed instead of
returned) is said apart. Not here: ``vis``, which the set itself does not have, and limits of time and memory but for
the one that the process has. A model's score has to reach its tolerance as a share of the reference's; an error may be
so many times the reference's.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from datatasks.matching import How, differs, how_of

__all__ = ["Finding", "Run", "apply_rules", "unknown_rules"]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a step."""

    namespace: Mapping[str, Any]
    result: Any = None
    said: str = ""
    failure: str | None = None
    changed: frozenset[str] = field(default_factory=frozenset)
    """Names from before the step whose values are others now, or gone."""
    last_cell: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a step."""

    rule: str
    reason: str
    presentation: bool = False


def apply_rules(rules: Mapping[str, Any], reference: Run, given: Run) -> list[Finding]:
    """Everything that is wrong; where a cell failed, only that."""
    if given.failure is not None:
        return [Finding("crash", given.failure)] if "crash" in rules else []
    found = []
    for name, config in rules.items():
        check = _RULES.get(name)
        if check is not None and (finding := check(config, reference, given)):
            found.append(finding)
    return found


def unknown_rules(rules: Mapping[str, Any]) -> list[str]:
    """Rules that nobody here knows: what they say is not judged."""
    return sorted(set(rules) - set(_RULES) - {"crash", "execution", "template"})


def _intact(config: Any, reference: Run, given: Run) -> Finding | None:
    options = config or {}
    allowed = options.get("update")
    if allowed is True:
        return None
    spared = reference.changed if allowed is None else frozenset(allowed or ())
    touched = sorted(given.changed - spared)
    return Finding("namespace_intact", f"changes {', '.join(touched)}") if touched else None


def _result(config: Any, reference: Run, given: Run) -> Finding | None:
    if reference.result is None:
        return None
    how = how_of(config)
    if given.result is None:
        return _printed(reference.result, given, how)
    return _compared("result", reference.result, given.result, how)


def _compared(rule: str, expected: Any, given: Any, how: How) -> Finding | None:
    reason = _safely(expected, given, how)
    if reason is None:
        return None
    loosely = how.code is None and _safely(expected, given, how.looser) is None
    return Finding(rule, reason, presentation=loosely)


def _safely(expected: Any, given: Any, how: How) -> str | None:
    try:
        return differs(expected, given, how)
    except Exception as error:  # noqa: BLE001  # boundary: values of any kind, and comparisons that are the set's
        return f"cannot be compared: {type(error).__name__}: {error}"


def _printed(expected: Any, given: Run, how: How) -> Finding:
    """A result that was not returned may have been printed, or be in the variable that was last assigned."""
    values = [*_shown(given)]
    several = [values, tuple(values)] if len(values) > 1 else []
    if any(_safely(expected, value, how.looser) is None for value in (*values, *several)):
        return Finding("result", "printed, not returned", presentation=True)
    if " ".join(str(expected).split()) in " ".join(given.said.split()) and str(expected).strip():
        return Finding("result", "printed, not returned", presentation=True)
    return Finding("result", "nothing is returned")


def _shown(given: Run) -> list[Any]:
    wanted: list[ast.expr] = []
    assigned: ast.expr | None = None
    for node in ast.parse(given.last_cell).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Name) and node.value.func.id in {"print", "display"}:
                wanted += [part for argument in node.value.args for part in _parts(argument)]
        elif isinstance(node, ast.Assign):
            assigned = node.targets[-1]
    values = []
    for expression in wanted or [assigned]:
        if isinstance(expression, ast.expr):
            try:
                values.append(eval(ast.unparse(expression), dict(given.namespace)))  # noqa: S307  # the task's own
            except Exception:  # noqa: BLE001, S112  # boundary: what cannot be worked out again is not the result
                continue
    return values


def _parts(argument: ast.expr) -> list[ast.expr]:
    if isinstance(argument, ast.JoinedStr):
        inside = ast.iter_child_nodes(argument)
        return [node.value for node in inside if isinstance(node, ast.FormattedValue)]
    return [] if isinstance(argument, ast.Constant) else [argument]


def _names(config: Mapping[str, Any], reference: Run, given: Run) -> Finding | None:
    for name, options in config.items():
        if name not in given.namespace:
            return Finding("namespace_check", f"there is no {name}")
        finding = _compared(
            "namespace_check", reference.namespace.get(name), given.namespace[name], how_of(options)
        )
        if finding:
            return Finding(finding.rule, f"{name}: {finding.reason}", finding.presentation)
    return None


def _stream(_: Any, reference: Run, given: Run) -> Finding | None:
    if reference.said == given.said:
        return None
    blank = reference.said.split() == given.said.split()
    return Finding("stream", "says something else", presentation=blank)


def _table_test(config: Mapping[str, Any], reference: Run, given: Run) -> Finding | None:
    name = config["function_name"]
    function = given.namespace.get(name)
    if not callable(function):
        return Finding("table_test", f"there is no function {name}")
    outputs, inputs = how_of(config.get("output_checker")), config.get("input_checker")
    for number, case in enumerate(_cases(config["test_cases"])):
        before, after = copy.deepcopy(case), copy.deepcopy(case)
        expected = _called(reference.namespace[name], before)
        try:
            got = _called(function, after)
        except Exception as error:  # noqa: BLE001  # boundary: the function is what is judged
            return Finding("table_test", f"case {number} raises {type(error).__name__}: {error}")
        reason = _safely(expected, got, outputs)
        if reason is None and inputs is not False:
            reason = _safely(before, after, how_of(inputs))
        if reason:
            return Finding("table_test", f"case {number}: {reason}")
    return None


def _called(function: Callable[..., Any], case: Any) -> Any:
    return function(**case) if isinstance(case, dict) else function(*case)


def _cases(written: list[Any]) -> list[Any]:
    """Test cases from how they are written; ``//`` is the one before once more, with other chance."""
    cases, last = [], None
    for number, one in enumerate(written):
        last = last if one == "//" else one
        random.seed(number)
        np.random.seed(number)
        cases.append(tuple(map(_case, last)) if isinstance(last, list) else _case(last))
    return cases


def _case(written: Any) -> Any:
    if not isinstance(written, str):
        return written
    text = written.strip()
    space: dict[str, Any] = {"np": np, "numpy": np, "pd": pd, "random": random}
    if text.startswith("```"):
        exec(text.strip("`").removeprefix("python"), space)  # noqa: S102  # the set's own cases
        return space["_test_case"] if "_test_case" in space else space["_generate"]()
    if text.startswith("`") and text.endswith("`"):
        return eval(text.strip("`"), space)  # noqa: S307  # the set's own cases
    return written


def _model(config: Mapping[str, Any], reference: Run, given: Run) -> Finding | None:
    name = config["model_name"]
    if name not in given.namespace:
        return Finding("model", f"there is no {name}")
    inputs, labels = (reference.namespace[config[key]] for key in ("inputs_name", "labels_name"))
    metrics = np.atleast_1d(config["metric_type"]).tolist()
    tolerances = np.atleast_1d(config.get("tolerance", 1.0)).tolist()
    expected = reference.namespace[name].predict(inputs)
    try:
        got = given.namespace[name].predict(inputs)
    except Exception as error:  # noqa: BLE001  # boundary: the model is what is judged
        return Finding("model", f"{name} raises {type(error).__name__}: {error}")
    for metric, tolerance in zip(metrics, tolerances, strict=True):
        best, reached = _metric(metric, labels, expected), _metric(metric, labels, got)
        worse = reached > best * tolerance if metric in _ERRORS else reached < best * tolerance
        if worse and not np.isclose(best, reached):
            return Finding("model", f"{metric} is {reached:.4g}, {best:.4g} in the reference")
    return None


_ERRORS = {"mse", "rmse"}


def _metric(name: str, labels: Any, predicted: Any) -> float:
    from sklearn import metrics  # most steps have no model

    if name in _ERRORS:
        error = float(metrics.mean_squared_error(labels, predicted))
        return error**0.5 if name == "rmse" else error
    scores = {
        "accuracy": metrics.accuracy_score, "precision": metrics.precision_score, "recall": metrics.recall_score,
        "f1": metrics.f1_score, "roc_auc": metrics.roc_auc_score, "r2": metrics.r2_score,
    }  # fmt: skip
    return float(scores[name](labels, predicted))


_RULES: Mapping[str, Callable[[Any, Run, Run], Finding | None]] = {
    "namespace_intact": _intact,
    "result": _result,
    "namespace_check": _names,
    "stream": _stream,
    "table_test": _table_test,
    "model": _model,
}

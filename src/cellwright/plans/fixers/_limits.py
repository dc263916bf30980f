"""Explains failures that no rule can fix, with the values that matter: bounds, zeros, limits of time, checks that
failed.
"""

from __future__ import annotations

import ast

from cellwright.plans._failures import Failure, Proposal
from cellwright.plans.fixers._cells import case_of

__all__ = ["suggest_bounds", "suggest_check", "suggest_less", "suggest_zero"]


def suggest_bounds(failure: Failure) -> Proposal | None:
    """An index outside: how many there are."""
    case = case_of(failure, "IndexError", "OutOfBoundsError")
    if case is None:
        return None
    subject = case.diagnosis.subject
    if subject is None or (subject.length is None and subject.shape is None):
        values = ", ".join(f"{name} = {value}" for name, value in list(case.diagnosis.values.items())[:5])
        return Proposal("bounds", f"The index is out of bounds ({values}).") if values else None
    if subject.shape is not None and len(subject.shape) > 1:
        shape = " x ".join(str(size) for size in subject.shape)
        return Proposal(
            "bounds", f"`{subject.expression}` has the shape {shape}: indices count from 0 in each of them."
        )
    length = subject.length if subject.length is not None else (subject.shape or (0,))[0]
    if not length:
        return Proposal("bounds", f"`{subject.expression}` is empty: no index can be in it.")
    return Proposal(
        "bounds",
        f"`{subject.expression}` has {length} element{'s' * (length != 1)}: indices go from 0 to {length - 1}, "
        f"or from -{length} to -1.",
    )


def suggest_zero(failure: Failure) -> Proposal | None:
    """A division by zero: what is zero."""
    case = case_of(failure, "ZeroDivisionError")
    if case is None:
        return None
    zeros = [
        name for name, value in case.diagnosis.values.items() if value in ("0", "0.0", "-0.0", "False", "0j")
    ]
    divisors = {
        ast.unparse(node.right)
        for node in (ast.walk(case.statement) if case.statement is not None else ())
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod)
    }
    what = " and ".join(f"`{name}`" for name in zeros) or " or ".join(
        f"`{each}`" for each in sorted(divisors)
    )
    return Proposal(
        "zero",
        f"{what or 'The divisor'} is zero: decide what the result is to be then, and test for it before dividing.",
    )


def suggest_less(failure: Failure) -> Proposal | None:
    """A cell that ran out of time."""
    if failure.state != "timeout":
        return None
    reason = f" ({failure.reason})" if failure.reason else ""
    return Proposal(
        "time",
        f"The cell ran out of time{reason}: raise the step's timeout_s or the setting cell_timeout_s, "
        "or let it work on less at once.",
    )


def suggest_check(failure: Failure) -> Proposal | None:
    """A check that failed: what it looked at."""
    if failure.state != "rejected":
        return None
    values = failure.diagnosis.values if failure.diagnosis is not None else {}
    told = ", ".join(f"{name} = {value}" for name, value in list(values.items())[:5])
    said = f": {failure.message}" if failure.message else ""
    return Proposal(
        "check",
        f"The cell ran, but {failure.check or 'its check'} does not hold{said}{f' ({told})' * bool(told)}.",
    )

"""Explains failures that no rule can fix, with the values that matter: zeros, limits of time, checks that failed."""

from __future__ import annotations

import ast

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import case_of

__all__ = ["suggest_check", "suggest_less", "suggest_zero"]


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

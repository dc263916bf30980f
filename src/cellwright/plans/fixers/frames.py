"""Calls on pandas' frames that pandas no longer has, where another call does the same."""

from __future__ import annotations

import ast
import re

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.attributes import Missed, missed_of
from cellwright.plans.fixers.calls import called, keyword_of
from cellwright.plans.fixers.cases import Case, case_of
from cellwright.plans.fixers.cells import Edit

__all__ = ["fix_appended_frame", "fix_fill_method"]

_FILLS = {"ffill": "ffill", "pad": "ffill", "bfill": "bfill", "backfill": "bfill"}
_KEPT = frozenset(["ignore_index", "sort", "verify_integrity"])
# How a kernel describes a frame and a series (see ``cellwright_kernel.digests``): a series quotes its name.
_A_FRAME = re.compile(r"(?!None: |\d)[^\[\]{}'\"<>():,]+: [a-z]\w*")
_A_SERIES = re.compile(r"(?:'[^']*'|None): [a-z]\w*")


def fix_appended_frame(failure: Failure) -> Proposal | None:
    """``frame.append(rows)``: what ``concat`` is for now, where it is known what the rows are."""
    missed = missed_of(failure)
    if missed is None or missed.name != "append" or missed.kind not in ("pandas.DataFrame", "pandas.Series"):
        return None
    alias = next((name for name in ("pd", "pandas") if name in missed.case.diagnosis.names), None)
    edits = [_joined(missed, node, alias) for node in missed.nodes] if alias else []
    if not edits or None in edits:
        return None
    reason = f"pandas' `append` is gone: `{alias}.concat` does the same."
    return missed.case.proposal("appended_frame", reason, [edit for edit in edits if edit], certain=True)


def _joined(missed: Missed, node: ast.Attribute, alias: str | None) -> Edit | None:
    call = missed.call(node)
    if call is None or len(call.args) != 1 or any(keyword.arg not in _KEPT for keyword in call.keywords):
        return None
    cell = missed.case.cell
    rows = _rows(missed, call, alias or "pd")
    if rows is None:
        return None
    more = "".join(f", {cell.segment(keyword)}" for keyword in call.keywords)
    return cell.replace(call, f"{alias}.concat([{missed.holder(node)}, {rows}]{more})")


def _rows(missed: Missed, call: ast.Call, alias: str) -> str | None:
    """What is appended, as something that can be concatenated; None where it is not known what it is."""
    given, cell = call.args[0], missed.case.cell
    text = cell.segment(given)
    ignores = keyword_of(call, "ignore_index")
    renumbers = (
        ignores is not None and isinstance(ignores.value, ast.Constant) and ignores.value.value is True
    )
    is_frame = missed.kind == "pandas.DataFrame"
    if isinstance(given, ast.Call) and called(given) == ("DataFrame" if is_frame else "Series"):
        return text
    if isinstance(given, ast.Name):
        digest = missed.case.diagnosis.values.get(given.id, "")
        if is_frame and renumbers and digest.startswith("{'"):
            return f"{alias}.DataFrame([{text}])"
        return text if (_A_FRAME if is_frame else _A_SERIES).match(digest) else None
    if isinstance(given, ast.Dict) and is_frame and renumbers:
        return f"{alias}.DataFrame([{text}])"
    return None


def fix_fill_method(failure: Failure) -> Proposal | None:
    """``fillna(method="ffill")``: ``ffill()``."""
    case = case_of(failure, "TypeError")
    if case is None or "unexpected keyword argument 'method'" not in case.error.message:
        return None
    edits = [edit for node in ast.walk(case.cell.tree) if (edit := _filled(case, node)) is not None]
    reason = "`fillna` has no `method` any more: there are `ffill` and `bfill`."
    return case.proposal("fill_method", reason, edits, certain=bool(edits)) if edits else None


def _filled(case: Case, node: ast.AST) -> Edit | None:
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fillna"
    ):
        return None
    if node.args or len(node.keywords) != 1 or node.keywords[0].arg != "method":
        return None
    method = node.keywords[0].value
    if not isinstance(method, ast.Constant) or method.value not in _FILLS:
        return None
    holder = node.func
    name = _FILLS[str(method.value)]
    start = case.cell.place(holder)[1] - len(holder.attr)
    return Edit(start, case.cell.place(node)[1], f"{name}()")

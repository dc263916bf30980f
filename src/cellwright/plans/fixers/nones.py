"""None where an object was expected, because what changes things in place gives nothing back."""

from __future__ import annotations

import ast
import re

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.calls import keyword_of
from cellwright.plans.fixers.cases import Case, case_of
from cellwright.plans.fixers.cells import Edit

__all__ = ["fix_assigned_none"]

_IN_PLACE = frozenset(["append", "clear", "extend", "insert", "remove", "reverse", "sort", "update"])


def fix_assigned_none(failure: Failure) -> Proposal | None:
    """``df = df.dropna(inplace=True)``, ``items = items.sort()``: keep the object, not what the call gives."""
    case = case_of(failure, "AttributeError", "TypeError")
    if case is None or "NoneType" not in case.error.message:
        return None
    nothing = [name for name, value in case.diagnosis.values.items() if value == "None"]
    if len(nothing) != 1:
        return None
    name = nothing[0]
    given = [
        node
        for node in ast.walk(case.cell.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    for assign in reversed(given):
        edits = _kept(case, assign, name)
        if edits:
            reason = f"`{name}` is None: what changes it in place gives nothing back."
            # Without going back, what it was before the cell is lost.
            sure = failure.surroundings.has_checkpoint or len(given) > 1
            return case.proposal("assigned_none", reason, edits, certain=sure)
    return Proposal("assigned_none", f"`{name}` is None here: look at what gave it.")


def _kept(case: Case, assign: ast.Assign, name: str) -> list[Edit]:
    call = assign.value
    if len(assign.targets) != 1 or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return []
    if not (isinstance(call.func.value, ast.Name) and call.func.value.id == name):
        return []
    keyword = keyword_of(call, "inplace")
    if keyword is not None and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
        return [_without(case, call, keyword)]
    if call.func.attr in _IN_PLACE and keyword is None:
        return [Edit(case.cell.place(assign)[0], case.cell.place(call)[0], "")]
    return []


def _without(case: Case, call: ast.Call, keyword: ast.keyword) -> Edit:
    """The keyword and the comma that belongs to it."""
    start, end = case.cell.place(keyword)
    before = re.search(r",\s*\Z", case.cell.text[case.cell.place(call.func)[1] : start])
    if before is not None:
        return Edit(start - len(before.group()), end, "")
    after = re.match(r"\s*,\s*", case.cell.text[end:])
    return Edit(start, end + (len(after.group()) if after else 0), "")

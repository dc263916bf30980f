"""Arguments of calls that newer releases of a library changed: keywords that are named otherwise, positions that moved.

Where a row of the table (``_drift_table``) or the installed signature does not say that the new call does the same, the
change is only suggested.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from cellwright.engine.introspection import Signature
from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._callables import without_keyword
from cellwright.plans.fixers._cells import (
    Case,
    Edit,
    called,
    calls_in,
    case_at_top,
    is_gone_since,
    keyword_of,
)
from cellwright.plans.fixers._drift_table import (
    KEYWORDS,
    POSITIONS,
    Keyword,
)

__all__ = ["any_named", "fix_keyword", "fix_positions", "old_positions", "renamed_keywords"]

_NO_KEYWORD = re.compile(
    r"(?P<call>[\w.]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'(?:\. Did you mean '(?P<meant>\w+)'\?)?"
)

_TOO_MANY = re.compile(r"(?P<call>[\w.]+)\(\) takes (?:from \d+ to )?\d+ positional arguments? but \d+ ")

_BOUND = re.compile(r"^(?P<call>)too many positional arguments$")

_TWICE = re.compile(r"(?P<call>[\w.]+)\(\) got multiple values for argument '\w+'")


def fix_keyword(failure: Failure) -> Proposal | None:
    """A keyword argument that a library calls otherwise, or takes no more."""
    case = case_at_top(failure, "TypeError", "AttributeError")
    match = _NO_KEYWORD.search(case.error.message) if case else None
    if case is None or match is None:
        return None
    name = match["name"]
    calls = [call for call in _failing_calls(case) if keyword_of(call, name)]
    calls = calls or [
        made for call in _failing_calls(case) for made in _spread(case, call) if keyword_of(made, name)
    ]
    found = [(call, row) for call in calls if (row := _keyword_row(case, call, name)) is not None]
    if not found:
        return _proposed_keyword(case, calls, match)
    edits: list[Edit] = []
    for call, row in found:
        changed = _renamed_keyword(case, call, row)
        if changed is None:
            return Proposal("keyword", _told_keyword(row))
        edits += changed
    rows = [row for _, row in found]
    certain = not any(row.differs for row in rows)
    return case.proposal("keyword", _told_keyword(rows[0]), edits, certain=certain)


def _told_keyword(row: Keyword) -> str:
    function = row.callables[0].rpartition(".")[2]
    besides = f", but {row.differs}" if row.differs else ""
    if row.callee == "=":
        return f"`{function}` has no `{row.old}` since {row.library} {row.since}: there are methods of those names."
    if row.callee:
        return f"`{function}` takes no `{row.old}` since {row.library} {row.since}: `{row.callee}` does."
    if row.new is None:
        return (
            f"`{function}` takes no `{row.old}` since {row.library} {row.since}, and does without{besides}."
        )
    if not row.new:
        return f"`{function}` takes no `{row.old}` since {row.library} {row.since}: its value comes first{besides}."
    return f"`{function}` calls `{row.old}` `{row.new}` since {row.library} {row.since}{besides}."


def _proposed_keyword(case: Case, calls: list[ast.Call], match: re.Match[str]) -> Proposal | None:
    """What Python itself thinks is meant: near in spelling, which says nothing of what it does."""
    signature = next((_signature(case, call) for call in calls if _signature(case, call)), None)
    taken = f"; it takes {', '.join(signature.keywords[:12])}" if signature and signature.keywords else ""
    meant = f"; near it is `{match['meant']}`" if match["meant"] else taken
    return (
        Proposal("keyword", f"`{match['call']}` takes no argument `{match['name']}`{meant}.")
        if meant
        else None
    )


def _spread(case: Case, call: ast.Call) -> Iterator[ast.Call]:
    """The ``dict(…)`` of the cell that a call is given by ``**name``, as a call of what is called with it."""
    for keyword in call.keywords:
        if keyword.arg is not None or not isinstance(keyword.value, ast.Name):
            continue
        made = [
            node.value
            for node in ast.walk(case.cell.tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == keyword.value.id for target in node.targets)
        ]
        users = {
            called(each)
            for each in ast.walk(case.cell.tree)
            if isinstance(each, ast.Call) and _is_given(each, keyword.value.id)
        }
        if (
            len(made) == 1
            and isinstance(made[0], ast.Call)
            and called(made[0]) == "dict"
            and users == {called(call)}
        ):
            yield ast.copy_location(ast.Call(call.func, made[0].args, made[0].keywords), made[0])


def _is_given(call: ast.Call, name: str) -> bool:
    return any(
        each.arg is None and isinstance(each.value, ast.Name) and each.value.id == name
        for each in call.keywords
    )


def _failing_calls(case: Case) -> list[ast.Call]:
    """The call at the place that failed; where Python does not tell it, those of its statement."""
    exact = [node for node in case.cell.at(case.span) if isinstance(node, ast.Call)]
    if exact:
        return exact
    return list(calls_in(case.statement)) if case.statement is not None else []


def _keyword_row(case: Case, call: ast.Call, name: str) -> Keyword | None:
    return next(
        (
            row
            for row in KEYWORDS
            if row.old == name
            and any_named(row.callables, called(call))
            and row.library in _libraries(case)
            and is_gone_since(case, row.library, row.since)
            and _suits(case, call, row)
        ),
        None,
    )


def _libraries(case: Case) -> frozenset[str]:
    """The libraries that are loaded; all of them where nobody could be asked."""
    known = case.diagnosis.versions
    every = {row.library for row in KEYWORDS} | {row.library for row in POSITIONS}
    return frozenset(known) if known else frozenset(every)


def _suits(case: Case, call: ast.Call, row: Keyword) -> bool:
    """Whether the callable, as it is installed, takes the new name and not the old one, as far as it is known."""
    signature = _signature(case, call)
    if signature is None or not row.new or row.callee:
        return True
    return row.old not in signature.keywords and (row.new in signature.keywords or signature.any_keyword)


def _signature(case: Case, call: ast.Call) -> Signature | None:
    return case.diagnosis.signatures.get(ast.unparse(call.func))


def renamed_keywords(case: Case, call: ast.Call, path: str) -> list[Edit]:
    """All keyword arguments of a call that are known by other names, once it is known what it calls."""
    rows = [row for row in KEYWORDS if path in row.callables and keyword_of(call, row.old)]
    return [edit for row in rows for edit in _renamed_keyword(case, call, row) or ()]


def _renamed_keyword(case: Case, call: ast.Call, row: Keyword) -> list[Edit] | None:
    keyword = keyword_of(call, row.old)
    new = (row.new,) if row.new not in (None, row.old) else ()
    if keyword is None or any(keyword_of(call, name or "") for name in (*new, *row.adds)):
        return None
    start, end = case.cell.place(keyword)
    said = ast.unparse(keyword.value)
    if row.values and said not in row.values:
        return None
    if row.callee:
        return _other_callee(case, call, row, keyword, row.values.get(said, row.callee))
    if row.new is None:
        return [without_keyword(case, call, keyword)]
    if not row.new and call.args:
        return None
    value = row.values.get(said) or case.cell.segment(keyword.value)
    added = "".join(f", {name}={source}" for name, source in row.adds.items())
    return [Edit(start, end, (f"{row.new}={value}" if row.new else value) + added)]


def _other_callee(
    case: Case, call: ast.Call, row: Keyword, keyword: ast.keyword, name: str
) -> list[Edit] | None:
    if not isinstance(call.func, ast.Attribute) or (row.new is None and call.args):
        return None
    end = case.cell.place(call.func)[1]
    edits = [Edit(end - len(call.func.attr), end, name)]
    return edits if row.new is not None else [*edits, without_keyword(case, call, keyword)]


def fix_positions(failure: Failure) -> Proposal | None:
    """Arguments given by position that have to be named now."""
    case = case_at_top(failure, "TypeError")
    match = next(
        (
            found
            for each in (_TOO_MANY, _TWICE, _BOUND)
            if case and (found := each.search(case.error.message))
        ),
        None,
    )
    if case is None or match is None:
        return None
    owner = _owner(match["call"])
    calls = [
        call for call in _failing_calls(case) if called(call) == (owner[-1] or called(call)) and call.args
    ]
    if len(calls) != 1:
        return None
    owner = owner if owner[-1] else (called(calls[0]),)
    call, signature = calls[0], _signature(case, calls[0])
    path, names = _old_order(case, owner, signature)
    edits = old_positions(case, call, names, signature) if names else None
    if not edits:
        return _guessed(case, call, signature, owner[-1])
    also = renamed_keywords(case, call, path)
    if _is_old_order(call, names, signature):
        reason = f"`{owner[-1]}` takes these arguments by name only: {', '.join(names[: len(call.args)])}."
        return case.proposal("positions", reason, [*edits, *also], certain=True)
    first = signature.positional[0] if signature is not None else "data"
    newer = old_positions(case, call, (first, *(name for name in names if name != first)), None)
    ways = [way for way in (edits, newer) if way]
    # Columns' names after something else: that is what they are columns of.
    ways = ways[-1:] if any(_is_text(each) for each in call.args[1:]) else ways
    reason = f"`{owner[-1]}` takes only `{first}` by position, which came after `{names[0]}` once."
    return case.choice("positions", reason, *([*way, *also] for way in ways))


def _is_old_order(call: ast.Call, names: tuple[str, ...], signature: Signature | None) -> bool:
    """Whether the arguments stand in the old order for sure, where another is the first one now."""
    known = ("data",) if "data" in names else names[:1]
    first = signature.positional[:1] if signature is not None else known
    if first in ((), names[:1]) or _is_text(call.args[0]):
        return True
    return any(keyword.arg == first[0] for keyword in call.keywords)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _owner(said: str) -> tuple[str, ...]:
    """The callable by the last parts of its name: class and method, or the class alone for its ``__init__``."""
    parts = tuple(said.split("."))
    return parts[:-1][-1:] if parts[-1] == "__init__" else parts[-2:]


def _old_order(
    case: Case, owner: tuple[str, ...], signature: Signature | None
) -> tuple[str, tuple[str, ...]]:
    for row in POSITIONS:
        for path in row.callables:
            is_named = tuple(path.split("."))[-len(owner) :] == owner
            taken = signature is None or set(row.names) <= {*signature.keywords, *signature.positional}
            if (
                is_named
                and taken
                and row.library in _libraries(case)
                and is_gone_since(case, row.library, row.since)
            ):
                return path, row.names
    return "", ()


def old_positions(
    case: Case, call: ast.Call, names: tuple[str, ...], signature: Signature | None
) -> list[Edit] | None:
    """Names before arguments that stood for themselves; those that may still stand first are left as they are."""
    given = {keyword.arg for keyword in call.keywords}
    if len(call.args) > len(names) or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    taken = signature.positional if signature is not None else ()
    kept = 0
    while kept < min(len(taken), len(names)) and taken[kept] == names[kept]:
        kept += 1
    edits = []
    for name, value in list(zip(names, call.args, strict=False))[kept:]:
        if name in given:
            return None
        start = case.cell.place(value)[0]
        edits.append(Edit(start, start, f"{name}="))
    return edits


def _guessed(case: Case, call: ast.Call, signature: Signature | None, name: str) -> Proposal | None:
    """By the order in which the installed release names them, which may not be the one that the code knew."""
    if signature is None or signature.any_position:
        return None
    edits = old_positions(case, call, signature.keywords, signature)
    reason = f"`{name}` takes by position only ({', '.join(signature.positional)}); by name it takes {', '.join(signature.keywords[:12])}."
    return case.proposal("positions", reason, edits or (), certain=False)


def any_named(paths: Iterable[str], name: str) -> bool:
    return any(path.rpartition(".")[2] == name for path in paths)

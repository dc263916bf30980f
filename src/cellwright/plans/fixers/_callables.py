"""Things called that cannot be, and things not called that must be: mechanical type errors."""

from __future__ import annotations

import ast
import builtins
import re

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Edit, case_of, keyword_of

__all__ = [
    "fix_assigned_none",
    "fix_call_of_module",
    "fix_call_of_value",
    "fix_missing_call",
    "suggest_types",
    "without_keyword",
]
_NOT_CALLABLE = re.compile(r"^'(?P<type>[\w.]+)' object is not callable")

_NOT_CALLED = re.compile(
    r"^(?:'(?:method|builtin_function_or_method|function)' object is not iterable"
    r"|object of type '(?:method|builtin_function_or_method|function)' has no len\(\)"
    r"|argument of type '(?:method|builtin_function_or_method|function)' is not iterable)"
)

_PROPERTY_NAMES = """
    T columns dtype dtypes empty height index name nbytes ndim parent schema shape size stem suffix values width
"""

_PROPERTIES = frozenset(_PROPERTY_NAMES.split())

_METHOD_NAMES = """
    copy items iterdir iterrows itertuples keys lower read readlines rows split splitlines strip to_dict tolist unique
    upper values
"""

_WITHOUT_ARGUMENTS = frozenset(_METHOD_NAMES.split())

_OWN_NAMES = frozenset(["datetime", "glob", "pprint", "tqdm", "copy"])

_SUBSCRIPTED = {"DataFrame": str, "dict": str, "list": int, "tuple": int}

_NO_KEYWORD = re.compile(
    r"(?P<call>[\w.]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'(?:\. Did you mean '(?P<meant>\w+)'\?)?"
)

_OPERANDS = re.compile(
    r"unsupported operand type\(s\) for (?P<operator>\S+): '(?P<left>\w+)' and '(?P<right>\w+)'"
)


def fix_call_of_value(failure: Failure) -> Proposal | None:
    """``df.shape()`` and ``df("price")``: a value, or a subscript."""
    case = case_of(failure, "TypeError")
    match = _NOT_CALLABLE.match(case.error.message) if case else None
    call = (
        next((node for node in case.cell.at(case.span) if isinstance(node, ast.Call)), None) if case else None
    )
    if case is None or match is None or call is None:
        return None
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _PROPERTIES
        and not call.args
        and not call.keywords
    ):
        text = case.cell.segment(call.func)
        edits = [_bare(case, each) for each in _same_calls(case, call)]
        return case.proposal("call", f"`{text}` is a value, and is not called.", edits, certain=True)
    if not isinstance(call.func, ast.Name):
        return None
    name = call.func.id
    if hasattr(builtins, name):
        return Proposal(
            "call", f"`{name}` is a {match['type']} here, no longer Python's own: give that another name."
        )
    wanted = _SUBSCRIPTED.get(match["type"])
    given = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if wanted is None or not (isinstance(given, ast.Constant) and type(given.value) is wanted):
        return None
    edit = case.cell.replace(call, f"{name}[{case.cell.segment(given)}]")
    return case.proposal(
        # Not an index: whoever writes it like this may count from 1.
        "call",
        f"`{name}` is a {match['type']}: what is in it is had by `[…]`.",
        [edit],
        certain=wanted is str,
    )


def _same_calls(case: Case, call: ast.Call) -> list[ast.Call]:
    every = (node for node in ast.walk(case.cell.tree) if isinstance(node, ast.Call))
    return [node for node in every if ast.dump(node) == ast.dump(call)]


def _bare(case: Case, call: ast.Call) -> Edit:
    return case.cell.replace(call, case.cell.segment(call.func))


def fix_call_of_module(failure: Failure) -> Proposal | None:
    """``datetime(2024, 1, 1)`` after ``import datetime``: what the module has of its own name."""
    case = case_of(failure, "TypeError")
    if case is None or not case.error.message.startswith("'module' object is not callable"):
        return None
    call = next((node for node in case.cell.at(case.span) if isinstance(node, ast.Call)), None)
    if call is None or not isinstance(call.func, ast.Name):
        return None
    name = call.func.id
    if name not in _OWN_NAMES:
        return Proposal("call", f"`{name}` is a module: call something of it.")
    edits = [
        case.cell.replace(use, f"{name}.{name}")
        for use in case.uses(name)
        if isinstance(above := case.cell.parents.get(use), ast.Call) and above.func is use
    ]
    return case.proposal(
        "call", f"`{name}` is a module: `{name}.{name}` is what can be called.", edits, certain=True
    )


def fix_missing_call(failure: Failure) -> Proposal | None:
    """``for key, value in pairs.items:``: the brackets are missing."""
    case = case_of(failure, "TypeError")
    statement = case.statement if case else None
    if case is None or statement is None or not _NOT_CALLED.match(case.error.message):
        return None
    own = [child for child in ast.walk(statement) if case.cell.statement_of(child) is statement]
    bare = [
        node
        for node in own
        if isinstance(node, ast.Attribute)
        and node.attr in _WITHOUT_ARGUMENTS
        and _is_left_uncalled(case, node)
        and case.cell.segment(node).endswith(node.attr)
    ]
    if len(bare) != 1:
        return None
    end = case.cell.place(bare[0])[1]
    reason = f"`{case.cell.segment(bare[0])}` is a method, and has to be called."
    return case.proposal("call", reason, [Edit(end, end, "()")], certain=True)


def _is_left_uncalled(case: Case, node: ast.expr) -> bool:
    above = case.cell.parents.get(node)
    return not isinstance(above, ast.Attribute) and not (isinstance(above, ast.Call) and above.func is node)


def suggest_types(failure: Failure) -> Proposal | None:
    """Types that do not fit, and arguments that are not taken: what is there, for whoever decides."""
    case = case_of(failure, "TypeError")
    if case is None:
        return None
    message = case.error.message
    keyword = _NO_KEYWORD.search(message)
    if keyword is not None:
        meant = f"; `{keyword['meant']}` is near it" if keyword["meant"] else ""
        return Proposal("types", f"`{keyword['call']}` takes no argument `{keyword['name']}`{meant}.")
    operands = _OPERANDS.search(message)
    values = ", ".join(f"{name} = {value}" for name, value in list(case.diagnosis.values.items())[:5])
    told = f" ({values})" if values else ""
    if message.startswith("can only concatenate str"):
        return Proposal(
            "types", f"A text and something else cannot be added{told}: use `str(…)`, or an f-string."
        )
    if operands is not None:
        return Proposal(
            "types",
            f"`{operands['operator']}` does not take a {operands['left']} and a {operands['right']}{told}: "
            "convert one of them.",
        )
    return None


# None where an object was expected, because what changes things in place gives nothing back.

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
        return [without_keyword(case, call, keyword)]
    if call.func.attr in _IN_PLACE and keyword is None:
        return [Edit(case.cell.place(assign)[0], case.cell.place(call)[0], "")]
    return []


def without_keyword(case: Case, call: ast.Call, keyword: ast.keyword) -> Edit:
    """The keyword and the comma that belongs to it."""
    start, end = case.cell.place(keyword)
    before = re.search(r",\s*\Z", case.cell.text[case.cell.place(call.func)[1] : start])
    if before is not None:
        return Edit(start - len(before.group()), end, "")
    after = re.match(r"\s*,\s*", case.cell.text[end:])
    return Edit(start, end + (len(after.group()) if after else 0), "")

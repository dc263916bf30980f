"""Names that are not defined: what would import them, what they are in Python, what they may be a slip of.

Only for names of the failed cell itself; in a function of another cell nothing can be fixed from here.
"""

from __future__ import annotations

import ast
import builtins
import re

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, case_of
from cellwright.plans.fixers._known_names import (
    ALIASES,
    MODULES,
    Import,
    distributions_for,
    installable,
    known_import,
)
from cellwright.plans.fixers._similarity import WORDS, folded, nearest

__all__ = ["fix_foreign_name", "fix_missing_import", "fix_misspelt_name", "point_to_other_step"]

_UNDEFINED = re.compile(r"(?:global )?name '(?P<name>\w+)' is not defined")

FOREIGN = {
    "true": "True",
    "false": "False",
    "TRUE": "True",
    "FALSE": "False",
    "null": "None",
    "NULL": "None",
    "nil": "None",
    "none": "None",
    "xrange": "range",
    "unicode": "str",
    "basestring": "str",
    "unichr": "chr",
    "izip": "zip",
}
"""What other languages and Python 2 call it."""

FOREIGN_ADVICE = {
    "undefined": "None",
    "NaN": "float('nan')",
    "nan": "float('nan')",
    "NA": "None",
    "raw_input": "input",
    "long": "int",
    "file": "open",
    "this": "self",
}
"""What may be meant, or not."""

_UNWANTED = frozenset({"In", "Out", "exit", "quit", "get_ipython", "copyright", "credits", "license", "help"})
_RISKY = frozenset({"input", "exec", "eval", "breakpoint", "compile", "vars", "dir", "id", "open"})
_TRIED = 4
_MAX_NAMES = 2_000
"""A kernel tells no more of them: beyond, a name that is not told may be there."""
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_")) - _UNWANTED


def fix_foreign_name(failure: Failure) -> Proposal | None:
    """``true``, ``null``, ``xrange``: what it is called here."""
    found = _undefined(failure)
    if found is None:
        return None
    case, name = found
    foreign = [name, *_others_foreign(case, name)] if name in FOREIGN and case.uses(name) else []
    if foreign and FOREIGN[name] not in case.diagnosis.names:
        edits = [case.cell.replace(use, FOREIGN[each]) for each in foreign for use in case.uses(each)]
        reason = " ".join(f"Python has no `{each}`: it is `{FOREIGN[each]}` here." for each in foreign)
        certain = _all_located(case, name) and not any(_is_compared(case, use) for use in case.uses(name))
        return case.proposal("foreign_name", reason, edits, certain=certain)
    if name in FOREIGN_ADVICE:
        return Proposal("foreign_name", f"Python has no `{name}`: `{FOREIGN_ADVICE[name]}` may be meant.")
    return None


def _is_compared(case: Case, use: ast.Name) -> bool:
    """Whether it is asked whether something is null: of a column, `== None` is never true."""
    above = case.cell.parents.get(use)
    return (
        FOREIGN[use.id] == "None"
        and isinstance(above, ast.Compare)
        and any(isinstance(sign, ast.Eq | ast.NotEq) for sign in above.ops)
    )


def _others_foreign(case: Case, name: str) -> list[str]:
    """The same mistake with other words: they would fail next."""
    known = {name, *case.diagnosis.names}
    used = dict.fromkeys(node.id for node in case.cell.names() if node.id in FOREIGN and node.id not in known)
    return [each for each in used if FOREIGN[each] not in known and _all_located(case, each)]


def fix_missing_import(failure: Failure) -> Proposal | None:
    """A name that everybody imports under that name, where the kernel has the module or may install it.

    What else the cell uses and nobody defines is imported along with it: it would only fail next.
    """
    found = _undefined(failure)
    if found is None:
        return None
    case, name = found
    wanted = _missing_import(case, name)
    if wanted is None or case.cell.binds(name):
        return None
    shown = "` or `".join(line.replace("\n", "; ") for line in wanted.statements)
    if _is_there(case, wanted):
        also = _also_missing(case, name) if _is_sure(case, name, wanted) else []
        lines = list(dict.fromkeys(each.statements[0] for each in (wanted, *also)))
        reason = f"`{name}` is not imported: `{shown}` is missing" + "".join(
            f"; `{line}` too" for line in lines[1:]
        )
        edits = [case.cell.import_edit("\n".join(lines))]
        return case.proposal("missing_import", f"{reason}.", edits, certain=_is_sure(case, name, wanted))
    if not case.diagnosis.modules:
        return Proposal("missing_import", f"`{name}` is not imported: `{shown}` is missing.")
    package = installable(wanted.module, failure.surroundings.approved)
    if package is None:
        wants = " or ".join(distributions_for(wanted.module))
        return Proposal(
            "missing_import",
            f"`{name}` wants `{shown}`, but {wants} is neither installed nor on the approved list.",
        )
    certain = _is_sure(case, name, wanted)
    return case.proposal(
        "missing_import",
        f"`{name}` is not imported, and {package}, which is approved, is not installed: `{shown}` is missing.",
        [case.cell.import_edit(wanted.statements[0])],
        certain=certain,
        packages=(package,) if certain else (),
    )


def _is_there(case: Case, wanted: Import) -> bool:
    return wanted.module.partition(".")[0] in case.diagnosis.modules


def _is_sure(case: Case, name: str, wanted: Import) -> bool:
    # Another step that defines `pd` imports it; one that defines `Pipeline` may have a class of its own.
    own = name in case.failure.surroundings.elsewhere and name not in ALIASES and name not in MODULES
    return wanted.certain and not own and not case.cell.binds(name) and bool(case.uses(name))


def _also_missing(case: Case, name: str) -> list[Import]:
    """Imports of other names that nobody defines, where they are as sure."""
    if len(case.diagnosis.names) >= _MAX_NAMES:
        return []
    defined = {name, *case.diagnosis.names, *_BUILTINS}
    nodes = sorted(case.cell.names(), key=case.cell.place)
    others = dict.fromkeys(node.id for node in nodes if node.id not in defined)
    found = [(other, wanted) for other in others if (wanted := _missing_import(case, other)) is not None]
    return [wanted for other, wanted in found if _is_sure(case, other, wanted) and _is_there(case, wanted)]


def _missing_import(case: Case, name: str) -> Import | None:
    chains: set[tuple[str, ...]] = set()
    called = bare = False
    for use in case.uses(name):
        chain = _chain(case, use)
        parent = case.cell.parents.get(use)
        if chain:
            chains.add(chain)
        elif isinstance(parent, ast.Call) and parent.func is use:
            called = True
        else:
            bare = True
    wanted = known_import(name, chains, called=called, bare=bare)
    # What is a plain word (`test`, `code`) is a variable that somebody forgot.
    ordinary = name in WORDS or name in case.failure.surroundings.elsewhere
    if wanted is None and name in case.diagnosis.modules and chains and not (called or bare or ordinary):
        return Import((f"import {name}",), name, certain=False)
    return wanted


def _chain(case: Case, node: ast.expr) -> tuple[str, ...]:
    """The attributes that are taken of it, one of the other."""
    names = []
    above = case.cell.parents.get(node)
    while isinstance(above, ast.Attribute):
        names.append(above.attr)
        above = case.cell.parents.get(above)
    return tuple(names)


def point_to_other_step(failure: Failure) -> Proposal | None:
    """A name that a skipped or later step of the plan defines. Only a person can say what was meant."""
    found = _undefined(failure)
    if found is None:
        return None
    if found[1] not in failure.surroundings.elsewhere:
        if not found[0].cell.binds(found[1]):
            return None
        return Proposal(
            "other_step", f"`{found[1]}` is used before the cell itself defines it: change the order."
        )
    step = failure.surroundings.elsewhere[found[1]]
    return Proposal(
        "other_step",
        f"`{found[1]}` is defined in {step.what} {step.number} ({step.description}), which is {step.status}: "
        "run that first, or define the name here.",
    )


def fix_misspelt_name(failure: Failure) -> Proposal | None:
    """A name one slip away from the only one that is near."""
    found = _undefined(failure)
    if found is None:
        return None
    case, name = found
    defined = {known for known in case.diagnosis.names if not known.startswith("_")} - _UNWANTED
    near = nearest(name, sorted(defined | _BUILTINS), public=_BUILTINS - defined)
    if near is None:
        return None
    meant = near.best
    edits = [case.cell.replace(use, meant) for use in case.uses(name)]
    certain = (
        near.certain and _all_located(case, name) and _can_be(case, name, meant, builtin=meant not in defined)
    )
    reason = (
        f"`{name}` is not defined; the only name near it is `{meant}`."
        if len(near.found) == 1
        else f"`{name}` is not defined; near it are {near.listed}."
    )
    if len(near.found) > 1:
        ways = ([case.cell.replace(use, each) for use in case.uses(name)] for each in near.found[:_TRIED])
        return case.choice("misspelt_name", reason, *(ways if _all_located(case, name) else ()))
    return case.proposal("misspelt_name", reason, edits, certain=certain)


def _can_be(case: Case, name: str, meant: str, *, builtin: bool) -> bool:
    """Whether one may stand for the other without another meaning."""
    if builtin and (meant in _RISKY or (meant[0].islower() and not _is_only_called(case, name))):
        return False
    if folded(name) == folded(meant):
        # `Model` may be a class of which `model` is one; a trailing underscore keeps a name apart from a builtin.
        only_case = name.casefold() == meant.casefold()
        is_class = name[0].isupper() and not name.isupper() and not meant[0].isupper()
        if builtin:
            return only_case and (not is_class or meant == "print")
        return len(name) >= 4 and not is_class  # as short as `nearness` lets a slip be
    # Both in one statement are two things.
    return not any(_beside(case, use, meant) for use in case.uses(name))


def _is_only_called(case: Case, name: str) -> bool:
    """Whether it is used as a function is, and not as somebody's value."""
    above = ((use, case.cell.parents.get(use)) for use in case.uses(name))
    return all(isinstance(call, ast.Call) and call.func is use for use, call in above)


def _beside(case: Case, use: ast.Name, other: str) -> bool:
    statement = case.cell.statement_of(use)
    if statement is None:
        return True
    inside = [statement] if not hasattr(statement, "body") else []
    return any(
        isinstance(node, ast.Name) and node.id == other and isinstance(node.ctx, ast.Load)
        for each in inside
        for node in ast.walk(each)
    )


def _all_located(case: Case, name: str) -> bool:
    """Whether the cell only uses the name, and every use is one we can place."""
    every = [node for node in case.cell.names() if node.id == name]
    told = bool(every) and len(every) == len(case.uses(name))
    deleted = any(isinstance(node.ctx, ast.Del) for node in every)
    return (
        told and not deleted and not case.cell.binds(name) and name not in case.failure.surroundings.elsewhere
    )


def _undefined(failure: Failure) -> tuple[Case, str] | None:
    case = case_of(failure, "NameError")
    if case is None:
        return None
    match = _UNDEFINED.match(case.error.message)
    name = case.details.get("name") or (match and match["name"])
    return (case, name) if isinstance(name, str) and any(n.id == name for n in case.cell.names()) else None

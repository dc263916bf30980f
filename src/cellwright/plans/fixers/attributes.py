"""Attributes that an object has not: what they are called now, and what they may be a slip of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers.cases import Case, case_of
from cellwright.plans.fixers.cells import Edit
from cellwright.plans.fixers.nearness import nearest
from cellwright.plans.fixers.retired import ADVICE, BUILTINS, MEMBERSHIP, RENAMED, TYPOS

__all__ = ["Missed", "fix_misspelt_attribute", "fix_retired_attribute", "missed_of"]

_MESSAGES = (
    re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"'(?P<type>[\w.]+)' object has no attribute '(?P<name>\w+)'"),
    re.compile(r"type object '(?P<type>[\w.]+)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"`(?P<alias>\w+)\.(?P<name>\w+)` was removed in"),
)
_BINDING = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.Constant,
    ast.JoinedStr,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
)
"""What stands before a dot, or beside an operator, without brackets."""
_SIZED = frozenset(["list", "str", "tuple", "dict", "set"])
_ITERATORS = re.compile(
    r"(?:generator|map|zip|filter|enumerate|TextIOWrapper|reader|DictReader|\w*_iterator|\w*_reverseiterator)$"
)
_OWN_ATTRIBUTES = frozenset(["SimpleNamespace", "Namespace", "Series", "Pandas", "Bunch", "Row"])
"""Types whose attributes are named by whoever makes one, or by columns."""
_PLAIN_CODECS = frozenset(["utf-8", "utf8", "ascii", "UTF-8", "UTF8"])


@dataclass(frozen=True, slots=True)
class Missed:
    """An attribute, the object that lacks it, and where the cell asks for it."""

    case: Case
    name: str
    kind: str
    """The object's type as the tables name it: ``list``, ``pandas.DataFrame``, ``module numpy``."""
    nodes: tuple[ast.Attribute, ...]

    def holder(self, node: ast.Attribute) -> str:
        """The object, with the brackets that it needs before a dot."""
        text = self.case.cell.segment(node.value)
        return text if isinstance(node.value, _BINDING) else f"({text})"

    def renamed(self, name: str) -> list[Edit]:
        """The attribute by another name, wherever it is asked of the same object."""
        ends = [(self.case.cell.place(node)[1], node) for node in self.nodes]
        return [Edit(end - len(node.attr), end, name) for end, node in ends]

    def call(self, node: ast.Attribute) -> ast.Call | None:
        above = self.case.cell.parents.get(node)
        return above if isinstance(above, ast.Call) and above.func is node else None


def missed_of(failure: Failure) -> Missed | None:
    """What was missed on what; None where the cell itself does not ask for it."""
    case = case_of(failure, "AttributeError")
    match = next((found for each in _MESSAGES if case and (found := each.search(case.error.message))), None)
    if case is None or match is None:
        return None
    said = match.groupdict()
    subject = case.diagnosis.subject
    name = said["name"]
    if said.get("module") or said.get("alias"):
        kind = f"module {_module(said)}"
    else:
        kind = _kind(str(case.details.get("obj_type") or (subject.type if subject else "") or said["type"]))
        kind = f"type {said['type']}" if match.re is _MESSAGES[2] else kind
    every = [
        node
        for node in ast.walk(case.cell.tree)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Load)
        and case.cell.segment(node).endswith(name)
    ]
    failing = [node for node in every if node in case.cell.at(case.span)]
    holders = {ast.unparse(node.value) for node in failing or every}
    if len(holders) != 1:
        return None
    return Missed(case, name, kind, tuple(node for node in every if ast.unparse(node.value) in holders))


def _module(said: dict[str, str | None]) -> str:
    if said.get("module"):
        return str(said["module"])
    return {"np": "numpy", "pd": "pandas"}.get(str(said["alias"]), str(said["alias"]))


def _kind(type_name: str) -> str:
    """A type without the modules within its library: pandas and polars have frames of the same name."""
    first, _, rest = type_name.partition(".")
    last = rest.rpartition(".")[2]
    return f"{first}.{last}" if first in ("pandas", "polars") and last else type_name.rpartition(".")[2]


def fix_retired_attribute(failure: Failure) -> Proposal | None:
    """An attribute that is called otherwise now, or here."""
    missed = missed_of(failure)
    if missed is None or not missed.nodes:
        return None
    case, kind, name = missed.case, missed.kind, missed.name
    new = RENAMED.get(kind, {}).get(name)
    if new is not None:
        return case.proposal(
            "attribute", f"{_of(kind)} has no `{name}`: it is `{new}`.", missed.renamed(new), certain=True
        )
    builtin = BUILTINS.get(kind, {}).get(name)
    if builtin is not None:
        edits = [case.cell.replace(node, builtin) for node in missed.nodes]
        reason = f"{_of(kind)} has no `{name}`: it is the builtin `{builtin}`."
        return case.proposal("attribute", reason, edits, certain=builtin not in case.diagnosis.names)
    rewritten = [_rewritten(missed, node) for node in missed.nodes]
    edits = [edit for edit in rewritten if edit is not None]
    if edits:
        reason = f"{_of(kind)} has no `{name}`: in Python it is `{edits[0].text}`."
        return case.proposal("attribute", reason, edits, certain=len(edits) == len(rewritten))
    advice = ADVICE.get(kind, {}).get(name)
    return None if advice is None else Proposal("attribute", f"{_of(kind)} has no `{name}`: {advice}.")


def _of(kind: str) -> str:
    return (
        f"The {kind.replace('module ', 'module `')}`"
        if kind.startswith("module ")
        else f"A `{kind.removeprefix('type ')}`"
    )


def _rewritten(missed: Missed, node: ast.Attribute) -> Edit | None:
    """What is said otherwise as a whole in Python, where it is."""
    call, holder, cell = missed.call(node), missed.holder(node), missed.case.cell
    no_arguments = call is not None and not call.args and not call.keywords
    whole: ast.expr = call if call is not None else node
    if missed.name in MEMBERSHIP.get(missed.kind, frozenset()) and call is not None and len(call.args) == 1:
        asked = cell.segment(call.args[0])
        asked = asked if isinstance(call.args[0], _BINDING) else f"({asked})"
        return cell.replace(whole, f"({asked} in {holder})")
    if missed.name == "length" and missed.kind in _SIZED and (call is None or no_arguments):
        return cell.replace(whole, f"len({holder})")
    if missed.name == "next" and no_arguments and _ITERATORS.search(missed.kind):
        return cell.replace(whole, f"next({holder})")
    if missed.name == "decode" and missed.kind == "str" and call is not None and _is_plain_decoding(call):
        return cell.replace(whole, holder)
    if missed.kind == "type datetime.datetime" and missed.name == "datetime":
        return cell.replace(node, holder)
    return None


def _is_plain_decoding(call: ast.Call) -> bool:
    return not call.keywords and all(
        isinstance(each, ast.Constant) and each.value in _PLAIN_CODECS for each in call.args[:1]
    )


def fix_misspelt_attribute(failure: Failure) -> Proposal | None:
    """An attribute, or a frame's column, one slip away from the only one near it."""
    missed = missed_of(failure)
    if missed is None or not missed.nodes:
        return None
    case, name = missed.case, missed.name
    subject = case.diagnosis.subject
    holder = ast.unparse(missed.nodes[0].value)
    about = subject if subject is not None and subject.expression == holder else None
    columns = [
        column for column in (about.columns if about and about.columns else ()) if isinstance(column, str)
    ]
    known = {*(about.attributes if about else ()), *case.diagnosis.members.get(holder, ())}
    if name in TYPOS and TYPOS[name] in known:
        reason = f"`{holder}` has no `{name}`, but `{TYPOS[name]}`."
        return case.proposal("misspelt_attribute", reason, missed.renamed(TYPOS[name]), certain=True)
    made_here = about is not None and (
        about.type.startswith("__main__.") or about.type.rpartition(".")[2] in _OWN_ATTRIBUTES
    )
    near = nearest(name, [*columns, *sorted(known)], public=() if made_here else known - set(columns))
    if near is None:
        return None
    best = near.best
    edits = (
        _asking_for(missed, best, is_column=best in columns, attributes=known) if len(near.found) == 1 else []
    )
    reason = f"`{holder}` has no `{name}`; near it is {near.listed}."
    set_here = any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(case.cell.tree)
    )
    # Frames have words of their own (`size`, `rank`): with a capital, a column is more likely.
    a_column = about is not None and about.columns is not None and best not in columns and name[0].isupper()
    certain = near.certain and not set_here and not a_column
    return case.proposal("misspelt_attribute", reason, edits, certain=certain)


def _asking_for(missed: Missed, best: str, *, is_column: bool, attributes: Iterable[str]) -> list[Edit]:
    if not is_column or (best.isidentifier() and best not in attributes):
        return missed.renamed(best)
    cell = missed.case.cell
    quoted = f'"{best}"' if best.isprintable() and not set(best) & set('"\\') else repr(best)
    return [cell.replace(node, f"{missed.holder(node)}[{quoted}]") for node in missed.nodes]

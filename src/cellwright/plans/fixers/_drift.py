"""Code that was right for an older release of a library: names and values that newer ones changed.

A library's own words come first: the names that it lists, the alias that it proposes, what its functions take as they
are installed. Then the table of renames (``_drift_table``). Where neither says that something else does the same, it is
only suggested. Arguments are in ``_drift_arguments``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._attributes import missed_of
from cellwright.plans.fixers._cells import (
    Case,
    Edit,
    called,
    calls_in,
    case_at_top,
    is_gone_since,
    keyword_of,
    literal_like,
    with_argument,
)
from cellwright.plans.fixers._drift_arguments import any_named, old_positions, renamed_keywords
from cellwright.plans.fixers._drift_table import (
    COLORMAPS,
    FREQUENCIES,
    MODULES,
    NAMES,
    PERIODS,
    STYLES,
    VALUES,
    Rename,
)

__all__ = [
    "fix_colormap",
    "fix_frequency",
    "fix_library_import",
    "fix_library_name",
    "fix_parameter_value",
    "fix_style",
]

_ALIASES: Mapping[str, str] = {
    "matplotlib.pyplot": "plt",
    "matplotlib": "matplotlib",
    "numpy": "np",
    "pandas": "pd",
    "seaborn": "sns",
}
"""What everybody calls a module."""

_FREQUENCY_NAMES = frozenset(["freq", "rule"])

_FREQUENCY_CALLS = frozenset(
    [
        "Grouper",
        "Period",
        "asfreq",
        "ceil",
        "date_range",
        "floor",
        "period_range",
        "resample",
        "round",
        "to_offset",
        "to_period",
    ]
)

_PERIOD_CALLS = frozenset(["Period", "period_range", "to_period", "PeriodIndex"])

_STYLE_CALLS = frozenset(["use", "context"])

_COLORMAP_NAMES = frozenset(["cmap", "colormap"])

_COLORMAP_CALLS = frozenset(["get_cmap", "set_cmap"])


# Values that a library names otherwise -------------------------------------------------------------------------------

_NO_STYLE = re.compile(r"^'(?P<name>[^']+)' is not a valid package style")

_NO_COLORMAP = (
    re.compile(
        r"^'(?P<name>\w+)' is not a valid value for (?P<parameter>cmap|colormap|name)\b(?P<known>.*)",
        re.DOTALL,
    ),
    re.compile(r"^[\"']?'(?P<name>\w+)' is not a known colormap name"),
)

_NO_FREQUENCY = re.compile(r"^Invalid frequency: (?P<name>[^\s.,]+)")

_MEANT = re.compile(r"Did you mean (?P<meant>[\w-]+)\?")

_ALIAS = re.compile(r"(?P<count>-?\d*\.?\d*)(?P<alias>[A-Za-z]+)(?P<anchor>-[A-Z]{3})?")

_NO_VALUE = re.compile(
    r"^The '(?P<parameter>\w+)' parameter of (?P<callable>\w+) must be .*Got '(?P<name>[^']+)' instead",
    re.DOTALL,
)


_NO_PARAMETER = re.compile(
    r"^Invalid parameter '(?P<name>\w+)' for estimator (?P<estimator>\w+)\(.*Valid parameters are: \[(?P<known>[^\]]*)\]",
    re.DOTALL,
)


def fix_style(failure: Failure) -> Proposal | None:
    """A style sheet that matplotlib renamed."""
    case = case_at_top(failure, "OSError")
    match = _NO_STYLE.match(case.error.message) if case else None
    if case is None or match is None:
        return None
    old = match["name"]
    known = case.diagnosis.choices.get("matplotlib.style", ())
    row = next((row for row in STYLES if old == row.old or old.startswith(f"{row.old}-")), None)
    if row is None or not is_gone_since(case, row.library, row.since):
        near = ", ".join(f"`{name}`" for name in known if name.partition("-")[0] in old)
        return Proposal(
            "style", f"matplotlib has no style `{old}`" + (f"; it has {near[:200]}." if near else ".")
        )
    new = row.new + old.removeprefix(row.old)
    if known and new not in known:
        return Proposal("style", f"matplotlib has neither a style `{old}` nor `{new}` any more.")
    reason = f"matplotlib renamed the style `{old}`: it is `{new}` since {row.since}."
    certain = all(_is_given_to(case, node, _STYLE_CALLS) for node in _literals(case, old))
    return case.proposal("style", reason, _relabelled(case, old, new), certain=certain)


def fix_colormap(failure: Failure) -> Proposal | None:
    """A colour map that matplotlib renamed."""
    case = case_at_top(failure, "ValueError", "KeyError")
    match = next((found for each in _NO_COLORMAP if case and (found := each.match(case.error.message))), None)
    if case is None or match is None:
        return None
    old, said = match["name"], match.groupdict()
    if said.get("parameter") == "name" and old not in COLORMAPS:
        return None
    known = re.findall(r"'(\w+)'", said.get("known") or "")
    alike = [name for name in known if name.lower() == old.lower()]
    new = COLORMAPS.get(old) or (alike[0] if len(alike) == 1 else None)
    if new is None or (known and new not in known):
        return Proposal(
            "colormap", f"matplotlib has no colour map `{old}`: `plt.colormaps()` lists those it has."
        )
    reason = f"matplotlib has no colour map `{old}`: it is `{new}`."
    certain = old in COLORMAPS and all(_is_colormap(case, node) for node in _literals(case, old))
    return case.proposal("colormap", reason, _relabelled(case, old, new), certain=certain)


def fix_frequency(failure: Failure) -> Proposal | None:
    """A frequency that pandas spells otherwise."""
    case = case_at_top(failure, "ValueError")
    match = _NO_FREQUENCY.match(case.error.message) if case else None
    statement = case.statement if case else None
    if case is None or match is None or statement is None or not is_gone_since(case, "pandas", "2.2"):
        return None
    old, meant = match["name"], _MEANT.search(case.error.message)
    periods = any(called(call) in _PERIOD_CALLS for call in calls_in(statement))
    parts = list(_ALIAS.finditer(old))
    if "".join(part.group() for part in parts) != old:
        return None
    table = PERIODS if periods else FREQUENCIES
    if len(parts) == 1 and meant is not None:
        alias = meant["meant"].partition("-")[0]
        table = {**table, parts[0]["alias"]: alias}
    new = "".join(
        f"{part['count']}{table.get(part['alias'], part['alias'])}{part['anchor'] or ''}" for part in parts
    )
    if new == old:
        return None
    # The same letters may be a column's name, or a key.
    certain = all(_is_frequency(case, node) for node in case.cell.strings(old))
    reason = f"pandas spells the frequency `{old}` `{new}` now."
    return case.proposal("frequency", reason, _relabelled(case, old, new), certain=certain)


def _is_frequency(case: Case, node: ast.Constant) -> bool:
    """Whether a text stands where a frequency does: as an argument of that name, or of what takes one."""
    above = case.cell.parents.get(node)
    if isinstance(above, ast.keyword):
        return above.arg in _FREQUENCY_NAMES
    return isinstance(above, ast.Call) and called(above) in _FREQUENCY_CALLS and node in above.args


def _is_colormap(case: Case, node: ast.Constant) -> bool:
    """Whether a text stands where a colour map's name does: as an argument of that name, for what takes or keeps one."""
    above = case.cell.parents.get(node)
    if isinstance(above, ast.keyword) and above.arg in _COLORMAP_NAMES:
        return True
    if isinstance(above, ast.Subscript):
        return ast.unparse(above.value).rpartition(".")[2] == "colormaps"
    return _is_given_to(case, node, _COLORMAP_CALLS)


def _is_given_to(case: Case, node: ast.Constant, calls: frozenset[str]) -> bool:
    """Whether a text is an argument of one of these, by itself or in a list."""
    above = case.cell.parents.get(node)
    while isinstance(above, ast.List | ast.Tuple | ast.keyword):
        above = case.cell.parents.get(above)
    return isinstance(above, ast.Call) and called(above) in calls


def fix_parameter_value(failure: Failure) -> Proposal | None:
    """A value of an argument that scikit-learn spells otherwise."""
    case = case_at_top(failure, "InvalidParameterError", "ValueError")
    match = _NO_VALUE.match(case.error.message) if case else None
    if case is None or match is None:
        return _no_parameter(case) if case is not None else None
    rows = [
        row
        for row in VALUES
        if row.parameter == match["parameter"]
        and row.old == match["name"]
        and any_named(row.callables, match["callable"])
    ]
    if not rows:
        return None
    edits = [
        case.cell.replace(keyword.value, rows[0].new)
        for call in ast.walk(case.cell.tree)
        if isinstance(call, ast.Call) and called(call) == match["callable"]
        if (keyword := keyword_of(call, rows[0].parameter)) and _is_value(keyword.value, rows[0].old)
    ]
    reason = f'`{match["callable"]}` calls `{rows[0].parameter}="{rows[0].old}"` {rows[0].new} now.'
    return case.proposal("parameter_value", reason, edits, certain=True)


def _no_parameter(case: Case) -> Proposal | None:
    """A parameter that a search or ``set_params`` names, and the estimator does not have: what it has, in its own words."""
    match = _NO_PARAMETER.match(case.error.message)
    if match is None:
        return None
    reason = f"`{match['estimator']}` has no parameter `{match['name']}`; it has {match['known']}."
    return Proposal("parameter_value", reason.replace("'", ""))


def _is_value(node: ast.expr, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _relabelled(case: Case, old: str, new: str) -> list[Edit]:
    """The literals of a value by its new spelling: the failing statement's, or the cell's where that has none."""
    texts = [(node, literal_like(case.cell.segment(node), old, new)) for node in _literals(case, old)]
    return [case.cell.replace(node, text) for node, text in texts if text is not None]


def _literals(case: Case, text: str) -> Sequence[ast.Constant]:
    every = case.cell.strings(text)
    return [node for node in every if case.cell.statement_of(node) is case.statement] or every


# Names that went elsewhere -------------------------------------------------------------------------------------------


_NO_MEMBER = re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'")


def fix_library_name(failure: Failure) -> Proposal | None:
    """A function, method or attribute that a library has under another name or in another place."""
    missed = missed_of(failure)
    if missed is None or not missed.nodes:
        return _missed_elsewhere(failure)
    case, kind = missed.case, missed.kind
    subject = str(case.details.get("obj_type") or "")
    row = next((row for row in NAMES if _is_missed(row, kind, subject, missed.name)), None)
    if row is None or not is_gone_since(case, row.library, row.since):
        return None
    edits: list[Edit] = []
    for node in missed.nodes:
        found = _moved(case, node, row, missed.call(node))
        if found is None:
            return Proposal("library_name", _told(row))
        edits += found
    edits += _import_for(case, row)
    return case.proposal("library_name", _told(row), edits, certain=not row.differs)


def _missed_elsewhere(failure: Failure) -> Proposal | None:
    """What a function of another cell asks for: the place to fix is there."""
    case = case_at_top(failure, "AttributeError")
    match = _NO_MEMBER.match(case.error.message) if case else None
    row = next((row for row in NAMES if match and row.old == f"{match['module']}.{match['name']}"), None)
    if case is None or row is None or not is_gone_since(case, row.library, row.since):
        return None
    return Proposal("library_name", f"{_told(row)} The code that asks for it is not in this cell.")


def _told(row: Rename) -> str:
    besides = f", but {row.differs}" if row.differs else ""
    return f"`{row.old}` is gone since {row.library} {row.since}: it is `{row.new}`{besides}."


def _is_missed(row: Rename, kind: str, subject: str, name: str) -> bool:
    holder, _, last = row.old.rpartition(".")
    if last != name:
        return False
    if kind.startswith("module "):
        return holder == kind.removeprefix("module ")
    library = subject.partition(".")[0] or kind.partition(".")[0]
    same = library == row.library or (row.library == "matplotlib" and library == "mpl_toolkits")
    return same and holder.rpartition(".")[2] == (subject or kind).rpartition(".")[2]


def _moved(case: Case, node: ast.Attribute, row: Rename, call: ast.Call | None) -> list[Edit] | None:
    """The edits that lead an expression to where its name is now; None where they cannot be written."""
    if row.template:
        return _templated(case, row, call)
    holder, _, name = row.new.rpartition(".")
    end = case.cell.place(node)[1]
    if holder == row.old.rpartition(".")[0]:
        edits = [Edit(end - len(node.attr), end, name)]
    elif (place := _expressed(case, holder)) is not None:
        edits = [case.cell.replace(node, f"{place}.{name}")]
    elif row.new.startswith(row.old.rpartition(".")[0] + "."):
        edits = [Edit(end - len(node.attr), end, row.new.removeprefix(row.old.rpartition(".")[0] + "."))]
    else:
        return None
    if call is None:
        return edits if not row.within else None
    return _with_call(case, call, row, edits + _wrapped(case, call, row.within))


def _wrapped(case: Case, call: ast.Call, within: str) -> list[Edit]:
    above = case.cell.parents.get(call)
    if not within or (isinstance(above, ast.Call) and called(above) == within):
        return []
    start, end = case.cell.place(call)
    return [Edit(start, start, f"{within}("), Edit(end, end, ")")]


def _with_call(case: Case, call: ast.Call, row: Rename, edits: list[Edit]) -> list[Edit] | None:
    given = {keyword.arg for keyword in call.keywords}
    if row.takes is not None and not given <= row.takes:
        return None
    named = old_positions(case, call, row.positions, None) if row.positions else []
    if named is None:
        return None
    edits = [*edits, *named, *renamed_keywords(case, call, row.new)]
    for name, value in row.adds.items():
        placed = row.positions.index(name) < len(call.args) if name in row.positions else False
        if name not in given and not placed:
            added = with_argument(case.cell, call, name, value)
            edits += [added] if added is not None else []
    return edits


def _templated(case: Case, row: Rename, call: ast.Call | None) -> list[Edit] | None:
    if call is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if not given.keys() <= (row.takes or frozenset()) or len(call.args) + len(given) != len(row.positions):
        return None
    values = [*call.args, *(given[name] for name in row.positions[len(call.args) :] if name in given)]
    if len(values) != len(row.positions):
        return None
    first, *rest = [case.cell.segment(value) for value in values]
    first = (
        first if isinstance(values[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({first})"
    )
    return [case.cell.replace(call, row.template.format(first, *rest))]


def _expressed(case: Case, module: str) -> str | None:
    """How a module, or a class of one, is written in the cell: by what everybody calls it."""
    longest = max(
        (known for known in _ALIASES if module == known or module.startswith(known + ".")),
        key=len,
        default=None,
    )
    if longest is not None:
        return _ALIASES[longest] + module.removeprefix(longest)
    top = module.partition(".")[0]
    taken = top in case.diagnosis.names or case.cell.binds(top)
    return None if taken else module


def _import_for(case: Case, row: Rename) -> list[Edit]:
    """The import that the new name needs, where neither the session nor the cell has it."""
    if row.template or row.new.rpartition(".")[0] == row.old.rpartition(".")[0]:
        return []
    holder = row.new.rpartition(".")[0]
    place = _expressed(case, holder)
    if place is None:
        return []
    root = place.partition(".")[0]
    if root in case.diagnosis.names or case.cell.binds(root):
        return []
    module = next((known for known, alias in _ALIASES.items() if alias == root), None)
    if module is not None:
        return [case.cell.import_edit(f"import {module}" + (f" as {root}" if root != module else ""))]
    modules = [part for part in holder.split(".") if part == part.lower()]
    # What is in a module that has objects of lower-case names, such as `scipy.stats.norm`, is imported by the module.
    return [case.cell.import_edit("import " + ".".join(modules[:2] if modules[0] == "scipy" else modules))]


_NO_MODULE = re.compile(r"No module named '(?P<module>[\w.]+)'")

_NO_NAME = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'")


def fix_library_import(failure: Failure) -> Proposal | None:
    """An import of what a library has elsewhere."""
    case = case_at_top(failure, "ModuleNotFoundError", "ImportError")
    statement = case.statement if case else None
    if case is None or not isinstance(statement, ast.ImportFrom) or statement.level:
        return None
    module = statement.module or ""
    gone = _NO_MODULE.search(case.error.message)
    if gone is not None:
        row = next((row for row in MODULES if row.old == module == gone["module"]), None)
        if row is None or not is_gone_since(case, row.library, row.since):
            return None
        start = case.cell.text.index(module, case.cell.place(statement)[0])
        known = all(alias.name in row.names for alias in statement.names)
        reason = f"What was in `{row.old}` is in `{row.new}` since {row.library} {row.since}."
        return case.proposal(
            "library_import", reason, [Edit(start, start + len(module), row.new)], certain=known
        )
    missing = _NO_NAME.search(case.error.message)
    wanted = f"{missing['module']}.{missing['name']}" if missing and missing["module"] == module else ""
    name = next((row for row in NAMES if row.old == wanted), None)
    return (
        None
        if name is None or not is_gone_since(case, name.library, name.since)
        else _imported(case, statement, name)
    )


def _imported(case: Case, statement: ast.ImportFrom, row: Rename) -> Proposal | None:
    """The import by its new name; where arguments have to change, also the calls, all of which the cell must have."""
    old = row.old.rpartition(".")[2]
    alias = next(alias for alias in statement.names if alias.name == old)
    kept = alias.asname or old
    home, _, new = row.new.rpartition(".")
    if row.differs and not row.adds:
        return Proposal("library_import", _told(row))
    uses = list(case.uses(kept))
    calls = [
        above
        for use in uses
        if isinstance(above := case.cell.parents.get(use), ast.Call) and above.func is use
    ]
    changed = bool(row.adds or row.positions or row.takes is not None)
    if (
        home.rpartition(".")[2][:1].isupper()
        or len(statement.names) > 1
        or len(calls) != len(uses)
        or (changed and not calls)
    ):
        return Proposal("library_import", _told(row))
    written = new if kept == new else f"{new} as {kept}"
    edits = [case.cell.replace(statement, f"from {home} import {written}")]
    for call in calls if changed else ():
        more = _with_call(case, call, row, [])
        if more is None:
            return Proposal("library_import", _told(row))
        edits += more
    return case.proposal("library_import", _told(row), edits, certain=not row.differs)

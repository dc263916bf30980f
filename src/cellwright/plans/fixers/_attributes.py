"""Attributes that an object has not: what they are called now, and what they may be a slip of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Edit, called, case_of, keyword_of
from cellwright.plans.fixers._similarity import nearest

__all__ = ["fix_appended_frame", "fix_fill_method", "fix_misspelt_attribute", "fix_retired_attribute"]
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
    if name.endswith("_") and not name.startswith("_") and "fit" in known:
        reason = f"`{holder}.{name}` is there only after `{holder}.fit(…)`: fit it first."
        return Proposal("unfitted", reason)
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


# Attributes that are called otherwise: gone from Python and its libraries, or another language's word for
# them.

_ROW_INDEX = "use `with_row_index`, which calls the column `index` where it was `row_nr`"

_NEW_FROM_DATETIME = ("now", "today", "utcnow", "strptime", "fromtimestamp", "fromisoformat", "combine")

RENAMED: Mapping[str, Mapping[str, str]] = {
    "dict": {"iteritems": "items", "iterkeys": "keys", "itervalues": "values", "viewitems": "items"},
    "list": {
        "push": "append",
        "push_back": "append",
        "addAll": "extend",
    },
    "str": {
        "toUpperCase": "upper",
        "toLowerCase": "lower",
        "trim": "strip",
        "trimStart": "lstrip",
        "trimEnd": "rstrip",
        "indexOf": "find",
        "replaceAll": "replace",
        "startsWith": "startswith",
        "endsWith": "endswith",
    },
    "Thread": {"isAlive": "is_alive"},
    "pandas.DataFrame": {
        "iteritems": "items",
        "as_matrix": "to_numpy",
        "applymap": "map",
        "sort": "sort_values",
    },
    "pandas.Series": {"iteritems": "items", "as_matrix": "to_numpy", "order": "sort_values"},
    "polars.DataFrame": {
        "groupby": "group_by",
        "with_column": "with_columns",
    },
    "polars.LazyFrame": {"groupby": "group_by", "with_column": "with_columns"},
    "module collections": {
        name: f"abc.{name}"
        for name in (
            "Callable",
            "Hashable",
            "Iterable",
            "Iterator",
            "Mapping",
            "MutableMapping",
            "Sequence",
            "Set",
        )
    },
    "module datetime": {name: f"datetime.{name}" for name in _NEW_FROM_DATETIME},
    "module itertools": {"izip_longest": "zip_longest", "ifilterfalse": "filterfalse"},
    "module numpy": {
        "Inf": "inf",
        "Infinity": "inf",
        "NaN": "nan",
        "NAN": "nan",
        "PINF": "inf",
        "alltrue": "all",
        "complex_": "complex128",
        "cumproduct": "cumprod",
        "float_": "float64",
        "infty": "inf",
        "mat": "asmatrix",
        "product": "prod",
        "round_": "round",
        "row_stack": "vstack",
        "sometrue": "any",
        "string_": "bytes_",
        "trapz": "trapezoid",
        "unicode_": "str_",
    },
    "module os": {"getcwdu": "getcwd"},
    "module pandas": {"scatter_matrix": "plotting.scatter_matrix"},
    "module string": {
        "letters": "ascii_letters",
        "lowercase": "ascii_lowercase",
        "uppercase": "ascii_uppercase",
    },
    "module sys": {"maxint": "maxsize"},
}
"""By type, or by module: an attribute, and what it is called there."""

BUILTINS: Mapping[str, Mapping[str, str]] = {
    "module itertools": {"izip": "zip", "imap": "map", "ifilter": "filter"},
    "module numpy": {
        "bool": "bool",
        "complex": "complex",
        "float": "float",
        "int": "int",
        "long": "int",
        "object": "object",
        "str": "str",
        "unicode": "str",
    },
}
"""What was only another name of a builtin, or became one."""

MEMBERSHIP: Mapping[str, frozenset[str]] = {
    "dict": frozenset({"has_key", "contains", "containsKey", "has", "hasOwnProperty"}),
    "list": frozenset({"contains", "includes"}),
    "set": frozenset({"contains", "has"}),
    "str": frozenset({"contains", "includes"}),
    "tuple": frozenset({"contains", "includes"}),
}
"""Methods that ask whether something is in it."""

TYPOS: Mapping[str, str] = {
    "sort_value": "sort_values",
    "value_count": "value_counts",
    "values_count": "value_counts",
    "values_counts": "value_counts",
    "drop_duplicate": "drop_duplicates",
    "read_cvs": "read_csv",
}
"""What is often written for a method of frames or of what reads them, and can be nothing else."""

ADVICE: Mapping[str, Mapping[str, str]] = {
    "pandas.DataFrame": {
        "ix": "use `.loc` for labels or `.iloc` for positions",
        "append": "use `pd.concat([…])`",
        "mad": "use `(df - df.mean()).abs().mean()`",
        "lookup": "use `.melt` and `.loc`, or numpy indexing",
    },
    "pandas.Series": {
        "ix": "use `.loc` or `.iloc`",
        "append": "use `pd.concat([…])`",
        "mad": "use `(s - s.mean()).abs().mean()`",
    },
    "DatetimeProperties": {
        "week": "use `.dt.isocalendar().week`",
        "weekofyear": "use `.dt.isocalendar().week`",
        "weekday_name": "use `.dt.day_name()`",
    },
    "module numpy": {
        "in1d": "use `np.isin`, which keeps the shape",
        "NINF": "use `-np.inf`",
        "asscalar": "use `.item()`",
        "msort": "use `np.sort(a, axis=0)`",
    },
    "module pandas": {
        "Panel": "use a frame with a MultiIndex",
        "rolling_mean": "use `.rolling(n).mean()`",
        "Int64Index": "use `pd.Index`",
        "datetime": "use the module `datetime`",
        "np": "import numpy itself",
    },
    "module string": {
        "maketrans": "use `str.maketrans`",
        "join": "use the separator's own `.join`",
        "split": "use the text's own `.split`",
    },
    "module time": {
        "clock": "use `time.perf_counter` for what passes, `time.process_time` for what is worked"
    },
    "module inspect": {"getargspec": "use `inspect.signature`"},
    "list": {
        "add": "use `append`, or make it a set, which holds nothing twice",
        "shape": "make it an array first: `numpy.array(…)`",
        "size": "use `len(…)`",
    },
    "polars.DataFrame": {"with_row_count": _ROW_INDEX},
    "polars.LazyFrame": {"with_row_count": _ROW_INDEX},
    "set": {"append": "use `add`, or make it a list, which holds things twice and in order"},
    "str": {"decode": "a text is decoded already"},
}
"""What to do where nothing takes its place as it is."""


# Calls on pandas' frames that pandas no longer has, where another call does the same.

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

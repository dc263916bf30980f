"""Imports that fail: what moved elsewhere, what is misspelt, and what is to be installed first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Edit, case_of
from cellwright.plans.fixers._known_names import (
    ALIASES,
    MODULE_OF,
    WELL_KNOWN,
    distributions_for,
    installable,
)
from cellwright.plans.fixers._similarity import folded, is_slip, nearest

__all__ = ["fix_missing_package", "fix_misspelt_import", "fix_moved_import"]
_NO_MODULE = re.compile(r"No module named '?(?P<module>[\w.]+)'?")

_NO_NAME = re.compile(
    r"cannot import name '(?P<name>\w+)' from (?:partially initialized module )?'(?P<module>[\w.]+)'"
)

_WANTED = (
    re.compile(r"[Mm]issing optional dependency '(?P<module>[\w.-]+)'"),
    re.compile(r"[Uu]nable to find a usable engine; tried using: '(?P<module>\w+)'"),
    re.compile(r"(?:requires|needs) (?:the )?[`']?(?P<module>\w+)[`']? (?:package|module|library)"),
    re.compile(r"`?[Ii]mport (?P<module>\w+)`? failed"),
)

_FROM = re.compile(r"(?P<head>from\s+)(?P<module>[\w.]+)(?=\s+import\b)")


def fix_moved_import(failure: Failure) -> Proposal | None:
    """An import from where something used to be."""
    case = case_of(failure, "ModuleNotFoundError", "ImportError")
    if case is None:
        return None
    module, name = _missing(case)
    if module is None:
        return None
    edits, told = [], []
    for node in ast.walk(case.cell.tree):
        moved = None
        if isinstance(node, ast.Import):
            moved = _moved_modules(case, node, module)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            moved = _moved_names(case, node, module, name)
        if moved is not None:
            edits += moved[0]
            told.append(moved[1])
    if edits:
        return case.proposal("moved_import", "; ".join(told) + ".", edits, certain=_present(case, told))
    gone = GONE.get(f"{module}.{name}" if name else module)
    return None if gone is None else Proposal("moved_import", gone[0].upper() + gone[1:] + ".")


def _present(case: Case, told: list[str]) -> bool:
    """Whether what it leads to is there, and is the same there."""
    targets = re.findall(r"→ ([\w.]+)", " ".join(told))
    return all(
        target.partition(".")[0] in case.diagnosis.modules
        and (not target.startswith("sklearn.model_selection") or target.rpartition(".")[2] in UNCHANGED)
        for target in targets
    )


def _moved_modules(case: Case, node: ast.Import, module: str) -> tuple[list[Edit], str] | None:
    for alias in node.names:
        target = MOVED_MODULES.get(alias.name)
        if target is None or not (alias.name == module or alias.name.startswith(module + ".")):
            continue
        if alias.asname is None and "." in alias.name:
            return None
        kept = alias.asname or alias.name
        text = f"import {target} as {kept}".removeprefix("import ")
        return [case.cell.replace(alias, text)], f"`{alias.name}` is now elsewhere: {alias.name} → {target}"
    return None


def _moved_names(
    case: Case, node: ast.ImportFrom, module: str, name: str | None
) -> tuple[list[Edit], str] | None:
    """Each name to where it went; what stayed, stays."""
    old = node.module or ""
    related = old == module or old.startswith(module + ".") or module.startswith(old + ".")
    if not related or (name is not None and all(alias.name != name for alias in node.names)):
        return None
    moves = {
        alias: target
        for alias in node.names
        if (old in MOVED_MODULES or alias.name in MOVED_MEMBERS.get(old, {}))
        and (target := moved_member(old, alias.name))
    }
    if not moves or any(alias.name == "*" for alias in moves):
        return None
    told = ", ".join(f"{old}.{alias.name} → {target}" for alias, target in moves.items())
    return _moving(case, node, moves), f"moved: {told}"


def _moving(case: Case, node: ast.ImportFrom, moves: dict[ast.alias, str]) -> list[Edit]:
    homes = {target.rpartition(".")[0] for target in moves.values()}
    start, end = case.cell.place(node)
    lines = [_line(alias, target) for alias, target in moves.items()]
    if len(moves) < len(node.names):
        before = "".join(f"{line}\n{_indent(case, start)}" for line in lines)
        return [*_without(case, node, set(moves)), Edit(start, start, before)]
    head = _FROM.match(case.cell.text, start)
    if len(homes) > 1 or "" in homes or head is None:
        return [Edit(start, end, f"\n{_indent(case, start)}".join(lines))]
    renamed = [
        Edit(*case.cell.place(alias), text)
        for alias, target in moves.items()
        if (text := _as(alias, target)) != case.cell.segment(alias)
    ]
    return [Edit(head.start("module"), head.end("module"), homes.pop()), *renamed]


def _as(alias: ast.alias, target: str) -> str:
    kept, name = alias.asname or alias.name, target.rpartition(".")[2]
    return name if name == kept else f"{name} as {kept}"


def _line(alias: ast.alias, target: str) -> str:
    home = target.rpartition(".")[0]
    return f"from {home} import {_as(alias, target)}" if home else f"import {_as(alias, target)}"


def _indent(case: Case, start: int) -> str:
    before = case.cell.text[case.cell.line_start(start) : start]
    return before if not before.strip() else ""


def _without(case: Case, node: ast.ImportFrom, leaving: set[ast.alias]) -> Iterator[Edit]:
    """Take names out of a list, each with one comma; comments beside the others stay."""
    text, places = case.cell.text, [case.cell.place(alias) for alias in node.names]
    for index, alias in enumerate(node.names):
        if alias not in leaving:
            continue
        start, end = places[index]
        comma = re.compile(r"[ \t]*,").match(text, end)
        start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
        if comma is not None:
            # On a line of its own it takes the line with it.
            alone = text[start - 1 : start] == "\n" and text[comma.end() : comma.end() + 1] == "\n"
            yield Edit(start, comma.end() + alone, "")
            continue
        # The last of the list: the comma of the last one that stays goes in place of its own.
        kept = max(place for place, other in enumerate(node.names) if other not in leaving)
        before = re.compile(r"[ \t]*,").match(text, places[kept][1])
        if before is not None:
            yield Edit(before.start(), before.end(), "")
        yield Edit(start, end, "")


def fix_misspelt_import(failure: Failure) -> Proposal | None:
    """A module, or a name of one, that is one slip away from the only one near it."""
    case = case_of(failure, "ModuleNotFoundError", "ImportError")
    if case is None:
        return None
    module, name = _missing(case)
    if module is None:
        return None
    return _misspelt_member(case, module, name) if name else _misspelt_module(case, module)


def _misspelt_module(case: Case, module: str) -> Proposal | None:
    parent, _, last = module.rpartition(".")
    known = case.diagnosis.members.get(parent, ()) if parent else case.diagnosis.modules
    if not parent and MODULE_OF.get(folded(last).replace("-", ""), MODULE_OF.get(last.lower())) in known:
        meant = MODULE_OF.get(last.lower()) or MODULE_OF[folded(last)]
        return _renamed_module(case, module, meant, f"`{module}` is imported as `{meant}`.", certain=True)
    real = not parent and (module in WELL_KNOWN or installable(module, case.failure.surroundings.approved))
    near = nearest(last, known, public=known)
    if near is None or (real and folded(near.best) != folded(last)):
        return None
    if len(near.found) > 1 and not parent:
        usual = tuple(one for one in near.found if one in WELL_KNOWN)
        near = type(near)(
            usual or near.found, certain=len(usual) == 1 and is_slip(last, usual[0], public=True)
        )
    meant = f"{parent}.{near.best}" if parent else near.best
    known_well = bool(parent) or near.best in WELL_KNOWN
    slip = len(near.found) == 1 and known_well and is_slip(last, near.best, public=True)
    certain = slip or (near.certain and folded(last) == folded(near.best))
    if not certain and not parent and len(near.found) == 1:
        certain = any(ALIASES.get(alias.asname or "") == meant for alias in _aliases(case, module))
    reason = f"There is no module `{module}`; near it is {' or '.join(f'`{one}`' for one in near.found[:5])}."
    return _renamed_module(case, module, meant, reason, certain=certain)


def _aliases(case: Case, module: str) -> Iterator[ast.alias]:
    for node in ast.walk(case.cell.tree):
        if isinstance(node, ast.Import):
            yield from (alias for alias in node.names if alias.name == module)


def _renamed_module(case: Case, module: str, meant: str, reason: str, *, certain: bool) -> Proposal:
    """The module by its right name, in imports and, where it has no other, wherever it is used."""
    edits = []
    for node in ast.walk(case.cell.tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and _below(node.module, module)
            and not node.level
        ):
            head = _FROM.match(case.cell.text, case.cell.place(node)[0])
            if head is not None:
                edits.append(Edit(head.start("module"), head.start("module") + len(module), meant))
    uses_too = False
    for alias in (a for n in ast.walk(case.cell.tree) if isinstance(n, ast.Import) for a in n.names):
        if _below(alias.name, module):
            start = case.cell.place(alias)[0]
            edits.append(Edit(start, start + len(module), meant))
            uses_too = uses_too or alias.asname is None
    if uses_too and "." not in module:
        edits += [case.cell.replace(use, meant) for use in case.uses(module)]
    elif uses_too:
        certain = False
    return case.proposal("misspelt_import", reason, edits, certain=certain)


def _below(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def _misspelt_member(case: Case, module: str, name: str) -> Proposal | None:
    known = case.diagnosis.members.get(module, ())
    near = nearest(name, known, public=known)
    if near is None:
        return None
    edits, bare = [], False
    for node in ast.walk(case.cell.tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            for alias in (alias for alias in node.names if alias.name == name):
                start = case.cell.place(alias)[0]
                edits.append(Edit(start, start + len(name), near.best))
                bare = bare or alias.asname is None
    if bare:
        edits += [case.cell.replace(use, near.best) for use in case.uses(name)]
    reason = f"`{module}` has no `{name}`; near it is {' or '.join(f'`{one}`' for one in near.found[:5])}."
    return case.proposal(
        "misspelt_import", reason, edits if len(near.found) == 1 else (), certain=near.certain
    )


def fix_missing_package(failure: Failure) -> Proposal | None:
    """A module that is not installed: what brings it, if that is approved."""
    case = case_of(failure, "ModuleNotFoundError", "ImportError")
    if case is None:
        return None
    module = next(
        (match["module"] for pattern in _WANTED if (match := pattern.search(case.error.message))), None
    )
    if module is None:
        module, name = _missing(case)
        if module is None or name is not None or module.partition(".")[0] in case.diagnosis.modules:
            return None
    package = installable(module, failure.surroundings.approved)
    if package is not None:
        reason = f"`{module}` is not installed; {package} brings it and is approved."
        return Proposal("missing_package", reason, packages=(package,), certain=case.can_run_again)
    wants = " or ".join(distributions_for(module))
    if not wants:
        return None
    return Proposal(
        "missing_package",
        f"`{module}` is not installed, and {wants} is not on the approved list: approve it, or do without.",
    )


def _missing(case: Case) -> tuple[str | None, str | None]:
    """The module that is missing; or the one that is there, and what it lacks."""
    if (match := _NO_NAME.search(case.error.message)) is not None:
        return match["module"], match["name"]
    match = _NO_MODULE.search(case.error.message)
    return (match["module"] if match else None), None


# What was moved or renamed between Python 2 and 3, and in libraries: modules and what is imported from them.

MOVED_MODULES: Mapping[str, str] = {
    "BaseHTTPServer": "http.server",
    "ConfigParser": "configparser",
    "Cookie": "http.cookies",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SimpleHTTPServer": "http.server",
    "SocketServer": "socketserver",
    "StringIO": "io",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io",
    "cookielib": "http.cookiejar",
    "copy_reg": "copyreg",
    "htmlentitydefs": "html.entities",
    "httplib": "http.client",
    "pandas.tools.plotting": "pandas.plotting",
    "pandas.tseries.plotting": "pandas.plotting",
    "pandas.util.testing": "pandas.testing",
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.externals.joblib": "joblib",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.learning_curve": "sklearn.model_selection",
    "thread": "_thread",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
    "xmlrpclib": "xmlrpc.client",
}

_ABSTRACT = """
    Awaitable AsyncIterable AsyncIterator Callable Collection Container Coroutine Generator Hashable ItemsView Iterable
    Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized
    ValuesView
"""

MOVED_MEMBERS: Mapping[str, Mapping[str, str]] = {
    "collections": {name: f"collections.abc.{name}" for name in _ABSTRACT.split()},
    "itertools": {"izip_longest": "itertools.zip_longest", "ifilterfalse": "itertools.filterfalse"},
    "pandas.io.json": {"json_normalize": "pandas.json_normalize"},
    "scipy": {"interp": "numpy.interp"},
    "scipy.integrate": {
        "trapz": "scipy.integrate.trapezoid",
        "cumtrapz": "scipy.integrate.cumulative_trapezoid",
    },
    "scipy.misc": {
        "comb": "scipy.special.comb",
        "factorial": "scipy.special.factorial",
        "logsumexp": "scipy.special.logsumexp",
        "face": "scipy.datasets.face",
        "ascent": "scipy.datasets.ascent",
        "electrocardiogram": "scipy.datasets.electrocardiogram",
    },
    "sklearn.externals": {"joblib": "joblib"},
    "string": {
        "letters": "string.ascii_letters",
        "lowercase": "string.ascii_lowercase",
        "uppercase": "string.ascii_uppercase",
    },
    "types": {"StringType": "builtins.str", "ListType": "builtins.list", "DictType": "builtins.dict"},
    "urllib": {
        **{
            name: f"urllib.parse.{name}"
            for name in ["urlencode", "quote", "quote_plus", "unquote", "unquote_plus", "urlparse", "urljoin"]
        },
        **{name: f"urllib.request.{name}" for name in ["urlopen", "urlretrieve", "Request", "pathname2url"]},
    },
    "urllib2": {
        "HTTPError": "urllib.error.HTTPError",
        "URLError": "urllib.error.URLError",
        "quote": "urllib.parse.quote",
        "unquote": "urllib.parse.unquote",
    },
}

_UNCHANGED = """
    GridSearchCV ParameterGrid ParameterSampler RandomizedSearchCV cross_val_predict cross_val_score learning_curve
    train_test_split validation_curve
"""

UNCHANGED = frozenset(_UNCHANGED.split())
"""What takes the same arguments in scikit-learn's new place for it."""

GONE: Mapping[str, str] = {
    "imp": "the module `imp` is gone: `importlib` has what takes its place",
    "distutils": "the module `distutils` is gone: `setuptools` or `shutil` has what takes its place",
    "scipy.misc.imread": "`imread` is gone from scipy: use `imageio.v3.imread` or `matplotlib.pyplot.imread`",
    "scipy.misc.imresize": "`imresize` is gone from scipy: use `PIL.Image.resize`",
    "sklearn.preprocessing.Imputer": "`Imputer` is gone: use `sklearn.impute.SimpleImputer`, whose arguments differ",
    "sklearn.datasets.load_boston": "the Boston data set is gone from scikit-learn: `fetch_california_housing` is one like it",
    "sklearn.metrics.plot_confusion_matrix": "it is gone: use `ConfusionMatrixDisplay.from_estimator`",
    "sklearn.metrics.plot_roc_curve": "it is gone: use `RocCurveDisplay.from_estimator`",
    "fractions.gcd": "it is gone: use `math.gcd`, which is never negative",
    "scipy.integrate.simps": "it is gone: use `simpson`, which treats an even number of points otherwise",
    "time.clock": "it is gone: use `perf_counter` for what passes, `process_time` for what is worked",
    "inspect.getargspec": "it is gone: use `inspect.signature` or `inspect.getfullargspec`, which answers differently",
    "itertools.izip": "it is gone: the builtin `zip` is lazy now",
    "itertools.imap": "it is gone: the builtin `map` is lazy now",
    "itertools.ifilter": "it is gone: the builtin `filter` is lazy now",
}
"""What has no other name, and what to do instead."""


def moved_member(module: str, name: str) -> str | None:
    """Where something went that used to be in a module, in full."""
    found = MOVED_MEMBERS.get(module, {}).get(name)
    if found is None and module in MOVED_MODULES:
        return f"{MOVED_MODULES[module]}.{name}"
    return found

"""Files that are not there: the one that was meant, where only one can be; and directories missing for what is written."""

from __future__ import annotations

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import (
    Case,
    Edit,
    called,
    calls_in,
    case_of,
    literal_like,
    path_of,
    write_target,
)
from cellwright.plans.fixers._similarity import distance, folded, is_slip, nearest

__all__ = ["fix_missing_directory", "fix_missing_file"]

_NOT_THERE = (
    re.compile(r"No such file or directory(?: \(os error 2\))?: (?P<quote>['\"])(?P<path>.+?)(?P=quote)"),
    re.compile(r"No such file or directory(?: \(os error 2\))?: (?P<path>[^\n'\"]+)"),
    re.compile(r"^(?P<path>\S.*) not found\.$"),
)
_NO_DIRECTORY = re.compile(r"Cannot save file into a non-existent directory: '(?P<path>.+)'")
_SAME_EXTENSIONS = ({".jpg", ".jpeg"}, {".yml", ".yaml"}, {".htm", ".html"}, {".tif", ".tiff"})
_PLACE_NAMES = """
    app assets content csv data dataset datasets desktop documents downloads drive file files input inputs kaggle mnt
    mydrive notebook notebooks project resources src work working workspace
"""
_PLACES = frozenset(_PLACE_NAMES.split())
"""Directories whose name says nothing of what is in them."""
_HOME = re.compile(r"^(?:~|/(?:home|Users)/[^/]+|/root)(?=/|$)")
_RUNS = frozenset(["run", "Popen", "call", "check_call", "check_output", "execv", "execvp", "spawn"])
# What stands in a path where something else was to be put in, or that another system reads otherwise.
_UNMEANT = re.compile(r"[{}<>$%*?|]|:/|(?:^|/)(?:None|nan|NaT|<?undefined>?|null)(?:/|$)|^[A-Za-z]:")
_SHOWN = 10
_TRIED = 4
_SHOWS = frozenset(["print", "title", "set_title", "display", "info", "debug", "warning"])
_SHORTEST = 3
_PURE_CALLS = frozenset(["Path", "join", "str"])


def fix_missing_directory(failure: Failure) -> Proposal | None:
    """Make the directory that something is written into, before it is."""
    case = case_of(failure, "FileNotFoundError", "OSError")
    statement = case.statement if case else None
    if case is None or statement is None:
        return None
    told = _NO_DIRECTORY.search(case.error.message)
    directory = told["path"] if told else posixpath.dirname(_path(case) or "")
    targets = [
        target
        for call in calls_in(statement)
        if (target := write_target(call)) is not None
        and not (isinstance(target, ast.Call) and write_target(target) is not None)
    ]
    if not directory or len(targets) != 1 or (case.error.type == "OSError" and told is None):
        return None
    if told is None and not _is_its_directory(case, statement, targets[0], directory):
        return None
    edits = _making(case, statement, targets[0], directory)
    slip = _misspelt_directory(case, directory)
    if slip is not None:
        reason = f"There is no directory {directory!r} to write into; {slip!r} is near it."
        return Proposal("missing_directory", reason)
    reason = f"The directory {directory!r}, which is written into, does not exist: make it first."
    fresh = _relative(case, directory) not in {each.rstrip("/") for each in case.diagnosis.files}
    meant = _is_below(case, directory) and not _UNMEANT.search(directory)
    return case.proposal("missing_directory", reason, edits, certain=meant and fresh and bool(edits))


def _is_its_directory(case: Case, statement: ast.stmt, target: ast.expr, directory: str) -> bool:
    """Whether it is what is written that has no directory, and not something that is read along with it."""
    if isinstance(target, ast.Constant):
        return posixpath.dirname(str(target.value)) == directory
    path = _path(case)
    return not any(
        isinstance(each, ast.Constant) and each.value == path and each not in ast.walk(target)
        for each in ast.walk(statement)
    )


def _is_below(case: Case, directory: str) -> bool:
    relative = _relative(case, directory)
    return relative is not None and not relative.startswith(("..", "~")) and relative != "."


def _misspelt_directory(case: Case, directory: str) -> str | None:
    """One that is there, and near to the first part of this that is not."""
    there = {each.rstrip("/") for each in case.diagnosis.files if each.endswith("/")}
    parent = ""
    for part in (_relative(case, directory) or "").split("/"):
        path = posixpath.join(parent, part)
        if path not in there:
            beside = [posixpath.basename(each) for each in there if posixpath.dirname(each) == parent]
            near = nearest(part, beside)
            return posixpath.join(parent, near.best) if near else None
        parent = path
    return None


def _making(case: Case, statement: ast.stmt, target: ast.expr, directory: str) -> list[Edit]:
    if isinstance(target, ast.Constant):
        made = (
            f'"{directory}"'
            if directory.isprintable() and not set(directory) & set('"\\')
            else repr(directory)
        )
    elif _is_pure(target):
        made = f"os.path.dirname({case.cell.segment(target)})"
    else:
        return []
    place = _line_before(case, statement)
    if place is None:
        return []
    start, indent = place
    line = f"{indent}os.makedirs({made}, exist_ok=True)\n"
    if any(
        isinstance(node, ast.Import) and any(alias.name == "os" and not alias.asname for alias in node.names)
        for node in case.cell.tree.body
        if node.lineno < statement.lineno
    ):
        return [Edit(start, start, line)]
    imported = case.cell.import_edit("import os")
    if imported.start == start:
        return [Edit(start, start, imported.text + line)]
    return [imported, Edit(start, start, line)]


def _is_pure(node: ast.expr) -> bool:
    """Whether it can be said twice: names, texts and paths put together."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and called(each) not in _PURE_CALLS:
            return False
        if isinstance(
            each, ast.NamedExpr | ast.Await | ast.Yield | ast.Lambda | ast.ListComp | ast.GeneratorExp
        ):
            return False
    return True


def _line_before(case: Case, statement: ast.stmt) -> tuple[int, str] | None:
    """Where a line can be put in before a statement, and its indentation."""
    for node in (statement, *case.cell.ancestors(statement)):
        if isinstance(node, ast.stmt):
            start = case.cell.place(node)[0]
            line = case.cell.line_start(start)
            indent = case.cell.text[line:start]
            if not indent.strip():
                return line, indent
    return None


def fix_missing_file(failure: Failure) -> Proposal | None:
    """A file that is there under a name near to the one asked for, or in another directory."""
    case = case_of(failure, "FileNotFoundError")
    path = _path(case) if case else None
    if case is None or not path or _starts_a_program(case) or _is_something_else(case):
        return None
    wanted = _relative(case, path)
    files = [each.rstrip("/") for each in case.diagnosis.files]
    found = _alike(wanted, files) if wanted is not None else []
    name = posixpath.basename(path.rstrip("/"))
    moved = [
        each for each in files if posixpath.basename(each).casefold() == name.casefold() and each not in found
    ]
    candidates = [*found, *moved]
    if not candidates:
        listed = ", ".join([each for each in files if not each.endswith(".ipynb")][:_SHOWN])
        return Proposal(
            "missing_file", f"There is no file {path!r}; the working directory has {listed or 'no files'}."
        )
    if len(candidates) > 1:
        listed = " or ".join(repr(each) for each in candidates[:5])
        ways = (_renaming(case, path, each) for each in candidates[:_TRIED])
        return case.choice("missing_file", f"There is no file {path!r}; it may be {listed}.", *ways)
    meant = candidates[0]
    sure = _surely_alike(wanted or "", meant) if found else _surely_moved(path, meant)
    edits = _renaming(case, path, meant)
    reason = f"There is no file {path!r}, but {meant!r}."
    sure = sure and not _is_written(case, path) and _only_names_a_file(case, path)
    return case.proposal("missing_file", reason, edits, certain=sure)


def _is_something_else(case: Case) -> bool:
    """Whether a library only tried a text as a file, and says otherwise what it is: the name of a style, an address."""
    raised = case.diagnosis.raised
    about_files = raised.type == case.error.type or any(each.search(raised.message) for each in _NOT_THERE)
    return not about_files


def _only_names_a_file(case: Case, path: str) -> bool:
    """Whether the text stands nowhere but where a file is named: beside that, it may be data."""
    literals = case.cell.strings(path)
    named = [
        literal
        for literal in literals
        if isinstance(above := case.cell.parents.get(literal), ast.Call) and path_of(above) is literal
    ]
    return len(literals) <= 1 or len(named) == len(literals)


def _starts_a_program(case: Case) -> bool:
    statement = case.statement
    return case.error.library == "subprocess" or (
        statement is not None and any(called(call) in _RUNS for call in calls_in(statement))
    )


def _alike(wanted: str, files: Iterable[str]) -> list[str]:
    """Those with the same number of parts, all alike; the same but for case and separators before one slip."""
    parts = wanted.split("/")
    same_length = [each for each in files if each.count("/") == len(parts) - 1 and each != wanted]
    equal = [each for each in same_length if _away(parts, each.split("/")) == 0]
    return equal or [each for each in same_length if _away(parts, each.split("/")) == 1]


def _away(wanted: Sequence[str], found: Sequence[str]) -> int:
    away = 0
    for one, other in zip(wanted, found, strict=True):
        (stem, extension), (other_stem, other_extension) = posixpath.splitext(one), posixpath.splitext(other)
        away += 0 if _same_extension(extension, other_extension) else 1
        apart = distance(folded(stem), folded(other_stem))
        away += apart if len(folded(stem)) >= _SHORTEST else apart * 2
    return away


def _same_extension(one: str, other: str) -> bool:
    one, other = one.casefold(), other.casefold()
    return one == other or any({one, other} <= same for same in _SAME_EXTENSIONS)


def _surely_alike(wanted: str, found: str) -> bool:
    for one, other in zip(wanted.split("/"), found.split("/"), strict=True):
        (stem, extension), (other_stem, other_extension) = posixpath.splitext(one), posixpath.splitext(other)
        if not _same_extension(extension, other_extension):
            return False
        if re.findall(r"\d+", stem) != re.findall(r"\d+", other_stem):
            return False
        if folded(stem) != folded(other_stem) and not is_slip(stem, other_stem):
            return False
    return True


def _surely_moved(path: str, found: str) -> bool:
    """Whether the directories that only one of them has say nothing of the file: `data`, somebody's home."""
    parts = _HOME.sub("", posixpath.dirname(path)).split("/")
    asked = [part for part in parts if part not in ("", ".", "..")]
    there = [part for part in posixpath.dirname(found).split("/") if part not in ("", "..")]
    more = (Counter(asked) - Counter(there)) + (Counter(there) - Counter(asked))
    return all(part.casefold() in _PLACES for part in more)


def _renaming(case: Case, path: str, meant: str) -> list[Edit]:
    """The literals that name the file; or the one that names the only part of it that is wrong."""
    relative = _relative(case, path)
    new = meant
    if path.startswith("/") and relative is not None and relative.count("/") == meant.count("/"):
        new = posixpath.normpath(posixpath.join(case.diagnosis.directory or "", meant))
    whole = list(_literals(case, path, new))
    if whole or relative is None or relative.count("/") != meant.count("/"):
        return whole
    differing = [(a, b) for a, b in zip(relative.split("/"), meant.split("/"), strict=True) if a != b]
    if len(differing) != 1:
        return []
    part = list(_literals(case, *differing[0]))
    return part if len(part) == 1 else []


def _literals(case: Case, old: str, new: str) -> Iterator[Edit]:
    for node in case.cell.strings(old):
        if any(
            isinstance(above, ast.Call) and called(above) in _SHOWS for above in case.cell.ancestors(node)
        ):
            continue
        literal = literal_like(case.cell.segment(node), old, new)
        if literal is not None:
            yield case.cell.replace(node, literal)


def _is_written(case: Case, path: str) -> bool:
    """Whether the cell also writes what it asked for: then the name is its own."""
    names = {path, posixpath.basename(path)}
    return any(
        isinstance(each, ast.Constant) and each.value in names
        for call in ast.walk(case.cell.tree)
        if isinstance(call, ast.Call) and (target := write_target(call)) is not None
        for each in ast.walk(target)
    )


def _path(case: Case) -> str | None:
    """What was not found, as the code named it."""
    named = case.details.get("filename")
    if isinstance(named, str) and named:
        return named
    return next(
        (match["path"] for pattern in _NOT_THERE if (match := pattern.search(case.error.message))), None
    )


def _relative(case: Case, path: str) -> str | None:
    """The path from the working directory; None where nobody knows the way."""
    if not path.startswith("/"):
        return posixpath.normpath(path)
    directory = case.diagnosis.directory
    return None if directory is None else posixpath.relpath(posixpath.normpath(path), directory)

"""Renames classes, functions and variables by the table in ``names.toml``, and every mention of them.

``.venv/bin/python scripts/rename_names.py [--only PREFIX] [--table FILE]`` changes the tree in place. ``[names]`` gives what a module
defines another name, there and wherever it is imported or reached through its module; a scope that has a name of its
own that is called so keeps it. Each ``[[local]]`` renames all identifiers of some files that are called so: parameters,
attributes, variables. What was renamed before is left out, so a branch that was left behind can run it again.
A name that is taken already is reported before anything is changed. Formats nothing (ruff).
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import parso
from move_modules import _bound_in, _bound_names

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
NOT_TEXTS = ("CHANGELOG.md", "scripts/", "docs/adr/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rename only what modules define whose names begin so")
    parser.add_argument("--table", type=Path, default=Path(__file__).with_name("names.toml"))
    given = parser.parse_args()
    only, table = given.only, tomllib.loads(given.table.read_text())
    names = [(*old.split(":"), new) for old, new in table["names"].items() if old.startswith(only)]
    due = [name for name in names if _is_due(*name)]
    problems = [problem for name in due for problem in _problems(*name)]
    if problems:
        sys.exit("\n".join(problems))
    for name in due:
        _rename(*name)
    for local in table.get("local", []):
        for path in _files(local["files"]):
            _rename_all(path, local["names"], local.get("but_of", []))


def _path(module: str) -> Path:
    path = SRC / (module.replace(".", "/") + ".py")
    return path if path.is_file() else SRC / module.replace(".", "/") / "__init__.py"


def _is_due(module: str, old: str, new: str) -> bool:
    if not _path(module).is_file():
        return False
    defined = _top_names(ast.parse(_path(module).read_text()))
    return old in defined and (new not in defined or old == new)


def _top_names(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _problems(module: str, old: str, new: str) -> Iterator[str]:
    homes = _homes(module, old)
    for path, text in _texts():
        if not (re.search(rf"\b{new}\b", text) and re.search(rf"\b{old}\b", text)):
            continue
        tree = ast.parse(text)
        if (path == _path(module) or _imports(tree, homes, old)) and new in _bound_names(tree):
            yield f"{path.relative_to(ROOT)}: {new}, to be called so instead of {old}, is another's name already"


def _homes(module: str, *names: str) -> set[str]:
    """The module, and the packages above it that hand the name on."""
    parts = module.split(".")
    packages = {".".join(parts[:count]) for count in range(1, len(parts))}
    return {module} | {
        package
        for package in packages
        if any(_imports(ast.parse(_text(_path(package))), {module}, name) for name in names)
    }


def _imports(tree: ast.Module, homes: set[str], old: str) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in homes
        and any(alias.name == old and not alias.asname for alias in node.names)
        for node in ast.walk(tree)
    )


def _texts() -> Iterator[tuple[Path, str]]:
    for path in _tracked():
        if path.suffix == ".py" and path.parent != ROOT / "scripts":
            yield path, _text(path)


_read: dict[Path, str] = {}


def _text(path: Path) -> str:
    if path not in _read:
        _read[path] = path.read_text() if path.is_file() else ""
    return _read[path]


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    _read[path] = text


@cache
def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def _files(patterns: list[str]) -> Iterator[Path]:
    for pattern in patterns:
        yield from (path for path in sorted(ROOT.glob(pattern)) if path.suffix == ".py")


# What a module defines.


def _rename(module: str, old: str, new: str) -> None:
    parent, _, last = module.rpartition(".")
    homes = _homes(module, old)
    for path, text in _texts():
        if not re.search(rf"\b{old}\b", text) or (
            path != _path(module)
            and not any(home in text or home.rpartition(".")[2] in text for home in homes)
        ):
            continue
        tree = ast.parse(text)
        own = path == _path(module)
        changed = text
        if own or _imports(tree, homes, old):
            changed = _with_own(text, tree, old, new)
            changed = re.sub(rf"(`+)(\w+\.)?{re.escape(old)}(?=[`.(])", rf"\g<1>\g<2>{new}", changed)
        elif any(isinstance(node, ast.ImportFrom) and node.module == module for node in ast.walk(tree)):
            changed = _with_aliases(text, module, old, new)
        for alias in _aliases(tree, parent, last):
            changed = _with_attributes(changed, alias, old, new)
        changed = re.sub(
            rf"(?<![\w.]){re.escape(module)}(\.|:){re.escape(old)}\b", rf"{module}\g<1>{new}", changed
        )
        changed = re.sub(rf"(``)({re.escape(last)}\.){re.escape(old)}(?=[`.(])", rf"\g<1>\g<2>{new}", changed)
        if changed != text:
            _write(path, changed)
    for path in _tracked():
        if path.suffix == ".md" and path.is_file() and not str(path.relative_to(ROOT)).startswith(NOT_TEXTS):
            text = _text(path)
            changed = re.sub(rf"\b({re.escape(last)}\.){re.escape(old)}\b", rf"\g<1>{new}", text)
            if changed != text:
                _write(path, changed)


def _aliases(tree: ast.Module, parent: str, last: str) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == parent
        for alias in node.names
        if alias.name == last
    }


def _with_own(text: str, tree: ast.Module, old: str, new: str) -> str:
    """Rename the module's own name, but in functions that bind one of their own that is called so."""
    shut = [
        (node.body[0].lineno, node.end_lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and old in _bound_in(node)
        if not any(
            isinstance(inner, ast.ImportFrom) and any(alias.name == old for alias in inner.names)
            for inner in ast.walk(node)
        )
    ]

    def is_meant(leaf: parso.tree.Leaf) -> bool:
        line = leaf.start_pos[0]
        if any(start <= line <= end for start, end in shut):
            return False
        return not _is_attribute(leaf) and not _is_keyword(leaf) and not _is_member(leaf)

    changed = _with_leaves(text, old, new, is_meant)
    return re.sub(rf'(__all__ = \[[^\]]*"){re.escape(old)}"', rf'\g<1>{new}"', changed)


def _with_aliases(text: str, module: str, old: str, new: str) -> str:
    """Rename what is imported under another name, where it is imported."""

    def is_meant(leaf: parso.tree.Leaf) -> bool:
        node = leaf.search_ancestor("import_from")
        following = leaf.get_next_leaf()
        return (
            node is not None
            and ".".join(name.value for name in node.get_from_names()) == module
            and following is not None
            and following.value == "as"
        )

    return _with_leaves(text, old, new, is_meant)


def _with_attributes(text: str, alias: str, old: str, new: str) -> str:
    def is_meant(leaf: parso.tree.Leaf) -> bool:
        if not _is_attribute(leaf):
            return False
        before = leaf.get_previous_leaf().get_previous_leaf()
        return before.value == alias and not _is_attribute(before)

    return _with_leaves(text, old, new, is_meant)


def _is_attribute(leaf: parso.tree.Leaf) -> bool:
    before = leaf.get_previous_leaf()
    return before is not None and before.value == "." and leaf.search_ancestor("import_from") is None


def _is_keyword(leaf: parso.tree.Leaf) -> bool:
    following = leaf.get_next_leaf()
    return (
        leaf.parent.type in ("argument", "param")
        and following is not None
        and (
            (following.value == "=" and leaf.parent.children[0] is leaf)
            or (leaf.parent.type == "param" and leaf.parent.name is leaf)
        )
    )


def _is_member(leaf: parso.tree.Leaf) -> bool:
    """Whether it is the name of a method or a field of a class."""
    parent = leaf.parent
    if parent.type in ("funcdef", "classdef") and parent.name is leaf:
        return parent.search_ancestor("classdef", "funcdef") is not None
    if parent.type == "expr_stmt" and parent.children[0] is leaf:
        owner = parent.search_ancestor("classdef", "funcdef")
        return owner is not None and owner.type == "classdef"
    return False


# All that is called so in a file.


def _rename_all(path: Path, names: dict[str, str], but_of: list[str]) -> None:
    """Rename identifiers, but attributes of what is called as in ``but_of``."""

    def is_meant(leaf: parso.tree.Leaf) -> bool:
        if leaf.search_ancestor("import_from", "import_name") is not None:
            return False
        return not _is_attribute(leaf) or leaf.get_previous_leaf().get_previous_leaf().value not in but_of

    text = changed = _text(path)
    for old, new in names.items():
        changed = _with_leaves(changed, old, new, is_meant)
        changed = re.sub(rf"(``){re.escape(old)}(?=[`.(])", rf"\g<1>{new}", changed)
    if changed != text:
        _write(path, changed)


def _with_leaves(text: str, old: str, new: str, is_meant: Callable[[parso.tree.Leaf], bool]) -> str:
    if not re.search(rf"\b{re.escape(old)}\b", text):
        return text
    lines = text.splitlines(keepends=True)
    leaf = parso.parse(text).get_first_leaf()
    found: list[tuple[int, int]] = []
    while leaf is not None:
        if leaf.type == "name" and leaf.value == old and is_meant(leaf):
            found.append(leaf.start_pos)
        leaf = leaf.get_next_leaf()
    for line, column in reversed(found):
        content = lines[line - 1]
        lines[line - 1] = content[:column] + new + content[column + len(old) :]
    return "".join(lines)


if __name__ == "__main__":
    main()

"""Prints how the source reads, in numbers: files, lines, inheritance, names, what packages import of each other.

``make metrics``. Numbers are symptoms: nothing fails by them. Changes nothing.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
BASES_OF_OTHERS = {"Protocol", "BaseModel", "Struct"}
ERRORS = {"Exception", "BaseException", "ExceptionGroup", "OSError", "ValueError", "RuntimeError"}
GERUND = re.compile(r"\w+(?:ing|ed)")
NOUNS = {"_event_feed", "html_embed", "pricing", "sampling", "string"}


def main() -> None:
    paths = {_module(path): path for path in sorted(SRC.rglob("*.py"))}
    trees = {module: ast.parse(path.read_text()) for module, path in paths.items()}
    lines = sorted(path.read_text().count("\n") for path in paths.values())
    imports = {module: _imports(module, tree, paths) for module, tree in trees.items()}
    bases = _bases(trees)
    depth, deepest = max((_depth(name, bases), name) for name in bases if not _is_error(name, bases))
    crossed = {
        other
        for module, others in imports.items()
        for other in others
        if _package(module) != _package(other) and other.count(".") > 1
    }
    single = [module for module in paths if _importers(module, imports, paths) == 1]
    gerunds = [module for module in paths if GERUND.fullmatch(last := _last(module)) and last not in NOUNS]
    whole = [
        m
        for m, tree in trees.items()
        if "Settings" in _names(tree) and not m.startswith("cellwright.settings")
    ]
    noqa = sum(path.read_text().count("# noqa") for path in paths.values())
    protocols = sum(_is_protocol(node) for tree in trees.values() for node in ast.walk(tree))
    for what, number in {
        "Python files": len(paths),
        "lines": sum(lines),
        "lines of a module: median, largest": f"{statistics.median(lines):.0f}, {lines[-1]}",
        "deepest inheritance of our own": f"{depth} ({deepest})",
        "modules with one importer": len(single),
        "modules that other packages import": len(crossed),
        "modules that read the whole Settings": len(whole),
        "modules named by a participle": f"{len(gerunds)} ({', '.join(map(_last, gerunds))})",
        "protocols": protocols,
        "noqa": noqa,
    }.items():
        print(f"{what:40} {number}")


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _imports(module: str, tree: ast.Module, paths: dict[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {other for other in found if other in paths and other != module}


def _importers(module: str, imports: dict[str, set[str]], paths: dict[str, Path]) -> int:
    if paths[module].name in ("__init__.py", "__main__.py"):
        return 0
    return sum(module in others for other, others in imports.items() if paths[other].name != "__init__.py")


def _bases(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What each class of ours inherits from: ``module:Class`` where that is ours, else the plain name."""
    homes: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    found: dict[str, set[str]] = {}
    for module, tree in trees.items():
        imported = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[f"{module}:{node.name}"] = {
                    f"{home}:{base.id}"
                    if isinstance(base, ast.Name)
                    and (home := imported.get(base.id, module)) in homes[base.id]
                    else ast.unparse(base).rpartition(".")[2]
                    for base in node.bases
                }
    return found


def _depth(name: str, bases: dict[str, set[str]]) -> int:
    if name not in bases or bases[name] & BASES_OF_OTHERS:
        return 0
    return 1 + max((_depth(base, bases) for base in bases[name]), default=0)


def _is_error(name: str, bases: dict[str, set[str]]) -> bool:
    return any(base in ERRORS or _is_error(base, bases) for base in bases.get(name, ()))


def _names(tree: ast.Module) -> set[str]:
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases)


if __name__ == "__main__":
    main()

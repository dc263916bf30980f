"""Folds and renames modules by the table in ``moves.toml``, and every mention of them.

``python scripts/move_modules.py [--only PREFIX] [--table FILE]`` changes the tree in place: each ``[[move]]`` makes one module ``to``
out of the modules ``of``, in that order; imports of them elsewhere, dotted names in strings and paths in documents
follow. A move whose modules are gone was made before and is left out, so a branch that was left behind can run it again.
Names that would collide are reported before any module is moved: ``[move.rename]`` settles them. Formats nothing (ruff).
"""

from __future__ import annotations

import argparse
import ast
import builtins
import itertools
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
TEXTS = (".py", ".md", ".toml", ".ipynb", ".html", ".sh", ".cfg", ".txt", ".ts", ".js", "")
NOT_TEXTS = ("CHANGELOG.md", "scripts/moves.toml", "scripts/names.toml", "docs/adr/")


@dataclass(frozen=True)
class Move:
    """One module made of several."""

    to: str
    of: tuple[str, ...]
    doc: str = ""
    rename: dict[str, str] = field(default_factory=dict)


@dataclass
class Source:
    """A module's text with its syntax tree, edited by byte offsets."""

    text: str
    tree: ast.Module = field(init=False)
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        raw = self.text.encode()
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", raw)), len(raw)]

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.stmt | ast.expr | ast.alias)
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[arg-type]

    def replace(self, node: ast.AST, text: str) -> None:
        self.edits.append((*self.span(node), text))

    def edited(self) -> str:
        raw = self.text.encode()
        for start, end, text in sorted(set(self.edits), reverse=True):
            raw = raw[:start] + text.encode() + raw[end:]
        return raw.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="make only the moves to modules that begin so")
    parser.add_argument("--table", type=Path, default=Path(__file__).with_name("moves.toml"))
    given = parser.parse_args()
    only, table = given.only, tomllib.loads(given.table.read_text())["move"]
    moves = [Move(one["to"], tuple(one["of"]), one.get("doc", ""), one.get("rename", {})) for one in table]
    moves = [move for move in moves if move.to.startswith(only) and _is_due(move)]
    names = {old: move.to for move in moves for old in move.of}
    for move in moves:
        for name, new in move.rename.items():
            _rename_everywhere(*name.split(":"), new)
    made = {move.to: _merged(move, names) for move in moves}
    problems = [problem for merged in made.values() for problem in merged.problems]
    if problems:
        sys.exit("\n".join(problems))
    uses = _uses_outside(moves)
    texts = {move.to: _text(move, made[move.to], uses[move.to]) for move in moves}
    for move in moves:
        for old in move.of:
            subprocess.run(["git", "rm", "-qf", "--cached", str(_path(old))], cwd=ROOT, check=True)
            _path(old).unlink()
    for move in moves:
        path = SRC / (move.to.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[move.to])
        subprocess.run(["git", "add", str(path)], cwd=ROOT, check=True)
    _follow(names)


def _text(move: Move, made: Merged, used: set[str]) -> str:
    """The new module's text; one that only gets another name stays as it is."""
    return _path(move.of[0]).read_text() if len(move.of) == 1 else made.text(used, move.doc)


def _is_due(move: Move) -> bool:
    return all(_path(old).is_file() for old in move.of) and (move.of != (move.to,))


def _path(module: str) -> Path:
    return SRC / (module.replace(".", "/") + ".py")


# Renames of what a module defines.


def _rename_everywhere(module: str, name: str, new: str) -> None:
    path = _path(module)
    source = Source(path.read_text())
    rename(source, name, new)
    path.write_text(source.edited())
    parent, _, last = module.rpartition(".")
    for other in _python_files():
        if other == path or last not in (text := other.read_text()) or name not in text:
            continue
        source = Source(text)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module == module:
                for alias in node.names:
                    if alias.name == name:
                        source.replace(alias, f"{new} as {alias.asname}" if alias.asname else new)
                        if not alias.asname:
                            rename(source, name, new)
            if isinstance(node, ast.ImportFrom) and node.module == parent:
                for alias in node.names:
                    if alias.name == last:
                        _rename_attributes(source, alias.asname or last, {name: new})
        if source.edits:
            other.write_text(source.edited())


def rename(source: Source, name: str, new: str) -> None:
    """Rename a module's own name wherever no scope has one of its own that is called so."""
    for node in _visible(source.tree, name):
        if isinstance(node, ast.Name):
            source.replace(node, new)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            head = source.text.encode()[slice(*source.span(node))]
            match = re.search(rb"(?:def|class)\s+(\w+)", head)
            assert match is not None
            start = source.span(node)[0]
            source.edits.append((start + match.start(1), start + match.end(1), new))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and node.value == name and _in_all(source, node):
            source.replace(node, f'"{new}"')


def _in_all(source: Source, node: ast.Constant) -> bool:
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return any(part is node for part in ast.walk(statement))
    return False


def _visible(tree: ast.AST, name: str, *, top: bool = True) -> Iterator[ast.AST]:
    """The nodes below that mean the module's own name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and node.id == name:
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if not isinstance(node, ast.Lambda):
                if top and node.name == name:
                    yield node
                for part in (
                    *node.decorator_list,
                    node.returns,
                    *_annotations(node.args),
                    *_defaults(node.args),
                ):
                    if part is not None:
                        yield from _visible(ast.Expression(part), name, top=False)  # type: ignore[arg-type]
            else:
                for part in _defaults(node.args):
                    yield from _visible(ast.Expression(part), name, top=False)
            if name not in _bound_in(node):
                body = node.body if isinstance(node.body, list) else [node.body]
                for part in body:
                    yield from _visible(
                        ast.Module([part], []) if isinstance(part, ast.stmt) else ast.Expression(part),
                        name,
                        top=False,
                    )  # type: ignore[list-item]
        elif isinstance(node, ast.ClassDef):
            if top and node.name == name:
                yield node
            yield from _visible(node, name, top=False)
        elif isinstance(node, ast.AnnAssign) and isinstance(tree, ast.ClassDef):  # a field is the class's own
            yield from (
                one
                for part in (node.annotation, node.value)
                if part
                for one in _visible(ast.Expression(part), name, top=False)
            )
        else:
            yield from _visible(node, name, top=top)


def _annotations(arguments: ast.arguments) -> Iterator[ast.expr]:
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    yield from (one.annotation for one in every if one is not None and one.annotation is not None)


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from (one for one in (*arguments.defaults, *arguments.kw_defaults) if one is not None)


def _bound_in(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    found = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    if isinstance(function, ast.Lambda):
        return found
    stack: list[ast.AST] = list(function.body)
    outer: set[str] = set()
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer |= set(node.names)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        stack += ast.iter_child_nodes(node)
    return found - outer


def _rename_attributes(source: Source, module: str, names: dict[str, str]) -> None:
    """Rename ``module.old`` to ``module.new``."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == module
            and node.attr in names
        ):
            source.replace(node, f"{module}.{names[node.attr]}")


# Folding.


@dataclass
class Part:
    """What one of the modules brings into the new one."""

    module: str
    head: list[str]
    doc: str
    imports: list[str]
    typing_imports: list[str]
    public: set[str]
    body: str
    defines: dict[str, str]
    imported: dict[str, str]
    needs: set[str]
    free: set[str]
    guard: str = ""
    """What it does as a program: after all that is defined."""


@dataclass
class Merged:
    """The parts in the order in which they can be executed."""

    first: Part
    """The one that the module is named after: its docstring is the new one's."""
    parts: list[Part]
    problems: list[str]

    def text(self, used: set[str], doc: str) -> str:
        parts = self.parts
        first = doc or self.first.doc
        public = sorted({name for part in parts for name in part.public if name in used})
        out = [*dict.fromkeys(line for part in parts for line in part.head)]
        out += [
            f'"""{first.strip()}{chr(10) if chr(10) in first.strip() else ""}"""',
            "",
            "from __future__ import annotations",
            "",
        ]
        out += dict.fromkeys(line for part in parts for line in part.imports)
        bound = {name for part in parts for name in part.imported}
        typing = dict.fromkeys(line for part in parts for line in part.typing_imports)
        if typing:
            out += ["", "if TYPE_CHECKING:", *(f"    {line}" for line in typing)]
            if "TYPE_CHECKING" not in bound:
                out.insert(3, "from typing import TYPE_CHECKING")
        if public:
            out += ["", "__all__ = [" + ", ".join(f'"{name}"' for name in public) + "]", ""]
        for part in parts:
            if part is not self.first and part.doc:
                sentence = part.doc.strip().split("\n\n")[0].replace("\n", " ")
                out += ["", "", *_comment(sentence), ""]
            out.append(part.body)
        return "\n".join([*out, *(part.guard for part in parts if part.guard)]) + "\n"


def _comment(sentence: str) -> list[str]:
    lines, line = [], "#"
    for word in sentence.split():
        if len(line) + len(word) > 108:
            lines.append(line)
            line = "#"
        line += f" {word}"
    return [*lines, line]


def _merged(move: Move, homes: dict[str, str]) -> Merged:
    group = set(move.of)
    parts = [_part(module, group) for module in move.of]
    for part in parts:
        part.imported = {name: _moved(origin, homes) for name, origin in part.imported.items()}
    problems: list[str] = []
    defined: dict[str, tuple[str, str]] = {}
    for part in parts:
        for name, text in list(part.defines.items()):
            if name not in defined:
                defined[name] = (part.module, text)
            elif defined[name][1] != text:
                problems.append(f"{move.to}: {name} is defined in {defined[name][0]} and {part.module}")
            else:
                part.body = _without(part.body, name)
                del part.defines[name]
    for part in parts:
        for other in parts:
            if other is part:
                continue
            for name, origin in part.imported.items():
                if name in other.defines and origin.rpartition(".")[0] != move.to:
                    problems.append(
                        f"{move.to}: {name}, imported in {part.module}, is defined in {other.module}"
                    )
                if other.imported.get(name, origin) != origin and part.module < other.module:
                    problems.append(
                        f"{move.to}: {name} is {origin} in {part.module} and {other.imported[name]} in {other.module}"
                    )
            problems += [
                f"{move.to}: {part.module} uses the built-in {name}, which {other.module} defines"
                for name in part.free & set(other.defines)
            ]
    return Merged(parts[0], _in_order(parts, problems), problems)


def _moved(origin: str, homes: dict[str, str]) -> str:
    module, _, name = origin.rpartition(".")
    return f"{homes.get(module, module)}.{name}"


def _without(body: str, name: str) -> str:
    """The body without a definition that another part has word for word."""
    source = Source(body)
    for node in source.tree.body:
        if name in _names_of(node):
            start = source.offset(node.lineno, 0)
            source.edits.append((start, source.span(node)[1], ""))
    return source.edited()


def _in_order(parts: list[Part], problems: list[str]) -> list[Part]:
    """As given, but whoever is needed while another is executed comes first."""
    placed: list[Part] = []
    waiting = list(parts)
    while waiting:
        for part in waiting:
            needs = part.needs - set(part.defines)
            if not any(needs & set(other.defines) for other in waiting if other is not part):
                placed.append(part)
                waiting.remove(part)
                break
        else:
            problems.append("a circle of " + ", ".join(part.module for part in waiting))
            return parts
    return placed


def _part(module: str, group: set[str]) -> Part:
    source = Source(_path(module).read_text())
    docless = 0 if ast.get_docstring(source.tree) is None else 1
    _drop_own_imports(source, group)
    source = Source(source.edited())
    imports: list[str] = []
    typing: list[str] = []
    public: set[str] = set()
    body: list[str] = []
    lines = source.text.split("\n")
    end = source.tree.body[0].end_lineno or 0 if docless else 0
    imported: dict[str, str] = {}
    defines: dict[str, str] = {}
    guard = ""
    for node in source.tree.body[docless:]:
        text = "\n".join(lines[end : node.end_lineno]).strip("\n")
        end = node.end_lineno or 0
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(text.strip())
            imported |= _origins(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for inner in node.body:
                typing += ["\n".join(line[4:] for line in lines[inner.lineno - 1 : inner.end_lineno])]
                imported |= _origins(inner)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = set(ast.literal_eval(node.value))
        elif isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            guard = f"\n\n{text}"
        else:
            body.append(text)
            body.append(
                "\n" if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
            )
            defines |= {name: ast.dump(node) for name in _names_of(node)}
    body += [line for line in lines[end:] if line.startswith("#")]
    used = {
        node.id
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    free = {name for name in used if hasattr(builtins, name) and name not in defines and name not in imported}
    doc = ast.get_docstring(source.tree) or ""
    head = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    return Part(
        module,
        head,
        doc,
        imports,
        typing,
        public,
        "\n".join(body),
        defines,
        imported,
        _needs(source.tree),
        free,
        guard,
    )


def _origins(node: ast.stmt) -> dict[str, str]:
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.split(".")[0]: alias.name if alias.asname else alias.name.split(".")[0]
            for alias in node.names
        }
    return {}


def _names_of(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set()
    return {
        part.id for part in _outer(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    } | {part.name for part in _outer(node) if isinstance(part, ast.FunctionDef | ast.ClassDef)}


def _outer(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            continue
        yield from _outer(child)


def _needs(tree: ast.Module) -> set[str]:
    """The names that are looked up while the module is executed."""
    found: set[str] = set()

    def visit(node: ast.AST, *, annotated: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in (*node.decorator_list, *_defaults(node.args)):
                visit(part, annotated=False)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.ClassDef):
            for part in (*node.bases, *node.keywords, *node.decorator_list):
                visit(part, annotated=False)
            for statement in node.body:
                visit(statement, annotated=bool(node.bases))
            return
        if isinstance(node, ast.AnnAssign):
            if annotated:
                visit(node.annotation, annotated=False)
            if node.value is not None:
                visit(node.value, annotated=False)
            return
        if isinstance(node, ast.Name):
            found.add(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child, annotated=annotated)

    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        visit(statement, annotated=False)
    return found


def _drop_own_imports(source: Source, group: set[str]) -> None:
    """Take out the imports of modules that become this one, and write what was ``module.name`` as ``name``."""
    parents = {module.rpartition(".")[0] for module in group}
    lasts = {tuple(module.rsplit(".", 1)) for module in group}
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.module in group:
            for alias in node.names:
                if alias.asname and alias.asname != alias.name:
                    rename(source, alias.asname, alias.name)
            _drop(source, node)
        elif node.module in parents:
            gone = [alias for alias in node.names if (node.module, alias.name) in lasts]
            for alias in gone:
                _unqualify(source, alias.asname or alias.name)
            if gone and len(gone) == len(node.names):
                _drop(source, node)
            elif gone:
                kept = [ast.unparse(alias) for alias in node.names if alias not in gone]
                source.replace(node, f"from {node.module} import {', '.join(kept)}")


def _drop(source: Source, node: ast.stmt) -> None:
    start, end = source.span(node)
    lines = source.text.encode()
    stop = lines.find(b"\n", end)
    begin = source.offset(node.lineno, 0)
    alone = any(
        isinstance(parent, ast.If | ast.Try | ast.With) and parent.body == [node]
        for parent in ast.walk(source.tree)
    )
    if alone:
        source.edits.append((start, stop, "pass"))
    else:
        source.edits.append((begin, stop + 1, ""))


def _unqualify(source: Source, module: str) -> None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module:
            source.replace(node, node.attr)


# What is elsewhere.


def _uses_outside(moves: list[Move]) -> dict[str, set[str]]:
    """For each new module, the names of it that modules outside its group use."""
    home = {old: move.to for move in moves for old in move.of}
    uses: dict[str, set[str]] = defaultdict(set)
    for path in _python_files():
        inside = home.get(_module_of(path))
        tree = ast.parse(path.read_text())
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in home and home[node.module] != inside:
                uses[home[node.module]] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (dotted := f"{node.module}.{alias.name}") in home and home[dotted] != inside:
                        modules[alias.asname or alias.name] = home[dotted]
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in modules
            ):
                uses[modules[node.value.id]].add(node.attr)
    return uses


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts) if path.is_relative_to(SRC) else ""


def _python_files() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".py" and path.is_file()]


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def _follow(names: dict[str, str]) -> None:
    """Let every mention of an old module name the new one."""
    dotted = re.compile(
        r"(?<![\w./])("
        + "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        + r")(?![\w])"
    )
    paths = {f"{name.replace('.', '/')}.py": f"{new.replace('.', '/')}.py" for name, new in names.items()}
    short = {path.partition("/")[2]: new.partition("/")[2] for path, new in paths.items()}
    filed = re.compile(r"(?<![\w-])((?:cellwright|cellwright_kernel)/[\w/]+\.py)")
    brief = re.compile(r"(?<=`)([\w/]+\.py)(?=[`:])")
    for path in _tracked():
        relative = str(path.relative_to(ROOT))
        if path.suffix not in TEXTS or not path.is_file() or relative.startswith(NOT_TEXTS):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        new = _with_modules_renamed(text, names) if path.suffix == ".py" else text
        if path.name == "__init__.py" and path.is_relative_to(SRC):
            new = _with_homes_renamed(new, ".".join(path.parent.relative_to(SRC).parts), names)
        new = dotted.sub(lambda match: names[match[1]], new)
        new = filed.sub(lambda match: paths.get(match[1], match[1]), new)
        new = brief.sub(lambda match: short.get(match[1], match[1]), new)
        if new != text:
            path.write_text(new)


def _with_modules_renamed(text: str, names: dict[str, str]) -> str:
    """``from package import module`` and ``module.name`` with the new module in their place."""
    source = Source(text)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        moved = [alias for alias in node.names if f"{node.module}.{alias.name}" in names]
        if not moved:
            continue
        kept = [ast.unparse(alias) for alias in node.names if alias not in moved]
        statements = [f"from {node.module} import {', '.join(kept)}"] if kept else []
        for alias in moved:
            package, _, last = names[f"{node.module}.{alias.name}"].rpartition(".")
            statements.append(
                f"from {package} import {last}" + (f" as {alias.asname}" if alias.asname else "")
            )
            if not alias.asname and last != alias.name:
                if last in _bound_names(source.tree) or node.col_offset:
                    statements[-1] += f" as {alias.name}"
                else:
                    rename(source, alias.name, last)
        indent = " " * node.col_offset
        source.replace(node, f"\n{indent}".join(statements))
    return source.edited()


def _with_homes_renamed(text: str, package: str, names: dict[str, str]) -> str:
    """A package's table of where its names are loaded from, by modules relative to it."""
    source = Source(text)
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            for value in statement.value.values:
                if isinstance(value, ast.Constant) and (new := names.get(f"{package}.{value.value}")):
                    source.replace(value, f'"{new.removeprefix(package + ".")}"')
    return source.edited()


def _bound_names(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return found


if __name__ == "__main__":
    main()

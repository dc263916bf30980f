"""The rules of the house that no linter knows: sizes of functions, names, nothing private in git."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FUNCTION_LINES = 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
REFERENCE = re.compile(r"\b[Ss]ee ``([\w./]+)``")
BASES = (ROOT, ROOT / "src", ROOT / "src/cellwright")
TODO_WITHOUT_ISSUE = re.compile(r"#\s*(?:TODO|FIXME)\b(?!\(#\d+\))")
PRIVATE = {
    "the host of a package registry": re.compile(r"\b(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com)\b"),
    "a conflict that was not resolved": re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE),
    "a path of one machine": re.compile(r"(?<![\w.~-])/(?:(?:root|work|Users)/|home/(?!user\b))\w"),
}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return [file for file in files if file.is_file()]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short() -> None:
    long = [
        f"{_name(path)}:{function.lineno} {function.name}() has {length} lines"
        for path in SOURCES
        for function in _functions(ast.parse(path.read_text()))
        if (length := (function.end_lineno or 0) - function.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long, f"More than {MAX_FUNCTION_LINES} lines:\n" + "\n".join(long)


def test_module_is_named_by_the_noun_it_holds() -> None:
    vague = [_name(path) for path in SOURCES if path.stem in VAGUE_NAMES or path.parent.name in VAGUE_NAMES]
    assert not vague, f"Name these modules by what they hold: {', '.join(vague)}"


def test_todo_names_an_issue() -> None:
    nameless = [
        f"{_name(path)}:{token.start[0]} {token.string}"
        for path in _tracked_files()
        if path.suffix == ".py" and TODO_WITHOUT_ISSUE.search(source := path.read_text())
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and TODO_WITHOUT_ISSUE.search(token.string)
    ]
    assert not nameless, "Write TODO(#issue):\n" + "\n".join(nameless)


def test_git_holds_nothing_of_one_machine() -> None:
    found = []
    for path in _tracked_files():
        text = path.read_text(errors="replace")
        for what, pattern in PRIVATE.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{_name(path)}:{line} holds {what}: {match.group()}")
    assert not found, "\n".join(found)


def test_files_that_the_documents_name_are_there() -> None:
    pages = [ROOT / "ARCHITECTURE.md", *(ROOT / "docs" / "internals").glob("*.md")]
    endings = {
        "/".join(path.parts[place:])
        for folder in ("src", "scripts", "tests")
        for path in (ROOT / folder).rglob("*")
        for place in range(len(path.parts))
        if path.is_file()
    }
    named = (
        (page, name) for page in pages for name in re.findall(r"`([\w/.]+\.(?:py|mjs|sh))`", page.read_text())
    )
    gone = [f"{_name(page)} names {name}" for page, name in named if name not in endings]
    assert not gone, "\n".join(gone)


def _is_there(path: Path, name: str) -> bool:
    """Whether the module or file is where a reader of the text would look, or its last word is a name in the text itself."""
    if any((base / name).exists() for base in (path.parent, *BASES)):
        return True
    places = [base / name.replace(".", "/") for base in (path.parent, path.with_suffix(""), *BASES)]
    inner = name.rpartition(".")[2]
    modules = [file for place in places if (file := place.parent.with_suffix(".py")).is_file()]
    return (
        any(place.with_suffix(".py").is_file() or place.is_dir() for place in places)
        or any(re.search(rf"\b{inner}\b", file.read_text()) for file in modules)
        or len(re.findall(rf"\b{inner}\b", path.read_text())) > 1
    )


def test_what_a_text_sends_its_reader_to_is_there() -> None:
    gone = [
        f"{_name(path)}: see {name}"
        for path in _tracked_files()
        if path.suffix == ".py"
        for name in REFERENCE.findall(path.read_text())
        if not _is_there(path, name)
    ]
    assert not gone, "Nothing is there under these names:\n" + "\n".join(gone)

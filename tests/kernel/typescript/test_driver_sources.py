"""The driver's own sources keep the house's rules."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cellwright.kernels.deno import find_deno
from tests.kernel.typescript.conftest import DRIVER

SOURCES = sorted(DRIVER.parent.glob("*.mjs"))
# In a realm of its own, which no cell reaches; and the one module that takes the globals.
APART = {"pump.mjs", "natives.mjs"}
TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
FUNCTION = re.compile(
    r"^( *)(?:export )?(?:async )?(?:function\b.*|#?(?!if|for|while|switch)\w+\(.*\)) \{$", re.MULTILINE
)
# Names of globals that are also those of fields and parameters here, or words of the language.
OWN = {"undefined", "NaN", "Infinity", "eval", "name", "close", "closed", "process", "setImmediate"}
MAX_FUNCTION_LINES = 50


def test_modules_take_every_global_from_natives() -> None:
    names = _global_names()
    bare = {path.name: sorted(_bare_globals(path, names)) for path in SOURCES if path.name not in APART}
    found = {name: globals_ for name, globals_ in bare.items() if globals_}
    assert not found, f"import these from natives.mjs, since a cell may shadow them: {found}"


def _global_names() -> set[str]:
    script = "console.log(JSON.stringify(Object.getOwnPropertyNames(globalThis)))"
    told = subprocess.run([find_deno(), "eval", script], capture_output=True, check=True)
    return {name for name in json.loads(told.stdout) if name[0].isalpha()} - OWN


def _bare_globals(path: Path, names: set[str]) -> set[str]:
    code = TEXT.sub("", path.read_text())
    taken = re.findall(r"import \{([^}]*)\} from", path.read_text())
    imported = {word for words in taken for word in re.findall(r"\w+", words)}
    declaring = r"\b(?:const|let|function|class) (\w+)|^  (?:async )?(\w+)\(.*\{$"
    declared = {word for words in re.findall(declaring, code, re.MULTILINE) for word in words}
    used = set(re.findall(r"(?<![\w.$#-])([A-Za-z]\w*)\b(?!\s*:)", code))
    return (used & names) - imported - declared


def test_functions_are_short() -> None:
    long = [
        f"{path.name}:{line} has {length} lines"
        for path in SOURCES
        for line, length in _function_lengths(path)
        if length > MAX_FUNCTION_LINES
    ]
    assert not long, f"More than {MAX_FUNCTION_LINES} lines:\n" + "\n".join(long)


def _function_lengths(path: Path) -> Iterator[tuple[int, int]]:
    """The line that each function begins in, and how many lines it has."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        opening = FUNCTION.match(line)
        if opening:
            closings = (f"{opening[1]}}}", f"{opening[1]}}};", f"{opening[1]}}},")
            yield number + 1, 1 + next(at for at, below in enumerate(lines[number:]) if below in closings)

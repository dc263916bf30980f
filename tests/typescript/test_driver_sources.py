"""The driver's own sources keep the house's rules."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from cellwright.kernels.deno import find_deno
from typescript.conftest import DRIVER

SOURCES = sorted(DRIVER.parent.glob("*.mjs"))
# In a realm of its own, which no cell reaches; and the one module that takes the globals.
APART = {"pump.mjs", "natives.mjs"}
TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.DOTALL)
FUNCTION = re.compile(
    r"^( *)(?:export )?(?:async )?(?:function\b.*|#?(?!if|for|while|switch)\w+\(.*\)) \{$", re.MULTILINE
)
# Names of globals that are also those of fields and parameters here, or words of the language.
OWN = {"undefined", "NaN", "Infinity", "eval", "name", "close", "closed", "process", "setImmediate"}
MAX_LINES = 400
MAX_FUNCTION_LINES = 50


@pytest.fixture(scope="module")
def global_names() -> set[str]:
    script = "console.log(JSON.stringify(Object.getOwnPropertyNames(globalThis)))"
    told = subprocess.run([find_deno(), "eval", script], capture_output=True, check=True)
    return {name for name in json.loads(told.stdout) if name[0].isalpha()} - OWN


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.name not in APART], ids=lambda path: path.name
)
def test_module_takes_every_global_from_natives(path: Path, global_names: set[str]) -> None:
    code = TEXT.sub("", path.read_text())
    taken = re.findall(r"import \{([^}]*)\} from", path.read_text())
    imported = {word for names in taken for word in re.findall(r"\w+", names)}
    declaring = r"\b(?:const|let|function|class) (\w+)|^  (?:async )?(\w+)\(.*\{$"
    declared = {word for words in re.findall(declaring, code, re.MULTILINE) for word in words}
    used = set(re.findall(r"(?<![\w.$#-])([A-Za-z]\w*)\b(?!\s*:)", code))
    bare = (used & global_names) - imported - declared
    assert not bare, f"import these from natives.mjs, since a cell may shadow them: {sorted(bare)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_module_is_short_and_so_are_its_functions(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_LINES
    for number, line in enumerate(lines):
        opening = FUNCTION.match(line)
        if opening:
            closings = (f"{opening[1]}}}", f"{opening[1]}}};", f"{opening[1]}}},")
            length = next(at for at, below in enumerate(lines[number:]) if below in closings)
            assert length < MAX_FUNCTION_LINES, f"{path.name}:{number + 1}"

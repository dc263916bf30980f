"""Every command that a page shows is there, with the flags that it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from cellwright.cli._catalogue import MCP, NOUNS, OLD_NAMES, find

ROOT = Path(__file__).parents[3]
FOLDERS = ("guides", "tutorials", "concepts", "coming-from")
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *(page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))),
]
TYPED = re.compile(r"^\$ (?:\S*/)?cellwright +([a-z].*)$|`cellwright ([a-z][^`\n]*)`", re.MULTILINE)
COMMENT = re.compile(r"\s{2,}#.*")
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
FLAG = re.compile(r"(?<![\w'\"-])--?[a-z][\w-]*")


def _faults() -> Iterator[str]:
    record = json.loads((ROOT / "src/cellwright/cli/help.json").read_text())
    for page in PAGES:
        for typed, named in TYPED.findall(page.read_text()):
            shown = COMMENT.sub("", typed or named).strip()
            words = shown.split()
            command = find(words)
            if words[0] == MCP or (command is None and words[0] in NOUNS):
                continue
            if command is None or (words[0] in OLD_NAMES):
                yield f"{page.name}: `cellwright {shown}` is no command, or has an old name"
            elif command[0] in record:
                flags = {flag for names, _, _ in record[command[0]]["options"] for flag in names} | {"--help"}
                for flag in FLAG.findall(QUOTED.sub("", shown)):
                    if flag not in flags:
                        yield f"{page.name}: `cellwright {shown}` has no {flag}"


def test_commands_that_pages_show_are_there_with_their_flags() -> None:
    assert not list(_faults())

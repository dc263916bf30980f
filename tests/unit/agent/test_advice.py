"""What the agent says of failures is read on the page and in a client as often as in a terminal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import cellwright.agent
from cellwright.errors import BudgetSpent

FLAG = re.compile(r"(?<![\w-])--[a-z]")


def advice(path: Path) -> Iterator[str]:
    """The texts of a module, without its docstrings and what it hands to installers."""
    tree = ast.parse(path.read_text())
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def test_no_advice_of_the_agent_names_a_flag_of_the_command_line() -> None:
    modules = Path(cellwright.agent.__file__).parent.rglob("*.py")
    texts = [text for module in modules for text in advice(module)]
    assert [text for text in texts if FLAG.search(text) and not text.startswith("pip ")] == []
    assert FLAG.search(BudgetSpent("money", taken=2, limit=1).hint or "") is None

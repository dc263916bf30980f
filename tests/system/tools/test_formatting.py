"""Python in ruff's form, by a process that can read and reach nothing."""

from __future__ import annotations

import importlib.util

import pytest

from cellwright.errors import MissingExtra, NotebookError
from cellwright.tools.formatting import format_python

pytestmark = pytest.mark.anyio


async def test_sources_are_formatted_each_by_itself_and_magics_stay() -> None:
    made = await format_python(["%matplotlib inline\nx=[1 ,2]", "def f( a):\n  return a"])
    assert made == ["%matplotlib inline\nx = [1, 2]", "def f(a):\n    return a"]
    with pytest.raises(NotebookError, match="no Python"):
        await format_python(["def ("])


async def test_without_ruff_the_command_that_adds_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra) as refused:
        await format_python(["x"])
    assert "pip install 'cellwright[format]'" in str(refused.value.hint)

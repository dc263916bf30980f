"""Python in ruff's form, TypeScript in Deno's, by a process that can read and reach nothing."""

from __future__ import annotations

import importlib.util

import pytest

from cellwright.errors import MissingExtra, NotebookError
from cellwright.tools.code_format import format_sources

pytestmark = pytest.mark.anyio


async def test_sources_are_formatted_each_by_itself_and_magics_stay() -> None:
    made = await format_sources("python", ["%matplotlib inline\nx=[1 ,2]", "def f( a):\n  return a"])
    assert made == ["%matplotlib inline\nx = [1, 2]", "def f(a):\n    return a"]
    with pytest.raises(NotebookError, match="cannot be read"):
        await format_sources("python", ["def ("])


async def test_typescript_is_formatted_with_its_comments_and_other_languages_are_refused() -> None:
    made = await format_sources("typescript", ["const a:number = await f( 1 ) // one", "let b = {c:1}"])
    assert made == ["const a: number = await f(1); // one", "let b = { c: 1 };"]
    with pytest.raises(NotebookError, match="cannot be read"):
        await format_sources("javascript", ["function ("])
    with pytest.raises(NotebookError, match="no formatter for sql"):
        await format_sources("sql", ["select 1"])


async def test_without_ruff_the_command_that_adds_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra) as refused:
        await format_sources("python", ["x"])
    assert "pip install 'cellwright[format]'" in str(refused.value.hint)

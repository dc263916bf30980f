"""Clients with many tools show their model only those that a search finds: whether it finds the right ones."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cellwright.mcp.toolsets import TOOLSETS
from tests.support.mcp.toolsearch import ranked

INTENTS = Path(__file__).parents[2] / "support" / "mcp"


@pytest.mark.parametrize(("file", "first", "in_three"), [("intents", 28, 29), ("intents_unseen", 21, 24)])
def test_what_people_ask_for_finds_the_right_tool(file: str, first: int, in_three: int) -> None:
    tools = {made.name: made.description for group in TOOLSETS.values() for made in group}
    intents = tomllib.loads((INTENTS / f"{file}.toml").read_text())
    assert len(intents) == 30
    assert {tool for right in intents.values() for tool in right} <= tools.keys()
    places = {intent: _place(ranked(intent, tools), right) for intent, right in intents.items()}
    missed = {intent: place for intent, place in places.items() if place}
    assert len(places) - len(missed) >= first, missed
    assert sum(place < 3 for place in places.values()) >= in_three, missed


def _place(names: list[str], right: list[str]) -> int:
    return min(names.index(tool) for tool in right)


def test_descriptions_of_no_two_tools_begin_alike() -> None:
    begins = [" ".join(made.description.lower().split()[:5]) for group in TOOLSETS.values() for made in group]
    assert len(begins) == len(set(begins))

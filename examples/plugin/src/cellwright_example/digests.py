"""A digest: what an agent is told of a `Die` that a cell shows. It runs in the kernel, in the sandbox."""

from __future__ import annotations

from cellwright_example.dice import Die

CELLWRIGHT_API = 1


def tell_die(die: Die) -> str:
    """A die in a line."""
    rolled = f"rolled {len(die.rolled)} times, {sum(die.rolled)} in all" if die.rolled else "not rolled yet"
    return f"die of {die.sides} sides, {rolled}"

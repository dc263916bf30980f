"""Finds random numbers without a seed in a notebook's Python, so that an output that differs can be explained. Pure.

Reads names, not values: a generator that is handed on under another name is followed from cell to cell, one that a
library keeps for itself is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cellwright.notebook import Cell
from cellwright.notebook.python_names import names_of, python_cell

__all__ = ["Randomness", "random_sources"]

_SEEDS = frozenset({"seed", "manual_seed", "set_seed", "set_random_seed", "seed_everything"})
_MAKERS = frozenset({"default_rng", "RandomState", "Random", "Generator", "SeedSequence"})
_ALWAYS_RANDOM = frozenset(
    {"uuid1", "uuid4", "urandom", "token_hex", "token_bytes", "token_urlsafe", "SystemRandom"}
)
_RANDOM_MODULES = ("random", "np.random", "numpy.random", "secrets")
_TORCH = frozenset({"rand", "randn", "randint", "randperm", "normal"})
_BARE = frozenset(
    {"random", "randint", "randrange", "uniform", "gauss", "choice", "choices", "rand", "randn"}
)
_FRAMES = frozenset({"sample", "train_test_split", "shuffle"})


@dataclass(frozen=True, slots=True)
class Randomness:
    """A call that draws without a seed, and the cell that it is in."""

    cell_id: str
    call: str


def random_sources(cells: Sequence[Cell], cell_id: str) -> list[Randomness]:
    """What draws random numbers without a seed and may have to do with what a cell puts out."""
    places = {cell.id: place for place, cell in enumerate(cells)}
    found: list[Randomness] = []
    for place in _leading_to(cells, places[cell_id]):
        seeded = any(_seeds(cell.source) for cell in cells[: place + 1])
        found += [
            Randomness(cells[place].id, call)
            for call, ignores_seeds in _draws(cells[place].source)
            if ignores_seeds or not seeded
        ]
    return list(dict.fromkeys(found))


def _leading_to(cells: Sequence[Cell], place: int) -> list[int]:
    """A cell, and those whose names lead to it."""
    found, ahead = [place], [place]
    while ahead:
        at = ahead.pop()
        names = names_of(cells[at])
        for name in names.uses | names.later:
            given = [other for other in reversed(range(at)) if name in names_of(cells[other]).defines]
            new = [other for other in given[:1] if other not in found]
            found += new
            ahead += new
    return found


def _calls(source: str) -> Iterator[tuple[ast.Call, str]]:
    tree = python_cell(source).tree
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            yield node, _dotted(node.func)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def _seeds(source: str) -> bool:
    return any(name.rpartition(".")[2] in _SEEDS and call.args for call, name in _calls(source))


def _draws(source: str) -> list[tuple[str, bool]]:
    """Calls that draw, each with whether a seed set elsewhere makes no difference to it."""
    found: list[tuple[str, bool]] = []
    for call, name in _calls(source):
        module, _, last = name.rpartition(".")
        if last in _ALWAYS_RANDOM or module == "secrets":
            found.append((name, True))
        elif last in _MAKERS and (last == name or module in _RANDOM_MODULES):
            if not call.args and not call.keywords:
                found.append((name, True))
        elif _is_draw(module, last, call) and last not in _SEEDS:
            found.append((name, False))
    return found


def _is_draw(module: str, last: str, call: ast.Call) -> bool:
    by_itself = not module and last in _BARE
    if by_itself or module in _RANDOM_MODULES or (module == "torch" and last in _TORCH):
        return True
    given = any(keyword.arg in ("random_state", "seed", "rng") for keyword in call.keywords)
    return last in _FRAMES and not given

"""A language: cells such as `attack = 2d6 + 3`, which run among the notebook's Python variables. See `dice_cells`."""

from __future__ import annotations

from cellwright.notebook.languages import Language, OnPython

CELLWRIGHT_API = 1

DICE = Language("dice", (".dice",), aliases=("rolls",), runs=OnPython("cellwright_example.dice_cells"))

"""Shortens tracebacks before IPython formats them: without this package's frames, and with recursions folded.

Formatting a thousand equal frames takes seconds, and nobody reads them.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import traceback as _tracebacks
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import CodeType, TracebackType
from typing import Any

__all__ = ["Fold", "fold_lines", "group_lines", "shortened"]

OWN = os.path.dirname(__file__) + os.sep

IPYTHON = os.sep + os.path.join("IPython", "core", "")

MAX_PERIOD = 8
"""How many functions may call each other in a circle that is still seen as one."""

ROUNDS_KEPT = 3

MAX_CHAIN = 100

_traceback: Any = vars(BaseException)["__traceback__"]

_cause_of: Any = vars(BaseException)["__cause__"].__get__

_context_of: Any = vars(BaseException)["__context__"].__get__

_is_suppressed: Any = vars(BaseException)["__suppress_context__"].__get__


# Not there before Python 3.11, on which a project's kernels may run.
_GROUP: Any = vars(builtins).get("BaseExceptionGroup", ())


@dataclass(frozen=True)
class Fold:
    """A part of a traceback that repeats: the functions that call each other, and the rounds that were left out."""

    names: tuple[str, ...]
    left_out: int

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"    [… {self.left_out:,} more calls of {self.names[0]} from the same line …]\n"
        return f"    [… {self.left_out:,} more rounds of {', '.join(self.names)} …]\n"


@contextlib.contextmanager
def shortened(error: BaseException | None) -> Iterator[list[Fold]]:
    """Shorten the tracebacks of an exception and of those that led to it, for as long as it is formatted.

    Yields what was folded, in the order in which it is shown. A debugger finds every frame again afterwards.
    """
    whole = [(each, _traceback.__get__(each)) for each in _chain(error)]
    folds: list[Fold] = []
    try:
        for each, traceback in reversed(whole):
            short, folded = _shortened(traceback)
            folds += folded
            _traceback.__set__(each, short)
        yield folds
    finally:
        for each, traceback in whole:
            _traceback.__set__(each, traceback)


def _chain(error: BaseException | None) -> list[BaseException]:
    """An exception and those that led to it, the last one first."""
    found: list[BaseException] = []
    while error is not None and len(found) < MAX_CHAIN and all(each is not error for each in found):
        found.append(error)
        cause = _cause_of(error)
        error = cause if cause is not None or _is_suppressed(error) else _context_of(error)
    return found


def group_lines(error: BaseException | None) -> list[str] | None:
    """A group of exceptions as Python formats it, for IPython cannot; None where there is no group."""
    chain = _chain(error)
    if not any(isinstance(each, _GROUP) for each in chain):
        return None
    for each in chain:
        entries = list(_entries(_traceback.__get__(each)))
        _traceback.__set__(
            each, _linked([one for one in entries if IPYTHON not in one.tb_frame.f_code.co_filename])
        )
    return ["".join(_tracebacks.format_exception(chain[0]))]


def _shortened(traceback: TracebackType | None) -> tuple[TracebackType | None, list[Fold]]:
    every = list(_entries(traceback))
    foreign = [entry for entry in every if not entry.tb_frame.f_code.co_filename.startswith(OWN)]
    kept, folds = _folded(foreign)
    if not kept or len(kept) == len(every):
        return traceback, []
    return _linked(kept), folds


def _linked(entries: Sequence[TracebackType]) -> TracebackType | None:
    last: TracebackType | None = None
    for entry in reversed(entries):
        last = TracebackType(last, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return last


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _folded(entries: Sequence[TracebackType]) -> tuple[list[TracebackType], list[Fold]]:
    """The entries with a few rounds of each recursion."""
    places = [(entry.tb_frame.f_code, entry.tb_lineno) for entry in entries]
    kept: list[TracebackType] = []
    folds: list[Fold] = []
    at = 0
    while at < len(entries):
        period, rounds = _repetition(places, at)
        shown = period * min(rounds, ROUNDS_KEPT)
        kept += entries[at : at + shown]
        if rounds > ROUNDS_KEPT:
            names = tuple(code.co_name for code, _ in places[at : at + period])
            folds.append(Fold(names, rounds - 2))
        at += period * rounds
    return kept, folds


def _repetition(places: Sequence[tuple[CodeType, int]], at: int) -> tuple[int, int]:
    """The shortest part from here on that comes more often than is shown, and how often; else one entry, once."""
    for period in range(1, MAX_PERIOD + 1):
        block = places[at : at + period]
        rounds = 1
        while places[at + rounds * period : at + (rounds + 1) * period] == block:
            rounds += 1
        if rounds > ROUNDS_KEPT:
            return period, rounds
    return 1, 1


def fold_lines(lines: Sequence[str], folds: Sequence[Fold]) -> list[str]:
    """A formatted traceback in which a line stands for the middle one of each fold's three rounds."""
    told: list[str] = []
    waiting = iter(folds)
    fold = next(waiting, None)
    at = 0
    while at < len(lines):
        period = len(fold.names) if fold is not None else 0
        block = list(islice(lines, at, at + period))
        if fold is not None and list(islice(lines, at, at + period * ROUNDS_KEPT)) == block * ROUNDS_KEPT:
            told += [*block, str(fold), *block]
            at += period * ROUNDS_KEPT
            fold = next(waiting, None)
        else:
            told.append(lines[at])
            at += 1
    return told

"""Parts of a notebook that it, one of its cells or a caller declares to be volatile, and the rules that follow. Pure.

Declared in metadata as ``cellwright.verify``: ``{"mask": ["times", {"pattern": "run [0-9]+", "as": "run N"}],
"tolerance": 1e-6}``. A cell's own come on top of the notebook's, a caller's on top of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cellwright.errors import NotebookError
from cellwright.notebook import Rules
from cellwright.notebook.comparison import ALWAYS, BY_NAME, TOLERANCE, same_look

__all__ = ["Applied", "MaskPattern", "Volatile", "applied", "declared_in", "declared_rules", "parse_mask"]

MAX_PATTERN = 300
MAX_PATTERNS = 20


class MaskPattern(msgspec.Struct, frozen=True, rename={"shown": "as"}, forbid_unknown_fields=True):
    """A regular expression, and what stands for what it matches."""

    pattern: str
    shown: str = "<masked>"


class Volatile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What somebody declares. ``tolerance`` is how far apart numbers may be, relative to the larger."""

    mask: tuple[str | MaskPattern, ...] = ()
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """How one cell is compared."""

    rules: Rules
    patterns: tuple[MaskPattern, ...] = ()
    """Those that somebody brought along, which are matched apart (see ``rehearsal``)."""


def declared_in(metadata: Mapping[str, Any], *, whose: str) -> Volatile:
    """What a notebook's or a cell's metadata declares.

    Raises:
        NotebookError: it cannot be understood.
    """
    ours = metadata.get("cellwright")
    declared = ours.get("verify") if isinstance(ours, Mapping) else None
    if declared is None:
        return Volatile()
    try:
        return _checked(msgspec.convert(declared, Volatile))
    except (msgspec.ValidationError, NotebookError) as error:
        raise NotebookError(
            f"metadata.cellwright.verify of {whose} cannot be understood: {error}",
            hint=f'Write {{"mask": [a name or {{"pattern": …, "as": …}}], "tolerance": …}}; names are {", ".join(BY_NAME)}',
        ) from error


def parse_mask(text: str) -> str | MaskPattern:
    """A mask as a person writes it: one of the names, else a regular expression."""
    return text if text in BY_NAME else MaskPattern(text)


def applied(*declarations: Volatile) -> Applied:
    """All that is declared, taken together; of tolerances the last counts.

    Raises:
        NotebookError: there is no such name, or a pattern is too long.
    """
    every = [mask for one in declarations for mask in _checked(one).mask]
    names = dict.fromkeys(mask for mask in every if isinstance(mask, str))
    patterns = dict.fromkeys(mask for mask in every if isinstance(mask, MaskPattern))
    tolerances = [one.tolerance for one in declarations if one.tolerance is not None]
    rules = Rules(
        tolerance=tolerances[-1] if tolerances else TOLERANCE,
        masks=(*ALWAYS, *(mask for name in names for mask in BY_NAME[name])),
        pictures=same_look,
    )
    return Applied(rules, tuple(patterns))


def _checked(declared: Volatile) -> Volatile:
    _refuse(len(declared.mask) > MAX_PATTERNS, f"there are more than {MAX_PATTERNS} masks")
    for mask in declared.mask:
        if isinstance(mask, str):
            _refuse(mask not in BY_NAME, f"there is no mask {mask[:50]!r}")
        else:
            _refuse(len(mask.pattern) > MAX_PATTERN, f"a pattern has more than {MAX_PATTERN} characters")
    tolerance = declared.tolerance
    _refuse(tolerance is not None and not 0 <= tolerance < 1, "the tolerance is not between 0 and 1")
    return declared


def _refuse(wrong: bool, what: str) -> None:
    if wrong:
        raise NotebookError(what, hint=f"Named masks are {', '.join(BY_NAME)}")


def declared_rules(declarations: Iterable[Volatile]) -> dict[str, Any]:
    """What was declared, for a certificate."""
    every = list(declarations)
    found = applied(*every)
    masks = dict.fromkeys(mask for one in every for mask in one.mask)
    return {"mask": [msgspec.to_builtins(mask) for mask in masks], "tolerance": found.rules.tolerance}

"""Runs a copy of a notebook from the top in a clean session, cell by cell, and compares. What is made of it: ``verifier``."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec

from cellwright.engine import Execution, Inputs, Session
from cellwright.engine.records import ExecutionRecord
from cellwright.errors import NotebookError
from cellwright.notebook import Cell, Comparison, Difference, Rules, compare_outputs
from cellwright.notebook.comparison import ALWAYS, BY_NAME, TOLERANCE, same_look
from cellwright.verification import masker

__all__ = [
    "Applied",
    "CheckedCell",
    "MaskPattern",
    "Volatile",
    "applied",
    "declared_in",
    "declared_rules",
    "mask_outputs",
    "parse_mask",
    "rehearse",
    "time_for",
    "was_state",
]

_MOST_FACTOR = 3.0

_MOST_S = 6 * 3_600.0


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """One cell that ran again."""

    cell: Cell
    """As the notebook has it."""
    now: ExecutionRecord
    comparison: Comparison
    read: Inputs = field(default_factory=Inputs)
    expected_state: str = "ok"

    @property
    def inputs(self) -> dict[str, str]:
        """The files that it read, each with what tells whether it is still the same."""
        return {file.path: file.digest for file in self.read.files}

    @property
    def same(self) -> bool:
        return self.comparison.same

    @property
    def goes_on(self) -> bool:
        """Whether what comes after it may run: it ended well, or failed as it did before."""
        return self.now.state == "ok" or (
            self.now.state in ("error", "timeout") and self.expected_state != "ok"
        )


async def rehearse(
    session: Session,
    cells: Sequence[Cell],
    how: Mapping[str, Applied],
    *,
    timeout_s: float | None,
) -> AsyncGenerator[CheckedCell, None]:
    """Run cells in a rehearsal, in order, and yield each as it ends; the last may be one that ended badly.

    Raises:
        NotebookError: a mask cannot be used.
        KernelError: the kernel is gone.
    """
    await session.watch_inputs()
    for cell in cells:
        limit_s = timeout_s if timeout_s is not None else time_for(cell, session.time_limit(None))
        execution = await session.execute(cell.id, timeout_s=limit_s)
        await execution.wait()
        inputs = await _inputs(session, cell, execution)
        comparison = await _compared(cell, execution, how[cell.id])
        checked = CheckedCell(
            cell,
            execution.record,
            comparison,
            inputs,
            was_state(cell),
        )
        yield checked
        if not checked.goes_on:
            return


def was_state(cell: Cell) -> str:
    """How a cell's last run ended, by what it shows."""
    if cell.may_raise:
        return "error"
    failed = any(output.get("output_type") == "error" for output in cell.outputs)
    return "error" if failed else "ok"


def time_for(cell: Cell, usual_s: float) -> float:
    """The usual time, or more where the cell is known to have needed more; what a file says of that is bounded."""
    ours = cell.metadata.get("cellwright")
    took_s = ours.get("seconds") if isinstance(ours, Mapping) else None
    if not isinstance(took_s, int | float) or not 0 < took_s < math.inf:
        return usual_s
    return max(usual_s, min(took_s * _MOST_FACTOR, _MOST_S))


async def _inputs(session: Session, cell: Cell, execution: Execution) -> Inputs:
    if execution.state == "died":
        return Inputs()
    return await session.inputs(cell.source)


async def _compared(cell: Cell, execution: Execution, how: Applied) -> Comparison:
    before, now = list(cell.outputs), execution.outputs
    if how.patterns:
        try:
            before = await mask_outputs(before, how.patterns)
            now = await mask_outputs(now, how.patterns)
        except NotebookError as refusal:
            return Comparison((Difference("masks", "", "", refusal.message),))
    # Outputs may be megabytes, and nobody else should wait for them.
    found = await anyio.to_thread.run_sync(compare_outputs, before, now, how.rules)
    expected = was_state(cell)
    if (execution.state == "ok") == (expected == "ok") or (cell.may_raise and execution.state == "ok"):
        return found
    error = execution.error
    why = f"ended as {execution.state}" + (f" ({error['ename']}: {error['evalue']})" if error else "")
    why += f": {execution.reason}" if execution.reason else ""
    return Comparison((Difference("state", expected, execution.state, why), *found.differences), found.more)


# Masks outputs by patterns that a notebook brought along, which may be hostile: in a process that can be
# ended.

LIMIT_S = 5

# A busy machine gives processor time late; a process that gets none at all is not waited for.
_TIMEOUT_S = 120

_MOST_CHARACTERS = 20_000_000


async def mask_outputs(
    outputs: Sequence[dict[str, Any]], patterns: Sequence[MaskPattern], *, limit_s: int = LIMIT_S
) -> list[dict[str, Any]]:
    """The same outputs with everything that the patterns match replaced. One stream is one text.

    Raises:
        NotebookError: a pattern is none, or takes too long.
    """
    joined = _joined_streams(outputs)
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    _walk(joined, collect)
    if sum(map(len, texts)) > _MOST_CHARACTERS:
        raise NotebookError(
            "More was put out than patterns are matched with", hint="Put out less, or use a named mask"
        )
    masked = iter(await _masked(texts, patterns, limit_s))
    return _walk(joined, lambda _: next(masked))


async def _masked(texts: list[str], patterns: Sequence[MaskPattern], limit_s: int) -> list[str]:
    asked = {"texts": texts, "patterns": [[one.pattern, one.shown] for one in patterns]}
    command = [sys.executable, "-I", "-S", str(Path(masker.__file__)), str(limit_s)]
    done: subprocess.CompletedProcess[bytes] | None = None
    with anyio.move_on_after(_TIMEOUT_S):
        done = await anyio.run_process(
            command, input=json.dumps(asked).encode(), check=False, stderr=subprocess.DEVNULL
        )
    shown = ", ".join(one.pattern for one in patterns)
    if done is None or done.returncode:
        raise NotebookError(
            f"Matching {shown} took more than {limit_s} s of processor time or too much memory",
            hint="Write it without one repetition inside of another",
        )
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise NotebookError(f"The pattern {answer['pattern']} cannot be used: {answer['error']}")
    return list(answer["texts"])


def _joined_streams(outputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    streams: dict[str, list[str]] = {}
    others: list[dict[str, Any]] = []
    for output in outputs:
        if output.get("output_type") == "stream":
            streams.setdefault(str(output.get("name", "stdout")), []).append(_text(output.get("text", "")))
        else:
            others.append(output)
    told = [
        {"output_type": "stream", "name": name, "text": "".join(parts)} for name, parts in streams.items()
    ]
    return [*told, *others]


def _walk(outputs: list[dict[str, Any]], change: Callable[[str], str]) -> list[dict[str, Any]]:
    """Outputs with every text changed, always in the same order."""
    changed: list[dict[str, Any]] = []
    for output in outputs:
        new = dict(output)
        for key in ("text", "evalue"):
            if isinstance(new.get(key), str):
                new[key] = change(new[key])
        if isinstance(new.get("data"), dict):
            new["data"] = {
                mime: change(_text(value)) if _is_text(mime, value) else value
                for mime, value in new["data"].items()
            }
        changed.append(new)
    return changed


def _is_text(mime: str, value: Any) -> bool:
    lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    pictures = mime.startswith(("image/", "audio/", "video/")) and not mime.endswith("+xml")
    return (isinstance(value, str) or lines) and not pictures


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(map(str, value))


# Parts of a notebook that it, one of its cells or a caller declares to be volatile, and the rules that
# follow. Pure.

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
    """Those that somebody brought along, which are matched apart."""


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

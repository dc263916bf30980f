"""What came of runs, as tables for people and as JSON. Runs and judges nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from datatasks.answers import score
from datatasks.records import Asked
from datatasks.references import JUDGE, References

__all__ = [
    "OURS",
    "PEER",
    "as_table",
    "asked_as_json",
    "asked_as_table",
    "references_as_json",
    "references_as_table",
]

OURS = "ours"
PEER = "ipykernel"


def as_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns that stand below one another; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def references_as_table(result: References) -> str:
    """Rates and times of each contender, then the ratios that are claimed."""
    rows = [("contender", "tasks", "steps", "passed", "rate", "seconds", "time / ipykernel")]
    for name, tried in result.tried.items():
        steps, passed = sum(one.steps for one in tried), sum(one.passed for one in tried)
        ratio = f"{result.ratio(name, PEER):.2f}" if tried else ""
        rows.append(
            (name, str(len(tried)), str(steps), str(passed), f"{result.rate(name):.1%}",
             f"{result.seconds(name):.1f}", ratio)
        )  # fmt: skip
    lines = [as_table(rows)]
    for reason, count in Counter(result.left_out.values()).most_common():
        lines.append(f"left out, {reason}: {count} {'task' if count == 1 else 'tasks'}")
    return "\n".join(lines)


def references_as_json(name: str, result: References) -> dict[str, Any]:
    """The same, with every failure."""
    return {
        "set": name,
        "contenders": {
            contender: {
                "tasks": len(tried),
                "steps": sum(one.steps for one in tried),
                "passed": sum(one.passed for one in tried),
                "rate": result.rate(contender),
                "seconds": result.seconds(contender),
                "time_to_ipykernel": result.ratio(contender, PEER) if tried else None,
                "failures": [line for one in tried for line in one.failures],
            }
            for contender, tried in result.tried.items()
        },
        "pass_rate_to_plain_python": _share(result.rate(OURS), result.rate(JUDGE)),
        "left_out": result.left_out,
    }


def _share(ours: float, theirs: float) -> float | None:
    return ours / theirs if theirs else None


def asked_as_json(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Figures of each model and pattern."""
    groups: dict[tuple[str, str, str], list[Asked]] = {}
    for one in asked:
        groups.setdefault((one.set, one.model, one.pattern), []).append(one)
    return [_figures(*key, group) for key, group in sorted(groups.items())]


def asked_as_table(asked: Sequence[Asked]) -> str:
    """The same for people; tokens, money and seconds are for a question, on average."""
    rows = [
        ("set", "model", "pattern", "questions", "judged", "right", "nearly", "parts", "prop.", "failed", "untraced",
         "tokens in", "out", "USD", "seconds", "requests")
    ]  # fmt: skip
    for one in asked_as_json(asked):
        count = one["questions"]
        rows.append(
            (one["set"], one["model"], one["pattern"], str(count), str(one["judged"]), f"{one['right']:.1%}", f"{one['nearly']:.1%}",
             _percent(one["by_part"]), _percent(one["proportional"]), str(one["failed"]), str(one["untraced"]),
             f"{one['tokens_in'] / count:.0f}", f"{one['tokens_out'] / count:.0f}", f"{one['money'] / count:.4f}",
             f"{one['seconds'] / count:.1f}", f"{one['requests'] / count:.1f}")
        )  # fmt: skip
    return as_table(rows)


def _figures(name: str, model: str, pattern: str, group: Sequence[Asked]) -> dict[str, Any]:
    scores, judged = score(one.parts for one in group), sum(one.judged for one in group)
    went_by = Counter(one.went_by for one in group if one.went_by)
    sums = {
        figure: sum(getattr(one, figure) for one in group)
        for figure in ("untraced", "tokens_in", "tokens_out", "money", "seconds", "requests")
    }
    return {
        "set": name,
        "model": model,
        "pattern": pattern,
        "questions": len(group),
        "judged": judged,
        "right": sum(one.right for one in group) / max(1, judged),
        "nearly": sum(one.nearly for one in group) / max(1, judged),
        "by_part": scores.by_part if scores.questions else None,
        "proportional": scores.proportional if scores.questions else None,
        "failed": sum(one.failure is not None for one in group),
        "went_by": dict(went_by),
        **sums,
    }


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"

"""Which executions made the state that a kernel has, in order. Pure.

A lineage is a tuple of spans: all that ran in the kernel's own generation, after what ran in earlier ones up to the
point that a rollback returned to. What is done with the steps stands in ``replay``; ``kernel`` and
``checkpoints`` keep a lineage up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cellwright.engine.records import ExecutionRecord, SessionRecord, Span
from cellwright.errors import UnknownExecution
from cellwright.hosts.protocol import ExecutionState

__all__ = [
    "Lineage",
    "Span",
    "Step",
    "before",
    "contains",
    "cut",
    "lost_with",
    "new_lineage",
    "of_session",
    "returned",
    "steps",
    "steps_until",
    "to_replay",
]

Lineage: TypeAlias = tuple[Span, ...]
_LEAST_CUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One execution as it ran, and how it ended then."""

    execution_id: str
    cell_id: str | None
    source: str
    state: ExecutionState = "ok"
    timeout_s: float | None = None
    """How long it may run; None is what the settings say."""
    numbered: bool = True
    language: str | None = None

    @property
    def was_cut(self) -> bool:
        """Whether it was stopped from outside, at no point of its own choosing."""
        return self.state in ("timeout", "interrupted")


def new_lineage(generation: int) -> Lineage:
    """What an empty kernel of this generation begins with."""
    return (Span(generation),)


def returned(lineage: Lineage, generation: int) -> Lineage:
    """The lineage of a kernel of this generation that took over the state that ``lineage`` made."""
    return (*lineage, Span(generation))


def before(lineage: Lineage, execution: ExecutionRecord) -> Lineage:
    """What made the state just before an execution began; nothing where it is not of this lineage."""
    kept: list[Span] = []
    for span in lineage:
        if span.generation == execution.generation:
            if span.upto is not None and execution.number > span.upto:
                return ()
            return (*kept, Span(span.generation, execution.number, span.session))
        kept.append(span)
    return ()


def of_session(lineage: Lineage, session_id: str) -> Lineage:
    """A session's lineage as another one says it."""
    return tuple(Span(span.generation, span.upto, span.session or session_id) for span in lineage)


def cut(lineage: Lineage, number: int) -> Lineage:
    """What made the state before anything with this number or a later one ran."""
    *before_last, last = lineage
    return (*before_last, Span(last.generation, number, last.session))


def contains(lineage: Lineage, execution: ExecutionRecord) -> bool:
    """Whether an execution is part of what made a state."""
    return any(_within(execution, span) for span in lineage)


def lost_with(record: SessionRecord) -> Lineage:
    """What a session has lost once it gets an empty kernel: the last state that was more than a part of another."""
    return record.former or record.lineage or (new_lineage(record.generation) if record.generation else ())


def to_replay(record: SessionRecord) -> Lineage:
    """What a replay brings back: what was lost while nothing new ran well, else what there is."""
    return record.former or record.lineage


def steps(executions: Iterable[ExecutionRecord], lineage: Lineage) -> list[Step]:
    """What really ran and was not undone, in the order in which it ran; a cell that ran three times is three steps.

    An empty lineage, which older journals have, means the newest generation that ran anything.
    """
    ran = sorted((record for record in executions if _counts(record)), key=lambda record: record.number)
    if not lineage and ran:
        lineage = new_lineage(max(record.generation for record in ran))
    return [_step(record) for span in lineage for record in ran if _within(record, span)]


def steps_until(made: Sequence[Step], upto: str | None) -> list[Step]:
    """Those up to an execution, or to the last one of a cell, with it; all of them without.

    Raises:
        UnknownExecution: none of them is meant.
    """
    if upto is None:
        return list(made)
    places = [place for place, step in enumerate(made, 1) if upto in (step.execution_id, step.cell_id)]
    if not places:
        raise UnknownExecution(
            f"Neither a cell nor an execution {upto!r} is among the {len(made)} that made this session's state",
            hint="Leave it out to replay all of them",
        )
    return list(made[: places[-1]])


def _counts(record: ExecutionRecord) -> bool:
    # What took its kernel with it is in no state that anybody can have again.
    return (
        record.started_at is not None
        and record.ended_at is not None
        and record.state != "died"
        and not record.undone
    )


def _within(record: ExecutionRecord, span: Span) -> bool:
    return (
        record.generation == span.generation
        and (span.upto is None or record.number < span.upto)
        and span.session in (None, record.session_id)
    )


def _step(record: ExecutionRecord) -> Step:
    limit_s = record.timeout_s
    if record.state == "interrupted" and record.seconds is not None:
        # Somebody stopped it: a loop without end must not run to its limit now.
        own_s = max(record.seconds, _LEAST_CUT_S)
        limit_s = own_s if limit_s is None else min(limit_s, own_s)
    return Step(
        record.id, record.cell_id, record.source, record.state, limit_s, record.numbered, record.language
    )

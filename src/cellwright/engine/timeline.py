"""A session as people see it beside others and over time: its checkpoints, its family of branches, its cells by place. Pure.

Says what going back would undo; going back itself is the business of ``_checkpoints`` and ``_branches``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cellwright.engine.lineage import contains
from cellwright.engine.records import CheckpointRecord, ExecutionRecord
from cellwright.engine.session import Session
from cellwright.notebook import Cell

__all__ = ["Moment", "Relative", "cell_words", "moments_of", "places_of", "relatives_of"]

Relation: TypeAlias = Literal["origin", "this session", "beside it", "branch of it"]

_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class Moment:
    """One checkpoint on the timeline."""

    id: str
    title: str
    time: float
    before: str
    """The cell that it was taken before, in words."""
    memory_bytes: int
    files: int
    undone: str
    """What ran since then and would be undone, in words."""
    cannot_return: tuple[str, ...]


def moments_of(
    kept: Sequence[CheckpointRecord], made: Sequence[ExecutionRecord], places: Mapping[str, int]
) -> list[Moment]:
    """Checkpoints, the newest first, against what made the state that there is now."""
    return [
        Moment(
            id=one.id,
            title=one.name or one.id,
            time=one.time,
            before=cell_words([one.cell_id], places) if one.cell_id is not None else "",
            memory_bytes=one.private_bytes,
            files=one.files,
            undone=cell_words((ran.cell_id for ran in made if not contains(one.lineage, ran)), places),
            cannot_return=(*one.cannot_return, *(f"the file {name}" for name in one.files_left_out)),
        )
        for one in reversed(kept)
    ]


@dataclass(frozen=True, slots=True)
class Relative:
    """A session of the same family, and how it is related to the one that is looked at."""

    relation: Relation
    session: Session
    can_be_adopted: bool
    """Whether what it was grown from is still there."""


def relatives_of(session: Session, sessions: Iterable[Session]) -> list[Relative]:
    """Where it came from first, then what it stands beside, then what came of it; nobody where it is alone."""
    known = {one.id: one for one in sessions}
    origin = session.record.branch_of
    found = [
        Relative(relation, one, one.record.branch_of in known)
        for one in known.values()
        if (relation := _relation(one, session, origin)) is not None
    ]
    order = ("origin", "this session", "beside it", "branch of it")
    found.sort(key=lambda one: (order.index(one.relation), one.session.record.created_at))
    return found if len(found) > 1 else []


def _relation(one: Session, session: Session, origin: str | None) -> Relation | None:
    if one.id == session.id:
        return "this session"
    if one.id == origin:
        return "origin"
    if one.record.branch_of == session.id:
        return "branch of it"
    return "beside it" if origin is not None and one.record.branch_of == origin else None


def places_of(cells: Sequence[Cell]) -> dict[str, int]:
    """Each cell's number on the page, by its id."""
    return {cell.id: place for place, cell in enumerate(cells, 1)}


def cell_words(cell_ids: Iterable[str | None], places: Mapping[str, int]) -> str:
    """Cells as a sentence names them, each once, in the order of the page; empty where there are none."""
    ids = list(dict.fromkeys(cell_ids))
    found = sorted(places[cell_id] for cell_id in ids if cell_id is not None and cell_id in places)
    words = [str(place) for place in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        words.append(f"{len(found) - _MOST_NAMED} more")
    parts = [f"cell{'s' if len(found) > 1 else ''} {_joined(words)}"] if words else []
    if any(cell_id is not None and cell_id not in places for cell_id in ids):
        parts.append("cells that are deleted")
    if None in ids:
        parts.append("code in no cell")
    return _joined(parts)


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""

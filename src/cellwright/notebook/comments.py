"""What people remark on cells: kept in a cell's metadata, beside the code and never in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cellwright.notebook.cells import Cell
from cellwright.notebook.changes import CellMetadataSet
from cellwright.notebook.languages import own_section

__all__ = ["MAX_COMMENT", "Comment", "comments_of", "with_comment", "without_comment"]

MAX_COMMENT = 4_000
_MOST = 50
_OWN, _KEY = "cellwright", "comments"


@dataclass(frozen=True, slots=True)
class Comment:
    """One remark."""

    by: str
    at: float
    text: str

    @property
    def key(self) -> str:
        """By which it is found among those of its cell."""
        return f"{self.at:.3f}"


def comments_of(cell: Cell) -> tuple[Comment, ...]:
    """A cell's comments, oldest first. What is no comment, in a file that somebody else wrote, is passed over."""
    held = own_section(cell.metadata).get(_KEY)
    found = [_comment(one) for one in held] if isinstance(held, list) else []
    return tuple(one for one in found if one is not None)


def with_comment(cell: Cell, comment: Comment) -> CellMetadataSet:
    """A cell's metadata with one more; of very many the oldest go."""
    text = comment.text[:MAX_COMMENT]
    return _with(cell, [*comments_of(cell), Comment(comment.by, round(comment.at, 3), text)][-_MOST:])


def without_comment(cell: Cell, key: str) -> CellMetadataSet:
    """A cell's metadata without one of them."""
    return _with(cell, [one for one in comments_of(cell) if one.key != key])


def _with(cell: Cell, comments: Iterable[Comment]) -> CellMetadataSet:
    ours = {name: value for name, value in own_section(cell.metadata).items() if name != _KEY}
    told = [asdict(one) for one in comments]
    metadata = dict(cell.metadata)
    metadata[_OWN] = {**ours, _KEY: told} if told else ours
    return CellMetadataSet(cell.id, metadata)


def _comment(held: Any) -> Comment | None:
    if not isinstance(held, Mapping):
        return None
    by, at, text = (held.get(name) for name in ("by", "at", "text"))
    if not isinstance(by, str) or not isinstance(text, str) or isinstance(at, bool):
        return None
    return Comment(by, float(at), text) if isinstance(at, int | float) else None

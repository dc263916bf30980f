"""What is known of questions that were asked: a line of JSON each, read again when a run goes on. Asks nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Asked", "add_asked", "read_asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with one pattern, settled: a line of the file."""

    set: str
    task: str
    step: int
    pattern: str
    model: str
    right: bool = False
    parts: dict[str, bool] = field(default_factory=dict)
    """Which of its answers are right, where it has several."""
    nearly: bool = False
    """Right but for presentation."""
    judged: bool = True
    """Not where the set's own solution fails here: nobody knows then."""
    failure: str | None = None
    """Why there is no answer, where there is none."""
    wrong: tuple[str, ...] = ()
    answer: str = ""
    went_by: str = ""
    """The pattern that was used, where it was chosen."""
    untraced: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float = 0.0
    requests: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        return self.set, self.task, self.step, self.pattern, self.model

    @property
    def settled(self) -> bool:
        """One that reached no model is asked again."""
        return self.failure is None or self.requests > 0


def read_asked(path: Path) -> list[Asked]:
    """What is settled already; a line that was cut off is not."""
    if not path.is_file():
        return []
    return list(_lines(path.read_text(encoding="utf-8").splitlines()))


def add_asked(path: Path, asked: Asked) -> None:
    """Add a line, whole and on its own, even where the one before was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = path.is_file() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut else "") + json.dumps(asdict(asked)) + "\n")


def _lines(lines: Iterable[str]) -> Iterator[Asked]:
    for line in lines:
        try:
            told = json.loads(line)
            yield Asked(**{**told, "wrong": tuple(told["wrong"])})
        except (ValueError, KeyError, TypeError):
            continue

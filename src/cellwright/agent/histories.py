"""A conversation as data: its notebooks, runs and branches of history, folded from the lines that tell what happened.

Pure. Where the lines are kept and how they last stands in ``conversations``; what a branch begins with after a
compaction in ``compaction``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest

from cellwright.agent.notebook_names import Notebook

__all__ = [
    "FIRST",
    "VERSION",
    "History",
    "Line",
    "LineUnreadable",
    "Packed",
    "Run",
    "Segment",
    "Step",
    "folded",
    "pack",
    "step_from",
    "unpack",
]

VERSION = 1
"""Of the lines. Raised with every change that an older version would misread."""

FIRST = "h1"
"""The branch that every conversation begins with."""

Line: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]

# A short one costs more in a file of its own than it saves.
_LEAST_KEPT_APART = 1_000


class LineUnreadable(ValueError):
    """A line that is none of ours, or not of this version; the message says which."""


@dataclass(frozen=True, slots=True)
class Run:
    """One question and how it ended; ``ok`` is None where it did not come to an end."""

    run_id: str
    question: str
    began: float
    answer: str = ""
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A branch of the history: what it took over from its parent, and what was said since."""

    id: str
    parent: str | None = None
    taken: int = 0
    """As many of the parent's messages come before its own."""
    label: str = "main"
    """The branch of the run, as ``branches.Branch`` has it."""
    why: str = ""
    own: tuple[ModelMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of a conversation."""

    id: str
    title: str
    created: float
    notebooks: tuple[Notebook, ...] = ()
    """Those that it worked with, the current one last."""
    made: frozenset[str] = frozenset()
    """The sessions that were made for it."""
    model: str | None = None
    """The one that answered last."""
    runs: tuple[Run, ...] = ()
    segments: Mapping[str, Segment] = field(default_factory=lambda: {FIRST: Segment(FIRST)})
    current: str = FIRST
    """The branch that the next question goes on with."""

    @property
    def notebook(self) -> Notebook | None:
        """The current notebook, whether or not it is still there."""
        return self.notebooks[-1] if self.notebooks else None

    @property
    def updated(self) -> float:
        """When it was last asked something."""
        return self.runs[-1].began if self.runs else self.created

    def messages(self, segment_id: str | None = None) -> list[ModelMessage]:
        """What was said on a branch, the current one by default, oldest first."""
        line: list[Segment] = []
        wanted: str | None = segment_id or self.current
        while wanted is not None:
            line.append(self.segments[wanted])
            wanted = line[-1].parent
        said: list[ModelMessage] = []
        for segment in reversed(line):
            said = [*said[: segment.taken], *segment.own]
        return said

    def next_segment_id(self) -> str:
        return f"h{len(self.segments) + 1}"


def folded(history: History | None, line: Line) -> History:
    """What is known after one more line.

    Raises:
        LineUnreadable: it is not one of ours.
    """
    try:
        if history is None:
            return _opened(line)
        return _FOLDS[line["kind"]](history, line)
    except KeyError as error:
        raise LineUnreadable(f"{error.args[0]!r} is not known, or missing") from error
    except (TypeError, ValueError) as error:
        raise LineUnreadable(str(error)) from error


def _opened(line: Line) -> History:
    if line["kind"] != "conversation":
        raise LineUnreadable("it does not begin as a conversation")
    if line["version"] != VERSION:
        raise LineUnreadable(f"it is of version {line['version']}, and this is {VERSION}")
    return History(line["id"], line["title"], line["created"])


def _titled(history: History, line: Line) -> History:
    return replace(history, title=line["title"])


def _worked_with(history: History, line: Line) -> History:
    notebook = Notebook(line["session_id"], line["name"], line["path"])
    others = (other for other in history.notebooks if other.session_id != notebook.session_id)
    made = {notebook.session_id} if line.get("made") else set()
    return replace(history, notebooks=(*others, notebook), made=history.made | made)


def _answered_by(history: History, line: Line) -> History:
    return replace(history, model=line["model"])


def _began(history: History, line: Line) -> History:
    return replace(history, runs=(*history.runs, Run(line["run_id"], line["question"], line["at"])))


def _ended(history: History, line: Line) -> History:
    runs = tuple(
        replace(run, answer=line["answer"], ok=line["ok"]) if run.run_id == line["run_id"] else run
        for run in history.runs
    )
    return replace(history, runs=runs)


def _branched(history: History, line: Line) -> History:
    segment = Segment(line["id"], line["parent"], line["taken"], line["label"], line["why"])
    segments = {**history.segments, segment.id: segment}
    return replace(history, segments=segments, current=segment.id if line["current"] else history.current)


def _said(history: History, line: Line) -> History:
    segment = history.segments[line["segment"]]
    said = ModelMessagesTypeAdapter.validate_python(line["messages"])
    # A request that was not sent yet and grew is there twice: the later one counts.
    before = segment.own[: len(segment.own) - line.get("over", 0)]
    return replace(history, segments={**history.segments, segment.id: replace(segment, own=(*before, *said))})


_FOLDS: dict[str, Callable[[History, Line], History]] = {
    "title": _titled,
    "notebook": _worked_with,
    "model": _answered_by,
    "run": _began,
    "ran": _ended,
    "branch": _branched,
    "messages": _said,
}


@dataclass(frozen=True, slots=True)
class Step:
    """How a history goes on from what is stored: where it differs, and whether its last request merely grew."""

    same: int
    """So many messages are the same in both."""
    grew: bool = False

    def rewrites(self, stored: int) -> bool:
        """Whether it leaves messages out that are stored: then it is another branch."""
        return self.same + self.grew < stored


def step_from(stored: Sequence[ModelMessage], now: Sequence[ModelMessage]) -> Step:
    """What is new in a history. A request that was not sent yet may have grown; nothing else changes unnoticed."""
    pairs = zip(stored, now, strict=False)
    same = next((place for place, (old, new) in enumerate(pairs) if old is not new and old != new), None)
    if same is None:
        return Step(min(len(stored), len(now)))
    old, new = stored[same], now[same]
    grew = (
        same == len(stored) - 1
        and isinstance(old, ModelRequest)
        and isinstance(new, ModelRequest)
        and list(new.parts[: len(old.parts)]) == list(old.parts)
    )
    return Step(same, grew)


# Messages as JSON -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """Messages as JSON without their pictures, which are kept apart, each once."""

    messages: list[Any]
    places: tuple[tuple[Path, str], ...]
    """Where which picture belongs."""
    pictures: Mapping[str, bytes] = field(repr=False)
    """By the hash of their bytes."""


def pack(messages: Sequence[ModelMessage], clean: Callable[[str], str] | None = None) -> Packed:
    """Messages as they are stored; ``clean`` takes out of every text what must not be written."""
    told = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    places: list[tuple[Path, str]] = []
    pictures: dict[str, bytes] = {}

    def walked(value: Any, path: Path) -> Any:
        match value:
            case dict():
                content = _kept_apart(value)
                if content is not None:
                    digest = hashlib.sha256(content).hexdigest()
                    pictures[digest] = content
                    places.append(((*path, "data"), digest))
                    value = {**value, "data": ""}
                return {key: walked(item, (*path, key)) for key, item in value.items()}
            case list():
                return [walked(item, (*path, place)) for place, item in enumerate(value)]
            case str() if clean is not None:
                return clean(value)
        return value

    return Packed(walked(told, ()), tuple(places), pictures)


def unpack(line: Line, picture: Callable[[str], bytes]) -> Line:
    """A line with its pictures back in their places; ``picture`` finds one by its hash."""
    for path, digest in line.get("pictures", ()):
        *way, last = path
        found: Any = line["messages"]
        for step in way:
            found = found[step]
        found[last] = base64.urlsafe_b64encode(picture(digest)).decode()
    return line


def _kept_apart(value: Mapping[str, Any]) -> bytes | None:
    """The bytes of a picture, or of anything else that is no text, where they come back just as they were."""
    data = value.get("data")
    if value.get("kind") != "binary" or not isinstance(data, str) or len(data) < _LEAST_KEPT_APART:
        return None
    try:
        content = base64.urlsafe_b64decode(data)
    except (binascii.Error, ValueError):
        return None
    return content if base64.urlsafe_b64encode(content).decode() == data else None

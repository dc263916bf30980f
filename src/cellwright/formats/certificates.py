"""A notebook's certificate in full, for a page: what ran again, what came out the same, on what, from which files. Pure.

Reads leniently what ``verification`` writes, which stands above: a page must come out of a notebook whatever its
metadata holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright.formats.display_data import sound
from cellwright.notebook import Cell, Document, source_hash
from cellwright.notebook.cells import own_section
from cellwright.notebook.languages import canonical_language

__all__ = ["CellStanding", "cell_standing", "notebook_notes", "proof_of"]


@dataclass(frozen=True, slots=True)
class ProvenCell:
    """A cell that ran again."""

    place: str
    """Which cell of the notebook it is, counted from one; empty for one that is gone."""
    state: str
    same: bool
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """A certificate as it is shown."""

    verified: bool
    at: str
    took: str
    by: str
    facts: tuple[tuple[str, str], ...]
    """On what it ran: a name and a value each."""
    cells: tuple[ProvenCell, ...]
    packages: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str], ...]
    """Each file that was read, with its SHA-256."""
    findings: tuple[str, ...]


def proof_of(document: Document) -> Proof | None:
    """The certificate that a notebook carries, if it is one."""
    held = own_section(document.metadata).get("certificate")
    if not isinstance(held, Mapping) or not isinstance(held.get("cells"), list | tuple):
        return None
    places = {cell.id: str(place) for place, cell in enumerate(document.cells, 1)}
    seconds = held.get("seconds")
    facts = (
        ("Language", "language"),
        ("Interpreter", "interpreter"),
        ("Python", "python"),
        ("Platform", "platform"),
        ("Tier", "tier"),
    )
    return Proof(
        verified=held.get("verified") is True,
        at=_text(held.get("at"))[:19].replace("T", " "),
        took=f"{seconds:.1f} s" if isinstance(seconds, int | float) else "",
        by=f"Cellwright {_text(held.get('engine'))}".strip(),
        facts=tuple((name, _text(held.get(key))) for name, key in facts if held.get(key)),
        cells=tuple(_cell(one, places) for one in held["cells"] if isinstance(one, Mapping)),
        packages=_pairs(held.get("packages")),
        inputs=_pairs(held.get("inputs")),
        findings=tuple(
            _text(one.get("message")) for one in _list(held.get("findings")) if isinstance(one, Mapping)
        ),
    )


def _cell(one: Mapping[str, Any], places: Mapping[str, str]) -> ProvenCell:
    differences = tuple(_text(each) for each in _list(one.get("differences")))
    return ProvenCell(
        places.get(_text(one.get("cell_id")), ""),
        _text(one.get("state")),
        one.get("same") is True,
        differences,
    )


def _pairs(held: Any) -> tuple[tuple[str, str], ...]:
    return (
        tuple(sorted((_text(name), _text(value)) for name, value in held.items()))
        if isinstance(held, Mapping)
        else ()
    )


def _list(held: Any) -> Sequence[Any]:
    return held if isinstance(held, list | tuple) else ()


def _text(value: Any) -> str:
    return sound(value) if isinstance(value, str) else "" if value is None else str(value)


# What a notebook's metadata says about its plan, its certificate and its runs, in a few words for a page.
# Pure.

Tone: TypeAlias = Literal["good", "bad", "plain"]

_ENDS_BADLY = {
    "failed": "failed",
    "interrupted": "interrupted",
    "timed_out": "timed out",
    "died": "the kernel died",
    "cancelled": "cancelled",
    "lost": "lost",
}

_PHASES: dict[str, tuple[Tone, str]] = {
    "succeeded": ("good", "succeeded"),
    "stopped": ("bad", "stopped"),
    "paused": ("plain", "paused"),
    "waiting": ("plain", "waits for code"),
    "running": ("plain", "was running"),
    "ready": ("plain", "not started"),
}


@dataclass(frozen=True, slots=True)
class Note:
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class CellStanding:
    """How a code cell stands: its number, what is to be said of it, and its language where that is not the notebook's."""

    number: str
    notes: tuple[Note, ...]
    language: str
    other_language: bool


def notebook_notes(document: Document) -> tuple[Note, ...]:
    """The certificate and the plan."""
    ours = own_section(document.metadata)
    notes = (_certificate(ours.get("certificate"), document), _plan(ours.get("plan")))
    return tuple(note for note in notes if note is not None)


def cell_standing(cell: Cell, language: str) -> CellStanding:
    """How a code cell of a notebook in this language stands."""
    ours = own_section(cell.metadata)
    notes: list[Note] = []
    if (state := ours.get("state")) in _ENDS_BADLY:
        notes.append(Note("bad", _ENDS_BADLY[state]))
    if ours.get("stale") is True:
        notes.append(Note("bad", "outputs are of an earlier state"))
    elif cell.was_edited:
        notes.append(Note("bad", "edited since it ran"))
    seconds = ours.get("seconds")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 1:
        notes.append(Note("plain", f"{seconds:.1f} s"))
    own = canonical_language(cell.language) if cell.language else language
    number = str(cell.execution_count) if isinstance(cell.execution_count, int) else " "
    return CellStanding(number, tuple(notes), own, own != language)


def _certificate(held: Any, document: Document) -> Note | None:
    if not isinstance(held, Mapping) or not isinstance(held.get("cells"), list | tuple):
        return None
    when = str(held.get("at", ""))[:16].replace("T", " ")
    then = [
        (one.get("cell_id"), one.get("source_sha256")) for one in held["cells"] if isinstance(one, Mapping)
    ]
    now = [(cell.id, source_hash(cell.source)) for cell in document.cells if cell.runs]
    if then != now:
        return Note("plain", f"Changed since it was verified on {when}")
    if held.get("verified") is True:
        return Note("good", f"Verified by a clean run on {when}")
    return Note("bad", f"A clean run on {when} did not give the same")


def _plan(held: Any) -> Note | None:
    if not isinstance(held, Mapping) or not isinstance(held.get("todos"), list):
        return None
    steps = [one for one in held["todos"] if isinstance(one, Mapping)]
    done = sum(one.get("status") == "done" for one in steps)
    tone, words = _PHASES.get(str(held.get("phase", "ready")), ("plain", "unknown"))
    return Note(tone, f"Plan {words}: {done} of {len(steps)} steps done")

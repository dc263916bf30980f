"""A notebook's certificate in full, for a page: what ran again, what came out the same, on what, from which files. Pure.

Reads leniently what ``verification`` writes, which stands above: a page must come out of a notebook whatever its
metadata holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.formats.exhibits import sound
from cellwright.notebook import Document
from cellwright.notebook.languages import own_section

__all__ = ["Proof", "ProvenCell", "proof_of"]


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

"""What a run from the top says about a notebook: findings that only it could make, and the certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import cellwright
from cellwright.engine import Inputs
from cellwright.engine.introspection import UNKNOWN, recorded_inputs
from cellwright.engine.records import ExecutionRecord
from cellwright.notebook import Cell, source_hash
from cellwright.verification.certificates import Certificate, CertifiedCell, CertifiedFinding
from cellwright.verification.findings import Finding
from cellwright.verification.randomness import random_sources
from cellwright.verification.rehearsing import CheckedCell
from cellwright.verification.rules import Volatile, told

__all__ = ["Outcome", "certify", "files_left", "findings_of_run", "verified"]

_MOST_DIFFERENCES = 5
_MOST_CALLS = 3
_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is known once a run is over."""

    cells: tuple[Cell, ...]
    """All that were to run."""
    checked: tuple[CheckedCell, ...]
    findings: tuple[Finding, ...]
    reason: str | None
    """Why it did not come to its end."""
    surroundings: Inputs
    declared: tuple[Volatile, ...]
    seconds: float
    ended: datetime
    language: str
    tier: str | None


def verified(outcome: Outcome) -> bool:
    """Whether all of it ran and put out the same, on what it was made from."""
    whole = outcome.reason is None and len(outcome.checked) == len(outcome.cells)
    same = all(checked.same for checked in outcome.checked)
    return whole and same and not any(finding.refutes for finding in outcome.findings)


def findings_of_run(
    cells: Sequence[Cell], checked: Sequence[CheckedCell], left: Mapping[str, str | None], *, language: str
) -> list[Finding]:
    """Inputs that are not what they were, files that only the past wrote, and numbers without a seed."""
    found: list[Finding] = []
    for one in checked:
        found += _changed(one)
        found += _left_over(cells, one, left)
        if not one.same and language == "python":
            found += _random(cells, one)
    return found


def files_left(history: Iterable[ExecutionRecord]) -> dict[str, str | None]:
    """Files that a session's own runs wrote, each with the cell that did last; None is code in no cell."""
    left: dict[str, str | None] = {}
    for record in sorted(history, key=lambda record: record.number):
        if not record.undone and not record.rolled_back:
            left |= {file.path: record.cell_id for file in record.files if file.type == "file"}
    return left


def _changed(one: CheckedCell) -> list[Finding]:
    """Of files that it read both times, those that are not what they were."""
    then = recorded_inputs(one.cell.metadata)
    changed = [
        path for path, digest in one.inputs.items() if _is_known(then.get(path)) and then[path] != digest
    ]
    message = "read `{}`, which changed since it put out what it shows"
    return [Finding("changed_input", one.cell.id, message.format(path), (path,)) for path in changed]


def _is_known(digest: str | None) -> bool:
    return digest is not None and digest != UNKNOWN


def _left_over(cells: Sequence[Cell], one: CheckedCell, left: Mapping[str, str | None]) -> list[Finding]:
    places = {cell.id: place for place, cell in enumerate(cells)}
    found = []
    for path in one.inputs:
        if path not in left:
            continue
        writer = left[path]
        if writer is not None and places.get(writer, len(cells)) <= places[one.cell.id]:
            continue  # what it finds there it would have made itself
        who = _writer(writer, places)
        found.append(Finding("hidden_file", one.cell.id, f"read `{path}`, which only {who} wrote", (path,)))
    return found


def _writer(cell_id: str | None, places: Mapping[str, int]) -> str:
    if cell_id is None:
        return "code that is in no cell"
    return f"cell {cell_id} below" if cell_id in places else f"cell {cell_id}, which is deleted,"


def _random(cells: Sequence[Cell], one: CheckedCell) -> list[Finding]:
    sources = random_sources(cells, one.cell.id)
    own = [source.call for source in sources if source.cell_id == one.cell.id]
    others = [source for source in sources if source.cell_id != one.cell.id]
    if own:
        calls = ", ".join(f"`{call}`" for call in own[:_MOST_CALLS])
        return [Finding("random", one.cell.id, f"draws random numbers without a seed ({calls})", tuple(own))]
    if others:
        first = others[0]
        message = f"takes random numbers without a seed from cell {first.cell_id} (`{first.call}`)"
        return [Finding("random", one.cell.id, message, (first.call,))]
    return []


def certify(outcome: Outcome) -> Certificate:
    """The certificate of a run."""
    by_cell = {one.cell.id: one for one in outcome.checked}
    inputs = {path: digest for one in outcome.checked for path, digest in one.inputs.items()}
    return Certificate(
        verified=verified(outcome),
        at=outcome.ended.isoformat(timespec="seconds"),
        seconds=round(outcome.seconds, 3),
        engine=cellwright.__version__,
        cells=tuple(_certified(cell, by_cell.get(cell.id)) for cell in outcome.cells),
        reason=outcome.reason,
        language=outcome.language,
        interpreter=outcome.surroundings.interpreter,
        python=outcome.surroundings.python,
        platform=outcome.surroundings.platform,
        packages=outcome.surroundings.packages,
        inputs=inputs,
        rules=told(outcome.declared),
        findings=tuple(
            CertifiedFinding(one.kind, one.cell_id, one.message, one.names) for one in outcome.findings
        ),
        tier=outcome.tier,
    )


def _certified(cell: Cell, checked: CheckedCell | None) -> CertifiedCell:
    if checked is None:
        return CertifiedCell(cell.id, source_hash(cell.source), "not_run")
    differences = tuple(
        f"{one.output}: {one.why}"[:_WIDTH] for one in checked.comparison.differences[:_MOST_DIFFERENCES]
    )
    return CertifiedCell(
        cell.id, source_hash(cell.source), checked.now.state, same=checked.same, differences=differences
    )

"""The files that cells read, as a notebook keeps them: in each cell's metadata, ``cellwright.inputs``. Pure.

They belong to the run whose outputs the cell shows; the next run forgets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.engine.inputs import Inputs
from cellwright.notebook import Cell, CellMetadataSet

__all__ = ["changed_inputs", "recorded_inputs", "with_inputs"]


def recorded_inputs(cell: Cell) -> dict[str, str]:
    """What the cell read when it put out what it shows, by path, each with its hash; nothing where nobody watched."""
    ours = cell.metadata.get("cellwright")
    found = ours.get("inputs") if isinstance(ours, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {path: digest for path, digest in found.items() if isinstance(digest, str)}


def with_inputs(cell: Cell, inputs: Inputs | Mapping[str, str]) -> CellMetadataSet | None:
    """The change that records what a cell read; None where it read nothing and nothing is recorded."""
    told = {file.path: file.digest for file in inputs.files} if isinstance(inputs, Inputs) else dict(inputs)
    metadata: dict[str, Any] = dict(cell.metadata)
    ours = dict(metadata.get("cellwright") or {})
    if ours.get("inputs", {}) == told:
        return None
    ours["inputs"] = told
    return CellMetadataSet(cell.id, {**metadata, "cellwright": ours})


def changed_inputs(then: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Files that are not what they were, each with what became of it."""
    found = {path: "changed" for path in then if path in now and then[path] != now[path]}
    return found | {path: "was not read any more" for path in then if path not in now}

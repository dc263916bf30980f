"""What a cell is called by people: its place in the notebook. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cellwright.notebook import Cell

__all__ = ["cell_words", "places_of"]

_MOST_NAMED = 12


def places_of(cells: Sequence[Cell]) -> dict[str, int]:
    """Each cell's number on the page, by its id."""
    return {cell.id: place for place, cell in enumerate(cells, 1)}


def cell_words(cell_ids: Iterable[str | None], places: Mapping[str, int]) -> str:
    """Cells as a sentence names them, each once, in the order of the page; empty where there are none."""
    wanted = list(dict.fromkeys(cell_ids))
    found = sorted(places[cell_id] for cell_id in wanted if cell_id is not None and cell_id in places)
    words = [str(place) for place in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        words.append(f"{len(found) - _MOST_NAMED} more")
    told = [f"cell{'s' if len(found) > 1 else ''} {_joined(words)}"] if words else []
    if any(cell_id is not None and cell_id not in places for cell_id in wanted):
        told.append("cells that are deleted")
    if None in wanted:
        told.append("code in no cell")
    return _joined(told)


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""

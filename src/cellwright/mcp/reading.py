"""A notebook within a budget: its outline, one section, or what a search finds. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cellwright.mcp.budget import CHARACTERS_PER_TOKEN, cut_middle, cut_tail, share
from cellwright.mcp.outputs import clean, parts_of, size
from cellwright.mcp.uris import cell_output_uri
from cellwright.notebook import Cell
from cellwright.notebook.edits import comments_of

__all__ = ["find_text", "outline", "section"]

_heading = re.compile(r"(#{1,6})\s+\S")
_LINE = 90
_HIT = 160


def outline(cells: Sequence[Cell], states: Mapping[str, str], *, max_tokens: int) -> str:
    """A line a cell: position, id, state, version, and how it begins."""
    lines = [_outlined(place, cell, states[cell.id]) for place, cell in enumerate(cells)]
    return _fitting(lines, max_tokens * CHARACTERS_PER_TOKEN, "cells")


def _outlined(place: int, cell: Cell, state: str) -> str:
    lines = cell.source.count("\n") + 1
    more = f" (+{lines - 1} lines)" if lines > 1 else ""
    shown = _shown_outputs(cell) + _remarked(cell)
    return f"{place} {cell.id} [{_about(cell, state)}] v{cell.version}: {cut_tail(_begins(cell), _LINE)}{more}{shown}"


def _about(cell: Cell, state: str) -> str:
    """A cell's state, and its language where it has one of its own."""
    return f"{cell.language}, {state}" if cell.language else state


def _begins(cell: Cell) -> str:
    return next((line for line in cell.source.splitlines() if line.strip()), "(empty)")


def _remarked(cell: Cell) -> str:
    count = len(comments_of(cell))
    return f" ({count} comment{'s' if count > 1 else ''})" if count else ""


def _shown_outputs(cell: Cell) -> str:
    parts = parts_of(cell.outputs)
    if not parts:
        return ""
    kinds = [part.kind if part.kind in {"stdout", "stderr", "error"} else part.mime for part in parts[:4]]
    return f" -> {', '.join(kinds)}{', …' if len(parts) > len(kinds) else ''} {size(sum(part.size for part in parts))}"


def section(
    session_id: str,
    cells: Sequence[Cell],
    states: Mapping[str, str],
    cell_id: str,
    *,
    outputs: bool,
    max_tokens: int,
) -> str:
    """A heading's cells down to the next heading of its rank, or one cell: sources and outputs."""
    first = next(place for place, cell in enumerate(cells) if cell.id == cell_id)
    chosen = cells[first : _section_end(cells, first)]
    heads = [
        f"--- {first + place} {cell.id} [{_about(cell, states[cell.id])}] v{cell.version}"
        for place, cell in enumerate(chosen)
    ]
    texts: list[tuple[str, str, str]] = []
    for head, cell in zip(heads, chosen, strict=True):
        texts.append((head, cell.source, ""))
        texts += [(f"comment by {clean(one.by)}:", clean(one.text), "") for one in comments_of(cell)]
        if outputs:
            texts += [
                (
                    f"-> {part.kind} {part.mime} {size(part.size)}",
                    part.text,
                    cell_output_uri(session_id, cell.id, part.index),
                )
                for part in parts_of(cell.outputs)
            ]
    room = max_tokens * CHARACTERS_PER_TOKEN - sum(len(head) + 1 for head, _, _ in texts)
    limits = share([len(text) for _, text, _ in texts], max(room, 0))
    said = []
    for (head, text, uri), limit in zip(texts, limits, strict=True):
        where = f" {uri}" if uri and not text else ""
        said += [head + where, cut_middle(text, limit, rest=uri).rstrip()]
    return "\n".join(line for line in said if line)


def _section_end(cells: Sequence[Cell], first: int) -> int:
    rank = _rank(cells[first])
    if rank is None:
        return first + 1
    for place in range(first + 1, len(cells)):
        other = _rank(cells[place])
        if other is not None and other <= rank:
            return place
    return len(cells)


def _rank(cell: Cell) -> int | None:
    match = _heading.match(cell.source.lstrip()) if cell.kind == "markdown" else None
    return len(match[1]) if match else None


def find_text(cells: Sequence[Cell], query: str, *, max_tokens: int) -> str:
    """Every line with the words in it, of sources and of outputs, whatever their case."""
    wanted = query.lower()
    hits = []
    for place, cell in enumerate(cells):
        texts = [("", cell.source), *((f" {part.kind}", part.text) for part in parts_of(cell.outputs))]
        for where, text in texts:
            hits += [
                f"{place} {cell.id}{where} line {number}: {_around(line, wanted)}"
                for number, line in enumerate(text.splitlines(), start=1)
                if wanted in line.lower()
            ]
    if not hits:
        return f"Nothing in {len(cells)} cells has {query!r}"
    return _fitting(hits, max_tokens * CHARACTERS_PER_TOKEN, "hits")


def _around(line: str, wanted: str) -> str:
    start = max(line.lower().find(wanted) - _HIT // 4, 0)
    return ("…" if start else "") + cut_tail(line[start:], _HIT)


def _fitting(lines: Sequence[str], budget: int, what: str) -> str:
    """All lines, or the first and last that fit, and how many were left out."""
    if sum(len(line) + 1 for line in lines) <= budget:
        return "\n".join(lines)
    head: list[str] = []
    tail: list[str] = []
    left = budget - _LINE
    front, back = 0, len(lines)
    while front < back:
        from_front = len(head) <= 2 * len(tail)
        line = lines[front] if from_front else lines[back - 1]
        left -= len(line) + 1
        if left < 0:
            break
        if from_front:
            head.append(line)
            front += 1
        else:
            tail.append(line)
            back -= 1
    return "\n".join(
        [*head, f"[… {back - front} {what} left out; raise max_tokens or narrow the call …]", *reversed(tail)]
    )

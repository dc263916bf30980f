"""A chart that a cell put out: its specification where it is harmless, made for a page, and its data as a table. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cellwright.charts.embedding import interactive
from cellwright.charts.specguard import check_spec
from cellwright.charts.themes import theme_config
from cellwright.errors import ChartError
from cellwright.web.outputs.tables import csv_text

__all__ = ["Chart", "chart_csv", "chart_of"]


@dataclass(frozen=True, slots=True)
class Chart:
    """What the page's script draws."""

    spec: Mapping[str, Any]
    dark: Mapping[str, Any] | None
    """What replaces the spec's ``config`` on a dark page; None for a chart that has colours of its own."""
    has_data: bool


def chart_of(source: str) -> Chart | str:
    """A chart, or why it is not drawn."""
    try:
        spec = json.loads(source)
        if not isinstance(spec, dict):
            return "it is no specification"
        check_spec(spec)
        about = spec.get("usermeta")
        ours = isinstance(about, Mapping) and isinstance(about.get("cellwright"), Mapping)
        # Which version it was written for is not said: the page has one, and complains of the others.
        drawn = {name: part for name, part in interactive(spec).items() if name != "$schema"}
        return Chart(drawn, theme_config("dark") if ours else None, bool(_rows(spec)))
    except ChartError as error:
        return error.message
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        return "it is no specification"


def chart_csv(source: str) -> str:
    """The rows that a chart draws, as a file; empty where it has none within itself."""
    rows = _rows(json.loads(source))
    heads = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text(heads, [[row.get(name, "") for name in heads] for row in rows])


def _rows(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = spec.get("data")
    held = data[0] if isinstance(data, list) and data else data
    values = held.get("values") if isinstance(held, Mapping) else None
    if values is None and isinstance(held, Mapping) and isinstance(spec.get("datasets"), Mapping):
        values = spec["datasets"].get(held.get("name"))
    return [row for row in values if isinstance(row, Mapping)] if isinstance(values, list) else []

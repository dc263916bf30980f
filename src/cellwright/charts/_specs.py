"""From an output and its table to a Vega-Lite spec: pure, the same for the same input. Draws nothing (see ``_renderer``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cellwright.charts._aggregation import HEIGHT, WIDTH, Drawing, Readings
from cellwright.charts._labels import UNSEEN, drawable, wrapped
from cellwright.charts.auto import choose
from cellwright.charts.encodings import ChartType, Output, check_columns, shape_of
from cellwright.charts.kinds import ChartKinds, registered_kinds
from cellwright.charts.themes import ThemeName, theme_config
from cellwright.errors import ChartRefused
from cellwright_kernel.tabledigests import table_digest
from cellwright_kernel.tables import Table

__all__ = ["SCHEMA", "Spec", "chart_spec"]

# Version 5 is what the faces of Jupyter draw; nothing here needs more.
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_TITLE_CHARACTERS, _SUBTITLE_CHARACTERS = 66, 108


@dataclass(frozen=True, slots=True)
class Spec:
    """A chart that can be drawn. Of a table there is nothing to draw: ``vega_lite`` is None."""

    type: ChartType
    vega_lite: dict[str, Any] | None
    digest: str
    """What it shows, in a few lines, for somebody who cannot see it."""
    notices: tuple[str, ...]
    table: Table | None = None
    """What is shown of a table; None for a picture."""


def chart_spec(
    output: Output, table: Table, *, theme: ThemeName = "light", kinds: ChartKinds | None = None
) -> Spec:
    """Build the chart that an output asks for, of one of these ``kinds``: this process's unless given.

    Raises:
        ChartRefused: a column is missing or holds the wrong things; every message names its field.
        ChartKindFailed: a plugin's chart type failed.
    """
    kinds = registered_kinds() if kinds is None else kinds
    problems = check_columns(output, table.names)
    if problems:
        raise ChartRefused(*map(str, problems))
    choice = choose(shape_of(table), output.config, output.type, kinds)
    if choice.type == "table":
        return _table(output, table, choice.rule)
    if not table.rows:
        raise ChartRefused(
            f"{output.path}.dataFile: {output.source} has no rows" if output.path else "the data has no rows"
        )
    readings = Readings(output, table)
    drawing = kinds[choice.type].build(choice.encodings, readings, theme)
    notices = tuple(
        dict.fromkeys((*output.notices, *table.notices, *_partly(table), *readings.notices, *drawing.notices))
    )
    title = output.title or drawing.about
    spec = _whole(drawing, choice.type, title, notices, theme)
    return Spec(choice.type, spec, _digest(choice.type, title, drawing, choice.rule, notices), notices)


def _partly(table: Table) -> tuple[str, ...]:
    """That it is not all of it, unless whoever chose the rows has said so."""
    shown, of_all = len(table.rows), f"of {table.total_rows:,} rows"
    if shown >= table.total_rows or any(of_all in notice for notice in table.notices):
        return ()
    return (f"made from {shown:,} {of_all}",)


def _whole(
    drawing: Drawing, type_: ChartType, title: str, notices: tuple[str, ...], theme: ThemeName
) -> dict[str, Any]:
    heading: dict[str, Any] = {"text": wrapped(title, _TITLE_CHARACTERS, lines=3)}
    if notices:
        heading["subtitle"] = wrapped(" · ".join(notices), _SUBTITLE_CHARACTERS, lines=3)
    return {
        "$schema": SCHEMA,
        "description": drawable(f"{type_}: {title}"),
        "title": heading,
        "width": WIDTH,
        "height": HEIGHT,
        **drawing.body,
        "config": theme_config(theme),
        "usermeta": {"cellwright": {"type": type_, "theme": theme, "zoom": drawing.zoom}},
    }


def _digest(type_: ChartType, title: str, drawing: Drawing, rule: str, notices: tuple[str, ...]) -> str:
    lines = [f"{type_}: {title}"]
    if title != drawing.about:
        lines.append(f"shows {drawing.about}")
    if rule:
        lines.append(f"why this type: {rule}")
    text = "\n".join([*lines, *drawing.facts, *(f"notice: {notice}" for notice in notices)])
    return text.replace(UNSEEN, "")


def _table(output: Output, table: Table, rule: str) -> Spec:
    config = output.config
    places = [table.names.index(name) for name in config.columns or table.names]
    rows = table.rows if config.max_rows is None else table.rows[: config.max_rows]
    notices = [*output.notices, *table.notices]
    if len(rows) < len(table.rows):
        notices.append(f"the first {len(rows):,} of {len(table.rows):,} rows are shown")
    shown = replace(
        table,
        columns=tuple(table.columns[place] for place in places),
        rows=rows
        if len(places) == len(table.columns)
        else tuple(tuple(row[place] for place in places) for row in rows),
        notices=tuple(dict.fromkeys(notices)),
    )
    lines = [f"table: {output.title}"] if output.title else []
    lines += [f"why this type: {rule}"] if rule else []
    digest = "\n".join([*lines, table_digest(shown), *(f"notice: {notice}" for notice in shown.notices)])
    return Spec("table", None, digest, shown.notices, shown)

"""Rows that people add to the table, or change in it, by their settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.agent.models.naming import find_row
from cellwright.agent.models.table import ROWS, ModelRow
from cellwright.errors import NoModel
from cellwright.settings import Settings

__all__ = ["rows_with"]

_PRICES = {"price_in": "tokens_in", "price_out": "tokens_out", "price_cached": "cached"}


def rows_with(settings: Settings, rows: Sequence[ModelRow] = ROWS) -> tuple[ModelRow, ...]:
    """The table as the settings have it: ``[model_rows."provider:name"]``, each with what it says otherwise.

    Raises:
        NoModel: a row is of no provider.
    """
    table = list(rows)
    for name, said in settings.model_rows.items():
        before = _before(name, said.url, table)
        row = _changed(before, said.model_dump(exclude_unset=True))
        places = [at for at, one in enumerate(table) if one.full_name == row.full_name]
        if places:
            table[places[0]] = row
        else:
            table.append(row)
    return tuple(table)


def _before(name: str, url: str | None, rows: Sequence[ModelRow]) -> ModelRow:
    provider, _, model = name.partition(":")
    if provider == "compatible" and model:
        for row in rows:
            if row.full_name == name:
                return row
        if url is None:
            raise NoModel(f"[model_rows.{name!r}] does not say where it is served", hint="Add its url")
        return find_row(f"{url}#{model}", rows)
    return find_row(name, rows)


def _changed(row: ModelRow, said: Mapping[str, Any]) -> ModelRow:
    prices = {_PRICES[name]: value for name, value in said.items() if name in _PRICES}
    columns = {name: value for name, value in said.items() if name not in _PRICES}
    if prices:
        columns["price"] = replace(row.price, **prices, long_from=None, long=None, written=None)
    return replace(row, **columns)

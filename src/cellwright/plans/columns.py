"""What a column of a table holds, by the values at its beginning: numbers, dates, years, categories, or text. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

__all__ = ["Column", "ColumnKind", "column_of"]

ColumnKind: TypeAlias = Literal["number", "date", "year", "category", "label", "text"]
"""A ``label`` looks like a number and is none to reckon with: an id, a postcode."""

# What pandas reads as missing.
_MISSING = frozenset(
    {
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
    }
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
_ENOUGH = 0.9
_MAX_CATEGORIES = 30
_MAX_LABEL = 60
_FEW_VALUES = 4
_REPEATED = 0.5
_YEARS = range(1000, 3000)
_label = re.compile(
    r"(?:^|[\W_])(?:id|key|index|idx|nr|no|number|code|zip|zipcode|postcode|plz|phone|isbn|ean|sku|uuid)$",
    re.IGNORECASE,
)
_camel_id = re.compile(r"[a-z]I[dD]$")
_year_name = re.compile(r"year|jahr|ann[ée]e|año|anno|ano$", re.IGNORECASE)
_iso = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_FORMATS = (
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%Y-%m",
    "%Y%m%d",
)
_FORMATS_OF_NAMES = ("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%b %Y", "%B %Y")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: ColumnKind
    distinct: int = 0
    date_format: str | None = None
    """For ``pandas.to_datetime``."""
    zoned: bool = False
    ambiguous: bool = False
    """Whether its dates can be read with the day first and with the month first."""


def column_of(name: str, values: Sequence[str], *, decimal: str = ".") -> Column:
    """What a column holds, by some of its values as they stand in the file."""
    present = [value.strip() for value in values if value.strip() not in _MISSING]
    distinct = len(set(present))
    if not present:
        return Column(name, "text")
    numbers = [number for value in present if (number := _number(value, decimal)) is not None]
    if len(numbers) >= _ENOUGH * len(present):
        return _numeric(name, present, numbers, distinct)
    formats, zoned = _date_formats(present)
    if len(formats) == 1:
        return Column(name, "date", distinct, formats[0], zoned)
    repeated = distinct <= min(max(_FEW_VALUES, len(present) * _REPEATED), _MAX_CATEGORIES)
    kind: ColumnKind = "category" if repeated and max(map(len, present)) <= _MAX_LABEL else "text"
    return Column(name, "text" if formats else kind, distinct, ambiguous=bool(formats))


def _number(text: str, decimal: str) -> float | None:
    try:
        return float(text.replace(decimal, ".")) if "_" not in text else None
    except ValueError:
        return None


def _numeric(name: str, present: Sequence[str], numbers: Sequence[float], distinct: int) -> Column:
    whole = all(number.is_integer() for number in numbers)
    if whole and _year_name.search(name) and all(number in _YEARS for number in numbers):
        return Column(name, "year", distinct)
    padded = any(len(value) > 1 and value.startswith("0") and value.isdigit() for value in present)
    if padded or (whole and (_label.search(name.strip()) or _camel_id.search(name.strip()))):
        return Column(name, "label", distinct)
    if set(numbers) == {0.0, 1.0} and len(numbers) > _FEW_VALUES:
        return Column(name, "category", distinct)
    return Column(name, "number", distinct)


def _date_formats(present: Sequence[str]) -> tuple[list[str], bool]:
    """The formats in which almost all of the values can be read as dates, and whether they have time zones."""
    matches = [match for value in present if (match := _iso.fullmatch(value))]
    if len(matches) >= _ENOUGH * len(present):
        return ["ISO8601"], any(match[1] for match in matches)
    if not any(char.isdigit() for char in present[0]):
        return [], False
    some = present[:100]
    return [
        form
        for form in (*_FORMATS, *_FORMATS_OF_NAMES)
        if sum(_reads(value, form) for value in some) >= _ENOUGH * len(some)
    ][:2], False


def _reads(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)  # noqa: DTZ007  # only whether it can be read
    except ValueError:
        return False
    return True

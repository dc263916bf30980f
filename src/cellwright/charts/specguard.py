"""Looks through a spec for what is never fetched: data by address, pictures, and parts that load more of them.

A spec may come from anybody. The process that draws is closed as well; this says which part is refused, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from cellwright.errors import SpecRefused

__all__ = ["Language", "check_spec", "language_of"]

Language: TypeAlias = Literal["vega-lite", "vega"]
_MAX_DEPTH = 200
_MAX_PIXELS = 10_000


def language_of(spec: Mapping[str, Any]) -> Language:
    """Which of the two a spec is written in, by its schema or by its parts."""
    schema = str(spec.get("$schema", ""))
    if "/vega-lite/" in schema:
        return "vega-lite"
    if "/vega/" in schema or ("marks" in spec and "mark" not in spec):
        return "vega"
    return "vega-lite"


def check_spec(spec: Mapping[str, Any]) -> None:
    """Refuse a spec that would fetch something, or would be larger than a picture can be.

    Raises:
        SpecRefused: with the path of the part.
    """
    for path, part in _objects(spec, "", 0):
        _check_object(path, part)
    for side in ("width", "height"):
        size = spec.get(side)
        if isinstance(size, int | float) and not 0 <= size <= _MAX_PIXELS:
            raise SpecRefused(f"{side}: {size!r} is not between 0 and {_MAX_PIXELS:,} pixels")


def _check_object(path: str, part: Mapping[str, Any]) -> None:
    if "url" in part and not _is_encoding(path):
        raise SpecRefused(
            f"{path}url: data is not fetched from addresses",
            hint="Put the values into the spec: data.values, or a name of datasets",
        )
    if "image" in (part.get("type"), part.get("mark")):
        raise SpecRefused(f"{path}mark: pictures inside of a chart are not drawn")


def _is_encoding(path: str) -> bool:
    return path.rstrip(".").rpartition(".")[2] in ("encoding", "encode", "update", "enter")


def _objects(value: object, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if depth > _MAX_DEPTH:
        raise SpecRefused(f"{path.rstrip('.')}: it is nested too deeply")
    if isinstance(value, Mapping):
        yield path, value
        for key, inner in value.items():
            # Rows are data, whatever their columns are called.
            if isinstance(inner, Mapping | list) and not _holds_rows(path, str(key)):
                yield from _objects(inner, f"{path}{key}.", depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, Mapping | list):
                yield from _objects(inner, f"{path.rstrip('.')}[{index}].", depth + 1)


def _holds_rows(path: str, key: str) -> bool:
    inside = path.rstrip(".")
    return (key == "values" and (inside == "data" or inside.endswith((".data", "]")))) or inside == "datasets"

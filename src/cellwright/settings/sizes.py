"""Sizes as people write them: ``"512MB"`` is 512 times 1024 times 1024."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

__all__ = ["Size", "size_bytes"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def size_bytes(value: Any) -> Any:
    """A written size in bytes; anything else as it is, for whoever checks it."""
    if isinstance(value, str) and (match := _SIZE.fullmatch(value)) is not None:
        return int(float(match[1]) * _UNITS[match[2].lower()])
    return value


Size: TypeAlias = Annotated[int, BeforeValidator(size_bytes, json_schema_input_type=str | int)]

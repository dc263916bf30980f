"""JSON as text: where the values of an object stand, and how nbformat would write a value.

Not a JSON library: values are decoded and encoded by the standard one, since only it reads what notebooks really
hold (``NaN``, integers of any size, lone surrogates). This adds the places of the values, so that what nobody
touched is written back as the bytes it was read from. Knows nothing of notebooks (see reading, cells).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "Members",
    "canonical",
    "encode",
    "format_value",
    "read_value",
    "same",
    "scan_array",
    "scan_object",
    "skip_space",
]

ReadValue = Callable[[str, int], tuple[Any, int]]

_decode = json.JSONDecoder().raw_decode
_space = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Members:
    """An object's members as text: each value by its key, and what stands before each of them.

    ``leads`` is None where the text is not an original one; it is then laid out as nbformat does.
    """

    texts: Mapping[str, str]
    leads: tuple[str, ...] | None = None
    tail: str = ""

    def with_texts(self, texts: Mapping[str, str], *, without: frozenset[str] = frozenset()) -> Members:
        """Put in these values; members that were not there before force a new layout."""
        merged = {key: text for key, text in {**self.texts, **texts}.items() if key not in without}
        return replace(self, texts=merged, leads=self.leads if merged.keys() == self.texts.keys() else None)

    def render(self, depth: int) -> str:
        """The object's text, as it was read where possible, else indented for its depth in the file."""
        if self.leads is not None:
            pairs = zip(self.leads, self.texts.values(), strict=True)
            return "".join(lead + text for lead, text in pairs) + self.tail
        if not self.texts:
            return "{}"
        margin = "\n" + " " * (depth + 1)
        body = ",".join(f"{margin}{_dump(key)}: {self.texts[key]}" for key in sorted(self.texts))
        return f"{{{body}\n{' ' * depth}}}"


def scan_object(
    text: str, start: int, readers: Mapping[str, ReadValue] | None = None
) -> tuple[Members, dict[str, Any], int]:
    """Read the object at ``start``: its members as text, its values, and where it ends.

    A member named in ``readers`` is read by that function instead of the JSON decoder.

    Raises:
        ValueError: this is no JSON object; a ``JSONDecodeError`` where the place is known.
    """
    _expect(text, start, "{")
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    leads: list[str] = []
    mark, position = start, skip_space(text, start + 1)
    while text[position : position + 1] != "}":
        if leads:
            position = skip_space(text, _expect(text, position, ","))
        key, position = _decode(text, position)
        if not isinstance(key, str):
            raise json.JSONDecodeError("Expecting a name in double quotes", text, position)
        position = skip_space(text, _expect(text, skip_space(text, position), ":"))
        values[key], end = (readers or {}).get(key, _decode)(text, position)
        leads.append(text[mark:position])
        texts[key] = text[position:end]
        mark, position = end, skip_space(text, end)
    # Of a name that is there twice only the last value counts, so that the text cannot be put together again.
    members = Members(texts, tuple(leads) if len(leads) == len(texts) else None, text[mark : position + 1])
    return members, values, position + 1


def scan_array(text: str, start: int, read_item: ReadValue) -> tuple[list[Any], tuple[str, str, str], int]:
    """Read the array at ``start``: its items, what stands before, between and after them, and where it ends.

    Raises:
        ValueError: this is no JSON array; a ``JSONDecodeError`` where the place is known.
    """
    _expect(text, start, "[")
    items: list[Any] = []
    gaps: list[str] = []
    mark, position = start, skip_space(text, start + 1)
    while text[position : position + 1] != "]":
        if items:
            position = skip_space(text, _expect(text, position, ","))
        gaps.append(text[mark:position])
        item, mark = read_item(text, position)
        items.append(item)
        position = skip_space(text, mark)
    before = gaps[0] if gaps else "["
    between = gaps[1] if len(gaps) > 1 else ""
    return items, (before, between, text[mark : position + 1] if gaps else "]"), position + 1


def skip_space(text: str, position: int) -> int:
    """Where the next token begins."""
    found = _space.match(text, position)
    return found.end() if found else position


def read_value(text: str, position: int) -> tuple[Any, int]:
    """Decode the value at this place; where it ends comes with it."""
    return _decode(text, position)


def format_value(value: Any, depth: int) -> str:
    """A value as nbformat writes it, at this depth of indentation."""
    return _dump(value, indent=1).replace("\n", "\n" + " " * depth)


def encode(text: str) -> bytes:
    """JSON text as UTF-8; lone surrogates, which UTF-8 cannot hold, become JSON escapes."""
    return text.encode("utf-8", "backslashreplace")


def canonical(value: Any) -> str:
    """A text that two values share exactly when they are the same JSON (to Python, ``True == 1 == 1.0``)."""
    return _dump(value)


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON."""
    return left is right or canonical(left) == canonical(right)


def _dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False, separators=(",", ": "))


def _expect(text: str, position: int, token: str) -> int:
    if text[position : position + 1] != token:
        raise json.JSONDecodeError(f"Expecting {token!r}", text, position)
    return position + 1

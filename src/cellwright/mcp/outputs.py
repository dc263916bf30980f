"""What an execution put out, as parts that a reader can weigh: text, pictures, and where the whole of each is.

Pure. Chooses one form of every output, so that no text is told twice; cutting to a budget is
``text_budget``'s business.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import io
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

from mcp.types import ImageContent

from cellwright.formats.markup import HtmlRow, rows_in, text_of_html
from cellwright.notebook.comparison import PICTURE_FORMATS
from cellwright.notebook.outputs import clean, names_only_itself
from cellwright.text_budget import cut_tail
from cellwright_kernel.figuredigests import bundle_digest
from cellwright_kernel.tabledigests import table_digest
from cellwright_kernel.tables import Column, ColumnKind, Table, Value

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "DATA",
    "MAX_PICTURES",
    "MAX_PIXELS",
    "NETWORK_URI",
    "Address",
    "Part",
    "cell_output_uri",
    "clean",
    "data_path",
    "data_uri",
    "frame_digest",
    "output_payload",
    "output_uri",
    "parts_of",
    "picture_content",
    "read_address",
    "session_uri",
    "size",
    "table_of_html",
]

PartKind: TypeAlias = Literal["stdout", "stderr", "result", "display", "error"]

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_FULLEST = (
    *_PICTURES,
    "image/svg+xml",
    "text/html",
    "text/markdown",
    "text/latex",
    "application/json",
    "text/plain",
)

# As in ``cellwright_kernel._kernel``, which cannot be imported without IPython.
_COMPLETE = 600


@dataclass(frozen=True, slots=True)
class Part:
    """One output. ``text`` is what to read of it, ``picture`` the base64 of what to see."""

    index: int
    kind: PartKind
    mime: str
    size: int
    text: str = ""
    picture: str | None = None


def size(characters: int) -> str:
    """A size in a few characters."""
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if characters >= factor:
            return f"{characters / factor:.1f} {unit}"
    return f"{characters} B"


def parts_of(outputs: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Every output, once, in order."""
    return [_part(index, output) for index, output in enumerate(outputs)]


def _part(index: int, output: Mapping[str, Any]) -> Part:
    match output.get("output_type"):
        case "stream":
            text = _joined(output.get("text", ""))
            kind: PartKind = "stderr" if output.get("name") == "stderr" else "stdout"
            return Part(index, kind, "text/plain", len(text), clean(text))
        case "error":
            text = traceback_digest(output)
            return Part(index, "error", "text/plain", len(text), text)
        case "execute_result":
            return _shown(index, "result", output)
        case _:
            return _shown(index, "display", output)


def _shown(index: int, kind: PartKind, output: Mapping[str, Any]) -> Part:
    data = output.get("data") or {}
    plain = clean(_joined(data.get("text/plain", "")))
    digest: str | None = _digest(output)
    if not digest and data.keys() - {"text/plain"}:
        digest = bundle_digest(data)
    for mime in _PICTURES:
        if isinstance(picture := data.get(mime), str):
            caption = digest or ("" if names_only_itself(plain) else plain)
            return Part(index, kind, mime, len(picture) * 3 // 4, caption, picture)
    if digest:
        mime = output_mime(data)
        return Part(index, kind, mime, len(_dumped(data.get(mime, ""))), digest)
    html = _joined(data.get("text/html", ""))
    if html and (digest := frame_digest(html)) is not None:
        text = plain if plain and (len(plain) <= len(digest) or _is_whole(plain)) else digest
        return Part(index, kind, "text/html", len(html), text)
    if plain and not names_only_itself(plain):
        return Part(index, kind, "text/plain", len(plain), plain)
    mime = output_mime(data)
    return Part(index, kind, mime, len(_dumped(data.get(mime, ""))), _readable(mime, data) or plain)


def _is_whole(plain: str) -> bool:
    """Whether a frame's text is short and has all of it: then its kernel made no digest, and none says more."""
    return len(plain) <= _COMPLETE and "..." not in plain and "…" not in plain


def _digest(output: Mapping[str, Any]) -> str:
    """What the kernel said of the value for those who read text (see ``cellwright_kernel._kernel``)."""
    match output.get("metadata"):
        case {"cellwright": {"digest": str(digest)}}:
            return clean(digest)
        case _:
            return ""


def _readable(mime: str, data: Mapping[str, Any]) -> str:
    """The text of an output that has no plain form."""
    if mime == "text/html":
        return text_of_html(_joined(data[mime]))
    if mime.startswith("text/") or mime == "application/json":
        return _dumped(data.get(mime, ""))
    return ""


def output_mime(data: Mapping[str, Any]) -> str:
    """The fullest form that an output has."""
    return next((mime for mime in _FULLEST if mime in data), next(iter(data), "text/plain"))


def output_payload(output: Mapping[str, Any]) -> tuple[str, str]:
    """The whole of an output: its type and its content, which is base64 for pictures."""
    match output.get("output_type"):
        case "stream":
            return "text/plain", _joined(output.get("text", ""))
        case "error":
            return "text/plain", clean("\n".join(output.get("traceback") or [_headline(output)]))
        case _:
            data = output.get("data") or {}
            mime = output_mime(data)
            return mime, _dumped(data.get(mime, ""))


# Errors --------------------------------------------------------------------------------------------------------------

_LIBRARY_FRAMES = 2

_MOST_STACK = 6

# A function of many parameters is told with all of them.
_FRAME = 140

_own_frame = re.compile(r"(?:Cell|Input) In\s?\[|File <ipython-input|SyntaxError|^\s+File \"<")


def traceback_digest(output: Mapping[str, Any]) -> str:
    """An error as one needs it to fix the cell: frames of cells in full, of libraries by their first line."""
    lines = [clean(frame) for frame in output.get("traceback") or ()]
    headline = _headline(output)
    if (text := "\n".join(lines)).startswith(headline):
        return _stack_digest(headline, text.removeprefix(headline).splitlines())
    frames = [line.strip("\n") for line in lines if line.strip("\n- ")]
    if len(frames) <= 2:  # a header and a last line, as for a syntax error
        return frames[-1] if frames and headline in frames[-1] else headline
    kept: list[str] = []
    library: list[str] = []
    for frame in frames[1:-1]:
        if _own_frame.match(frame):
            kept, library = [*kept, *_briefly(library), frame], []
        else:
            library.append(cut_tail(frame.split("\n", 1)[0], _FRAME))
    return "\n".join([*kept, *_briefly(library), frames[-1] if headline in frames[-1] else headline])


def _stack_digest(headline: str, lines: Sequence[str]) -> str:
    """An error that is told before its place, as other languages than Python do: only a long stack is cut."""
    kept = [line for line in lines if line.strip()]
    stack = [place for place, line in enumerate(kept) if line.lstrip().startswith("at ")]
    if len(stack) > _MOST_STACK:
        first, last = stack[_MOST_STACK - 1], stack[-1]
        kept = [*kept[:first], f"    … {last - first} frames", *kept[last:]]
    return "\n".join([headline, *kept])


def _briefly(frames: list[str]) -> list[str]:
    if len(frames) <= _LIBRARY_FRAMES:
        return frames
    return [frames[0], f"… {len(frames) - _LIBRARY_FRAMES} frames", frames[-1]]


def _headline(output: Mapping[str, Any]) -> str:
    name, value = output.get("ename", "Error"), clean(str(output.get("evalue", "")))
    return f"{name}: {value}" if value else str(name)


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else _dumped(value)


def _dumped(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Tables of notebooks that never ran here: a data frame's HTML, read back into a table and told as any other.

_shape = re.compile(r"(\d[\d,]*) rows? \u00d7 (\d[\d,]*) columns?|shape: \((\d[\d_]*), (\d[\d_]*)\)")

_number = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

_moment = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d.*)?")

_type_of_r = re.compile(r"<\w+>")

_GAP = "..."

_MISSING = frozenset({"NaN", "None", "NaT", "<NA>", "nan", "null", ""})


def frame_digest(html: str) -> str | None:
    """A data frame's digest; none for any other HTML."""
    found = table_of_html(html)
    return table_digest(found[0], columns=found[1]) if found is not None else None


def table_of_html(html: str) -> tuple[Table, int] | None:
    """The table that a data frame shows of itself, and how many columns the frame has."""
    if 'class="dataframe' not in html:
        return None
    found = rows_in(html)
    body = [row for row in found if not row.in_head]
    heads = [row for row in found if row.in_head]
    if not heads or not body:
        return None
    width = max(len(row.cells) for row in body)
    texts = [row.texts for row in body]
    rows = [cells for cells in texts if len(cells) == width and not set(cells) <= {_GAP, "\u2026"}]
    indices = sum(1 for cell in body[0].cells if cell.is_heading)
    labels, dtypes = _heads(heads, width)
    shown = [
        number
        for number in range(width)
        if labels[number] != _GAP and not (number < indices and _is_numbering(labels[number], rows, number))
    ]
    columns = [_column(labels[number], dtypes[number], [row[number] for row in rows]) for number in shown]
    shape = _shape.search(html)
    total, wide = _counts(shape) if shape else (len(rows), width - indices)
    held = tuple(zip(*(values for _, values in columns), strict=True)) if columns else ()
    named = len([number for number in shown if number < indices])
    return Table(tuple(column for column, _ in columns), held, total), wide + named


def _counts(found: re.Match[str]) -> tuple[int, int]:
    rows, columns = (text for text in found.groups() if text is not None)
    return int(re.sub(r"\D", "", rows)), int(re.sub(r"\D", "", columns))


def _heads(heads: list[HtmlRow], width: int) -> tuple[list[str], list[str]]:
    """A label and a type for each column; the levels of a many-levelled header are joined."""
    typed = [row for row in heads if not any(cell.is_heading for cell in row.cells) or _are_types(row.texts)]
    named = [row.texts for row in heads if row not in typed]
    rows = [cells + [""] * (width - len(cells)) for cells in named]
    labels = []
    for column in range(width):
        levels = [row[column] for row in rows if row[column]]
        labels.append(_GAP if _GAP in levels or "\u2026" in levels else ".".join(levels))
    types = typed[0].texts if typed else []
    return labels, types if len(types) == width else [""] * width


def _are_types(cells: list[str]) -> bool:
    """Whether a row of a header tells types, as R has it: ``<int>``, ``<dbl>``."""
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(_type_of_r.fullmatch(cell) for cell in filled)


def _is_numbering(label: str, rows: list[list[str]], column: int) -> bool:
    """Whether an index says nothing that the order of the rows does not."""
    return not label and all(row[column].isdigit() or row[column] == _GAP for row in rows)


def _column(label: str, dtype: str, texts: list[str]) -> tuple[Column, list[Value]]:
    present = [text for text in texts if text not in _MISSING]
    kind: ColumnKind = "text"
    if present and set(present) <= {"True", "False", "true", "false"}:
        kind = "bool"
    elif present and all(_number.fullmatch(text) for text in present):
        kind = "number"
    elif present and all(_moment.fullmatch(text) for text in present):
        kind = "time"
    values = [None if text in _MISSING else _value(text, kind) for text in texts]
    return Column(label or "index", kind, dtype, sum(1 for value in values if value is None)), values


def _value(text: str, kind: ColumnKind) -> Value:
    if kind == "bool":
        return text in {"True", "true"}
    if kind == "number":
        number = float(text.replace(",", ""))
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() and text.lstrip("-+").isdigit() else number
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted else text


# Pictures at a size that is worth its tokens.

MAX_PIXELS = 512

MAX_PICTURES = 4

MAX_UNSCALED_BYTES = 300_000

COLOURS = 128

_MAX_SOURCE_BYTES = 50_000_000

_MAX_AREA = 100_000_000

_HAS_PILLOW = importlib.util.find_spec("PIL") is not None


def picture_content(data: str, mime: str, *, max_pixels: int = MAX_PIXELS) -> ImageContent | None:
    """A picture for a model, its longer side at most ``max_pixels``; none where it is too big to send or is broken."""
    try:
        raw = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return None
    if len(raw) > _MAX_SOURCE_BYTES:
        return None
    if _HAS_PILLOW:
        return _scaled(raw, mime, max_pixels)
    if len(raw) > MAX_UNSCALED_BYTES:
        return None
    return ImageContent(data=base64.b64encode(raw).decode(), mime_type=mime)


def _scaled(raw: bytes, mime: str, max_pixels: int) -> ImageContent | None:
    from PIL import Image  # an extra; and 40 ms that a daemon without pictures does not need

    try:
        with Image.open(io.BytesIO(raw), formats=PICTURE_FORMATS) as image:
            if image.width * image.height > _MAX_AREA:
                return None
            fits = max(image.size) <= max_pixels and mime in {"image/png", "image/jpeg"}
            small = _on_white(image)
            small.thumbnail((max_pixels, max_pixels), Image.Resampling.LANCZOS)
            # Smoothing makes thousands of colours out of a plot's ten; a palette takes most of the bytes away again.
            small = small.quantize(COLOURS, dither=Image.Dither.NONE)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    if fits and len(raw) <= buffer.tell():
        return ImageContent(data=base64.b64encode(raw).decode(), mime_type=mime)
    return ImageContent(data=base64.b64encode(buffer.getvalue()).decode(), mime_type="image/png")


def _on_white(image: Image.Image) -> Image.Image:
    """The picture as a page shows it: what is transparent is white."""
    from PIL import Image  # as above

    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


# The addresses of what can be read of a session and of the data directory, and what an address means. Pure.

DATA = "cellwright://data/"

View: TypeAlias = Literal["state", "history", "context", "network", "export", "cell", "execution"]

NETWORK_URI = "cellwright://network"
"""What was fetched for no session."""

_address = re.compile(
    r"notebook://session/(?P<session>[^/]+)/(?:(?P<view>state|history|context|network)|export/(?P<format>[a-z.]+)"
    r"|(?P<kind>cells|executions)/(?P<id>[^/]+)/outputs/(?P<index>\d{1,6}))"
)


@dataclass(frozen=True, slots=True)
class Address:
    """What an address names: a view of a session, an export, or one output of a cell or an execution."""

    session_id: str
    view: View
    item: str = ""
    index: int = 0


def session_uri(session_id: str, view: str) -> str:
    return f"notebook://session/{quote(session_id, safe='')}/{view}"


def output_uri(session_id: str, execution_id: str, index: int) -> str:
    """One output of one execution, which later runs of its cell leave alone."""
    return session_uri(session_id, f"executions/{quote(execution_id, safe='')}/outputs/{index}")


def cell_output_uri(session_id: str, cell_id: str, index: int) -> str:
    """One output that a cell shows now."""
    return session_uri(session_id, f"cells/{quote(cell_id, safe='')}/outputs/{index}")


def read_address(uri: str) -> Address | None:
    """What an address means; none where it is not one of ours."""
    match = _address.fullmatch(uri)
    if match is None:
        return None
    session_id = unquote(match["session"])
    if match["view"] is not None:
        return Address(session_id, match["view"])  # type: ignore[arg-type]  # the pattern's words
    if match["format"] is not None:
        return Address(session_id, "export", match["format"])
    view: View = "cell" if match["kind"] == "cells" else "execution"
    return Address(session_id, view, unquote(match["id"]), int(match["index"]))


def data_uri(path: str) -> str:
    """A file of the data directory."""
    return DATA + quote(os.fsencode(path), safe="/")


def data_path(uri: str) -> str | None:
    """The path in the data directory that an address names; none where it is not one of those."""
    if not uri.startswith(DATA):
        return None
    return os.fsdecode(unquote_to_bytes(uri.removeprefix(DATA)))

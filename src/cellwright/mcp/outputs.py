"""What an execution put out, as parts that a reader can weigh: text, pictures, and where the whole of each is.

Pure. Chooses one form of every output, so that no text is told twice; cutting to a budget is ``budget``'s business,
pictures are ``images``'s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright.formats.markup import text_of_html
from cellwright.mcp.budget import cut_tail
from cellwright.mcp.frames import frame_digest
from cellwright.notebook.outputs import clean, names_only_itself
from cellwright_kernel.figuredigests import bundle_digest

__all__ = ["Part", "clean", "output_mime", "output_payload", "parts_of", "size"]

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
# As in ``cellwright_kernel.displays``, which cannot be imported without IPython.
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
    digest = _digest(output) or bundle_digest(data)
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
    """What the kernel said of the value for those who read text (see ``cellwright_kernel.displays``)."""
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
    """An error as one needs it to mend the cell: frames of cells in full, of libraries by their first line."""
    lines = [clean(frame) for frame in output.get("traceback") or ()]
    headline = _headline(output)
    if (told := "\n".join(lines)).startswith(headline):
        return _stack_digest(headline, told.removeprefix(headline).splitlines())
    frames = [line.strip("\n") for line in lines if line.strip("\n- ")]
    if len(frames) <= 2:  # noqa: PLR2004  # a header and a last line, as for a syntax error
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
    said = [line for line in lines if line.strip()]
    stack = [place for place, line in enumerate(said) if line.lstrip().startswith("at ")]
    if len(stack) > _MOST_STACK:
        first, last = stack[_MOST_STACK - 1], stack[-1]
        said = [*said[:first], f"    … {last - first} frames", *said[last:]]
    return "\n".join([headline, *said])


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

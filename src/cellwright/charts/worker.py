"""The process that draws: reads requests from its standard input and answers on its standard output, one by one.

What it is given may be anybody's: it has no network, reads no files but libraries and fonts, writes none, and has
memory up to a limit. It may end at any moment; ``renderer`` starts it again. Run as
``python -m cellwright.charts.worker MEMORY_BYTES``.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from typing import Any, BinaryIO

from cellwright.charts._specs import chart_spec
from cellwright.charts._wire import Build, Draw, Drawn, Failed, Request, framed, read_frame
from cellwright.charts.data_files import read_table
from cellwright.charts.encodings import Output
from cellwright.charts.kinds import ChartKinds
from cellwright.charts.specguard import check_spec, language_of
from cellwright.charts.themes import FONT, ThemeName, theme_config
from cellwright.errors import CellwrightError, ChartError, ChartRefused, SpecRefused
from cellwright_kernel.confinement import confine
from cellwright_kernel.htmltables import html_table
from cellwright_kernel.tables import Table

__all__ = ["paint"]
_TOO_LARGE = "There is not enough memory for this chart"


def main() -> None:
    limit = int(sys.argv[1])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no reply
    confine(limit)
    while (request := read_frame(sys.stdin.buffer)) is not None:  # type: ignore[arg-type]  # it is buffered
        _answer(request, replies)


def _answer(request: Request, replies: BinaryIO) -> None:
    try:
        # Millions of values are made and dropped at once: looking for cycles among them takes as long as making them.
        gc.disable()
        reply = framed(_drawn(request) if isinstance(request, Draw) else _built(request))
    except ChartRefused as error:
        reply = framed(Failed(error.code, error.problems))
    except CellwrightError as error:
        reply = framed(Failed(error.code, (error.message,), error.hint))
    except MemoryError:
        reply = framed(Failed("drawing_failed", (_TOO_LARGE,), "Draw fewer rows"))
    except Exception as error:  # noqa: BLE001  # boundary: one chart must not end the process for the others
        reply = framed(Failed("drawing_failed", (f"{type(error).__name__}: {error}",)))
    finally:
        gc.enable()
    replies.write(reply)
    replies.flush()


def _drawn(request: Draw) -> Drawn:
    check_spec(request.spec)
    png = paint(request.spec, theme=request.theme, scale=request.scale, max_width=request.max_width)
    return Drawn(png, request.spec)


def _built(request: Build) -> Drawn:
    output = request.output
    if request.table is not None:
        table = Table.from_wire(request.table)
    else:
        table = _read(output, request.content or b"")
    kinds = ChartKinds(request.kinds)
    built = chart_spec(output, table, theme=request.theme, kinds=kinds)
    if built.vega_lite is not None and not kinds.is_ours(built.type):
        check_spec(built.vega_lite)
    png, notices, digest = None, built.notices, built.digest
    if built.vega_lite is not None and request.picture:
        png = paint(built.vega_lite, theme=None, scale=request.scale, max_width=request.max_width)
        if boxes := letters_without_font(built.vega_lite):
            notices, digest = (
                (*notices, missing_letters_text(boxes)),
                f"{digest}\nnotice: {missing_letters_text(boxes)}",
            )
    html = html_table(built.table, title=output.title) if built.table is not None else None
    return Drawn(png, built.vega_lite, digest, notices, html, built.type)


def _read(output: Output, content: bytes) -> Table:
    try:
        return read_table(content, output.data_file)
    except ChartRefused as error:
        place = f"{output.path}.dataFile: " if output.path else ""
        raise ChartRefused(*(f"{place}{problem}" for problem in error.problems)) from None


# A spec to a PNG by vl-convert, in this very process: only ``worker`` calls it. Checks nothing (see
# ``specguard``).

_SIGNATURE = b"\x89PNG\r\n\x1a\n"

_WIDTH_AT = slice(16, 20)

_LEVEL = 6

_UNDRAWABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\ud800-\\udfff\\ufffe\\uffff]")

_SUSPECT = re.compile(r"\\u00[01]|\\[bf]|\\u(?:d[89a-f]|fff[ef])")

_OLD_VEGA_LITE = "5.21"

_LONGEST_REASON = 300


def paint(spec: Mapping[str, Any], *, theme: ThemeName | None, scale: float, max_width: int | None) -> bytes:
    """Draw a spec; a picture that is too wide is drawn again at a smaller scale.

    Raises:
        SpecRefused: it cannot be drawn; the message is Vega's own.
    """
    png = _convert(spec, theme, scale)
    width = int.from_bytes(png[_WIDTH_AT], "big")
    if max_width is not None and width > max_width:
        png = _convert(spec, theme, scale * max_width / width)
    return _packed(png)


def _text(spec: Mapping[str, Any]) -> str:
    """As JSON, without the characters that XML cannot have: vl-convert draws by way of SVG, and they end its process."""
    text = json.dumps(spec)
    return json.dumps(_without(spec)) if _SUSPECT.search(text) else text


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return _UNDRAWABLE.sub("", value)
    if isinstance(value, Mapping):
        return {_UNDRAWABLE.sub("", str(key)): _without(inner) for key, inner in value.items()}
    return [_without(inner) for inner in value] if isinstance(value, list | tuple) else value


def _packed(png: bytes) -> bytes:
    """The same picture in a third of the bytes: vl-convert packs for speed, and these are kept in notebooks."""
    kept, pixels, at = [], bytearray(), len(_SIGNATURE)
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            pixels += data
        elif kind != b"IEND":
            kept.append(_chunk(kind, data))
        at += 12 + length
    packed = zlib.compress(zlib.decompress(pixels), _LEVEL)
    return b"".join((_SIGNATURE, *kept, _chunk(b"IDAT", packed), _chunk(b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(data, zlib.crc32(kind))
    return len(data).to_bytes(4, "big") + kind + data + check.to_bytes(4, "big")


def _convert(spec: Mapping[str, Any], theme: ThemeName | None, scale: float) -> bytes:
    try:
        import vl_convert  # an extra
    except ImportError:
        raise ChartError("Charts need vl-convert", hint="Run `pip install 'cellwright[charts]'`") from None
    try:
        if language_of(spec) == "vega":
            return bytes(vl_convert.vega_to_png(_text(spec), scale=scale, allowed_base_urls=[]))
        return bytes(
            vl_convert.vegalite_to_png(
                _text(spec),
                vl_version=_OLD_VEGA_LITE if "/vega-lite/v5" in str(spec.get("$schema", "")) else None,
                scale=scale,
                config=theme_config(theme) if theme is not None else None,
                allowed_base_urls=[],
            )
        )
    except ValueError as error:
        reason = " ".join(str(error).split("\n    at ")[0].split())
        raise SpecRefused(f"The spec cannot be drawn: {reason[:_LONGEST_REASON]}") from None


# Which letters of a chart this machine has no font for: found by drawing them, since no other answer is the
# renderer's.

# Up to here every font has them all.
_LATIN = 0x250

_BLOCK = 128

_MOST_BLOCKS = 24

_NO_LETTER = "\U0010fffd"

_NEVER_DRAWN = ("Mn", "Me", "Cf", "Cc", "Co", "Cs", "Cn", "Zs")


def letters_without_font(spec: Mapping[str, Any]) -> list[str]:
    """One letter of each part of Unicode that the spec's texts use and that would be a box."""
    held = {key: value for key, value in spec.items() if key not in ("config", "$schema", "usermeta")}
    samples = _samples(json.dumps(held, ensure_ascii=False))
    return [letter for letter in samples if not _has_font(letter)]


def missing_letters_text(letters: Iterable[str]) -> str:
    names = ", ".join(f"{letter} ({unicodedata.name(letter, 'unnamed').title()})" for letter in letters)
    return f"this machine has no font for {names} and what is like it: boxes stand in the picture"


def _samples(text: str) -> list[str]:
    blocks: dict[int, str] = {}
    for letter in sorted(set(text)):
        if ord(letter) >= _LATIN and unicodedata.category(letter) not in _NEVER_DRAWN:
            blocks.setdefault(ord(letter) // _BLOCK, letter)
    return list(blocks.values())[:_MOST_BLOCKS]


@cache
def _has_font(letter: str) -> bool:
    return _drawn_alone(letter) != _drawn_alone(_NO_LETTER)


@cache
def _drawn_alone(letter: str) -> bytes:
    import vl_convert  # an extra

    style = f'x="2" y="18" font-size="16" font-family="{escape(FONT)}"'
    text = f"<text {style}>{escape(letter)}</text>"
    return bytes(
        vl_convert.svg_to_png(f'<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24">{text}</svg>')
    )


if __name__ == "__main__":
    main()

"""A spec to a PNG by vl-convert, in this very process: only ``worker`` calls it. Checks nothing (see ``specguard``)."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from cellwright.charts.specguard import language_of
from cellwright.charts.themes import ThemeName, theme_config
from cellwright.errors import ChartError, SpecRefused

__all__ = ["paint"]

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
        import vl_convert  # noqa: PLC0415  # an extra
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

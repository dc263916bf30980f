"""Pictures at a size that is worth its tokens.

Scaling needs Pillow (``pip install cellwright[images]``). Without it a picture goes out as it is, up to a bound, and
the reply says where the whole of it is.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import io
from typing import TYPE_CHECKING

from mcp.types import ImageContent

from cellwright.notebook.comparison import PICTURE_FORMATS

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["MAX_PICTURES", "MAX_PIXELS", "MAX_UNSCALED_BYTES", "picture_content"]

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

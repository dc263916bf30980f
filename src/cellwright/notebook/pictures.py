"""Says whether two pictures show the same, as far as an eye can tell. Pure.

Both are smoothed a little, and a place counts as the same where what it shows lies next to it in the other picture: so
an edge may be drawn a pixel aside, or with other smoothing. A bar, a curve or a word that changed leaves a patch of
places that do not. Needs Pillow (``pip install cellwright[images]``); without it bytes are compared.
"""

from __future__ import annotations

import importlib.util
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["PICTURE_FORMATS", "same_bytes", "same_look"]

PICTURE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
"""All that is ever decoded, whatever a picture is called: Pillow hands PostScript to ``gs``, outside of every box."""
_MAX_AREA = 50_000_000
_BLUR = 0.8
_LEAST_CONTRAST = 48
"""How much of 255 a place must differ by to count."""
_LEAST_PATCH = 6
"""How many such places, in a picture of any size, make it another."""
_PER_AREA = 2e-5
_WHITE = (255, 255, 255)


def same_bytes(expected: bytes, got: bytes) -> str | None:
    """Why two pictures are not the same, or None."""
    return None if expected == got else f"the picture differs ({len(expected):,} bytes became {len(got):,})"


def same_look(expected: bytes, got: bytes) -> str | None:
    """Why two pictures do not look the same, or None."""
    if expected == got:
        return None
    if importlib.util.find_spec("PIL") is None:
        return (
            f"{same_bytes(expected, got)}; `pip install cellwright[images]` lets what they show be compared"
        )
    before, now = _opened(expected), _opened(got)
    if before is None or now is None:  # sound, a film, a page; or broken
        return same_bytes(expected, got)
    if before.size != now.size:
        was, became = (f"{one.width} by {one.height}" for one in (before, now))
        return f"the picture has another size ({was} became {became})"
    return _why_other(before, now)


def _opened(data: bytes) -> Image.Image | None:
    from PIL import Image  # noqa: PLC0415  # an extra, and slow to import

    try:
        with Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as image:
            if image.width * image.height > _MAX_AREA or getattr(image, "n_frames", 1) > 1:
                return None
            seen = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    page = Image.new("RGBA", seen.size, (*_WHITE, 255))
    page.alpha_composite(seen)
    return page.convert("RGB")


def _why_other(before: Image.Image, now: Image.Image) -> str | None:
    from PIL import ImageChops, ImageFilter  # noqa: PLC0415  # as above

    smooth = ImageFilter.GaussianBlur(_BLUR)
    before, now = before.filter(smooth), now.filter(smooth)
    apart = ImageChops.lighter(_beyond(before, now), _beyond(now, before))
    red, green, blue = apart.split()
    strongest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    different = sum(strongest.histogram()[_LEAST_CONTRAST:])
    area = before.width * before.height
    if different < max(_LEAST_PATCH, area * _PER_AREA):
        return None
    marked = strongest.point(lambda value: 255 if value >= _LEAST_CONTRAST else 0)
    box = marked.getbbox() or (0, 0, 0, 0)
    return f"the picture shows something else ({different / area:.2%} of it, around {_middle(box)})"


def _beyond(one: Image.Image, other: Image.Image) -> Image.Image:
    """How far each place of one is from all that lies next to that place in the other."""
    from PIL import ImageChops, ImageFilter  # noqa: PLC0415  # as above

    darkest, lightest = other.filter(ImageFilter.MinFilter(3)), other.filter(ImageFilter.MaxFilter(3))
    return ImageChops.lighter(ImageChops.subtract(one, lightest), ImageChops.subtract(darkest, one))


def _middle(box: tuple[int, int, int, int]) -> str:
    left, upper, right, lower = box
    return f"{(left + right) // 2}, {(upper + lower) // 2}"

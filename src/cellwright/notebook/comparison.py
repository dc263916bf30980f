"""Says whether two runs of one cell put out the same, and where not. Pure.

What no two runs have in common is masked first. Numbers with a fraction may differ by a relative
tolerance; whole numbers may not. What is written to one stream is one text, however it was cut into pieces; displays
keep their order. ``docs/guides/replay.md`` says the same to users. It neither runs anything nor knows what is to be
done about a difference.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from cellwright.notebook.outputs import TERMINAL_CODES

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "ALWAYS",
    "BY_NAME",
    "PICTURE_FORMATS",
    "TOLERANCE",
    "Comparison",
    "Difference",
    "Rules",
    "compare_outputs",
    "same_bytes",
    "same_look",
]
# Parts of a text that may be another with every run, and what stands for them when texts are compared. Pure.


Mask: TypeAlias = tuple[re.Pattern[str], str]

# A cell may print a megabyte of anything: each of these is done in one pass, whatever the text.
ALWAYS: tuple[Mask, ...] = (
    (TERMINAL_CODES, ""),
    (re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b|\b0x[0-9a-f]{12}\b"), "<address>"),
    (re.compile(r"<ipython-input-\d+-[0-9a-f]+>|/ipykernel_\d+/\d+\.py"), "<cell>"),
    (re.compile(r"\b(Cell In|Input In ?)\[\d+\]"), r"\1[…]"),
    (re.compile(r"/tmp[a-z0-9_]{8}(?![a-z0-9_])"), "/<temporary>"),  # the name, as tempfile makes it
    # What %time and %timeit say.
    (re.compile(r"^(CPU times|Wall time|Compiler time|Compiler) ?:.*$", re.MULTILINE), r"\1: <time>"),
    (re.compile(r"^.{1,60} per loop \(mean ± std\. dev\. of .{1,80}\)$", re.MULTILINE), "<time> per loop"),
)

OF_PICTURES: tuple[Mask, ...] = (
    # What matplotlib puts into an SVG beside the picture: when it was made, and ids that are random.
    (re.compile(r"<dc:date>[^<]{0,100}</dc:date>"), "<dc:date/>"),
    (re.compile(r"\b[mpi][0-9a-f]{10}\b"), "<id>"),
)

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp][Mm]\b)?"

_ZONE = r"(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})"

_DAY = r"\d{4}-\d{2}-\d{2}"

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"

_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"

_UNIT = r"(?:ns|[µμ]s|us|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?)"

_DATE = (
    rf"(?<![\w.]){_DAY}(?![\w.]\d)|(?<![\w./])\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}(?![\w/])"
    rf"|\b{_WEEKDAY}{_MONTH} {{1,2}}\d{{1,2}}(?:, \d{{4}}|\b)|\b{_WEEKDAY}\d{{1,2}}\.? {_MONTH},? \d{{4}}\b"
)

BY_NAME: Mapping[str, tuple[Mask, ...]] = MappingProxyType(
    {
        "times": (
            (re.compile(rf"(?<![\w.]){_DAY}[T ]{_CLOCK} ?{_ZONE}?"), "<time>"),
            (re.compile(rf"(?<![\w.:]){_CLOCK}(?:<{_CLOCK})?(?: ?{_ZONE})?(?![\w:])"), "<time>"),
            (re.compile(rf"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d{{1,3}})? ?{_UNIT}\b"), "<duration>"),
            (re.compile(r"(?<![\w.])(?:\d+(?:\.\d+)?|\?)[kMG]?(?:it|s|B)/(?:s|it)\b"), "<rate>"),
        ),
        "dates": ((re.compile(_DATE), "<date>"),),
        "uuids": (
            (
                re.compile(
                    r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{32})(?![0-9a-fA-F])"
                ),
                "<uuid>",
            ),
        ),
        "paths": ((re.compile(r"(?<![\w/.<])(?:/[\w.@+~-]{1,255}){2,}/?"), "<path>"),),
    }
)


# Says whether two pictures show the same, as far as an eye can tell. Pure.

PICTURE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
"""All that is ever decoded, whatever a picture is called: Pillow hands PostScript to ``gs``, outside of every sandbox."""

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
    from PIL import Image  # an extra, and slow to import

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
    from PIL import ImageChops, ImageFilter  # as above

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
    from PIL import ImageChops, ImageFilter  # as above

    darkest, lightest = other.filter(ImageFilter.MinFilter(3)), other.filter(ImageFilter.MaxFilter(3))
    return ImageChops.lighter(ImageChops.subtract(one, lightest), ImageChops.subtract(darkest, one))


def _middle(box: tuple[int, int, int, int]) -> str:
    left, upper, right, lower = box
    return f"{(left + right) // 2}, {(upper + lower) // 2}"


TOLERANCE = 1e-9
"""How far apart, relative to the larger, two numbers with a fraction may be."""

Output: TypeAlias = Mapping[str, Any]

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,9})?(?![\w.])")

_WHOLE = re.compile(r"[-+]?\d+")

# The id of something that lives in one kernel.
_LIVE = frozenset({"application/vnd.jupyter.widget-view+json"})

_MOST_DIFFERENCES = 20

_SHOWN = 400

_LEAD = 80

_DIFF_LINES = 16

_DIFF_WIDTH = 200

_DIFF_WINDOW = 200


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as the same."""

    tolerance: float = TOLERANCE
    masks: tuple[Mask, ...] = ALWAYS
    pictures: Callable[[bytes, bytes], str | None] = same_bytes
    """Judges two pictures; another judge may look at what they show instead."""


_DEFAULT = Rules()


@dataclass(frozen=True, slots=True)
class Difference:
    """One output that is not what it was. What is shown of either is cut to a few lines."""

    output: str
    """``stdout``, ``stderr``, ``error``, ``result``, or a display by its number and type."""
    expected: str
    got: str
    why: str
    diff: str = ""
    """Where both are text, how to get from one to the other."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is different, the first few; ``more`` counts the rest."""

    differences: tuple[Difference, ...] = ()
    more: int = 0

    @property
    def same(self) -> bool:
        return not self.differences


def compare_outputs(expected: Sequence[Output], got: Sequence[Output], rules: Rules = _DEFAULT) -> Comparison:
    """Compare what a cell put out, in nbformat's form, with what it put out another time."""
    found = [*_compare_streams(expected, got, rules), *_compare_shown(expected, got, rules)]
    return Comparison(tuple(found[:_MOST_DIFFERENCES]), max(0, len(found) - _MOST_DIFFERENCES))


def _compare_streams(expected: Sequence[Output], got: Sequence[Output], rules: Rules) -> list[Difference]:
    before, now = _streams(expected), _streams(got)
    names = sorted({*before, *now}, reverse=True)  # stdout first
    found = [_compare_text(name, before.get(name, ""), now.get(name, ""), rules) for name in names]
    return [difference for difference in found if difference is not None]


def _streams(outputs: Sequence[Output]) -> dict[str, str]:
    pieces: dict[str, list[str]] = {}
    for output in outputs:
        if output.get("output_type") == "stream":
            pieces.setdefault(str(output.get("name", "stdout")), []).append(_text(output.get("text", "")))
    return {name: "".join(parts) for name, parts in pieces.items()}


def _compare_shown(expected: Sequence[Output], got: Sequence[Output], rules: Rules) -> list[Difference]:
    before = [output for output in expected if output.get("output_type") != "stream"]
    now = [output for output in got if output.get("output_type") != "stream"]
    found: list[Difference] = []
    for number, (then, today) in enumerate(zip_longest(before, now), 1):
        if then is None or today is None:
            why = "it is new" if then is None else "it is missing"
            found.append(Difference(_label(then or today or {}, number), _brief(then), _brief(today), why))
        else:
            found += _compare_one(then, today, number, rules)
    return found


def _compare_one(then: Output, today: Output, number: int, rules: Rules) -> list[Difference]:
    kinds = then.get("output_type"), today.get("output_type")
    if kinds[0] != kinds[1]:
        why = f"{kinds[0]} became {kinds[1]}"
        return [Difference(_label(then, number), _brief(then), _brief(today), why)]
    if kinds[0] == "error":
        return _compare_errors(then, today, rules)
    before, now = then.get("data") or {}, today.get("data") or {}
    label = _label(then, number)
    found: list[Difference | None] = []
    if set(before) != set(now):
        shown = ", ".join(sorted(before)), ", ".join(sorted(now))
        found.append(Difference(label, *shown, "it comes in other formats"))
    found += [
        _compare_data(f"{label} {mime}", mime, before[mime], now[mime], rules)
        for mime in sorted({*before} & {*now} - _LIVE)
    ]
    return [difference for difference in found if difference is not None]


def _compare_errors(then: Output, today: Output, rules: Rules) -> list[Difference]:
    before, now = _brief(then), _brief(today)
    if then.get("ename") != today.get("ename"):
        return [Difference("error", before, now, "it is another error")]
    message = _compare_text("error", str(then.get("evalue", "")), str(today.get("evalue", "")), rules)
    return [Difference("error", before, now, message.why)] if message is not None else []


def _compare_data(label: str, mime: str, then: Any, today: Any, rules: Rules) -> Difference | None:
    if mime.startswith(("image/", "audio/", "video/", "application/pdf")) and not mime.endswith("+xml"):
        before, now = _decoded(then), _decoded(today)
        why = rules.pictures(before, now)
        return Difference(label, f"{len(before):,} bytes", f"{len(now):,} bytes", why) if why else None
    if mime == "image/svg+xml":
        rules = replace(rules, masks=(*OF_PICTURES, *rules.masks))
    return _compare_text(label, _text(then), _text(today), rules)


# Text ----------------------------------------------------------------------------------------------------------------


def _compare_text(label: str, expected: str, got: str, rules: Rules) -> Difference | None:
    before, now = _masked(expected, rules), _masked(got, rules)
    why = _why_texts_differ(before, now, rules.tolerance)
    if why is None:
        return None
    pairs = enumerate(zip(before, now, strict=False))
    first = next((place for place, (then, today) in pairs if then != today), min(len(before), len(now)))
    begins = max(0, first - _LEAD)
    return Difference(label, _cut(before, begins), _cut(now, begins), why, _diff(before, now))


def _masked(text: str, rules: Rules) -> str:
    for pattern, name in rules.masks:
        text = pattern.sub(name, text)
    return text


def _why_texts_differ(before: str, now: str, tolerance: float) -> str | None:
    if before == now:
        return None
    if _NUMBER.split(before) != _NUMBER.split(now):
        return "the text differs"
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(now), strict=True)
    far = [(then, today) for then, today in pairs if not _close(then, today, tolerance)]
    if not far:
        return None
    others = f", and {len(far) - 1} more" if len(far) > 1 else ""
    return f"{far[0][0][:40]} became {far[0][1][:40]}{others}"


def _close(then: str, today: str, tolerance: float) -> bool:
    if then == today:
        return True
    if _WHOLE.fullmatch(then) and _WHOLE.fullmatch(today):
        return False  # counts and identifiers are right or wrong
    before, now = float(then), float(today)
    return math.isfinite(before) and math.isclose(before, now, rel_tol=tolerance)


def _diff(before: str, now: str) -> str:
    """A unified diff of the place where two texts begin to differ."""
    old, new = before.splitlines(), now.splitlines()
    pairs = zip(old, new, strict=False)
    first = next(
        (place for place, (then, today) in enumerate(pairs) if then != today), min(len(old), len(new))
    )
    start = max(0, first - 1)
    window = slice(start, start + _DIFF_WINDOW)
    lines = list(unified_diff(_narrow(old[window]), _narrow(new[window]), lineterm="", n=1))[3:]
    if len(lines) > _DIFF_LINES:
        lines = [*lines[:_DIFF_LINES], "…"]
    return "\n".join([f"@@ line {first + 1} @@", *lines]) if lines else ""


def _narrow(lines: Sequence[str]) -> list[str]:
    return [line if len(line) <= _DIFF_WIDTH else line[: _DIFF_WIDTH - 1] + "…" for line in lines]


# What is shown -------------------------------------------------------------------------------------------------------


def _label(output: Output, number: int) -> str:
    match output.get("output_type"):
        case "execute_result":
            return "result"
        case "error":
            return "error"
        case _:
            return f"display {number}"


def _brief(output: Output | None) -> str:
    if output is None:
        return ""
    if output.get("output_type") == "error":
        return _cut(f"{output.get('ename', '')}: {output.get('evalue', '')}")
    data = output.get("data") or {}
    return _cut(_text(data["text/plain"])) if "text/plain" in data else ", ".join(sorted(data))


def _cut(text: str, begins: int = 0) -> str:
    if len(text) <= _SHOWN:
        return text
    shown = text[begins : begins + _SHOWN]
    return f"{'…' if begins else ''}{shown}{'…' if begins + _SHOWN < len(text) else ''}"


def _text(value: Any) -> str:
    """What a format holds, as text; a text may be stored as a list of its lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1)


def _decoded(value: Any) -> bytes:
    text = _text(value)
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return text.encode()

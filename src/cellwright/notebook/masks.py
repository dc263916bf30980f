"""Parts of a text that may be another with every run, and what stands for them when texts are compared. Pure.

Some are masked always; others only where somebody says so, by name. Patterns that a notebook brings along are not
trusted to end, and are not here (see ``verification.masking``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from cellwright.notebook.readable import TERMINAL_CODES

__all__ = ["ALWAYS", "BY_NAME", "OF_PICTURES", "Mask"]

Mask: TypeAlias = tuple[re.Pattern[str], str]

# A cell may print a megabyte of anything: each of these is done in one pass, whatever the text.
ALWAYS: tuple[Mask, ...] = (
    (TERMINAL_CODES, ""),
    (re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b|\b0x[0-9a-f]{12}\b"), "<address>"),
    (re.compile(r"<ipython-input-\d+-[0-9a-f]+>|/ipykernel_\d+/\d+\.py"), "<cell>"),
    (re.compile(r"\b(Cell In|Input In ?)\[\d+\]"), r"\1[…]"),
    (re.compile(r"/tmp[a-z0-9_]{8}(?![a-z0-9_])"), "/<temporary>"),  # noqa: S108  # the name, as tempfile makes it
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

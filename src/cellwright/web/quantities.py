"""Numbers and times as people read them. Pure."""

from __future__ import annotations

import time

__all__ = ["age", "amount", "bytes_text", "moment", "seconds_text"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_KILO = 1024


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that says something."""
    passed = max((time.time() if now is None else now) - since, 0)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if passed >= size:
            return f"{passed / size:.0f} {unit}"
    return f"{passed:.0f} s"


def moment(at: float, now: float | None = None) -> str:
    """A time of day by this machine's clock, with its date where that is not today's."""
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def seconds_text(seconds: float | None) -> str:
    """A duration; empty where it is not known."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"


def bytes_text(size: float | None) -> str:
    """A size; empty where it is not known."""
    if size is None:
        return ""
    for unit in ("B", "KB", "MB"):
        if size < _KILO:
            return f"{size:.0f} {unit}"
        size /= _KILO
    return f"{size:.1f} GB"


def amount(number: int, one: str, many: str | None = None) -> str:
    """So many of something."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

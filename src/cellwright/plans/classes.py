"""How an error is classed: whether a plan may try to mend it, must stop, or tries the same again.

By its root, and by the worst of several: a group of errors is as bad as the worst in it. Pure; the table is data
(``classtable``), and any other can be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cellwright.plans.classtable import ERROR_CLASSES
from cellwright.plans.failures import Failure
from cellwright.plans.signs import ErrorClass, Kind, Sign, side_signs_of, signs_of

__all__ = ["ERROR_CLASSES", "ErrorClass", "Kind", "Sign", "Verdict", "classify"]

_BADNESS: dict[Kind, int] = {"recoverable": 0, "network": 1, "unrecoverable": 2}
_MAX_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error is, what may be done about it, and what somebody could do next."""

    name: str
    kind: Kind
    suggestion: str


def classify(failure: Failure, table: Sequence[ErrorClass] = ERROR_CLASSES) -> Verdict:
    """The class of the worst of what a failure comes down to."""
    found = [*_matches(signs_of(failure), table), *_side_matches(side_signs_of(failure), table)]
    error_class, sign = max(found, key=lambda match: _BADNESS[match[0].kind])
    return Verdict(error_class.name, error_class.kind, _worded(error_class, sign, failure.message))


def _matches(signs: Iterable[Sign], table: Sequence[ErrorClass]) -> list[tuple[ErrorClass, Sign]]:
    return [(next((row for row in table if row.takes(sign)), ERROR_CLASSES[-1]), sign) for sign in signs]


def _side_matches(signs: Iterable[Sign], table: Sequence[ErrorClass]) -> list[tuple[ErrorClass, Sign]]:
    anywhere = [row for row in table if row.anywhere]
    return [(row, sign) for sign in signs for row in anywhere if row.takes(sign)]


def _worded(error_class: ErrorClass, sign: Sign, message: str) -> str:
    """The class's suggestion for this error; a reason that its message gives is not said twice."""
    details = sign.details
    what = details.get("name") or details.get("key") or details.get("filename") or "it"
    fields = {
        "type": sign.type,
        "message": " ".join(sign.message.split())[:_MAX_QUOTED],
        "what": str(what)[:_MAX_QUOTED],
        "reason": "" if sign.reason in message else sign.reason,
    }
    return " ".join(error_class.suggestion.format_map(fields).split())

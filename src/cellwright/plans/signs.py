"""What an error shows of itself, and what a class of errors looks for: the two sides that ``classes`` brings together.

Pure. The classes themselves stand in ``classtable``.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cellwright.engine import Diagnosis
from cellwright.plans.failures import Failure

__all__ = ["ErrorClass", "Kind", "Sign", "side_signs_of", "signs_of"]

Kind: TypeAlias = Literal["recoverable", "unrecoverable", "network"]
"""``network``: tried again as it is, a few times, before it stops the plan."""

_ERRNO = re.compile(r"\[Errno (\d+)\]")


@dataclass(frozen=True, slots=True)
class Sign:
    """One error as a class sees it: a root of what was raised, or the end of a cell that raised nothing."""

    state: str
    type: str
    message: str
    bases: frozenset[str] = frozenset()
    """As in ``Raised.bases``; where nobody could be asked, the type's name, and those of the builtin one so called."""
    details: dict[str, Any] = field(default_factory=dict)
    library: str | None = None
    reason: str = ""
    """What the engine says of the limit behind it."""
    is_known: bool = True
    """Whether the kernel told it; else all that is known of its type is a name."""
    has_checkpoint: bool = True
    is_python: bool = True

    @property
    def errno(self) -> int | None:
        """The number of an ``OSError``, also of one that another one only quotes."""
        number = self.details.get("errno")
        if isinstance(number, int):
            return number
        quoted = _ERRNO.search(self.message) if "OSError" in self.bases else None
        return int(quoted[1]) if quoted else None


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """One row of the table. It takes an error that matches any of what it looks for, and passes its ``when``."""

    name: str
    kind: Kind
    meaning: str
    """What it is, for the reference."""
    suggestion: str
    """What to do, with ``{type}``, ``{message}``, ``{what}`` (the name, key or file it is about), ``{reason}``."""
    types: tuple[str, ...] = ()
    """Classes of exceptions that it takes, with all that inherit from them: builtins by name, others with their
    module."""
    errnos: frozenset[int] = frozenset()
    """Numbers that an ``OSError`` may have."""
    says: re.Pattern[str] | None = None
    """What the message may say, of an exception that is none of the plain mistakes of a programmer."""
    says_abroad: re.Pattern[str] | None = None
    """What the message may say where another language raised it."""
    reason: re.Pattern[str] | None = None
    """What the engine may say of the limit behind it."""
    states: tuple[str, ...] = ()
    """How the cell must have ended, where that matters."""
    when: Callable[[Sign], bool] | None = None
    """What must hold besides; where nothing else is looked for, all that must hold."""
    anywhere: bool = False
    """Whether it is also looked for in errors that only happened on the way."""

    def takes(self, sign: Sign) -> bool:
        if self.states and sign.state not in self.states:
            return False
        looks = bool(self.types or self.errnos or self.says or self.says_abroad or self.reason)
        if looks and not (self._is_typed(sign) or self._is_said(sign)):
            return False
        return self.when is None or self.when(sign)

    def _is_typed(self, sign: Sign) -> bool:
        if sign.bases.intersection(self.types) or sign.errno in self.errnos:
            return True
        return not sign.is_known and sign.type in {name.rpartition(".")[2] for name in self.types}

    def _is_said(self, sign: Sign) -> bool:
        quotes_code = bool(sign.bases & PLAIN_MISTAKES)
        said = (
            (self.says, sign.message if not quotes_code else None),
            (self.says_abroad, sign.message if not sign.is_python else None),
            (self.reason, sign.reason),
        )
        return any(pattern and text is not None and pattern.search(text) for pattern, text in said)


PLAIN_MISTAKES = frozenset(
    {
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "FileNotFoundError",
        "ImportError",
        "IndexError",
        "KeyError",
        "NameError",
        "SyntaxError",
        "TypeError",
        "UnicodeError",
    }
)
"""What they say quotes the code, and may quote anything."""


def signs_of(failure: Failure) -> Iterator[Sign]:
    """What the failure comes down to."""
    diagnosis = failure.diagnosis
    # What interrupted the cell in the end is not what was wrong with it.
    if diagnosis is None or failure.state not in ("error", "rejected"):
        yield _bare(failure)
        return
    yield from _told(failure, diagnosis, (*diagnosis.roots,) or (diagnosis.raised,))


def side_signs_of(failure: Failure) -> Iterator[Sign]:
    """Everything else that happened on the way."""
    yield _bare(failure)
    if failure.diagnosis is not None:
        yield from _told(failure, failure.diagnosis, (failure.diagnosis.raised, *failure.diagnosis.chain))


def _told(failure: Failure, diagnosis: Diagnosis, found: tuple[Any, ...]) -> Iterator[Sign]:
    for raised in found:
        yield Sign(
            state=failure.state,
            type=raised.type,
            message=raised.message,
            bases=frozenset(raised.bases),
            details=raised.details,
            library=raised.library,
            # The limit that the engine names is that of what reached the top.
            reason=(failure.reason or "") if len(diagnosis.roots) == 1 else "",
            has_checkpoint=failure.surroundings.has_checkpoint,
        )


def _bare(failure: Failure) -> Sign:
    is_python = failure.language == "python"
    raised = failure.state in ("error", "rejected")
    bases: set[str] = set()
    known = vars(builtins).get(failure.error_type) if is_python and raised else None
    if isinstance(known, type) and issubclass(known, BaseException):
        bases = {kind.__name__ for kind in known.__mro__}
    return Sign(
        state=failure.state,
        type=failure.error_type,
        message=failure.message,
        bases=frozenset({*bases, failure.error_type}) if raised else frozenset(),
        reason=failure.reason or "",
        is_known=not raised,
        has_checkpoint=failure.surroundings.has_checkpoint,
        is_python=is_python,
    )

"""How an error is classed: whether a plan may try to fix it, must stop, or tries the same again.

By its root, and by the worst of several: a group of errors is as bad as the worst in it. Pure; the table is data
(``error_classes``), and any other can be given.
"""

from __future__ import annotations

import builtins
import errno
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from cellwright.engine import Diagnosis
from cellwright.errors import CellwrightError
from cellwright.plans.failures import Failure
from cellwright.plugins.registry import Plugin, registry

__all__ = ["CELLWRIGHT_API", "ERROR_CLASSES", "ErrorClass", "Verdict", "classify", "every_error_class"]

CELLWRIGHT_API = 1

# What an error shows of itself, and what a class of errors looks for: the two sides that ``error_classes`` brings
# together.


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
    yield from _signs_of_raised(failure, diagnosis, (*diagnosis.roots,) or (diagnosis.raised,))


def side_signs_of(failure: Failure) -> Iterator[Sign]:
    """Everything else that happened on the way."""
    yield _bare(failure)
    if failure.diagnosis is not None:
        yield from _signs_of_raised(
            failure, failure.diagnosis, (failure.diagnosis.raised, *failure.diagnosis.chain)
        )


def _signs_of_raised(failure: Failure, diagnosis: Diagnosis, found: tuple[Any, ...]) -> Iterator[Sign]:
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


# The classes of errors, in the order in which an error is compared with them: the first that takes it is its
# class.

# A word of its own: neither STOPPED, nor STOP_LOSS, nor NON-STOP.
_STOP = re.compile(r"(?<![\w-])STOP(?![\w-])")

_ACCESS = r"(api[ _-]?key|credentials?|(access|auth|bearer|api) token|password)"

_CREDENTIALS = re.compile(
    r"\b(401|403|407)\b.{0,40}\b(unauthori[sz]ed|forbidden|authentication|client error)|HTTP Error (401|403|407)\b"
    rf"|\b(missing|invalid|no|without|provide|set|needs?|requires?|incorrect|expired|locate|find)\W+(\w+\W+){{0,4}}{_ACCESS}\b"
    rf"|\b{_ACCESS}\W+(\w+\W+){{0,4}}(missing|invalid|required|failed|expired|incorrect|not (found|set|provided|given))\b"
    r"|\bauthentication (failed|required)\b|\bnot logged in\b|\blog ?in (is )?required\b",
    re.IGNORECASE,
)

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|_PAT|_PW)$", re.IGNORECASE)

_TRY_LATER = re.compile(r"\b(408|425|429|500|502|503|504)\b")

_BAD_ADDRESS = re.compile(
    r"unknown url type|no host (given|supplied)|invalid url|\[Errno 2\]|No such file", re.IGNORECASE
)

_HTTP_ERRORS = (
    "urllib.error.HTTPError",
    "requests.exceptions.HTTPError",
    "httpx.HTTPStatusError",
    "aiohttp.client_exceptions.ClientResponseError",
)

_NETWORK_ERRORS = (
    "ConnectionError",
    "TimeoutError",
    "socket.gaierror",
    "socket.herror",
    "socket.timeout",
    "ssl.SSLError",
    "urllib.error.URLError",
    "urllib.error.ContentTooShortError",
    "http.client.HTTPException",
    "ftplib.Error",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "requests.exceptions.ReadTimeout",
    "requests.exceptions.ChunkedEncodingError",
    "requests.exceptions.ContentDecodingError",
    "urllib3.exceptions.HTTPError",
    "urllib3.exceptions.MaxRetryError",
    "httpx.TransportError",
    "httpx.ConnectError",
    "httpx.ReadTimeout",
    "httpcore.NetworkError",
    "httpcore.TimeoutException",
    "aiohttp.client_exceptions.ClientConnectionError",
    "aiohttp.client_exceptions.ClientPayloadError",
    "aiohttp.client_exceptions.ClientConnectorError",
)

_NETWORK_SAYS = re.compile(
    r"connection (refused|reset|timed out|aborted)|could not connect to server|timed? ?out.{0,20}(connect|http|server)"
    r"|temporary failure in name resolution|name or service not known|network is unreachable|no route to host"
    r"|getaddrinfo failed|remote end closed connection",
    re.IGNORECASE,
)


def _stops(sign: Sign) -> bool:
    return _STOP.search(sign.message) is not None


def _needs_credentials(sign: Sign) -> bool:
    if "KeyError" in sign.bases:
        # `os.environ["API_KEY"]`: nobody but a person can know it.
        key = sign.details.get("key")
        return sign.library == "os" and isinstance(key, str) and _SECRET_NAME.search(key) is not None
    return not sign.bases.intersection(_HTTP_ERRORS) or _CREDENTIALS.search(sign.message) is not None


def _may_come_later(sign: Sign) -> bool:
    return _TRY_LATER.search(sign.message) is not None


def _reaches_out(sign: Sign) -> bool:
    """Not a wrong address, which is wrong however often it is tried."""
    return "urllib.error.URLError" not in sign.bases or _BAD_ADDRESS.search(sign.message) is None


def _says_nothing(sign: Sign) -> bool:
    return not sign.message.strip()


def _can_go_on(sign: Sign) -> bool:
    return sign.has_checkpoint


ERROR_CLASSES: tuple[ErrorClass, ...] = (
    ErrorClass(
        "stop",
        "unrecoverable",
        "A message with the word `STOP` in it, as a word of its own, anywhere in the chain",
        "The code asked for a stop: read its message, decide, and go on or give other code",
        when=_stops,
        anywhere=True,
    ),
    ErrorClass(
        "memory",
        "unrecoverable",
        "Out of memory: raised, or the kernel was ended for it",
        "Use less memory at once (samples, chunks, fewer copies), or raise the limit. {reason}",
        types=("MemoryError", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
        errnos=frozenset({errno.ENOMEM}),
        says=re.compile(r"std::bad_alloc"),
        says_abroad=re.compile(r"cannot allocate vector|allocation failed", re.IGNORECASE),
        reason=re.compile(r"\bmax_session_memory\b|\bmax_memory_fraction\b|ran out of memory"),
    ),
    ErrorClass(
        "disk",
        "unrecoverable",
        "The disk, or the session's share of it, is full",
        "Delete files or write less, or raise the limit. {reason}",
        errnos=frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}),
        says=re.compile(r"No space left on device|Disk quota exceeded|\bdisk is full\b"),
        says_abroad=re.compile(r"No space left on device"),
        reason=re.compile(r"\bmax_session_(disk|files)\b"),
    ),
    ErrorClass(
        "limit",
        "unrecoverable",
        "Another limit of the session, which it reaches again however often the cell runs",
        "Do less at once, or raise the limit. {reason}",
        reason=re.compile(r"\bmax_session_(cpu_s|processes|open_files)\b"),
    ),
    ErrorClass(
        "refused_network",
        "unrecoverable",
        "The policy lets the code reach no network, or not that host",
        "This session may not reach that, however often it tries. {reason}",
        says=re.compile(r"Tunnel connection failed: 403"),
        reason=re.compile(r"\(network\)|\bsetting network\b"),
    ),
    ErrorClass(
        "refused",
        "unrecoverable",
        "No right to it: a file's permissions, a read-only place, a call that the sandbox forbids",
        "Use a place that the session may use, or let somebody give it the right. {reason}",
        types=("PermissionError", "PermissionDenied", "NotCapable", "PackageRefused"),
        errnos=frozenset({errno.EACCES, errno.EPERM, errno.EROFS}),
        says=re.compile(r"Read-only file system|readonly database"),
        says_abroad=re.compile(r"Permission denied|Requires \w+ access", re.IGNORECASE),
    ),
    ErrorClass(
        "timeout",
        "recoverable",
        "The cell ran longer than it may",
        "Work on less data at once, or give the step more time (timeout_s, or the setting cell_timeout_s)",
        states=("timeout",),
    ),
    ErrorClass(
        "kernel_died",
        "recoverable",
        "The kernel ended while it ran the cell, and a checkpoint is there to go on from",
        "Look for what ended the kernel in the cell, and give other code. {reason}",
        states=("died",),
        when=_can_go_on,
    ),
    ErrorClass(
        "kernel_lost",
        "unrecoverable",
        "The kernel ended while it ran the cell, with no checkpoint to go on from",
        "The state is lost: go on, which makes it again; if it was the cell that ended the kernel, change that first. {reason}",
        states=("died",),
    ),
    ErrorClass(
        "exit",
        "unrecoverable",
        "The code asked to leave, or interrupted itself",
        "Take the call that ends the program out of the cell, or decide that it ends here",
        types=("SystemExit", "KeyboardInterrupt"),
    ),
    ErrorClass(
        "credentials",
        "unrecoverable",
        "Somebody must sign in, or give a key: `401` and `403`, missing credentials, a secret that is in no "
        "environment variable",
        "Let a person give what is missing ({message}) in a way that the notebook does not show",
        types=(
            "KeyError",
            *_HTTP_ERRORS,
            "botocore.exceptions.NoCredentialsError",
            "botocore.exceptions.PartialCredentialsError",
            "google.auth.exceptions.DefaultCredentialsError",
            "google.auth.exceptions.RefreshError",
            "netrc.NetrcParseError",
        ),
        says=_CREDENTIALS,
        when=_needs_credentials,
    ),
    ErrorClass(
        "ambiguous",
        "unrecoverable",
        "The data can be read in more than one way, and somebody must say which",
        "Look at the data and decide: {message}",
        types=(
            "pandas.errors.MergeError",
            "pytz.exceptions.AmbiguousTimeError",
            "pytz.exceptions.NonExistentTimeError",
        ),
        says=re.compile(
            r"\bambiguous (data|dates?|times?|values?|rows?|columns?|names?)\b|\bCannot infer dst time\b"
        ),
    ),
    ErrorClass(
        "http_later",
        "network",
        "A server that says to try later: `408`, `425`, `429`, `500`, `502`, `503`, `504`",
        "The server does not answer as it should: try again later. {message}",
        types=_HTTP_ERRORS,
        when=_may_come_later,
    ),
    ErrorClass(
        "http",
        "recoverable",
        "A server that answers with any other refusal",
        "Look at the address and at what is asked for: {message}",
        types=_HTTP_ERRORS,
    ),
    ErrorClass(
        "network",
        "network",
        "A connection that could not be had, or broke: sockets, `urllib`, `http`, `ssl`, `requests`, `httpx`, "
        "`aiohttp`, `urllib3`",
        "The network or the server did not answer ({message}): look at it, then go on",
        types=_NETWORK_ERRORS,
        says=_NETWORK_SAYS,
        says_abroad=re.compile(r"Could not resolve host|cannot open URL|error sending request|fetch failed"),
        when=_reaches_out,
    ),
    ErrorClass(
        "check",
        "recoverable",
        "The cell ran, and what must hold after it does not",
        "Look at what the cell made, and give code after which it holds: {message}",
        types=("AssertionError", "AcceptanceError"),
        says_abroad=re.compile(""),
        states=("rejected",),
    ),
    ErrorClass(
        "name",
        "recoverable",
        "A name that nothing defines",
        "Define or import {what} before it is used",
        types=("NameError", "ReferenceError"),
        says_abroad=re.compile(r"object '.+' not found|could not find function|is not defined"),
    ),
    ErrorClass(
        "import",
        "recoverable",
        "A module, or a name in it, that is not there",
        "Import something that is installed, or install the package that has it",
        types=("ImportError",),
        says_abroad=re.compile(r"there is no package called|Module not found", re.IGNORECASE),
    ),
    ErrorClass(
        "index",
        "recoverable",
        "An index outside of what there is",
        "Look at how long it is, and use an index within",
        types=("IndexError",),
        says_abroad=re.compile(r"subscript out of bounds|undefined columns selected"),
    ),
    ErrorClass(
        "key",
        "recoverable",
        "A key or a column that is not there",
        "Look at the keys or columns that there are, and use one of them",
        types=("KeyError", "polars.exceptions.ColumnNotFoundError"),
    ),
    ErrorClass(
        "attribute",
        "recoverable",
        "An attribute that the object does not have",
        "Look at what the object is and has, and use that",
        types=("AttributeError",),
        says_abroad=re.compile(r"is not a function|Cannot read propert"),
    ),
    ErrorClass(
        "encoding",
        "recoverable",
        "Text in another encoding than the one it was read or written with",
        "Give the encoding that the text really has",
        types=("UnicodeError",),
    ),
    ErrorClass(
        "syntax",
        "recoverable",
        "Code that cannot be parsed, its indentation included",
        "Give code that can be parsed: {message}",
        types=("SyntaxError",),
        says_abroad=re.compile(
            r"unexpected (symbol|string|input|end of input|numeric)|parse error|Expected .+ got"
        ),
    ),
    ErrorClass(
        "zero_division",
        "recoverable",
        "A division by zero",
        "Leave out what is zero, or say what comes of it",
        types=("ZeroDivisionError",),
    ),
    ErrorClass(
        "file",
        "recoverable",
        "A file or directory that is not there, or is not what it is taken for",
        "Look at the files that there are, and name one of them",
        types=("FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError", "NotFound"),
        says=re.compile(r"non-existent directory|No such file or directory"),
        says_abroad=re.compile(r"cannot open (the connection|file)|No such file or directory|os error 2"),
    ),
    ErrorClass(
        "type",
        "recoverable",
        "A value of the wrong type, or a call with the wrong arguments",
        "Look at what the values are, and convert them or call it otherwise: {message}",
        types=("TypeError",),
    ),
    ErrorClass(
        "unclear",
        "unrecoverable",
        "A `ValueError` that says nothing",
        "It does not say what is wrong with the value: let somebody look at the data and the code",
        types=("ValueError",),
        when=_says_nothing,
    ),
    ErrorClass(
        "value",
        "recoverable",
        "A value that cannot be, and a message that says why",
        "Look at the value and at what is expected: {message}",
        types=("ValueError",),
    ),
    ErrorClass(
        "assertion",
        "recoverable",
        "An assertion of the cell's own code",
        "What the code takes for granted is not so: look at the data, and give other code. {message}",
        types=("AssertionError",),
    ),
    ErrorClass(
        "other",
        "recoverable",
        "Anything else",
        "Look at the message and give other code for this step: {message}",
    ),
)


_BADNESS: dict[Kind, int] = {"recoverable": 0, "network": 1, "unrecoverable": 2}

_MAX_QUOTED = 300

_ASKED_S = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error is, what may be done about it, and what somebody could do next."""

    name: str
    kind: Kind
    suggestion: str


def every_error_class() -> tuple[ErrorClass, ...]:
    """The whole table: ours, and among them those of plugins."""
    there = registry()
    ours: list[ErrorClass] = []
    others: list[ErrorClass] = []
    for plugin, made in there.every("error_classes"):
        rows = made if isinstance(made, tuple | list) else (made,)
        if plugin.entry.is_ours:
            ours += rows
        else:
            known = {row.name for row in (*ours, *others)}
            others += (_harmless(plugin, row) for row in rows if row.name not in known)
    # Behind the rows about limits and rights, which nobody may weaken; before those that take whatever is left.
    place = next((at for at, row in enumerate(ours) if row.kind == "network"), len(ours))
    return (*ours[:place], *others, *ours[place:])


def _harmless(plugin: Plugin, row: ErrorClass) -> ErrorClass:
    """A plugin's row, whose condition does not hold where it cannot be asked."""
    if row.when is None:
        return row
    asked = registry().guarded(plugin, row.when, bool, limit_s=_ASKED_S)

    def when(sign: Sign) -> bool:
        try:
            return asked(sign)
        except CellwrightError:
            return False

    return replace(row, when=when)


def classify(failure: Failure, table: Sequence[ErrorClass] | None = None) -> Verdict:
    """The class of the worst of what a failure comes down to."""
    table = every_error_class() if table is None else table
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

"""The classes of errors, in the order in which an error is compared with them: the first that takes it is its class.

Data, with the few predicates that need more than a type. What cannot be mended by code stands first, so that a
``FileNotFoundError`` that a full disk led to is no missing file. ``docs/reference/error-classes.md`` shows the same.
"""

from __future__ import annotations

import errno
import re

from cellwright.plans.signs import ErrorClass, Sign

__all__ = ["ERROR_CLASSES"]

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

"""Takes secrets out of whatever is written or told: those that are known, and what looks like one. Pure.

A known secret is found however it is written: as it is, as JSON in JSON, URL-encoded, as HTML, and inside of base64. It
is no guard against code that means to hide one (reversed, say): it keeps keys out of logs, no more.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

__all__ = ["MARK", "Redactor"]
MARK = "[redacted]"

SHORTEST = 8
"""A known secret of fewer characters is left alone: it would take ordinary words with it."""

_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "set-cookie"}
)

_CONTROLS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;|&\\#34;", "'": "&apos;|&\\#39;|&\\#x27;"}

_PLAIN = re.compile(r"[A-Za-z0-9_.~+/=:-]+")

_JSON_ESCAPE = re.compile(r"\\++(?:u([0-9a-fA-F]{4}))?")


class Redactor:
    """Takes these secrets, and what looks like one, out of texts and JSON values. Doing it twice changes nothing."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {one for one in secrets if len(one) >= SHORTEST and one not in MARK}
        coded = {core for one in known for core in _cores(one)}
        # The longest first: one that holds another goes as a whole.
        self._forms = sorted(known | coded, key=lambda one: (-len(one), one))
        self._known = known
        self._plain = all(_PLAIN.fullmatch(one) for one in known)
        self._signs = "\\%&+" if any(" " in one for one in known) else "\\%&"
        """What every other writing has."""
        self._made: re.Pattern[str] | None = None

    def text(self, text: str) -> str:
        """A text without them."""
        if self._may_hold(text):
            text = self._pattern().sub(MARK, text)
        return without_lookalikes(text, MARK)

    def value(self, value: Any) -> Any:
        """A JSON value without them, in keys too. The rest is given back equal."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list | tuple):
            return [self.value(one) for one in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = json.dumps(value)
            return MARK if any(form in number for form in self._forms) else value
        return value

    def _may_hold(self, text: str) -> bool:
        """Whether a closer look is worth its time; most texts hold nothing, and some are a megabyte."""
        if any(form in text for form in self._forms):
            return True
        if not self._forms or not any(sign in text for sign in self._signs):
            return False
        if not self._plain:
            return True
        decoded = _decoded(text)
        return any(form in decoded for form in self._forms)

    def _pattern(self) -> re.Pattern[str]:
        """Made when it is first wanted, which in most runs it never is."""
        if self._made is None:
            known = self._known
            written = (_any_writing(one) if one in known else _any_coding(one) for one in self._forms)
            self._made = re.compile("|".join(written))
        return self._made

    def _object(self, value: dict[Any, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, one in value.items():
            name = wanted = self.text(str(key))
            number = 1
            while name in kept:  # two keys that differed only in what was taken out
                number += 1
                name = f"{wanted} {number}"
            is_secret = wanted.lower() in _HEADERS and isinstance(one, str) and one
            kept[name] = MARK if is_secret else self.value(one)
        return kept

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._known)}>"


def _decoded(text: str) -> str:
    """The text with escapes of every kind undone, as far as plain secrets go that may be in it."""
    before = None
    while before != text and "%" in text:
        before, text = text, unquote(text)
    text = html.unescape(text) if "&" in text else text
    return _JSON_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "", text)


def _cores(secret: str) -> Iterator[str]:
    """What base64 of anything that holds the secret holds, wherever it lies in there."""
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):
        first, last = -(-8 * before // 6), 8 * (before + len(data)) // 6
        coded = base64.b64encode(b"\0" * before + data + b"\0\0").decode()[first:last]
        yield coded
        yield coded.translate(str.maketrans("+/", "-_"))


def _any_coding(core: str) -> str:
    return "".join(one if one.isalnum() else _written(one) for one in core)


def _any_writing(secret: str) -> str:
    """A pattern of the secret as it is, and as JSON in JSON, a URL or HTML would write it."""
    runs = re.findall(r"\\+|[^\\]", secret, re.DOTALL)
    # Possessive, and never begun in the middle: a long run of backslashes would be tried in every split.
    first = r"(?<!\\)" if runs[0][0] == "\\" else ""
    return first + "".join(
        _BACKSLASHES
        if run[0] == "\\"
        else _written(run, _FIRST if at == 0 else _BEHIND if runs[at - 1][0] == "\\" else _ESCAPE)
        for at, run in enumerate(runs)
    )


# However deep the JSON, a run of them stays a run.
_BACKSLASHES = r"(?:\\++(?:u005[cC])?|%(?:25)*+5[cC])+"

_ESCAPE = r"\\++"

_FIRST = r"(?<!\\)\\++"

_BEHIND = r"\\*+"  # a run before it has taken them


def _written(one: str, escape: str = _ESCAPE) -> str:
    plain = re.escape(one)
    units = r"\\++".join(f"u{_hex(code)}" for code in _hexes(one.encode("utf-16-be", "surrogatepass"), 2))
    octets = _hexes(one.encode("utf-8", "surrogatepass"), 1)
    escaped = [plain, units, _CONTROLS[one]] if one in _CONTROLS else [plain, units]
    forms = [
        plain,
        f"{escape}(?:{'|'.join(escaped)})",
        "%(?:25)+" if one == "%" else "".join(f"%(?:25)*+{_hex(byte)}" for byte in octets),
    ]
    if one in _ENTITIES:
        forms.append(_ENTITIES[one])
    if one == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


def _hexes(data: bytes, size: int) -> list[str]:
    return [data[at : at + size].hex() for at in range(0, len(data), size)]


def _hex(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)


# Texts that look like a key, a token or a password, whoever's they are. Pure; what is known to be one is
# ``redaction``'s.


def _word(prefix: str, rest: str) -> tuple[str, re.Pattern[str]]:
    """A word that begins like this, also one behind an escape of JSON or of a URL."""
    # The prefix comes first, though it is looked at last: the engine then looks for it as a plain text.
    begins = rf"(?:(?<![\w-]{prefix})|(?<=\\[nrtbf]{prefix})|(?<=%[0-9A-Fa-f]{{2}}{prefix}))"
    return prefix, re.compile(f"{prefix}{begins}{rest}")


_WORDS = (
    _word("sk-", r"(?=[\w-]*\d)[\w-]{16,}"),  # OpenAI, Anthropic, and those who took after them
    _word("xai-", r"(?=\w*\d)\w{16,}"),
    _word("AIza", r"[\w-]{30,}"),
    _word("AKIA", r"[0-9A-Z]{16}(?!\w)"),
    _word("ASIA", r"[0-9A-Z]{16}(?!\w)"),
    _word("gsk_", r"\w{20,}"),
    _word("hf_", r"[A-Za-z0-9]{20,}"),
    _word("ghp_", r"\w{20,}"),
    _word("gho_", r"\w{20,}"),
    _word("ghs_", r"\w{20,}"),
    _word("github_pat_", r"\w{20,}"),
    _word("eyJ", r"[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),  # a JSON web token
    (
        "PRIVATE KEY",
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)-----END [A-Z ]*PRIVATE KEY-----"),
    ),
)

_NAMED = (
    (("bearer", "basic"), r"(\b(?:bearer|basic)\s+)(?=[\w.~+/=-]*[\d=+/_-])[\w.~+/=-]{8,}"),
    (("://",), r"(://[^\s/:@\"'\\]*:)[^\s/@\"'\\]+(?=@)"),
    (
        ("token=", "key=", "secret=", "signature=", "sig="),
        r"((?:[?&;]|%26|%3f)(?:token|access_token|api_?key|key|secret|client_secret|signature|sig)=)[^\s&#\"'\\;,]+",
    ),
    (
        # In an address or a connection string; in code only where a value stands there, not a name's item or call.
        ("password=", "passwd=", "pwd="),
        r"((?<![\w-])(?:password|passwd|pwd)=)(?!None|True|False|self)[^\s&#\"'\\;,()\[\]{}<>]{3,}+(?![\[(])",
    ),
    (("api-key",), r"((?<![\w-])(?:x-api-key|x-goog-api-key|api-key)\s*:\s*)[\w.~+/=-]{8,}"),
    (
        ("password", "passwd", "pwd", "apikey", "api_key", "secret", "auth"),
        r"((?:password|passwd|pwd|api_?key|secret_?(?:\w+_?)?key|auth_?token)\\*[\"']?\s*[:=]\s*\\*[\"'])[^\s\"'\\]{8,}",
    ),
)

_AFTER_NAMES = tuple((needles, re.compile(pattern, re.IGNORECASE)) for needles, pattern in _NAMED)


def without_lookalikes(text: str, mark: str) -> str:
    """The text with a mark where one stood. Where a name says what it is (``password=``), the name stays."""
    for needle, pattern in _WORDS:
        if needle in text:
            text = pattern.sub(mark, text)
    lowered = text.lower()
    for needles, pattern in _AFTER_NAMES:
        if any(needle in lowered for needle in needles):
            text = pattern.sub(rf"\g<1>{mark}", text)
    return text

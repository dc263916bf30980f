"""Texts that look like a key, a token or a password, whoever's they are. Pure; what is known to be one is ``redaction``'s."""

from __future__ import annotations

import re

__all__ = ["without_lookalikes"]


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

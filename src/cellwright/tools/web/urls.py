r"""A web address that has one reading only, or none. Pure; whether it may be reached is for the network's rules.

Programs disagree on where a URL's host ends: at ``\``, at ``@``, at ``#``. What they could disagree on is refused here,
and what is sent is written anew from what was understood.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import quote, unquote, urljoin

from cellwright.errors import FetchRefused
from cellwright.sandbox.network_rules import Destination

__all__ = ["WebUrl", "file_name", "numbered", "page_name", "parse_url"]

_MAX_LENGTH = 8_000

_SHOWN = 200

_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?:#.*)?", re.DOTALL
)

_PORTS: dict[str, int] = {"http": 80, "https": 443}

# What stands for itself in a path or a query; a percent sign was put there by somebody who meant it.
_SAFE = "/?%:@!$&'()*+,;=-._~[]"


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A scheme, where it leads, and what is asked for there, as it is sent."""

    scheme: Literal["http", "https"]
    destination: Destination
    target: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.destination.host}]" if ":" in self.destination.host else self.destination.host
        return host if self.destination.port == _PORTS[self.scheme] else f"{host}:{self.destination.port}"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    def join(self, location: str) -> WebUrl:
        """Where a redirect from here leads.

        Raises:
            FetchRefused: to no address that can be understood, or out of encryption.
        """
        _check_characters(location)
        try:
            joined = urljoin(str(self), location)
        except ValueError:
            raise _refused(location, "it is no address that can be understood") from None
        found = parse_url(joined)
        if self.scheme == "https" and found.scheme == "http":
            raise FetchRefused(
                f"{self} leads on to {found}, which is not encrypted",
                hint="Fetch that address itself if it may be read in the clear",
                why="that is not encrypted",
            )
        return found


def parse_url(text: str) -> WebUrl:
    """A URL from its text; a fragment is dropped.

    Raises:
        FetchRefused: it is none, or could be read in two ways; the message says what is wrong.
    """
    text = text.strip(" ")
    _check_characters(text)
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise _refused(text, "it is not of the form https://host/path")
    scheme = parts["scheme"].lower()
    if scheme not in _PORTS:
        raise _refused(text, f"only http and https are fetched, not {scheme[:20]}")
    if "@" in parts["authority"]:
        # Whoever reads the refusal need not read the password.
        shown = text.replace(parts["authority"], f"…@{parts['authority'].rpartition('@')[2]}", 1)
        raise _refused(shown, "it holds a user name or password, which are never sent")
    try:
        destination = Destination.parse(parts["authority"], default_port=_PORTS[scheme])
    except ValueError as error:
        raise _refused(text, str(error)) from None
    target = quote(parts["target"], safe=_SAFE)
    target = target if target.startswith("/") else f"/{target}"
    return WebUrl("https" if scheme == "https" else "http", destination, target)


def _check_characters(text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise _refused(text, f"it is longer than {_MAX_LENGTH:,} characters")
    if any(character < " " or character == "\x7f" for character in text):
        raise _refused(text, "it holds control characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _refused(text, "it holds what is no character")
    if "\\" in text:
        raise _refused(text, "it holds a backslash, which some take for a slash")


def _refused(text: str, why: str) -> FetchRefused:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return FetchRefused(
        f"{shown!r} is not fetched: {why}",
        hint="Give a plain URL such as https://example.org/page",
        why=why,
    )


# Names for files from the web: what a host or an address proposes, made harmless. Pure.

_MAX_BYTES = 120

_MAX_SUFFIX = 12

_EXTENDED = re.compile(r"filename\*\s*=\s*(?:utf-8|iso-8859-1)'[^']*'([^;\s]+)", re.IGNORECASE)

_PLAIN = re.compile(r"filename\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^;\s]+))", re.IGNORECASE)

_HARMLESS = re.compile(r"[^\w.()+,=@ -]+")

_SLUG = re.compile(r"[^A-Za-z0-9]+")

_MAX_SLUG = 60


def file_name(url: WebUrl, headers: Mapping[str, str]) -> str:
    """The name of a file: the host's own for it, else the last part of its address; never a path, never hidden."""
    disposition = headers.get("content-disposition", "")
    proposed = _disposed(disposition) or unquote(url.path.rpartition("/")[2])
    # Both kinds of slash: where it was named is not where it is put.
    last = proposed.replace("\\", "/").rpartition("/")[2]
    name = _HARMLESS.sub("_", last).strip(". _-")
    name = name or _SLUG.sub("-", url.destination.host).strip("-") or "download"
    if not PurePosixPath(name).suffix:
        name += _suffix(headers.get("content-type", ""))
    return _shortened(name)


def page_name(url: WebUrl, content: bytes, suffix: str) -> str:
    """The name for what was read of an address: the same for the same content."""
    slug = _SLUG.sub("-", f"{url.destination.host}{url.path}").strip("-").lower()[:_MAX_SLUG].strip("-")
    return f"{slug}-{hashlib.sha256(str(url).encode() + content).hexdigest()[:8]}{suffix}"


def numbered(name: str, number: int) -> str:
    """The same name, beside another that has it already."""
    if number == 1:
        return name
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem}-{number}{path.suffix}"))


def _disposed(disposition: str) -> str:
    if match := _EXTENDED.search(disposition):
        return unquote(match[1], errors="replace")
    if match := _PLAIN.search(disposition):
        text = re.sub(r"\\(.)", r"\1", match[1]) if match[1] is not None else match[2]
        return text.encode("latin-1", "replace").decode("utf-8", "replace")
    return ""


def _suffix(content_type: str) -> str:
    kind = content_type.partition(";")[0].strip().lower()
    return mimetypes.guess_extension(kind) or "" if kind != "application/octet-stream" else ""


def _shortened(name: str) -> str:
    suffix = PurePosixPath(name).suffix
    suffix = suffix if len(suffix) <= _MAX_SUFFIX else ""
    stem = name.removesuffix(suffix) if suffix else name
    capacity = _MAX_BYTES - len(suffix.encode())
    return stem.encode()[:capacity].decode("utf-8", "ignore").rstrip() + suffix

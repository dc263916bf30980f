"""Names for files from the web: what a host or an address proposes, made harmless. Pure."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote

from cellwright.tools.web.urls import WebUrl

__all__ = ["file_name", "numbered", "page_name"]

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

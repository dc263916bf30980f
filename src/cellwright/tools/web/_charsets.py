"""Text from bytes whose charset is told, or hinted at, or has to be found out. Pure."""

from __future__ import annotations

import codecs
import re

__all__ = ["as_text", "declared_charset"]

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_IN_META = re.compile(rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_WITHIN = 4_096
_SAMPLE = 64 * 1024
# As browsers do: pages that say Latin-1 mean what Windows made of it.
_MEANT = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
}
# Codecs of Python that are no charsets, and UTF-7, in which a page hides its tags.
_TEXT_CODEC = re.compile(
    r"(utf|iso|cp|windows|koi|mac|big5|gb|euc|shift|ks_c|tis|latin|us-ascii|ascii|hz|johab|ptcp|viscii)"
)
_NO_CHARSET = frozenset({"utf-7", "utf7", "utf_7"})


def declared_charset(content_type: str) -> str | None:
    """The charset that a Content-Type names."""
    match = _IN_HEADER.search(content_type)
    return match[1] if match else None


def as_text(body: bytes, content_type: str = "", *, markup: bool = False) -> tuple[str, str]:
    """The text and its charset: by its mark, else what the header says, else the document, else what fits."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace"), name
    candidates = [declared_charset(content_type)]
    if markup:
        head = body[:_META_WITHIN]
        found = _IN_META.search(head) or _IN_XML.search(head)
        candidates.append(found[1].decode("ascii") if found else None)
    for name in filter(None, candidates):
        if (known := _known(name)) is not None:
            # A page that can be read has no UTF-16 that a tag in it could name.
            known = "utf-8" if markup and known.startswith("utf-16") and b"<" in body[:1] else known
            return body.decode(known, "replace"), known
    return _guessed(body)


def _known(name: str) -> str | None:
    plain = name.strip().lower()
    if plain in _NO_CHARSET or not _TEXT_CODEC.match(plain):
        return None
    plain = _MEANT.get(plain, plain)
    try:
        return codecs.lookup(plain).name
    except LookupError:
        return None


def _guessed(body: bytes) -> tuple[str, str]:
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    name = _looked_like(body[:_SAMPLE])
    return body.decode(name, "replace"), name


def _looked_like(sample: bytes) -> str:
    try:
        from charset_normalizer import from_bytes  # an extra
    except ImportError:
        return "cp1252"
    best = from_bytes(sample).best()
    return (_known(best.encoding) if best is not None else None) or "cp1252"

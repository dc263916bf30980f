"""HTML that a cell put out as a page of its own, to be shut in a frame: cleaned, without scripts, with nothing to fetch. Pure."""

from __future__ import annotations

import base64
import hashlib
import re

from cellwright.formats.sanitize import Clean, clean_fragment

__all__ = ["SEALED", "frame_height", "framed"]

SEALED = "sandbox; default-src 'none'"
"""What a browser may do with an output that is opened alone: show it."""

_STYLE = (
    "body{margin:0;padding:4px;font:14px/1.5 system-ui,sans-serif;color:#1d2321;background:#fff;overflow-wrap:break-word}"
    "table{border-collapse:collapse;font-size:.875em}th,td{padding:.25em .7em;text-align:right}"
    "img{max-width:100%;height:auto}pre{margin:0;white-space:pre-wrap}"
)
_ROWS = re.compile(r"<(?:tr|p|li|br|h[1-6]|dt|dd|pre|summary|hr)\b", re.IGNORECASE)
_PICTURES = re.compile(r"<(?:img|svg)\b", re.IGNORECASE)
_LINE, _PICTURE, _LEAST, _MOST = 28, 240, 64, 480


def framed(source: str) -> tuple[str, str]:
    """HTML as a whole page, and the policy that it is served with."""
    clean = clean_fragment(source, keep_styles=True, attributes="sheet")
    styles = [_STYLE, *clean.styles]
    # A carriage return is read as a line's end, and then the digest is another's.
    styles = [css.replace("\r\n", "\n").replace("\r", "\n") for css in styles]
    return _page(clean, styles), _policy(styles)


def frame_height(source: str) -> int:
    """How high a frame should be, in pixels: without a script nobody can measure what is in it."""
    rows, pictures = len(_ROWS.findall(source)), len(_PICTURES.findall(source))
    return min(max(rows * _LINE + pictures * _PICTURE, _LEAST), _MOST)


def _page(clean: Clean, styles: list[str]) -> str:
    sheets = "".join(f"<style>{css}</style>" for css in styles)
    told = ", ".join(sorted(clean.dropped))
    note = f"<p><small>Not shown here: {told}</small></p>" if told else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Output</title>'
        f'<meta name="color-scheme" content="light">{sheets}</head><body>{clean.html}{note}</body></html>'
    )


def _policy(styles: list[str]) -> str:
    digests = " ".join(f"'sha256-{_digest(css)}'" for css in styles)
    return f"{SEALED}; img-src data:; style-src {digests}; frame-ancestors 'self'"


def _digest(css: str) -> str:
    return base64.b64encode(hashlib.sha256(css.encode(errors="replace")).digest()).decode()

"""Notebooks for tests of pages, from a few words."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from cellwright.notebook import Document

__all__ = ["PNG", "code", "display", "error", "notebook", "result", "stream", "text"]


def _png(width: int = 8, height: int = 8) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\x33\x66\x99" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(data).decode()


PNG = _png()


def notebook(*cells: dict[str, Any], **metadata: Any) -> Document:
    """A document of these cells."""
    held = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    for place, cell in enumerate(held["cells"]):
        cell.setdefault("id", f"c{place}")
    return Document.from_bytes(json.dumps(held).encode(), name="test")


def text(source: str, **fields: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **fields}


def code(source: str, *outputs: Any, number: int | None = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": list(outputs),
        "execution_count": number,
    }


def stream(words: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": words}


def result(**forms: Any) -> dict[str, Any]:
    data = {_MIMES[name]: value for name, value in forms.items()}
    return {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1}


def display(data: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def error(name: str, value: str, *lines: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(lines)}


_MIMES = {
    "html": "text/html",
    "plain": "text/plain",
    "png": "image/png",
    "svg": "image/svg+xml",
    "markdown": "text/markdown",
    "latex": "text/latex",
    "json": "application/json",
}

"""Who the agent is to the people who have a document open: a name, and a colour of its own. Pure."""

from __future__ import annotations

import colorsys
import hashlib
from typing import Any

__all__ = ["identity"]

_INITIALS = 2
_LIGHTNESS, _SATURATION = 0.42, 0.65  # white letters are to be read on it


def identity(name: str) -> dict[str, Any]:
    """What JupyterLab shows of a user with this name; the colour follows from the name."""
    return {
        "user": {
            "username": f"cellwright-{hashlib.sha256(name.encode()).hexdigest()[:8]}",
            "name": name,
            "display_name": name,
            "initials": "".join(word[0] for word in name.split())[:_INITIALS].upper(),
            "color": _color(name),
            "avatar_url": None,
        }
    }


def _color(name: str) -> str:
    hue = hashlib.sha256(name.encode()).digest()[0] / 256
    red, green, blue = colorsys.hls_to_rgb(hue, _LIGHTNESS, _SATURATION)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"

"""Where our own templates lie, as ``cellwright.templates`` names it: a folder of folders, as any plugin has one."""

from __future__ import annotations

from pathlib import Path

__all__ = ["OWN"]

OWN = Path(__file__).parent / "own"

"""Templates: every folder below ``templates`` is one that notebooks can begin with."""

from __future__ import annotations

from pathlib import Path

CELLWRIGHT_API = 1

FOLDER = Path(__file__).parent / "templates"

"""HTML from the templates beside this: one for each thing that is shown. Everything is escaped unless it was made safe."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cellwright.notebook.languages import LANGUAGES
from cellwright.web.assets import asset_url
from cellwright.web.quantities import age, amount, bytes_text, moment, seconds_text

__all__ = ["render"]

_HERE = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """A template with these values."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(asset=asset_url, now=time.time, languages=[language.name for language in LANGUAGES])
    made.filters.update(age=age, amount=amount, bytes=bytes_text, moment=moment, seconds=seconds_text)
    return made

"""Work that is nobody's request: it runs apart from all else, and fails alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_apart"]

_log = logging.getLogger(__name__)


async def run_apart(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do it; what it raises is logged."""
    try:
        await work()
    except Exception:  # noqa: BLE001  # boundary: what one session left lying about must not end the engine of all
        _log.exception("background_work_failed")

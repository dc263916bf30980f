"""A model that advises ``cellwright review``, put together where the composition root reads settings and extras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from cellwright.errors import NoModel
from cellwright.review import Adviser
from cellwright.settings.model import ModelsSettings

__all__ = ["open_adviser"]


@asynccontextmanager
async def open_adviser(
    models: Sequence[str], environment: Mapping[str, str], settings: ModelsSettings
) -> AsyncIterator[Adviser | None]:
    """An adviser that asks the first of these models that answers; None where none is named.

    Raises:
        NoModel: a model is unknown or has no key, or the data agent is not installed.
    """
    if not models:
        yield None
        return
    try:
        from cellwright.agent.advice import advising  # an extra
    except ImportError:
        raise NoModel(
            "A model needs the data agent, which is not installed", hint="pip install 'cellwright[agent]'"
        ) from None
    async with advising(models, environment, settings) as adviser:
        yield adviser

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cellwright.charts import Renderer


@pytest.fixture(scope="module")
async def shared_renderer() -> AsyncIterator[Renderer]:
    """One for many charts that must not break it."""
    async with Renderer() as renderer:
        yield renderer

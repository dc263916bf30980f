"""Engines whose sessions have their notebook on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from cellwright.jupyter import _contents as addresses
from cellwright.jupyter import _shared_document, mirrors
from tests.kernel.engine.conftest import open_here
from tests.support.livedocs.visiting import Relay
from tests.support.servers.server import Server
from tests.system.jupyter.conftest import wire_to
from tests.waiting import LIMIT_S

__all__ = ["open_here", "wire_to"]


@pytest.fixture(scope="module", autouse=True)
def _unhurried() -> Iterator[None]:
    """A slow server is no server that is gone; where one is, its connections end at once."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (_shared_document, "_CONNECT_S"),
            (_shared_document, "_LOAD_S"),
            (_shared_document, "_PONG_S"),
            (addresses, "_TIMEOUT_S"),
            (mirrors, "_FLUSH_S"),
        ):
            patch.setattr(module, name, LIMIT_S)
        yield


@pytest.fixture
async def relay_to() -> AsyncIterator[Callable[[int], Awaitable[Relay]]]:
    """Lay a relay to a port; it goes with the test."""
    async with anyio.create_task_group() as tasks:

        async def lay(port: int) -> Relay:
            relay = Relay(port)
            await tasks.start(relay.run)
            return relay

        yield lay
        tasks.cancel_scope.cancel()


@pytest.fixture
def told() -> Callable[[Server], dict[str, Any]]:
    """The settings that make a server the host ``jupyter``."""
    return lambda server: {"jupyter_url": server.url, "jupyter_token": server.token}

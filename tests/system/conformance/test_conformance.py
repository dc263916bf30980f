"""The official conformance suite finds nothing wrong with our server, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from cellwright import Settings, open_engine
from cellwright.mcp import McpServer
from tests.support.clients.installing import CONFORMANCE, INSTALL_LIMIT_S, Installed, obtain
from tests.support.conformance.fixtures import register
from tests.support.conformance.running import SUITE_LIMIT_S, run_suite
from tests.support.conformance.serving import MemoryEventStore, serving

Require = Callable[[str, bool, str], None]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(INSTALL_LIMIT_S + SUITE_LIMIT_S),
    # Logging, sampling and elicitation of the old era are deprecated in the SDK, and still a part of the suite.
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]


@pytest.fixture
async def served_url(tmp_path: Path) -> AsyncIterator[str]:
    """Our own server object over a real engine, with the fixtures that the suite looks for besides."""
    settings = Settings(root=tmp_path, storage=tmp_path / "state", standby_kernels=0)
    async with open_engine(settings, ephemeral=True) as engine, anyio.create_task_group() as tasks:
        face = McpServer(engine)
        await tasks.start(face.run)
        register(face.server)
        # The store and the interval let a client resume a stream that was cut, which one scenario tries.
        app = face.server.streamable_http_app(event_store=MemoryEventStore(), retry_interval=100)
        async with serving(app) as address:
            yield f"{address}/mcp"
        tasks.cancel_scope.cancel()


@pytest.fixture(scope="module")
def suite(require: Require) -> Installed:
    return obtain(CONFORMANCE, require)


@pytest.mark.parametrize("requirements", ["2026-07-28", pytest.param("2025-11-25", marks=pytest.mark.matrix)])
async def test_server_meets_every_requirement_of(
    requirements: str, suite: Installed, served_url: str, tmp_path: Path
) -> None:
    verdict = await run_suite(suite, served_url, requirements, results=tmp_path)
    assert verdict.exit_code == 0, verdict.summary

"""Hosts that keep kernels on real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from cellwright.hosts.protocol import JupyterServer
from tests.kernel.engine.conftest import end_host
from tests.support.jupyter.desk import Desk, Wire, desk_at
from tests.support.servers.server import Server


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    """The directory of a host, which ends with the test."""
    yield tmp_path / "state"
    end_host(tmp_path / "state")


@pytest.fixture(scope="module")
def shared_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a host for all tests of a module."""
    storage = tmp_path_factory.mktemp("shared") / "state"
    yield storage
    end_host(storage)


@pytest.fixture
async def desk(shared_storage: Path) -> AsyncIterator[Desk]:
    """A place of a test's own at the module's host."""
    async with desk_at(shared_storage) as desk:
        yield desk
        await desk.clear()


@pytest.fixture(params=["jupyter_server", pytest.param("kernel_gateway", marks=pytest.mark.matrix)])
def server(request: pytest.FixtureRequest) -> JupyterServer:
    """Each kind of server that has kernels of its own."""
    return address(request.getfixturevalue(request.param))


@pytest.fixture(params=[pytest.param("jupyter_server", marks=pytest.mark.matrix), "kernel_gateway"])
def other_server(request: pytest.FixtureRequest) -> JupyterServer:
    """The same, for what stands for all the rest: `test_contract` has it of the first."""
    return address(request.getfixturevalue(request.param))


@pytest.fixture
def plain(jupyter_server: Server) -> JupyterServer:
    return address(jupyter_server)


def address(server: Server, **more: float) -> JupyterServer:
    return JupyterServer("lab", server.url, server.token, **more)


@pytest.fixture
async def wire_to() -> AsyncIterator[Callable[[int], anyio.abc.Awaitable[Wire]]]:
    """Lay a wire to a port; it goes with the test."""
    async with anyio.create_task_group() as tasks:

        async def lay(port: int) -> Wire:
            wire = Wire(port)
            await tasks.start(wire.run)
            return wire

        yield lay
        tasks.cancel_scope.cancel()

"""Jupyter's own servers as fixtures, for every lane whose ``conftest.py`` imports them.

Each is up for the whole run. A test that kills one starts it again; one that wants other settings starts its own from
``servers.kinds`` in a ``server_home``, with ``served``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clients.installing import obtain
from tests.support.servers import kinds
from tests.support.servers.hub import PROXY, Hub, start_hub
from tests.support.servers.server import PYTHON, Server

Require = Callable[[str, bool, str], None]


@pytest.fixture(scope="session")
def server_home(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a directory for a server, where there is an environment that has servers."""
    require("the environment of Jupyter's servers", PYTHON.exists(), "make .venv/.stamp-servers")
    return tmp_path_factory.mktemp


@pytest.fixture
def served() -> Iterator[Callable[[Server], Server]]:
    """Call it with a server from ``servers.kinds`` to have it started, and ended with the test."""
    started: list[Server] = []

    def serve(server: Server) -> Server:
        started.append(server)
        server.start()
        return server

    yield serve
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def jupyter_server(server_home: Callable[[str], Path]) -> Iterator[Server]:
    """A plain server: no shared documents, no Lab."""
    yield from _running(kinds.plain_server(server_home("jupyter_server")))


@pytest.fixture(scope="session")
def collaboration_server(server_home: Callable[[str], Path]) -> Iterator[Server]:
    """JupyterLab with shared documents."""
    yield from _running(kinds.collaboration_server(server_home("collaboration_server")))


@pytest.fixture(scope="session")
def kernel_gateway(server_home: Callable[[str], Path]) -> Iterator[Server]:
    """A Kernel Gateway."""
    yield from _running(kinds.kernel_gateway(server_home("kernel_gateway")))


@pytest.fixture(scope="session")
def jupyterhub(server_home: Callable[[str], Path], require: Require) -> Iterator[Hub]:
    """A hub, with one person whose server nobody has started yet."""
    hub = start_hub(server_home("jupyterhub"), obtain(PROXY, require))
    yield hub
    hub.kill()


def _running(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.kill()

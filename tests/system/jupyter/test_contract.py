"""The contract of hosts, on a real Jupyter server, kernel gateway and hub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.engine.conftest import end_host
from tests.support.hosts.contract import *  # noqa: F403  # the suite
from tests.support.hosts.contract import Abode, abode_at

pytestmark = pytest.mark.anyio


# What the other two do by themselves is in ``test_kernels`` and ``test_hub``.
@pytest.fixture(
    scope="module",
    params=[
        "jupyter_server",
        pytest.param("kernel_gateway", marks=pytest.mark.matrix),
        pytest.param("jupyterhub", marks=pytest.mark.matrix),
    ],
)
def abode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abode]:
    server = request.getfixturevalue(request.param)
    root = tmp_path_factory.mktemp(request.param)
    yield abode_at(root, "jupyter", ours=False, jupyter_url=server.url, jupyter_token=server.token)
    for storage in ("state", "other"):
        end_host(root / storage)

"""The contract of hosts, on this machine's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.engine.conftest import end_host
from tests.support.hosts.contract import *  # noqa: F403  # the suite
from tests.support.hosts.contract import Abode, abode_at

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def abode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abode]:
    root = tmp_path_factory.mktemp("local")
    yield abode_at(root, "local")
    for storage in ("state", "other"):
        end_host(root / storage)

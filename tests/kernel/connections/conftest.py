"""Servers that connections lead to, one of each for a run, and engines as ``kernel/engine`` has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Require
from tests.kernel.engine.conftest import forked_hosts
from tests.support.connections import servers
from tests.support.servers.server import PYTHON

__all__ = ["forked_hosts"]

MOTO = PYTHON.with_name("moto_server")


@pytest.fixture(scope="session")
def postgresql(require: Require) -> Iterator[servers.Served]:
    require("PostgreSQL", servers.POSTGRESQL is not None, "apt install postgresql")
    with servers.postgresql() as served:
        yield served


@pytest.fixture(scope="session")
def mariadb(require: Require) -> Iterator[servers.Served]:
    require("MariaDB", servers.MARIADB is not None, "apt install mariadb-server")
    with servers.mariadb() as served:
        yield served


@pytest.fixture(scope="session")
def object_store(require: Require) -> Iterator[servers.Served]:
    require("the S3 store moto", MOTO.exists(), "make .venv/.stamp-servers")
    with servers.object_store() as served:
        yield served

"""Jupyter's own servers, for the tests of this lane, whose own hosts are forks."""

from tests.kernel.engine.conftest import forked_hosts
from tests.support.servers.fixtures import (
    collaboration_server,
    jupyter_server,
    jupyterhub,
    kernel_gateway,
    served,
    server_home,
)

__all__ = [
    "collaboration_server",
    "forked_hosts",
    "jupyter_server",
    "jupyterhub",
    "kernel_gateway",
    "served",
    "server_home",
]

"""Jupyter's own servers, for the tests of this lane."""

from tests.support.servers.fixtures import (
    collaboration_server,
    jupyter_server,
    jupyterhub,
    kernel_gateway,
    served,
    server_home,
)

__all__ = ["collaboration_server", "jupyter_server", "jupyterhub", "kernel_gateway", "served", "server_home"]

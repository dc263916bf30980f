"""Kernels on Jupyter servers, gateways and hubs: asked by HTTP, heard over a WebSocket, ended or let go there.

The connection is held by whoever launches; there is no process of ours. What is above (``hosts``) sees a kernel like
any other.
"""

from cellwright.kernels.jupyter.addresses import JupyterServer

__all__ = ["JupyterServer"]

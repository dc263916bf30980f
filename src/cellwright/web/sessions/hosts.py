"""The hosts that kernels live on: this machine, allocations with their place in the queue and their end, servers."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.engine.host_actions import stop_host
from cellwright.web.requests import PageRequest, action, page

__all__ = ["ROUTES"]


async def _hosts(request: PageRequest) -> Response:
    return request.fragment("hosts_table.html", hosts=await request.engine.hosts.list())


async def _stop(request: PageRequest) -> Response:
    """Let a host go with its kernels; the sessions stay."""
    host = (await request.form())["host"]
    stopped = await stop_host(request.engine, host)
    return request.done(f"{stopped.called or stopped.name} is stopped; its sessions are suspended")


ROUTES = [
    page("/hosts", _hosts),
    action("/hosts/stop", _stop, needs="own"),
]

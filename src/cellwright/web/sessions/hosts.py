"""The hosts that kernels live on: this machine, allocations with their place in the queue and their end, servers."""

from __future__ import annotations

from starlette.responses import Response

from cellwright.engine.host_actions import stop_host
from cellwright.web.requests import Visit, deed, page

__all__ = ["ROUTES"]


async def _hosts(visit: Visit) -> Response:
    return visit.fragment("hosts_table.html", hosts=await visit.engine.hosts.list())


async def _stop(visit: Visit) -> Response:
    """Let a host go with its kernels; the sessions stay."""
    host = (await visit.form())["host"]
    stopped = await stop_host(visit.engine, host)
    return visit.done(f"{stopped.called or stopped.name} is stopped; its sessions are suspended")


ROUTES = [
    page("/hosts", _hosts),
    deed("/hosts/stop", _stop, needs="own"),
]

"""Tools for the hosts that kernels live on: this machine, allocations of SLURM, Jupyter servers."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from pydantic import Field, WithJsonSchema

from cellwright.engine.host_actions import (
    find_hosts,
    meant_host,
    start_host,
    stop_host,
    wait_for_host,
)
from cellwright.engine.providers import HostInfo, ShapeRequest
from cellwright.hosts.protocol import GpuUse
from cellwright.mcp._arguments import Arguments, WaitS
from cellwright.mcp._tool_names import in_calls
from cellwright.mcp._waits import done_with_progress
from cellwright.mcp.calls import CHANGES, DESTROYS, READS, Call, Definition, Reply, data_reply

__all__ = ["HOST_TOOLS"]

HostArgument = Annotated[str | None, Field(default=None, max_length=100)]
# One line instead of ten properties: a model that asks for something else is told what there is.
_SHAPE = WithJsonSchema(
    {
        "type": "object",
        "description": "partition, gres, cpus, mem, time, account, qos, constraint, modules",
    }
)


class ListHosts(Arguments):
    host: HostArgument = None
    wait_s: WaitS = None


async def host_list(call: Call, args: ListHosts) -> Reply:
    """List hosts for kernels with state, load, capacity and tier."""
    hosts, host = call.engine.hosts, args.host
    if args.wait_s:
        host = meant_host(hosts, host)
        await _wait(call, host, args.wait_s)
    found = await find_hosts(hosts, host)
    default = str(call.engine.hosts.host_name(None))
    return data_reply({"default": default, "hosts": [about_host(one) for one in found]}, call)


class StartHost(Arguments):
    host: HostArgument = None
    shape: Annotated[ShapeRequest | None, _SHAPE] = None
    wait_s: WaitS = None


async def host_start(call: Call, args: StartHost) -> Reply:
    """Start a SLURM job for kernels on a cluster, e.g. slurm:gpu. notebook_create asks for one by itself."""
    info = await start_host(call.engine, args.host, args.shape or ShapeRequest())
    if args.wait_s != 0:
        await _wait(call, info.name, args.wait_s)
        info = (await find_hosts(call.engine.hosts, info.name))[0]
    return data_reply(about_host(info), call)


class StopHost(Arguments):
    host: str = Field(min_length=1, max_length=100)


async def host_stop(call: Call, args: StopHost) -> Reply:
    """Stop an allocation and its kernels. Sessions stay."""
    stopped = await stop_host(call.engine, args.host)
    ended = {"suspended": list(stopped.sessions), "interrupted": list(stopped.executions)}
    return data_reply(about_host(stopped.info) | ended, call)


async def _wait(call: Call, host: str, wait_s: float | None) -> None:
    """Wait until a host is ready or has ended, telling where it stands; no longer than the client does."""
    wait_s = call.shared.pace.wait_s if wait_s is None else wait_s
    messages = [""]

    async def wait() -> None:
        with anyio.move_on_after(wait_s):
            await wait_for_host(call.engine.hosts, host, messages.append)

    await done_with_progress(call, wait, say=lambda: messages[-1])


def about_host(info: HostInfo) -> dict[str, Any]:
    """A host for whoever chooses one."""
    about: dict[str, Any] = {
        "host": info.called or info.name,
        "state": info.state,
        "detail": info.detail or None,
        "next": in_calls(info.next_step) if info.next_step else None,
        "kernels": info.kernels,
        "capacity": info.capacity,
        "job_id": info.job_id,
        "expires_at": info.expires_at,
        "directory": info.directory,
        # Nobody tells what a server has, only that nothing of ours confines code there.
        "tier": "remote" if info.kind == "jupyter" else None,
    }
    if (resources := info.resources) is not None:
        about |= {
            "node": resources.node,
            "cpus": resources.cpus,
            "load": round(resources.load, 2),
            "memory_mb": resources.memory_bytes >> 20,
            "memory_used_mb": resources.memory_used >> 20,
            "tier": resources.tier,
        }
        if resources.gpus:
            about["gpus"] = [_about_gpu(gpu) for gpu in resources.gpus]
    return {key: value for key, value in about.items() if value is not None}


def _about_gpu(gpu: GpuUse) -> dict[str, Any]:
    """A GPU with its memory in use, as far as its driver tells."""
    about: dict[str, Any] = {"device": gpu.device, "name": gpu.name or None}
    if gpu.memory_used is not None and gpu.memory_bytes is not None:
        about |= {"memory_mb": gpu.memory_bytes >> 20, "memory_used_mb": gpu.memory_used >> 20}
    return {key: value for key, value in about.items() if value is not None}


HOST_TOOLS = (
    Definition(host_list, ListHosts, READS, keeps_back=("host", "wait_s")),
    Definition(host_start, StartHost, CHANGES, keeps_back=("wait_s",), needs="admin"),
    Definition(host_stop, StopHost, DESTROYS, needs="admin"),
)

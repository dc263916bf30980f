"""The commands for hosts: ``start``, ``stop``, ``hosts``, and what ``wait`` and ``status`` do with one.

A name alone is an allocation's: ``gpu`` is ``slurm:gpu``. Ctrl-C while waiting leaves it where it is in the queue.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import anyio

from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._mcp_client import Caller, ToolRefused, call_daemon
from cellwright.cli._terminal import (
    TURN_S,
    AsJson,
    ExitCode,
    ProgressLine,
    echo,
    in_commands,
    note,
    show_data,
    table,
)

__all__ = [
    "find_host",
    "host_named",
    "host_status",
    "hosts",
    "hosts_of",
    "show_hosts",
    "start",
    "stop",
    "wait",
    "wait_for_host",
]

_KINDS = ("local", "slurm", "jupyter")
_EVERY_MB = 1024
# Waited for in turns; the first one only asks where it stands.
_AT_ONCE_S = 0.001

NameOption = Annotated[
    str | None,
    Option("--name", help="What to call it; another one is asked for under each name. [default: default]"),
]
HostArgument = Annotated[
    str | None,
    Argument(metavar="NAME", help="An allocation's name or job, or a host.", show_default=False),
]


def start(
    *,
    name: NameOption = None,
    debug: Annotated[
        bool, Option("--debug", help="A short one to try things out, and say where its log is.")
    ] = False,
    partition: Annotated[str | None, Option(help="[default: slurm_partition]")] = None,
    gres: Annotated[str | None, Option(help="Such as gpu:1.")] = None,
    cpus: Annotated[int | None, Option(help="Processors.")] = None,
    mem: Annotated[str | None, Option(help="Such as 32G; MB without a unit.")] = None,
    time: Annotated[str | None, Option(help="The time limit, such as 4:00:00.")] = None,
    account: Annotated[str | None, Option(help="Who is charged.")] = None,
    qos: Annotated[str | None, Option(help="The quality of service.")] = None,
    constraint: Annotated[str | None, Option(help="Features of the node.")] = None,
    module: Annotated[list[str] | None, Option(help="Load this module first; may be repeated.")] = None,
    nodes: Annotated[int | None, Option(help="Always 1: start more allocations instead.")] = None,
    wait: Annotated[bool, Option("--wait", help="Return when it is ready.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask SLURM for an allocation, or have this machine's host up. Exits 1 if refused, or if it ends before it is ready."""
    asked = {
        "partition": partition,
        "gres": gres,
        "cpus": cpus,
        "mem": mem,
        "time": time,
        "account": account,
        "qos": qos,
        "constraint": constraint,
        "modules": module or None,
        "nodes": nodes,
        "debug": debug or None,
    }
    shape = {field: value for field, value in asked.items() if value is not None}

    async def run(caller: Caller) -> dict[str, Any]:
        found = await caller.data("host_start", host=host_named(name), shape=shape or None, wait_s=0)
        if debug and "directory" in found:
            note(f"job {found.get('job_id')}: {found['directory']}/job.sh, its output in job.log beside it")
        return await _waited(caller, found["host"]) if wait else found

    found = call_daemon(run, asks=True, doing="asking for the host")
    _conclude(found, as_json=as_json, must_be_ready=wait)


def stop(
    name: HostArgument = None,
    everything: Annotated[bool, Option("--all", help="Every allocation.")] = False,
    as_json: AsJson = False,
) -> None:
    """End an allocation and its kernels; sessions stay and can be resumed elsewhere."""
    if everything and name is not None:
        raise BadArgument("name one, or say --all", argument="NAME")

    async def run(caller: Caller) -> list[dict[str, Any]]:
        listed = await caller.data("host_list")
        every = [one for one in listed["hosts"] if one["host"].startswith("slurm:")]
        # One without a number cannot be ended yet, and its refusal must not spare the others.
        every.sort(key=lambda one: "job_id" not in one)
        wanted = [one["host"] for one in every] if everything else [name]
        named = [host_named(one) or listed["default"] for one in wanted]
        return [await caller.data("host_stop", host=one) for one in named]

    stopped = call_daemon(run, doing="ending")
    show_data(stopped, "\n".join(one["host"] for one in stopped), as_json=as_json)
    for one in stopped:
        note(f"{one['host']}: {one.get('detail', one['state'])}")
        for line in _ended_with(one):
            note(line)
    if not stopped:
        note("no allocations")


def _ended_with(stopped: dict[str, Any]) -> list[str]:
    """What ended with a host: the kernels of which sessions, and what ran in them."""
    sessions, runs = stopped.get("suspended", []), stopped.get("interrupted", [])
    if not sessions:
        return ["ended: no kernel of a session"]
    told = [
        f"ended: the kernels of {', '.join(sessions)}; `cellwright session replay` brings a session's state back"
    ]
    return [*told, f"interrupted: {', '.join(runs)}"] if runs else told


def hosts(as_json: AsJson = False) -> None:
    """List the hosts that kernels can live on, with state, kernels, load, memory and tier."""
    listed = call_daemon(lambda caller: caller.data("host_list"))
    if as_json:
        show_data(listed, "", as_json=True)
        return
    show_hosts(listed["hosts"])
    note(f"a new session goes to {listed['default']}")


def wait(name: HostArgument = None, as_json: AsJson = False) -> None:
    """Wait until a host is ready. Exits 1 if it ends first; Ctrl-C leaves it where it is in the queue."""
    wait_for_host(name, as_json=as_json)


def host_status(
    name: Annotated[str, Argument(metavar="NAME", help="An allocation's name or job, or a host.")],
    as_json: AsJson = False,
) -> None:
    """Show one host, also an allocation that ended."""
    listed = call_daemon(lambda caller: caller.data("host_list", host=host_named(name)))
    show_data(listed["hosts"][0], "", as_json=as_json)
    if not as_json:
        show_hosts(listed["hosts"])


def wait_for_host(name: str | None, *, as_json: bool) -> None:
    """Wait until a host is ready; exits 1 if it ends first."""
    found = call_daemon(lambda caller: _waited(caller, host_named(name)))
    _conclude(found, as_json=as_json, must_be_ready=True)


async def hosts_of(caller: Caller) -> list[dict[str, Any]]:
    """Every host."""
    found: list[dict[str, Any]] = (await caller.data("host_list"))["hosts"]
    return found


async def find_host(caller: Caller, name: str) -> dict[str, Any] | None:
    """The host of a name, ended ones too; None where it means none."""
    try:
        listed = await caller.data("host_list", host=host_named(name))
    except ToolRefused:
        if host_named(name) == name:  # it can mean nothing else
            raise
        return None
    found: list[dict[str, Any]] = listed["hosts"]
    return found[0]


def host_named(name: str | None) -> str | None:
    """A host as the daemon knows it: a name alone is an allocation's."""
    if name is None or name in _KINDS or ":" in name:
        return name
    return f"slurm:{name}"


def show_hosts(found: list[dict[str, Any]]) -> None:
    """A line for each host."""
    headers = ("HOST", "STATE", "KERNELS", "LOAD", "MEMORY", "TIER", "JOB", "DETAIL")
    if text := table(headers, map(_row, found)):
        echo(text)
    for one in found:
        if "next" in one:
            note(f"{one['host']}: {in_commands(one['next'])}")


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    kernels = f"{one['kernels']}/{one['capacity']}" if "capacity" in one else one["kernels"]
    load = memory = "-"
    if "cpus" in one:
        used, total = (one[field] / _EVERY_MB for field in ("memory_used_mb", "memory_mb"))
        load, memory = f"{one['load']:.1f} of {one['cpus']:g}", f"{used:.1f} of {total:.1f} GiB"
    tier, job = one.get("tier", "?"), one.get("job_id", "-")
    detail = "; ".join(filter(None, [*map(_gpu, one.get("gpus", [])), one.get("detail")]))
    return one["host"], one["state"], kernels, load, memory, tier, job, detail


def _gpu(gpu: dict[str, Any]) -> str:
    """A GPU by its name, else its device, with its memory in use."""
    called = gpu.get("name") or gpu["device"]
    if "memory_mb" not in gpu:
        return f"GPU {called}"
    used, total = (gpu[field] / _EVERY_MB for field in ("memory_used_mb", "memory_mb"))
    return f"GPU {called} {used:.1f} of {total:.1f} GiB"


async def _waited(caller: Caller, host: str | None) -> dict[str, Any]:
    found = await _looked(caller, host, wait_s=_AT_ONCE_S)
    if _is_ready(found):
        return found
    host = found["host"]
    with ProgressLine() as line:
        if not line.wanted and found["state"] == "pending":  # a log has what a terminal's line shows, once
            note(f"{host}: {found.get('detail', found['state'])}")
        try:
            # Also for one that has ended: its sessions may not know yet.
            while True:
                found = await _looked(
                    caller, host, wait_s=TURN_S, progress=line.tell if line.wanted else None
                )
                if found["state"] == "ended" or _is_ready(found):
                    return found
        except anyio.get_cancelled_exc_class():
            name = host.removeprefix("slurm:")
            note(f"it stays where it is; `cellwright host stop {name}` takes it out of the queue")
            raise


async def _looked(caller: Caller, host: str | None, **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await caller.data("host_list", host=host, **asked))["hosts"][0]
    return found


def _is_ready(found: dict[str, Any]) -> bool:
    # Whoever has told its node has answered; one that is ending may still do so.
    ready: bool = found["state"] not in ("ending", "ended") and (
        "node" in found or found["host"].startswith("jupyter")
    )
    return ready


def _conclude(found: dict[str, Any], *, as_json: bool, must_be_ready: bool) -> None:
    failed = found["state"] == "ended" and must_be_ready
    if as_json:
        echo(json.dumps(found, ensure_ascii=False))
    elif not failed:
        echo(found["host"])
    told = found.get("detail", found["state"])
    echo(f"error: {found['host']} {told}" if failed else f"{found['host']}: {told}", err=True)
    if "next" in found:
        echo(f"hint: {in_commands(found['next'])}", err=True)
    raise Exit(ExitCode.RUN_FAILED if failed else ExitCode.OK)

"""The host inside a job: ``python -m cellwright.slurm.inside DIRECTORY``. Run by the batch script, never by a person.

The same host as anywhere, on other ground: its journal lies in the allocation's directory on the shared file system, its
kernels are job steps, and its end is SLURM's to say. SIGUSR1 says that the end is near, SIGTERM that it has come. It ends
by itself when a later host of the same allocation has taken over (see ``_directories``), and so never writes beside it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.stapled import MultiListener

from cellwright.errors import HostStartError
from cellwright.hosts import server
from cellwright.hosts.kernels import Ending
from cellwright.hosts.local import is_held, make_private, runtime_base
from cellwright.hosts.protocol import HostOptions
from cellwright.hosts.server import V1, V2, GroupFiles, Host, MemoryUse, group_use, machine_memory
from cellwright.slurm import _tls
from cellwright.slurm._directories import (
    AllocationPaths,
    Claim,
    Expectation,
    Fence,
    HostAddress,
    read_expectation,
    write_host_address,
)
from cellwright.slurm._steps import Steps

__all__ = ["Job", "job_of"]
_log = logging.getLogger(__name__)

_FENCE_S = 1.0

_HELD = "held-by-job"

_ASK_S = 20.0

_STEP_START_S = 60.0

# A job that ends this close to its time limit has reached it.
_AT_ITS_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """What SLURM tells a job of itself."""

    job_id: int
    restarts: int
    node: str
    processors: int


def job_of(environment: Mapping[str, str]) -> Job:
    """The job that this process runs in.

    Raises:
        HostStartError: there is none.
    """
    try:
        job_id = int(environment["SLURM_JOB_ID"])
    except (KeyError, ValueError):
        raise HostStartError(
            "This host runs inside a SLURM job only", hint="`cellwright host start` asks for one"
        ) from None
    return Job(
        job_id,
        restarts=int(environment.get("SLURM_RESTART_COUNT", "0")),
        node=environment.get("SLURMD_NODENAME") or socket.gethostname(),
        processors=int(environment.get("SLURM_CPUS_ON_NODE", "1")),
    )


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # What is private says so itself; a sandbox's own directories must let its user pass.
    os.umask(0o022)
    paths = AllocationPaths(Path(sys.argv[1]))
    paths.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    job = job_of(os.environ)
    claim = Claim(job.job_id, job.restarts, uuid.uuid4().hex[:16])
    fence = Fence(paths.storage)
    if not fence.claim(claim):
        _log.error("fenced by=%s", fence.latest())
        return 1
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    base = make_private(runtime_base())
    _sweep(base)
    runtime = make_private(paths.runtime_of(claim.incarnation))
    _hold(runtime)
    try:
        anyio.run(_serve, paths, job, claim, runtime)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
    return 0


def _hold(runtime: Path) -> None:
    """Hold a lock in a directory as long as this process lives."""
    lock = os.open(runtime / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Held before it has the name by which it is looked for.
    (runtime / "new").replace(runtime / _HELD)


def _sweep(base: Path) -> None:
    """Remove what hosts on this node left that were killed."""
    for lock in base.glob(f"*/{_HELD}"):
        if not is_held(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)


async def _serve(paths: AllocationPaths, job: Job, claim: Claim, runtime: Path) -> None:
    limit, expected = job_limit(os.environ), await anyio.to_thread.run_sync(read_expectation, paths.expected)
    steps = Steps(runtime, memory=limit, processors=job.processors, start_timeout_s=_STEP_START_S)
    host_environment = server.HostEnvironment(
        idle_s=partial(_idle, expected),
        memory=partial(job_memory, os.environ),
        steps=steps,
        ending=Ending(doubtful=True),
    )
    host = Host(
        incarnation=claim.incarnation,
        journal=paths.journal(claim.incarnation),
        runtime=runtime,
        cache=paths.cache,
        host_environment=host_environment,
    )
    ends_at = await anyio.to_thread.run_sync(_ends_at, job)
    listener, about = await _listen(paths, job, claim, runtime, ends_at)
    async with anyio.create_task_group() as tasks, listener:
        await tasks.start(steps.run)
        tasks.start_soon(_obey, host, job, ends_at)
        tasks.start_soon(_keep_to_fence, host, Fence(paths.storage), claim)
        write_host_address(paths.current, about)
        if expected is not None:
            # What will be wanted is started while whoever wants it is on the way.
            tasks.start_soon(host.expect, expected.environment, expected.options)
        _log.info("listening job=%s node=%s incarnation=%s", job.job_id, job.node, claim.incarnation)
        await host.serve(listener)
        tasks.cancel_scope.cancel()
    if Fence(paths.storage).latest() == claim:
        paths.current.unlink(missing_ok=True)


async def _listen(
    paths: AllocationPaths, job: Job, claim: Claim, runtime: Path, ends_at: float | None
) -> tuple[anyio.abc.Listener[anyio.abc.ByteStream], HostAddress]:
    about = HostAddress(
        pid=os.getpid(),
        incarnation=claim.incarnation,
        socket=str(runtime / "host.sock"),
        node=job.node,
        job_id=job.job_id,
        restarts=job.restarts,
        ends_at=ends_at,
    )
    local = await anyio.create_unix_listener(about.socket, mode=0o600)
    if not paths.credentials.is_dir():
        return local, about
    secured, port = await _tls.listen(paths.credentials)
    reached = _tls.own_addresses()
    told = HostAddress(
        **{name: getattr(about, name) for name in about.__struct_fields__}
        | {"addresses": reached, "port": port}
    )
    return MultiListener([local, secured]), told


def _idle(expected: Expectation | None, options: HostOptions | None) -> float | None:
    """How long nobody may need the host: what an engine said, or who asked for the allocation where none ever came."""
    if options is not None:
        return options.allocation_idle_s
    if expected is None or expected.options.allocation_idle_s is None:
        return None
    return max(expected.options.allocation_idle_s, expected.found_within_s)


async def _obey(host: Host, job: Job, ends_at: float | None) -> None:
    """Do what SLURM's signals say."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) as signals:
        async for number in signals:
            if number == signal.SIGUSR1:
                # Somebody may have given it more time, or less, since it began.
                ends_at = await anyio.to_thread.run_sync(_ends_at, job) or ends_at
                _log.info("expiring ends_at=%s", ends_at)
                await host.expire(ends_at or time.time())
            else:
                why = _why(job, ends_at, time.time())
                _log.info("ending: %s", why)
                host.stop(why)


async def _keep_to_fence(host: Host, fence: Fence, claim: Claim) -> None:
    """End where a later host has taken over."""
    while True:
        await anyio.sleep(_FENCE_S)
        latest = await anyio.to_thread.run_sync(fence.latest)
        if latest is not None and latest > claim:
            _log.warning("fenced by=%s", latest)
            host.stop(f"Job {claim.job_id} was started again, and a later host has taken over")
            return


def _why(job: Job, ends_at: float | None, now: float) -> str:
    reached = ends_at is not None and now >= ends_at - _AT_ITS_LIMIT_S
    told = "reached its time limit" if reached else "was ended by SLURM"
    return f"Job {job.job_id} on {job.node}, in which the kernel ran, {told}"


def _ends_at(job: Job) -> float | None:
    """When the job's time is over; None where SLURM does not say, or sets no limit. Blocking."""
    try:
        asked = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", str(job.job_id)],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bEndTime=(\d+)\b", asked.stdout)
    return float(found[1]) if found is not None else None


# How much memory the job of this process has, and how much of it is used: of the cgroup that SLURM made for
# it. Reads.

_GROUPS = Path("/sys/fs/cgroup")

_JOB = re.compile(r"(.*/job_\d+)(/|$)")

# So much is SLURM's, or the kernel's, word for no limit.
_NO_LIMIT = 1 << 60

_MEGABYTE = 1 << 20


def job_limit(environment: Mapping[str, str]) -> int | None:
    """The job's memory in bytes; None where SLURM sets no limit, or none that can be seen."""
    found = _job_group()
    return found.total if found is not None else _granted(environment)


def job_memory(environment: Mapping[str, str]) -> MemoryUse:
    """The job's memory; where nothing keeps it to what it was granted, that beside what the machine uses."""
    found, machine, granted = _job_group(), machine_memory(), _granted(environment)
    if found is not None:
        return found
    if granted is None or granted >= machine.total:
        return machine
    # Who uses what of it cannot be told: as full as the machine is.
    return MemoryUse(granted, int(granted * machine.fraction))


def _granted(environment: Mapping[str, str]) -> int | None:
    """What SLURM says that it granted, on a site whose jobs no cgroup holds to it."""
    for name, times in (("SLURM_MEM_PER_NODE", "1"), ("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE")):
        words = environment.get(name, ""), environment.get(times, times)
        if all(word.isdecimal() for word in words) and int(words[0]):
            return int(words[0]) * int(words[1]) * _MEGABYTE
    return None


def _job_group() -> MemoryUse | None:
    for path, names in _found():
        if (use := group_use(str(path), names, below=_NO_LIMIT)) is not None:
            return use
    return None


def _found() -> list[tuple[Path, GroupFiles]]:
    """The job's group with the names of its files."""
    found = []
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        job = _JOB.match(path)
        if job is None:
            continue
        if "memory" in controllers.split(","):
            found.append((_GROUPS / "memory" / job[1].lstrip("/"), V1))
        elif not controllers:
            found.append((_GROUPS / job[1].lstrip("/"), V2))
    return found


if __name__ == "__main__":
    sys.exit(main())

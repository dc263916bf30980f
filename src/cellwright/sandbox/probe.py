"""Finds out by doing how well code can be confined on this machine: a throwaway child goes through everything.

The child's side is ``cellwright_kernel._trial``; the words for what was found are in ``tiers``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

import cellwright_kernel
from cellwright.sandbox.cgroups import Refusal, open_groups
from cellwright.sandbox.policy import Policy, allowed_environment, readable_paths, sandbox_plan, watched_plan
from cellwright.sandbox.tiers import LOSSES, Finding, tier_of

__all__ = ["try_isolation"]

_LONGEST_DIRECTORY = 80
# Twice: a machine may stand still for as long once, and what is tried takes a moment.
_TIMEOUT_S = 30.0
_TRIES = 2
_USER_NAMESPACE_SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps ordinary users from using user namespaces (Ubuntu 24.04 does)",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are switched off for ordinary users",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "no user namespaces may be made",
        "sudo sysctl -w user.max_user_namespaces=15000",
    ),
)
_CONTAINER_REMEDY = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined …"
)
_STEPS = Refusal("cgroups are SLURM's here: each kernel is a job step, whose memory SLURM keeps", "")
_LANDLOCK_REMEDY = "add landlock to the kernel's lsm= parameter, or use Linux 6.12 or later"


class _Verdict(msgspec.Struct, frozen=True):
    """What the child reported."""

    ok: bool
    landlock: int
    escaped: list[str]
    error: str | None = None

    @property
    def held(self) -> bool:
        return self.ok and not self.escaped

    @property
    def failure(self) -> str:
        return self.error or f"it could still {', '.join(self.escaped)}"


def try_isolation(*, namespaces: bool = True, groups: bool = True) -> Finding:
    """The tier of this machine. Takes about a tenth of a second; without ``namespaces`` they are not even tried.

    Where it is A, this process has moved to a leaf of its cgroup (see ``cgroups``); without ``cgroups`` it never is.
    """
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="cw-trial-", dir=_short_directory())
        directory = Path(stack.enter_context(made))
        baits = stack.enter_context(_baits(directory))
        paths = [
            sys.prefix,
            sys.base_prefix,
            *(path for path in sys.path if Path(path).is_absolute()),
            *_own(),
        ]
        readable = readable_paths(paths, never=[str(directory)])
        boxed = _Verdict(ok=False, landlock=0, escaped=[], error="namespaces were not to be used")
        if namespaces:
            boxed = _run(sandbox_plan(Policy(), readable, allowed_environment({})), baits, directory / "a")
        if boxed.held:
            return _with_groups(boxed) if groups else _without_groups(boxed, _STEPS)
        watched = _run(_watched(readable, directory), baits, directory / "c")
    tier = tier_of(namespaces=False, landlock=watched.landlock, seccomp=watched.held, cgroup=False)
    reasons = [boxed.failure, *([] if watched.held else [watched.failure])]
    remedies = _remedies(watched) if namespaces else ("set sandbox_namespaces to true",)
    return Finding(tier, LOSSES[tier], tuple(reasons), remedies)


def _short_directory() -> str:
    """Where to try it: a socket's path may have 107 bytes, and somebody's TMPDIR may leave too little room for one."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST_DIRECTORY else "/tmp"


def _with_groups(boxed: _Verdict) -> Finding:
    """The tier of a machine where the sandbox holds: it only remains to see whether groups can be had."""
    found = open_groups()
    if isinstance(found, Refusal):
        return _without_groups(boxed, found)
    tier = tier_of(namespaces=True, landlock=boxed.landlock, seccomp=True, cgroup=True)
    return Finding(tier, LOSSES[tier], groups=found)


def _without_groups(boxed: _Verdict, why: Refusal) -> Finding:
    tier = tier_of(namespaces=True, landlock=boxed.landlock, seccomp=True, cgroup=False)
    return Finding(tier, LOSSES[tier], (why.reason,), (why.remedy,) if why.remedy else ())


def _watched(readable: list[str], directory: Path) -> dict[str, Any]:
    places = {"sockets": str(directory / "c"), "temporary": str(directory / "c" / "tmp")}
    Path(places["temporary"]).mkdir(parents=True)
    return watched_plan(
        Policy(),
        readable,
        allowed_environment({}),
        directories=places,
        writable=[],
    )


def _run(plan: dict[str, Any], baits: dict[str, Any], directory: Path) -> _Verdict:
    directory.mkdir(exist_ok=True)
    request = msgspec.json.encode({"plan": plan, "baits": baits, "directory": str(directory)})
    command = [sys.executable, "-I", "-S", *_own(), "--trial"]
    told = ""
    for _ in range(_TRIES):
        try:
            done = subprocess.run(
                command, input=request, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
            return msgspec.json.decode(done.stdout, type=_Verdict)
        except subprocess.TimeoutExpired as error:
            told = str(error)
        except (OSError, msgspec.MsgspecError) as error:
            told = str(error)
            break
    return _Verdict(ok=False, landlock=0, escaped=[], error=f"the trial failed: {told}")


def _own() -> list[str]:
    return [str(Path(cellwright_kernel.__file__).with_name("__main__.py"))]


@contextmanager
def _baits(directory: Path) -> Iterator[dict[str, Any]]:
    """Things that code would reach if nothing stopped it."""
    bait = directory / "secret"
    bait.write_text("bait")
    abstract = f"cellwright-trial-{os.getpid()}"
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (str(directory / "socket"), f"\0{abstract}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        yield {
            "file": str(bait),
            "pid": os.getpid(),
            "port": tcp.getsockname()[1],
            "socket": str(directory / "socket"),
            "abstract": abstract,
        }


def _remedies(watched: _Verdict) -> tuple[str, ...]:
    found = [
        f"{why}: {command}"
        for path, value, why, command in _USER_NAMESPACE_SWITCHES
        if _content(path) == value
    ]
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        found.append(f"the container forbids namespaces: {_CONTAINER_REMEDY}")
    if not watched.landlock:
        found.append(f"the kernel has no Landlock: {_LANDLOCK_REMEDY}")
    return tuple(found)


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None

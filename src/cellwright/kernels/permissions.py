"""What Deno is told that code may do: its own wall inside the sandbox's, drawn along the same line. Pure.

The sandbox holds without it. Deno's wall is nearer to the code: what it refuses is an error with a name, and no program
and no native library gets past it to begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from cellwright.sandbox.policy import Policy

__all__ = ["DenoAccess", "deno_flags", "heap_megabytes"]

_MEGABYTE = 1 << 20
# What Deno itself takes beside V8's heap, so that the heap's own limit is met first and explained as what it is.
_BESIDE_HEAP = 96 * _MEGABYTE
_PLAIN = (
    "--no-prompt",
    "--no-config",
    "--no-lock",
    "--node-modules-dir=none",
    "--inspect-publish-uid=stderr",
)


@dataclass(frozen=True, slots=True)
class DenoAccess:
    """What code may reach, in paths as it sees them."""

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    """May be read as well."""
    network: bool = False
    """Whether there is a way out, which then knows by itself how far it goes (see ``sandbox.egress``)."""
    inspector: str = "127.0.0.1:0"
    """Where V8's inspector listens, by which the driver has cells evaluated and torn off."""


def deno_flags(policy: Policy | None, access: DenoAccess) -> list[str]:
    """The flags of ``deno run``. Without a policy nothing is confined, and Deno does not confine either."""
    flags = [*_PLAIN, f"--inspect={access.inspector}"]
    heap = heap_megabytes(policy)
    if heap is not None:
        flags.append(f"--v8-flags=--max-old-space-size={heap}")
    if policy is None:
        return [*flags, "--allow-all"]
    flags += [
        _allowed("read", [*access.read, *access.write]),
        _allowed("write", access.write),
        "--allow-env",  # what the sandbox shows
        "--allow-sys",
    ]
    if access.network:
        # Everything goes by way of the proxy, in Node's modules too.
        return [*flags, "--allow-net", "--allow-import", "--use-env-proxy"]
    # The driver needs it once, and gives it back before any code runs.
    return [*flags, f"--allow-net={access.inspector}", "--no-remote", "--cached-only"]


def heap_megabytes(policy: Policy | None) -> int | None:
    """How large V8's heap may grow; None leaves that to V8."""
    if policy is None or policy.memory_bytes is None:
        return None
    return max(policy.memory_bytes - _BESIDE_HEAP, policy.memory_bytes // 2) // _MEGABYTE


def _allowed(what: str, paths: Sequence[str]) -> str:
    return f"--allow-{what}={','.join(dict.fromkeys(map(_told, paths)))}"


def _told(path: str) -> str:
    """The path, or what is above the part of it with a comma, which Deno cannot be told; the sandbox's wall stays."""
    return path if "," not in path else str(PurePath(path[: path.index(",")]).parent)

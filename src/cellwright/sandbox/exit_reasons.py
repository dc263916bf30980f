"""Explains a limit that was reached: which one, its value, its setting, and the next step. Pure.

Some limits end the kernel (``over_memory``, ``over_disk``, ``ended_by_signal``); others make a call fail that code can
catch, and then the session goes on (``explain_error``).
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from cellwright.sandbox.policy import Policy

__all__ = [
    "V8_IS_FULL",
    "LimitHit",
    "ended_by_signal",
    "explain_error",
    "out_of_memory",
    "out_of_processes",
    "over_disk",
    "over_files",
    "over_memory",
    "over_processes",
]

_MEGABYTE = 1024**2
_LESS_MEMORY = (
    "Use less at once (samples, chunks, fewer copies), or raise CELLWRIGHT_MAX_SESSION_MEMORY; "
    "then run the cells again in a new kernel"
)
V8_IS_FULL = re.compile(r"Fatal (?:JavaScript|process) out of memory")
"""What V8 prints before it ends a process whose heap has no room left, or which gets no more from the system."""


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that stopped something."""

    setting: str
    message: str
    next_step: str

    @property
    def of_memory(self) -> bool:
        return self.setting == "max_session_memory"

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}"


def over_memory(policy: Policy, used: int) -> LimitHit:
    return LimitHit(
        "max_session_memory",
        f"The session used {_size(used)} of memory, over its limit of {_size(policy.memory_bytes or 0)} "
        "(max_session_memory)",
        _LESS_MEMORY,
    )


def out_of_memory(policy: Policy) -> LimitHit:
    """Where the limit is the group's own, and hard: nothing could pass it."""
    return LimitHit(
        "max_session_memory",
        f"The session needed more than its {_size(policy.memory_bytes or 0)} of memory (max_session_memory), and was "
        "ended as a whole",
        _LESS_MEMORY,
    )


def out_of_processes(policy: Policy, refused: int) -> LimitHit:
    return LimitHit(
        "max_session_processes",
        f"The kernel ended by itself after {refused:,} new processes or threads were refused to its session, which "
        f"may have {policy.processes or 0} at once (max_session_processes)",
        "Start fewer, or raise CELLWRIGHT_MAX_SESSION_PROCESSES; then run the cells again in a new kernel",
    )


def over_disk(policy: Policy, used: int) -> LimitHit:
    return LimitHit(
        "max_session_disk",
        f"The session wrote {_size(used)} to its working directory, over its limit of "
        f"{_size(policy.disk_bytes)} (max_session_disk)",
        "Delete files there or write less, or raise CELLWRIGHT_MAX_SESSION_DISK",
    )


def over_files(policy: Policy, count: int) -> LimitHit:
    return LimitHit(
        "max_session_files",
        f"The session made {count:,} files in its working directory, over its limit of "
        f"{policy.disk_files:,} (max_session_files)",
        "Delete files there or make fewer, or raise CELLWRIGHT_MAX_SESSION_FILES",
    )


def over_processes(policy: Policy, count: int) -> LimitHit:
    return LimitHit(
        "max_session_processes",
        f"The session had {count:,} processes and threads, over its limit of {policy.processes or 0:,} "
        "(max_session_processes)",
        "Start fewer at once, or raise CELLWRIGHT_MAX_SESSION_PROCESSES; then run the cells again in a new kernel",
    )


def ended_by_signal(policy: Policy, number: int, exit_output: str = "") -> LimitHit | None:
    """The limit behind a signal that ended a kernel, if there is one; ``exit_output`` is what it printed before."""
    if V8_IS_FULL.search(exit_output) and policy.memory_bytes is not None:
        return LimitHit(
            "max_session_memory",
            f"The kernel's heap was full: the session may use {_size(policy.memory_bytes)} of memory "
            "(max_session_memory)",
            _LESS_MEMORY,
        )
    if number == signal.SIGXCPU and policy.cpu_seconds is not None:
        return LimitHit(
            "max_session_cpu_s",
            f"The kernel used up its {policy.cpu_seconds} s of processor time (max_session_cpu_s)",
            "Split the work over several sessions, or raise CELLWRIGHT_MAX_SESSION_CPU_S",
        )
    return None


def explain_error(name: str, value: str, policy: Policy) -> str | None:
    """What an exception in a cell has to do with the sandbox, if anything."""
    for pattern, explain in _ERRORS:
        if pattern.search(f"{name}: {value}"):
            return explain(policy)
    return None


def _memory(policy: Policy) -> str | None:
    if policy.memory_bytes is None:
        return None
    return (
        f"A process of this session may use {_size(policy.memory_bytes)} (max_session_memory). Use less at once, "
        "or raise CELLWRIGHT_MAX_SESSION_MEMORY"
    )


def _disk(policy: Policy) -> str:
    return (
        f"This session may write {_size(policy.disk_bytes)} (max_session_disk) in {policy.disk_files:,} files "
        f"(max_session_files), and {_size(policy.temporary_bytes)} to /tmp. Delete files, or raise the limit"
    )


def _processes(policy: Policy) -> str | None:
    if policy.processes is None:
        return None
    return (
        f"This session may have {policy.processes} processes and threads at once (max_session_processes). "
        "Start fewer, or raise CELLWRIGHT_MAX_SESSION_PROCESSES"
    )


def _open_files(policy: Policy) -> str:
    return (
        f"A process of this session may have {policy.open_files} files open (max_session_open_files). "
        "Close some, or raise CELLWRIGHT_MAX_SESSION_OPEN_FILES"
    )


def _network(policy: Policy) -> str | None:
    if policy.network == "proxy":
        return (
            "Code in cells reaches the network through its proxy only (HTTP_PROXY, HTTPS_PROXY), and there what the "
            "setting network lets it. Use a client that knows proxies, or let the operator add the host to "
            "CELLWRIGHT_NETWORK_ALLOW"
        )
    return (
        "Code in cells has no network here (network). Ask for the package or the page with a tool, or let the "
        "operator set CELLWRIGHT_ALLOW_NETWORK=true"
    )


def _npm(policy: Policy) -> str | None:
    return f"`package_install` brings approved npm packages. {_network(policy)}"


def _read_only(_: Policy) -> str:
    return (
        "Only the working directory and /tmp can be written to. Write there with a relative path, or let the "
        "operator add a directory to write_paths"
    )


def _out_of_reach(_: Policy) -> str:
    return (
        "Code may read the project, the interpreter and the system's programs, and write to its working directory and "
        "to its temporary directory. Copy the file into the working directory, or let the operator add its directory "
        "to read_paths or write_paths"
    )


def _forbidden(_: Policy) -> str:
    return (
        "The sandbox forbids this system call, which reaches the machine rather than the session (unsafe_no_sandbox). "
        "Do without it, or let the operator run this code outside the sandbox with --unsafe-no-sandbox"
    )


def _no_programs(_: Policy) -> str:
    return (
        "TypeScript and JavaScript cells start no programs and load no native libraries (unsafe_no_sandbox). Do it in a "
        "Python cell, which may, or in JavaScript alone"
    )


_ERRORS = (
    (
        re.compile(
            r"MemoryError|Errno 12\]|std::bad_alloc|Unable to allocate|buffer allocation failed|os error 12\)"
        ),
        _memory,
    ),
    (re.compile(r"NotCapable: Requires (run|ffi) access"), _no_programs),
    (re.compile(r"npm package not found in cache"), _npm),
    (re.compile(r"NotCapable: Requires (net|import) access|--cached-only|--no-remote"), _network),
    (re.compile(r"NotCapable: Requires (read|write) access|PermissionDenied:.*os error 13\)"), _out_of_reach),
    (re.compile(r"Errno (28|122|27)\]|No space left|Disk quota|File too large"), _disk),
    (re.compile(r"BlockingIOError: \[Errno 11\] Resource temp|can't start new thread"), _processes),
    (re.compile(r"Errno 24\]|Too many open files"), _open_files),
    (re.compile(r"Errno 30\]|Read-only file system"), _read_only),
    (re.compile(r"Errno 13\]"), _out_of_reach),
    (re.compile(r"PermissionError: \[Errno 1\]"), _forbidden),
    (
        re.compile(
            r"Tunnel connection failed: 403|Errno (95|101|113|-2|-3|-5)\]|Network is unreachable|name resolution|Name or service not known"
        ),
        _network,
    ),
)


def _size(count: int) -> str:
    return f"{count / _MEGABYTE:,.0f} MB"

"""Goes through the whole lockdown in a throwaway child, and there tries what must not succeed.

Run by the host before it trusts this machine with anybody's code: ``python __main__.py --trial``, with the plan and
the baits on standard input and the verdict on standard output, both as JSON. See ``cellwright.sandbox.probe``.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from cellwright_kernel import _lockdown, landlock

__all__ = ["main"]

MAX_REPORT = 1 << 16


def main() -> None:
    """Read the request, try, and print the verdict."""
    request = json.load(sys.stdin)
    report_read, report_write = os.pipe()
    error_read, error_write = os.pipe()
    control, lifeline = socket.socketpair(), os.pipe()
    pid = os.fork()
    if pid == 0:
        lines = _lockdown.Lifelines(control[1].fileno(), lifeline[0])
        _lockdown.confine(request["plan"], lines, [error_write, report_write], request["directory"])
        escaped = [name for name, attempt in _attempts(request["baits"]).items() if _succeeds(attempt)]
        os.write(report_write, json.dumps({"escaped": escaped}).encode())
        os._exit(0)
    os.close(report_write)
    os.close(error_write)
    with os.fdopen(report_read, "rb") as file:
        report = file.read(MAX_REPORT)
    with os.fdopen(error_read, "rb") as file:
        errors = file.read(MAX_REPORT).decode("utf-8", "replace").strip()
    os.waitpid(pid, 0)
    verdict: dict[str, Any] = {"landlock": landlock.abi(), "ok": bool(report), "escaped": []}
    if report:
        verdict |= json.loads(report)
    else:
        verdict["error"] = errors.splitlines()[-1] if errors else "the child ended without a word"
    print(json.dumps(verdict))  # noqa: T201  # this is the answer


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except Exception:  # noqa: BLE001  # boundary: whatever stopped it, it did not succeed
        return False
    return True


def _attempts(baits: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """What must fail, by name. The baits are real and would be reached without the lockdown."""
    return {
        "read a secret file": lambda: _open(baits["file"], os.O_RDONLY),
        "write a file outside": lambda: _open(baits["file"], os.O_WRONLY),
        "write to the system": lambda: _open("/usr/.cellwright-trial", os.O_WRONLY | os.O_CREAT),
        "write a kernel setting": lambda: _open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
        "read the kernel's log": lambda: _open("/dev/kmsg", os.O_RDONLY),
        "signal the host": lambda: os.kill(baits["pid"], 0) if baits["pid"] != os.getpid() else _fail(),
        "connect to the machine's loopback": lambda: _connect(socket.AF_INET, ("127.0.0.1", baits["port"])),
        "connect to a unix socket": lambda: _connect(socket.AF_UNIX, baits["socket"]),
        "connect to an abstract socket": lambda: _connect(socket.AF_UNIX, "\0" + baits["abstract"]),
        "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "open a netlink socket": lambda: socket.socket(16, socket.SOCK_RAW, 0),
        "become root": lambda: os.setuid(0),
        "make a user namespace": lambda: _call("unshare", 0x10000000),
        "enter a namespace": lambda: _call("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0),
        "mount": lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "trace a process": lambda: _call("ptrace", 0, 0, 0, 0),
        "change the root": lambda: os.chroot("/"),
    }


def _open(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _connect(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        connection.connect(address)


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) == -1:
        _fail()


def _fail() -> None:
    raise PermissionError

"""The filter of system calls alone: powers over one's own namespaces, should anybody keep them, are good for nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTEMPTS = {
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "unmount": "call('umount2', b'/proc', 2)",
    "see what is mounted over": "call('umount2', b'/', 2)",
    "make namespaces": "call('unshare', 0x20000)",
    "enter a namespace": "call('setns', os.open('/proc/self/ns/net', 0), 0)",
    "change the root": "os.chroot('/tmp')",
    "name the host": "socket.sethostname('x')",
    "take the loopback down": "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh22x', b'lo', 0))",
    "add a route": "fcntl.ioctl(socket.socket(), 0x890B, bytes(120))",
    "make a bridge": "fcntl.ioctl(socket.socket(), 0x89A0, b'b0' + bytes(14))",
    "ask for filters": "socket.socket().getsockopt(0, 64, 84)",
    "set filters": "socket.socket().setsockopt(0, 64, bytes(96))",
    "set filters of version 6": "socket.socket(socket.AF_INET6).setsockopt(41, 64, bytes(96))",
    "set a policy": "socket.socket().setsockopt(0, 17, bytes(168))",
    "repair a connection": "socket.socket().setsockopt(6, 19, 1)",
    "open a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "open a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "make a device": "os.mknod('/tmp/x', 0o20600, os.makedev(1, 1))",
}
"""What powers over one's namespaces would be good for."""
ASKING = {
    "ask for a device's flags": "fcntl.ioctl(socket.socket(), 0x8913, struct.pack('16sh22x', b'lo', 0))",
    "listen": "socket.socket().setsockopt(6, 1, 1); socket.create_server(('127.0.0.1', 0)).close()",
}
PROGRAM = """
import ctypes, fcntl, json, os, socket, struct, sys
from cellwright_kernel import _namespaces as namespaces, _seccomp as seccomp
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
namespaces.leave_sandbox()
namespaces.bring_up_loopback()
powers = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
namespaces.no_new_privileges()
seccomp.install(local_network=True)
done = []
for name, code in json.loads(sys.argv[1]).items():
    try:
        exec(code)
        done.append(name)
    except OSError:
        pass
print(json.dumps({"done": done, "powers": int(powers[0], 16)}))
"""


def test_powers_over_ones_own_namespaces_are_good_for_nothing() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(ATTEMPTS | ASKING)],
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        pytest.fail(told.stderr)
    found = json.loads(told.stdout)
    assert found["powers"], "it has them"
    assert found["done"] == list(ASKING)


ABOUT_DEVICES = """
import fcntl, socket, struct, sys
from cellwright_kernel import _namespaces as namespaces, _seccomp as seccomp
one, _ = socket.socketpair()
lo = struct.pack('16s24x', b'lo')
fcntl.ioctl(one, 0x8913, lo)
namespaces.no_new_privileges()
seccomp.install(local_network=False)
for request in (0x8910, 0x8912, 0x8913, 0x8915, 0x8921, 0x8927, 0x8933):
    try:
        fcntl.ioctl(one, request, lo)
    except OSError:
        continue
    sys.exit(f"{request:x} was answered")
"""


def test_without_a_network_of_its_own_a_process_learns_nothing_of_the_machines_devices() -> None:
    told = subprocess.run(
        [sys.executable, "-c", ABOUT_DEVICES],
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr

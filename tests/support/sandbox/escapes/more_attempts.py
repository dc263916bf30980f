"""The second half of the table: the kernel's own interfaces, and using up what is shared."""

from __future__ import annotations

from tests.support.sandbox.escapes.attempts import FILES, LIBC, NETWORK, PROCESSES, Attempt, _call
from tests.support.sandbox.escapes.shared_attempts import SHARED

__all__ = ["ATTEMPTS"]

KERNEL = (
    Attempt(
        "make a user namespace",
        LIBC
        + "pid = os.fork()\nif pid == 0: os._exit(0 if libc.unshare(0x10000000) == 0 else 1)\nprint('ESCAPED' if os.waitpid(pid, 0)[1] == 0 else '')",
        "said",
    ),
    Attempt(
        "make a user namespace by clone",
        LIBC
        + "import sys\nnr = 56 if os.uname().machine == 'x86_64' else 220\npid = libc.syscall(nr, 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nprint('ESCAPED' if pid > 0 else '')",
        "said",
    ),
    Attempt(
        "mount", _call("libc.mount(b'none', W['outside'].encode(), b'tmpfs', 0, None)"), "said", root=True
    ),
    Attempt("open a new mount", _call("libc.syscall(428, -100, b'/', 1)"), "said", root=True),
    Attempt("change the root", "import os; os.chroot('/'); print('ESCAPED')", "said", root=True),
    Attempt(
        "enter another namespace",
        LIBC + "print('ESCAPED' if libc.setns(os.open(f\"/proc/{W['victim']}/ns/uts\", 0), 0) == 0 else '')",
        "said",
        root=True,
    ),
    Attempt("become root", "import os; os.setuid(0); print('ESCAPED')", "said", root=True),
    Attempt(
        "keep capabilities",
        "import re; print('ESCAPED' if int(re.search(r'CapEff:\\s*(\\w+)', open('/proc/self/status').read())[1], 16) else '')",
        "said",
        root=True,
    ),
    Attempt(
        "gain rights by running a program",
        "print('ESCAPED' if 'NoNewPrivs:\\t0' in open('/proc/self/status').read() else '')",
        "said",
    ),
    Attempt(
        "open the core pattern",
        "open('/proc/sys/kernel/core_pattern', 'r+'); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt(
        "read the kernel's log device",
        "import os; os.open('/dev/kmsg', 0); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt("read the kernel's log by call", _call("libc.klogctl(10, 0, 0)"), "said", root=True),
    Attempt(
        "open a device of the machine",
        "import os; os.open(next(d for d in ('/dev/console', '/dev/tty0', '/dev/mem') if os.path.exists(d)), os.O_WRONLY | os.O_NOCTTY); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt(
        "make a device",
        "import os; os.mknod('planted', 0o60600, os.makedev(7, 0)); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt(
        "see the machine's devices", "import os; print('ESCAPED' if os.listdir('/sys/block') else '')", "said"
    ),
    Attempt(
        "add a key",
        LIBC
        + "nr = 248 if os.uname().machine == 'x86_64' else 217\nprint('ESCAPED' if libc.syscall(nr, b'user', b'k', b'v', 1, -3) >= 0 else '')",
        "said",
    ),
    Attempt(
        "set up io_uring",
        LIBC + "print('ESCAPED' if libc.syscall(425, 4, ctypes.create_string_buffer(120)) >= 0 else '')",
        "said",
    ),
    Attempt(
        "load a BPF map",
        LIBC
        + "import struct\nnr = 321 if os.uname().machine == 'x86_64' else 280\nprint('ESCAPED' if libc.syscall(nr, 0, ctypes.create_string_buffer(struct.pack('IIIII', 2, 4, 8, 1, 0), 72), 72) >= 0 else '')",
        "said",
        root=True,
    ),
    Attempt(
        "open a file by handle",
        LIBC
        + "import struct\nnr = 303 if os.uname().machine == 'x86_64' else 264\nh = ctypes.create_string_buffer(struct.pack('Ii', 128, 0), 136); m = ctypes.c_int()\nr = libc.syscall(nr, -100, W['secret'].encode(), h, ctypes.byref(m), 0)\nprint('ESCAPED' if r >= 0 else '')",
        "said",
    ),
    Attempt(
        "disable address randomisation",
        LIBC
        + "old = libc.personality(0xffffffff)\nr = libc.personality(0x0040000)\nprint('ESCAPED' if r >= 0 else '')\nlibc.personality(old)",
        "said",
    ),
    Attempt(
        "set the host name",
        "import socket; socket.sethostname(socket.gethostname()); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt(
        "raise the priority",
        "import os; os.setpriority(os.PRIO_PROCESS, 0, -5); print('ESCAPED'); os.setpriority(os.PRIO_PROCESS, 0, 0)",
        "said",
        root=True,
    ),
)

_SOCKETS = """
import socket, time
kept, sent = [], 0
while sent < 330 << 20:
    kept += socket.socketpair()
    for s in kept[-2:]:
        s.setblocking(False); s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        try:
            while True: sent += s.send(b'x' * 65536)
        except BlockingIOError: pass
time.sleep(W['wait_s'])
print('ESCAPED')
for s in kept: s.close()
"""
_UNACCEPTED = """
import socket, time
listener = socket.create_server(('127.0.0.1', 0), backlog=4096)
sent = 0
while sent < 330 << 20:
    with socket.create_connection(listener.getsockname()) as s:
        s.settimeout(0.005)
        try:
            while sent < 330 << 20: sent += s.send(b'x' * 65536)
        except TimeoutError: pass
time.sleep(W['wait_s'])
print('ESCAPED')
listener.close()
"""
_PIPES = """
import os, time
def fill():
    for _ in range(450):
        r, w = os.pipe(); os.set_blocking(w, False)
        try:
            while True: os.write(w, b'x' * 4096)
        except BlockingIOError: pass
for _ in range(60):
    if os.fork() == 0:
        fill(); time.sleep(W['wait_s']); os._exit(0)
time.sleep(W['wait_s'])
print('ESCAPED')
"""

RESOURCES = (
    Attempt(
        "use memory in one process",
        "x = b'x' * (400 << 20)\nprint('ESCAPED', len(x))\ndel x",
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory in many processes",
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = b'x' * (90 << 20); time.sleep(W['wait_s']); os._exit(0)\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory in processes that hide it",
        LIBC
        + "import time\nfor _ in range(4):\n    if os.fork() == 0:\n        libc.prctl(4, 0, 0, 0, 0); x = b'x' * (90 << 20); time.sleep(W['wait_s']); os._exit(0)\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory in a memory file",
        LIBC
        + "fd = os.memfd_create('x')\nfor _ in range(30): os.write(fd, b'x' * (10 << 20))\nprint('ESCAPED')\nos.close(fd)",
        "said",
        greedy=True,
    ),
    Attempt(
        "use shared memory",
        "import mmap, time\nm = mmap.mmap(-1, 330 << 20)\nfor i in range(0, len(m), 1 << 20): m[i:i + (1 << 20)] = b'x' * (1 << 20)\ntime.sleep(W['wait_s'])\nprint('ESCAPED')\nm.close()",
        "said",
        greedy=True,
    ),
    Attempt(
        "use shared memory that is not mapped",
        "import mmap, time\nm = mmap.mmap(-1, 330 << 20)\nfor i in range(0, len(m), 1 << 20):\n    m[i:i + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, i, 1 << 20)\ntime.sleep(W['wait_s'])\nprint('ESCAPED')\nm.close()",
        "said",
        greedy=True,
    ),
    Attempt(
        "use shared memory of a device that is not mapped",
        "import mmap, os, time\nm = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 330 << 20)\nfor i in range(0, len(m), 1 << 20):\n    m[i:i + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, i, 1 << 20)\ntime.sleep(W['wait_s'])\nprint('ESCAPED')\nm.close()",
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory for page tables",
        "import mmap, time\nm = mmap.mmap(-1, 160 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)\nfor i in range(0, len(m), 2 << 20): m[i]\ntime.sleep(W['wait_s'])\nprint('ESCAPED')\nm.close()",
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory in sockets",
        _SOCKETS,
        "said",
        greedy=True,
    ),
    Attempt(
        "use memory in sockets that nobody has accepted",
        _UNACCEPTED,
        "said",
        tiers="B",
        greedy=True,
    ),
    Attempt(
        "use memory in pipes",
        _PIPES,
        "said",
        greedy=True,
    ),
    Attempt(
        "use System V shared memory",
        LIBC
        + "r = libc.shmget(0, 900 << 20, 0o1600)\nprint('ESCAPED' if r >= 0 else '')\nlibc.shmctl(r, 0, None)",
        "said",
        greedy=True,
    ),
    Attempt(
        "keep System V messages",
        LIBC + "q = libc.msgget(0, 0o1600)\nprint('ESCAPED' if q >= 0 else '')\nlibc.msgctl(q, 0, None)",
        "said",
    ),
    Attempt(
        "use System V semaphores",
        LIBC + "s = libc.semget(0, 1, 0o1600)\nprint('ESCAPED' if s >= 0 else '')\nlibc.semctl(s, 0, 0)",
        "said",
    ),
    Attempt(
        "keep a POSIX message queue",
        LIBC
        + "name = f'/cw-{os.getpid()}'.encode()\nq = libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)\nprint('ESCAPED' if q >= 0 else '')\nlibc.mq_unlink(name)",
        "said",
    ),
    Attempt(
        "fill /dev/shm",
        "import os\nname = f'/dev/shm/cw-fill-{os.getpid()}'\nwith open(name, 'wb') as f:\n    for _ in range(12): f.write(b'x' * (10 << 20))\nprint('ESCAPED')\nos.unlink(name)",
        "said",
        greedy=True,
    ),
    Attempt(
        "fill the temporary directory",
        "import os, tempfile, time\nd = tempfile.mkdtemp()\ntry:\n    for i in range(4): open(f'{d}/{i}', 'wb').write(b'x' * (25 << 20))\n    time.sleep(W['wait_s'])\n    print('ESCAPED')\nfinally:\n    import shutil; shutil.rmtree(d)",
        "said",
        greedy=True,
    ),
    Attempt(
        "fill the disk with one file",
        "import os, time\nwith open('fill', 'wb') as f:\n    for _ in range(8): f.write(b'x' * (10 << 20))\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
    Attempt(
        "fill the disk with many files",
        "import time\nfor i in range(4): open(f'fill{i}', 'wb').write(b'x' * (30 << 20))\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
    Attempt(
        "reserve the disk",
        LIBC
        + "r = 0\nfor i in range(8):\n    r = min(r, libc.fallocate(os.open(f'fill{i}', os.O_CREAT | os.O_RDWR, 0o600), 0, ctypes.c_long(0), ctypes.c_long(30 << 20)))\nprint('ESCAPED' if r >= 0 else '')",
        "said",
        greedy=True,
    ),
    Attempt(
        "use up the inodes",
        "import os, time\nos.mkdir('fill-many')\nfor i in range(2_400): os.close(os.open(f'fill-many/{i}', os.O_CREAT, 0o600))\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
)

ATTEMPTS = (*FILES, *NETWORK, *PROCESSES, *KERNEL, *SHARED, *RESOURCES)

"""What code might try, as a table: a name, the code, and how its success is seen from outside.

Every attempt works when nothing confines it, which is tested too: an attempt that cannot succeed proves nothing.
``W`` in the code is what the world (see ``world``) tells it: paths, ports, process numbers, and how long to hold on to
what was taken, for a limit that is watched to be noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FILES", "LIBC", "NETWORK", "PROCESSES", "Attempt"]

Seen = Literal[
    "token", "said", "changed", "missing", "heard", "planted", "reached", "dead", "altered", "crowd"
]
"""How success shows: the secret in the output; a call that printed ESCAPED; a file changed, gone or planted; a listener
that heard something; a port that can be reached; the victim dead or altered; too many processes."""


@dataclass(frozen=True, slots=True)
class Attempt:
    name: str
    code: str
    seen: Seen
    root: bool = False
    """Works without a sandbox only for root."""
    tiers: str = "BC"
    """Where it must fail; what a tier does not promise is left out here and stands in the documentation."""
    open_at: str = ""
    """A tier and a launcher in which it is documented to succeed."""
    greedy: bool = False
    """Takes so much that it would spoil what is tried beside it."""


LIBC = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"


def _call(expression: str) -> str:
    return LIBC + f"r = {expression}\nprint('ESCAPED' if r >= 0 else os.strerror(ctypes.get_errno()))"


FILES = (
    Attempt("read a file outside", "print(open(W['secret']).read())", "token"),
    Attempt(
        "read through a symlink", "import os; os.symlink(W['secret'], 'l'); print(open('l').read())", "token"
    ),
    Attempt(
        "read through a hard link", "import os; os.link(W['secret'], 'h'); print(open('h').read())", "token"
    ),
    Attempt(
        "read through a relative path",
        "import os; print(open(os.path.relpath(W['secret'])).read())",
        "token",
    ),
    Attempt(
        "read through another process's root",
        "print(open(f\"/proc/{W['victim']}/root{W['secret']}\").read())",
        "token",
    ),
    Attempt(
        "read through another process's directory",
        "print(open(f\"/proc/{W['victim']}/cwd/secret\").read())",
        "token",
    ),
    Attempt("read the home directory", "import os; print(open(W['home'] + '/.ssh/id').read())", "token"),
    Attempt("read the engine's state", "print(open(W['storage'] + '/state-secret').read())", "token"),
    Attempt("read another session's file", "print(open(W['other'] + '/secret').read())", "token"),
    Attempt("list another session's files", "import os; print(os.listdir(W['other']))", "token"),
    Attempt(
        "read the password file",
        "print('ESCAPED' if 'root:' in open('/etc/shadow').read() else '')",
        "said",
        root=True,
    ),
    Attempt("read the environment of the host", "import os; print(os.environ.get('CW_SECRET'))", "token"),
    Attempt(
        "read another process's environment", "print(open(f\"/proc/{W['victim']}/environ\").read())", "token"
    ),
    Attempt("write a file outside", "open(W['bait'], 'w').write('x')", "changed"),
    Attempt(
        "append through a symlink",
        "import os; os.symlink(W['bait'], 's'); open('s', 'a').write('x')",
        "changed",
    ),
    Attempt("truncate a file outside", "import os; os.truncate(W['bait'], 1)", "changed"),
    Attempt(
        "replace a file outside", "import os; open('m', 'w').close(); os.rename('m', W['bait'])", "changed"
    ),
    Attempt("delete a file outside", "import os; os.unlink(W['bait'])", "missing"),
    Attempt("change a file's mode", "import os; os.chmod(W['bait'], 0o666)", "altered"),
    Attempt("set a file's time", "import os; os.utime(W['bait'], (1, 1))", "altered"),
    Attempt("make a file outside", "open(W['outside'] + '/planted', 'w').close()", "planted"),
    Attempt(
        "watch a directory outside",
        LIBC
        + "fd = libc.inotify_init1(0)\nprint('ESCAPED' if fd >= 0 and libc.inotify_add_watch(fd, W['outside'].encode(), 0x100) >= 0 else '')\nfd >= 0 and os.close(fd)",
        "said",
    ),
    Attempt("make a directory outside", "import os; os.mkdir(W['outside'] + '/planted')", "planted"),
    Attempt("write to another session's folder", "open(W['other'] + '/planted', 'w').close()", "planted"),
    Attempt("poison a shared environment", "open(W['environment'] + '/planted.py', 'w').close()", "planted"),
    Attempt(
        "poison a bytecode cache",
        "import os; os.makedirs(W['environment'] + '/__pycache__', exist_ok=True); open(W['environment'] + '/__pycache__/planted', 'w').close()",
        "planted",
    ),
    Attempt(
        "plant a git hook",
        "open('.git/hooks/planted', 'w').close()",
        "planted",
        tiers="B",
    ),
    Attempt(
        "plant a file among the sockets",
        "import os; from ipykernel.connect import get_connection_file as f; open(os.path.dirname(f()) + '/planted', 'w').close()",
        "planted",
    ),
    Attempt(
        "plant a link among the sockets",
        "import os; from ipykernel.connect import get_connection_file as f; os.symlink('/', os.path.dirname(f()) + '/planted')",
        "planted",
    ),
    Attempt(
        "make a setuid program",
        "import os; open('planted', 'w').close(); os.chmod('planted', 0o4755); print('ESCAPED' if os.stat('planted').st_mode & 0o4000 else '')",
        "said",
    ),
)

NETWORK = (
    Attempt(
        "connect over TCP",
        "import socket; socket.create_connection(('127.0.0.1', W['tcp']), 2).send(b'hello')",
        "heard",
    ),
    Attempt(
        "connect over TCP and IPv6",
        "import socket; socket.create_connection(('::1', W['tcp6']), 2).send(b'hello')",
        "heard",
    ),
    Attempt(
        "connect without blocking",
        "import socket, select; s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', W['tcp'])); select.select([], [s], [], 2); s.send(b'hello')",
        "heard",
    ),
    Attempt(
        "send by TCP fast open",
        "import socket; socket.socket().sendto(b'hello', 0x20000000, ('127.0.0.1', W['tcp']))",
        "heard",
    ),
    Attempt(
        "send over UDP",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', W['udp']))",
        "heard",
    ),
    Attempt(
        "connect to a unix socket",
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect(W['unix']); s.send(b'hello')",
        "heard",
    ),
    Attempt(
        "connect to another kernel's socket",
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect(W['other_socket']); s.send(b'hello')",
        "heard",
    ),
    Attempt(
        "send to a unix datagram socket",
        "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'hello', W['dgram'])",
        "heard",
    ),
    Attempt(
        "send from a socket pair to a path",
        "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'hello', W['dgram'])",
        "heard",
    ),
    Attempt(
        "connect to an abstract socket",
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0' + W['abstract']); s.send(b'hello')",
        "heard",
    ),
    Attempt(
        "listen on a port of the machine",
        "import socket; global_listener = socket.create_server(('127.0.0.1', W['free'])); print('listening')",
        "reached",
    ),
    Attempt(
        "listen on an abstract socket",
        "import socket; global_listener = socket.socket(socket.AF_UNIX); global_listener.bind('\\0' + W['free_abstract']); global_listener.listen(); print('listening')",
        "reached",
        # A program that we did not write makes its own sockets, and then may make others.
        open_at="C-spawn",
    ),
    Attempt(
        "see the machine's sockets",
        "print('ESCAPED' if W['unix'] in open('/proc/self/net/unix').read() else '')",
        "said",
    ),
    Attempt(
        "see the machine's sockets as a thread",
        "import os; print('ESCAPED' if W['unix'] in open(f'/proc/self/task/{os.getpid()}/net/unix').read() else '')",
        "said",
    ),
    Attempt("open a vsock", "import socket; socket.socket(40, socket.SOCK_STREAM); print('ESCAPED')", "said"),
    Attempt("open a netlink socket", "import socket; socket.socket(16, 3, 0); print('ESCAPED')", "said"),
    Attempt(
        "open a raw socket", "import socket; socket.socket(2, 3, 1); print('ESCAPED')", "said", root=True
    ),
    Attempt(
        "open a packet socket", "import socket; socket.socket(17, 3, 0); print('ESCAPED')", "said", root=True
    ),
)

PROCESSES = (
    Attempt("signal a process", "import os, signal; os.kill(W['victim'], signal.SIGKILL)", "dead"),
    Attempt(
        "signal a process by descriptor",
        "import os, signal; signal.pidfd_send_signal(os.pidfd_open(W['victim']), signal.SIGKILL)",
        "dead",
    ),
    Attempt("see a process's command", "print(open(f\"/proc/{W['victim']}/cmdline\").read())", "token"),
    Attempt("hold on to a process", "import os; os.pidfd_open(W['victim']); print('ESCAPED')", "said"),
    Attempt(
        "find processes by listing",
        "import os; print([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit() and int(p) == W['victim']])",
        "token",
    ),
    Attempt("slow a process down", "import os; os.setpriority(os.PRIO_PROCESS, W['victim'], 19)", "altered"),
    Attempt(
        "limit a process",
        "import resource; resource.prlimit(W['victim'], resource.RLIMIT_NOFILE, (77, 77))",
        "altered",
    ),
    Attempt("pin a process", "import os; os.sched_setaffinity(W['victim'], {0})", "altered"),
    Attempt(
        "trace a process",
        _call("libc.ptrace(16, W['victim'], 0, 0)") + "\nlibc.ptrace(17, W['victim'], 0, 0)",
        "said",
    ),
    Attempt(
        "read a process's memory",
        "import re\nmaps = open(f\"/proc/{W['victim']}/maps\").read()\nstart, end = re.search(r'(\\w+)-(\\w+) rw.*stack', maps).groups()\nwith open(f\"/proc/{W['victim']}/mem\", 'rb') as m:\n    m.seek(int(start, 16)); print(m.read(int(end, 16) - int(start, 16)).replace(b'\\0', b' ').decode('latin1'))",
        "token",
    ),
    Attempt(
        "take a process's descriptor",
        LIBC + "print('ESCAPED' if libc.syscall(438, os.pidfd_open(W['victim']), 0, 0) >= 0 else '')",
        "said",
    ),
    Attempt(
        "start very many processes",
        "import os, time\nfor _ in range(200):\n    if os.fork() == 0:\n        time.sleep(120); os._exit(0)",
        "crowd",
        greedy=True,
    ),
    Attempt(
        "start very many threads",
        "import threading, time\nfor _ in range(200):\n    threading.Thread(target=time.sleep, args=(max(20, W['wait_s']),), daemon=True).start()\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
    Attempt(
        "open very many files",
        "fs = [open('/dev/null') for _ in range(3000)]\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
)

"""The third part of the table: what sessions share with each other and with whoever comes later."""

from __future__ import annotations

from tests.support.sandbox.escapes.attempts import LIBC, Attempt

__all__ = ["SHARED"]

_POISON_IMPORTS = """
import os, sys, tempfile
own = (os.getcwd(), tempfile.gettempdir())
for place in sys.path:
    if os.path.isdir(place) and not place.startswith(own):
        try:
            with open(place + '/cw_poison.py', 'w'): print('ESCAPED')
            os.unlink(place + '/cw_poison.py')
        except OSError as error: print(error.errno)
"""
_POISON_BYTECODE = """
import importlib.util, json, os
cached = importlib.util.cache_from_source(json.__file__)
poison = os.path.dirname(cached) + '/cw_poison'
with open(poison, 'w'): print('ESCAPED')
os.unlink(poison)
"""
_SETUID = """
import os, re, subprocess, time
p = subprocess.Popen(['/usr/bin/su'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for _ in range(3_000):  # a program has its rights a moment after it has begun, and before it waits for anything
    told = open(f'/proc/{p.pid}/status').read()
    if re.search(r'Uid:\\s+\\d+\\s+0\\s|State:\\s+[SZ]', told): break
    time.sleep(0.01)
p.kill(); p.wait(); p.stdin.close()
print('ESCAPED' if re.search(r'Uid:\\s+\\d+\\s+0\\s', told) else re.search(r'Uid:.*', told)[0])
"""

SHARED = (
    Attempt("poison the interpreter's packages", _POISON_IMPORTS, "said", root=True),
    Attempt("poison the interpreter's bytecode", _POISON_BYTECODE, "said", root=True),
    Attempt(
        "poison a layer of packages",
        "import os\nfor place in (W['packages'], '/packages/layer'):\n    if os.path.isdir(place): open(place + '/planted.py', 'w').close()",
        "planted",
    ),
    Attempt(
        "replace a module of a layer of packages",
        "import os\nfor place in (W['packages'], '/packages/layer'):\n    if os.path.isdir(place):\n        open('m', 'w').close(); os.rename('m', place + '/planted.py')",
        "planted",
    ),
    Attempt(
        "poison the package manager's cache",
        "open(W['home'] + '/.cache/uv/planted', 'w').close()",
        "planted",
    ),
    Attempt(
        "plant a start-up file for IPython",
        "open(W['home'] + '/.ipython/profile_default/startup/planted.py', 'w').close()",
        "planted",
    ),
    Attempt(
        "plant a kernelspec",
        "import os; os.mkdir(W['kernelspecs'] + '/planted')",
        "planted",
    ),
    Attempt(
        "read a living session's layer",
        "import glob; print([open(f).read() for f in glob.glob(W['storage'] + '/sessions/**/of-the-other', recursive=True)])",
        "token",
    ),
    Attempt(
        "write to a living session's layer",
        "import glob, os\nfor f in glob.glob(W['storage'] + '/sessions/**/of-the-other', recursive=True): open(os.path.dirname(f) + '/planted', 'w').close()",
        "planted",
    ),
    Attempt(
        "connect to a living kernel's sockets",
        "import socket\nfor path in W['kernel_sockets']:\n    s = socket.socket(socket.AF_UNIX)\n    if s.connect_ex(path) == 0: print('ESCAPED')\n    s.close()",
        "said",
    ),
    Attempt(
        "replace a living kernel's socket",
        "import os\nfor path in W['kernel_sockets']:\n    if os.path.exists(path): os.symlink('/nowhere', path + '-new'); os.replace(path + '-new', path + '-old'); os.unlink(path + '-old'); print('ESCAPED')",
        "said",
    ),
    Attempt(
        "read a living kernel's key",
        "import os\nfor path in W['kernel_sockets']:\n    if os.path.exists(path): print('ESCAPED' if 'key' in open(os.path.dirname(path) + '/connection.json').read() else '')",
        "said",
    ),
    Attempt(
        "read a living session's memory",
        "print('ESCAPED' if open(f\"/proc/{W['other_kernel']}/maps\").read() else '')",
        "said",
    ),
    Attempt("run a setuid program", _SETUID, "said"),
    Attempt(
        "type into a terminal",
        "import fcntl, pty\nmain, sub = pty.openpty()\nfcntl.ioctl(sub, 0x5412, b'x'); print('ESCAPED')",
        "said",
        root=True,
    ),
    Attempt(
        "handle page faults",
        LIBC
        + "nr = 323 if os.uname().machine == 'x86_64' else 282\nfd = libc.syscall(nr, 1)\nprint('ESCAPED' if fd >= 0 else '')\nfd >= 0 and os.close(fd)",
        "said",
    ),
    Attempt(
        "take over a process's files by copying memory",
        LIBC
        + "nr = 310 if os.uname().machine == 'x86_64' else 270\nimport re\nstart = int(re.search(r'(\\w+)-\\w+ rw.*stack', open(f\"/proc/{W['victim']}/maps\").read())[1], 16)\nbuffer = ctypes.create_string_buffer(4096)\nclass V(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]\nlocal, remote = V(ctypes.addressof(buffer), 4096), V(start, 4096)\nprint('ESCAPED' if libc.syscall(nr, W['victim'], ctypes.byref(local), 1, ctypes.byref(remote), 1, ctypes.c_long(0)) > 0 else '')",
        "said",
    ),
    Attempt(
        "fill the disk with deleted files",
        "import os, time\nkept = []\nfor i in range(4):\n    f = open(f'fill{i}', 'wb', buffering=0); os.unlink(f'fill{i}'); kept.append(f)\n    for _ in range(3): f.write(b'x' * (10 << 20))\ntime.sleep(W['wait_s'])\nprint('ESCAPED')\nfor f in kept: f.close()",
        "said",
        greedy=True,
    ),
    Attempt(
        "fill the disk in a directory of a directory",
        "import os, time\nos.makedirs('fill-deep/' + '/'.join('d' * 40))\nfor i in range(4): open('fill-deep/' + '/'.join('d' * 40) + f'/{i}', 'wb').write(b'x' * (30 << 20))\ntime.sleep(W['wait_s'])\nprint('ESCAPED')",
        "said",
        greedy=True,
    ),
)

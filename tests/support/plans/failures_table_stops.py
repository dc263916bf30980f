"""Failures that no code can end: the plan stops at once, or when the network was tried often enough."""

from __future__ import annotations

from tests.support.plans.failures_rows import Row, stopped

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    stopped("too large an allocation", "memory", "t = bytearray(1 << 60)", "memory"),
    stopped("too large an array", "memory", "import numpy as np\nt = np.zeros(1 << 46)", "memory"),
    stopped("a disk that is full", "disk", "with open('/dev/full', 'w') as file:\n    file.write('x')"),
    stopped("a place that is read-only", "refused", "open('/usr/here.txt', 'w')"),
    stopped(
        "a file without permission",
        "refused",
        "import os\nos.setxattr('x', 'trusted.a', b'') if False else os.setuid(54321)",
    ),
    stopped("an exit", "exit", "import sys\nsys.exit(1)"),
    stopped("an exit with nothing wrong", "exit", "raise SystemExit"),
    stopped("an interrupt of its own", "exit", "raise KeyboardInterrupt"),
    stopped("the marker", "stop", "raise ValueError('STOP: the totals do not agree')", "stop"),
    stopped(
        "the marker in a cause",
        "stop",
        "try:\n    raise ValueError('STOP')\nexcept ValueError as e:\n    raise KeyError('x') from e",
    ),
    stopped(
        "the marker in what happened before",
        "stop",
        "try:\n    raise ValueError('STOP')\nexcept ValueError:\n    undefined_name",
    ),
    stopped(
        "one of a group that may not be",
        "refused",
        "raise ExceptionGroup('all', [KeyError('a'), PermissionError(13, 'Permission denied')])",
    ),
    stopped(
        "a cause that may not be",
        "refused",
        "try:\n    open('/usr/here.txt', 'w')\nexcept OSError as e:\n    raise ValueError('bad') from e",
    ),
    stopped("a secret that is nowhere", "credentials", "import os\nt = os.environ['SERVICE_API_KEY']"),
    stopped("a service that wants a key", "credentials", "raise RuntimeError('Invalid API key provided')"),
    stopped("an error that says nothing", "unclear", "raise ValueError"),
    stopped(
        "a table that does not join as it should",
        "ambiguous",
        "import pandas as pd\na = pd.DataFrame({'k': [1, 1]})\nt = a.merge(a, on='k', validate='one_to_one')",
    ),
    stopped("a kernel that dies each time", "kernel_died", "import os\nos._exit(3)"),
    stopped(
        "a kernel that dies and cannot come back",
        "kernel_lost",
        "import os\nos._exit(3)",
        setup="import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
    ),
    stopped(
        "a host that the policy refuses",
        "refused_network",
        "import urllib.request\nurllib.request.urlopen('http://example.invalid/', timeout=5)",
        "network",
    ),
    stopped(
        "a connection that is refused",
        "network",
        "import socket\nsocket.create_connection(('127.0.0.1', 9), timeout=5)",
        kind="network",
    ),
    stopped("a server that takes too long", "network", "raise TimeoutError('timed out')", kind="network"),
)

"""Runs programs that sign in over HTTP, at a terminal: each prints an address, and its user goes there with a browser."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import httpx2

from tests.support.oauth.browser import User
from tests.waiting import scaled

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/authorize\?\S*&state=\S+")
_LIMIT_S = scaled(100)


def run_for(user: User | None, argv: Sequence[str], env: Mapping[str, str], directory: Path) -> str:
    """Run a program to its end, and return what it printed. The address that it prints is opened by its user, once."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        argv,
        cwd=directory,
        env=env,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    too_slow = threading.Timer(_LIMIT_S, process.kill)
    too_slow.start()
    printed = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if user is not None and (link := _LINK.search(line)) is not None:
                _follow(anyio.run(user.ends_at, link[0]))
                user = None
        assert process.wait() == 0, printed
    finally:
        too_slow.cancel()
        process.kill()
        process.communicate()
        os.close(keyboard)
        os.close(terminal)
    assert user is None, f"it asked for nothing to be opened:\n{printed}"
    return printed


def _follow(answer: str) -> None:
    """Bring the program its answer, as the browser does, which tries again where nobody listens yet."""
    with httpx2.Client(transport=httpx2.HTTPTransport(retries=6)) as http:
        assert http.get(answer).is_success

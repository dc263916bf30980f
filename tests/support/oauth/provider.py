"""A real OpenID Connect provider from npm (``oidc-provider``), and somebody who signs in there."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.support.clients.installing import Program, obtain
from tests.support.oauth.browser import told

PROVIDER = Program("oidc-provider", "9.13.3", file="oidc-provider/lib/index.js")
_SCRIPT = Path(__file__).with_name("provider.mjs")


@contextmanager
def running_provider(require: Callable[[str, bool, str], None]) -> Iterator[str]:
    """Its address, which is the issuer's name."""
    installed = obtain(PROVIDER, require)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [installed.node.executable, _SCRIPT, installed.command, str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@dataclass
class Person:
    """Somebody whom the provider knows by the name that they type."""

    name: str

    async def answers(self, url: str) -> dict[str, str]:
        """Sign in and consent; what the program is told at the end."""
        async with httpx2.AsyncClient() as http:
            answer = await http.get(url)
            while not (to := answer.headers.get("location", "")).startswith("http://127.0.0.1:47111/"):
                if answer.is_redirect:
                    answer = await http.get(str(answer.url.join(to)))
                    continue
                assert answer.status_code == 200, answer.text
                form = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
                assert form is not None, answer.text
                asked = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert asked is not None
                given = {"prompt": asked[1], "login": self.name, "password": "any"}
                answer = await http.post(str(answer.url.join(form[1])), data=given)
            return told(to)

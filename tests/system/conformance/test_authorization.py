"""The official suite's scenarios for an authorization server find nothing wrong with our own issuer."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.support.clients.installing import CONFORMANCE, INSTALL_LIMIT_S, obtain
from tests.support.oauth.browser import User
from tests.system.daemon.conftest import place_in
from tests.system.daemon.test_listeners import served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(INSTALL_LIMIT_S + 300)]


async def test_our_own_issuer_passes_every_scenario_once_the_user_says_yes(
    tmp_path: Path, require: Callable[[str, bool, str], None]
) -> None:
    suite = obtain(CONFORMANCE, require)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with place_in(tmp_path, CELLWRIGHT_OAUTH_ISSUER="own") as place, served(place) as listener:
        issuer = f"http://{listener.address}"
        async with httpx2.AsyncClient() as http:
            about = {"client_name": "suite", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
            client = (await http.post(f"{issuer}/register", json=about)).json()["client_id"]
            options = ["--url", issuer, "--client-id", client, "--resource", f"{issuer}/mcp", "--port", port]
            with subprocess.Popen(
                [suite.command, "authorization", *options],
                env={"PATH": suite.path},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as run:
                assert run.stdout is not None
                link = next(line.strip() for line in run.stdout if f"{issuer}/authorize?" in line)
                await http.get(await User(listener.token).ends_at(link))
                said = run.stdout.read()
    assert run.returncode == 0, said
    assert re.search(r"Total: 2 passed, 0 failed", said), said

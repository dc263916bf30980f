"""Real clients reach the proxy by the bridge, which is a process of its own, as in a sandbox."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from cellwright.sandbox.network_rules import NetworkRules
from cellwright_kernel.bridge import proxy_environment
from tests.support.sandbox.origins import BIG, Server, logged, proxying, rules_for, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def origin() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def door(tmp_path: Path) -> Path:
    return tmp_path / "proxy"


@contextlib.asynccontextmanager
async def bridged(door: Path) -> AsyncIterator[int]:
    """The port of a bridge to the proxy, in a process of its own."""
    command = [sys.executable, "-m", "cellwright_kernel.bridge", str(door)]
    async with await anyio.open_process(command, stdout=subprocess.PIPE, stderr=None) as process:
        assert process.stdout is not None
        ready = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
        try:
            yield int(ready.split()[1])
        finally:
            process.kill()


async def python_with_proxy(port: int, script: str, *arguments: object) -> str:
    """What a Python program prints whose environment names the proxy."""
    environment = {**os.environ, **proxy_environment(port), "NO_PROXY": "", "no_proxy": ""}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = await anyio.run_process(command, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


URLLIB = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode())
print(urllib.request.urlopen(sys.argv[1], data=b"body").read().decode())
"""
REQUESTS = """
import importlib, sys
requests = importlib.import_module(sys.argv[2])
with requests.Session() as session:
    print(session.get(sys.argv[1]).text)
    print(session.post(sys.argv[1], data=iter([b"bo", b"dy"])).text)
"""
HTTPX = """
import importlib, sys
httpx = importlib.import_module(sys.argv[2])
with httpx.Client() as client:
    print(client.get(sys.argv[1]).text)
    print(client.post(sys.argv[1], content=b"body").text)
"""
AIOHTTP = """
import asyncio, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(sys.argv[1]) as answer: print(await answer.text())
        async with session.post(sys.argv[1], data=b"body") as answer: print(await answer.text())
asyncio.run(main())
"""
CLIENTS = {
    "urllib": (URLLIB, ""),
    "requests": (REQUESTS, "requests"),
    "the requests inside pip": (REQUESTS, "pip._vendor.requests"),
    "httpx": (HTTPX, "httpx"),
    "httpx2": (HTTPX, "httpx2"),
    "aiohttp": (AIOHTTP, "aiohttp"),
}


@pytest.mark.parametrize(
    "client",
    # The others are the same code under another name.
    [
        client
        if client in ("urllib", "requests", "httpx", "aiohttp")
        else pytest.param(client, marks=pytest.mark.matrix)
        for client in CLIENTS
    ],
)
async def test_real_client_works_through_bridge_and_proxy(door: Path, origin: Server, client: str) -> None:
    script, module = CLIENTS[client]
    if module and importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{module} is not installed here")
    async with proxying(door, rules_for(origin.port)) as egress, bridged(door) as port:
        url = f"http://allowed.example:{origin.port}/hello"
        told = await python_with_proxy(port, script, url, module)
        entries = await logged(egress, 2)
    first, second = told.splitlines()
    assert json.loads(first)["path"] == "/hello"
    assert second == "got body"
    # Each is logged when its connection ends, and they are two.
    assert sorted(entry.method for entry in entries) == ["GET", "POST"]


async def test_client_shows_why_it_was_refused(door: Path) -> None:
    script = "import urllib.request\ntry: urllib.request.urlopen('https://unlisted.example/')\nexcept OSError as e: print(e)"
    async with proxying(door, rules_for(443)), bridged(door) as port:
        told = await python_with_proxy(port, script)
    assert "unlisted.example:443 is not on the allow-list (setting network_allow)" in told


async def test_https_works_through_bridge_and_proxy(
    door: Path, origin: Server, tmp_path: Path, require: Callable[[str, bool, str], None]
) -> None:
    require("openssl", shutil.which("openssl") is not None, "apt install openssl")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=allowed.example"]
    command += ["-addext", "subjectAltName=DNS:allowed.example"]
    await anyio.run_process(command)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    origin.socket = context.wrap_socket(origin.socket, server_side=True)
    script = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
print(urllib.request.urlopen(sys.argv[1], context=context).read().decode())
"""
    async with proxying(door, rules_for(origin.port)) as egress, bridged(door) as port:
        url = f"https://allowed.example:{origin.port}/secure"
        told = await python_with_proxy(port, script, url, certificate)
        (entry,) = await logged(egress, 1)
    assert json.loads(told)["path"] == "/secure"
    assert entry.method == "CONNECT"


async def test_refusal_of_a_large_upload_reaches_the_client_through_the_bridge(
    door: Path, origin: Server
) -> None:
    script = """
import sys, urllib.error, urllib.request
try: urllib.request.urlopen(sys.argv[1], data=b"x" * 3_000_000)
except urllib.error.HTTPError as error: print(error.code, error.read().decode())
"""
    async with proxying(door, NetworkRules()), bridged(door) as port:
        told = await python_with_proxy(port, script, f"http://allowed.example:{origin.port}/")
    assert told.startswith("403 ")
    assert "`network`" in told


async def test_bridge_whose_proxy_is_gone_says_so(tmp_path: Path) -> None:
    script = "import urllib.request\ntry: urllib.request.urlopen('http://h/')\nexcept OSError as e: print(e)"
    async with bridged(tmp_path / "nothing") as port:
        assert "proxy is gone" in await python_with_proxy(port, script)


async def test_big_download_crosses_the_bridge_whole_and_many_at_once(door: Path, origin: Server) -> None:
    script = """
import concurrent.futures, sys, urllib.request
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(set(pool.map(lambda _: len(urllib.request.urlopen(sys.argv[1]).read()), range(16))))
"""
    async with proxying(door, rules_for(origin.port)), bridged(door) as port:
        told = await python_with_proxy(port, script, f"http://allowed.example:{origin.port}/big")
    assert told == str({BIG})


CLOSED_NETWORK = """
import ctypes, encodings.idna, fcntl, os, socket, struct, sys, threading, urllib.request
from cellwright_kernel import bridge
user, group = os.getuid(), os.getgid()
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x40000000) != 0: print("no namespaces"); sys.exit()
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"0 {user} 1"); open("/proc/self/gid_map", "w").write(f"0 {group} 1")
with socket.socket() as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 1))
listener = bridge.open_listener()
os.environ.update(bridge.proxy_environment(listener.getsockname()[1]))
door = os.open(sys.argv[1], os.O_PATH)
threading.Thread(target=bridge.relay, args=(listener, f"/proc/self/fd/{door}"), daemon=True).start()
try: socket.create_connection(("127.0.0.1", int(sys.argv[2])))
except OSError: print("closed")
print(urllib.request.urlopen(f"http://allowed.example:{sys.argv[2]}/out").read().decode())
"""


async def test_closed_network_has_the_bridge_as_its_only_way_out(
    door: Path, origin: Server, require: Callable[[str, bool, str], None]
) -> None:
    async with proxying(door, rules_for(origin.port)):
        done = await anyio.run_process(
            [sys.executable, "-c", CLOSED_NETWORK, str(door), str(origin.port)], check=False
        )
    told = done.stdout.decode().splitlines()
    require(
        "user namespaces", told != ["no namespaces"], "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )
    assert done.returncode == 0, done.stderr.decode()
    assert told[0] == "closed"
    assert json.loads(told[1])["path"] == "/out"

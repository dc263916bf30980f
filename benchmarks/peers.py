"""The three contenders of the MCP benchmarks, each started, driven by the official client, and ended.

Ours is ``cellwright mcp`` over stdio with its daemon. The peer is jupyter-mcp-server, in an environment of its own
that is made here from a lock, in both of its modes: a stdio server beside a Jupyter server, and an extension inside
one, over Streamable HTTP. Everything listens on loopback and lives in the run's directory; nothing is measured here.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import anyio
import httpx2
import psutil
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ImageContent, TextContent

from cellwright.hosts import HostPaths

__all__ = [
    "CallFailed",
    "Ours",
    "Peer",
    "call",
    "open_ours",
    "open_peer",
    "peer_environment",
    "pictures_of",
    "text_of",
]

_ROOT = Path(__file__).resolve().parents[1]
_LOCK = _ROOT / "requirements" / "bench-peers.txt"
_ENVIRONMENT = _ROOT / ".cache" / "bench" / "jupyter-mcp-server"
_READY_DEADLINE_S = 180.0
_STOP_GRACE_S = 20.0
_CALL_DEADLINE_S = 180.0
# What a user's own settings and packages would add to either side.
_UNWANTED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


class CallFailed(Exception):
    """A tool answered with an error, or with something else than was asked for."""


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """Call a tool.

    Raises:
        CallFailed: it answered with an error.
        TimeoutError: it did not answer.
    """
    with anyio.fail_after(_CALL_DEADLINE_S):
        result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise CallFailed(f"{tool}: {text_of(result)[:500]}")
    return result


def text_of(result: CallToolResult) -> str:
    """Every text of a result, as a client would show them to its model."""
    return "\n".join(content.text for content in result.content if isinstance(content, TextContent))


def data_of(result: CallToolResult) -> Any:
    """The data of a reply of ours, which is its text."""
    return json.loads(text_of(result))


def pictures_of(result: CallToolResult) -> list[ImageContent]:
    return [content for content in result.content if isinstance(content, ImageContent)]


# Ours ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ours:
    """A daemon of our own that ends with the run; every connection is a ``cellwright mcp`` process."""

    directory: Path
    environment: dict[str, str]
    log: TextIO

    @property
    def host_pid(self) -> int:
        """The process that owns the kernels."""
        pid: int = json.loads(HostPaths(self.directory / "state").current.read_text())["pid"]
        return pid

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        server = StdioServerParameters(
            command=_command("cellwright"), args=["mcp"], env=self.environment, cwd=self.directory
        )
        async with Client(stdio_client(server, errlog=self.log)) as client:
            yield client

    async def run(self, *arguments: str) -> str:
        """A command of ours; what it writes."""
        done = await anyio.run_process(
            [_command("cellwright"), *arguments], env=self.environment, cwd=self.directory, check=False
        )
        if done.returncode:
            raise RuntimeError(f"cellwright {' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout.decode()


@asynccontextmanager
async def open_ours(directory: Path, **settings: object) -> AsyncIterator[Ours]:
    """Start a daemon with the settings as they come but for those that a benchmark must change."""
    environment = _environment(directory) | {
        "CELLWRIGHT_STORAGE": str(directory / "state"),
        "XDG_RUNTIME_DIR": str(directory),  # its sockets are nobody else's business
    }
    environment |= {f"CELLWRIGHT_{name.upper()}": str(value) for name, value in settings.items()}
    with _log(directory, "cellwright") as log:
        ours = Ours(directory, environment, log)
        try:
            await ours.run("daemon", "start")
            yield ours
        finally:
            with anyio.CancelScope(shield=True):
                await ours.run("daemon", "stop", "--kernels")


# The peer ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Peer:
    """A Jupyter server, and how to reach jupyter-mcp-server with it."""

    directory: Path
    url: str
    token: str
    environment: dict[str, str]
    log: TextIO = field(repr=False)
    extension: bool

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        if not self.extension:
            arguments = ["--transport", "stdio", "--jupyter-url", self.url, "--jupyter-token", self.token]
            server = StdioServerParameters(
                command=str(_ENVIRONMENT / "bin" / "jupyter-mcp-server"),
                args=arguments,
                env=self.environment,
                cwd=self.directory,
            )
            async with Client(stdio_client(server, errlog=self.log)) as client:
                yield client
            return
        headers = {"Authorization": f"token {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=_CALL_DEADLINE_S, trust_env=False) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http)) as client,
        ):
            yield client


@asynccontextmanager
async def open_peer(
    directory: Path, *, extension: bool = False, environment_at: Path = _ENVIRONMENT
) -> AsyncIterator[Peer]:
    """Start a JupyterLab on loopback, with its MCP extension or, for the stdio mode, without."""
    port, token = _free_port(), secrets.token_hex(16)
    environment = _environment(directory) | {
        f"JUPYTER_{kind}_DIR": str(directory / "jupyter" / kind.lower())
        for kind in ("CONFIG", "DATA", "RUNTIME")
    }
    command = [
        *(str(environment_at / "bin" / "jupyter"), "lab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={directory}"),
    ]
    if environment_at == _ENVIRONMENT:
        command.append(f"--ServerApp.jpserver_extensions=jupyter_mcp_server={extension}")
    with _log(directory, "jupyter") as log:
        process = subprocess.Popen(  # it returns at once
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            peer = Peer(directory, f"http://127.0.0.1:{port}", token, environment, log, extension)
            await _answering(peer, process)
            yield peer
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_end, process)


async def _answering(peer: Peer, process: subprocess.Popen[bytes]) -> None:
    address = f"{peer.url}/mcp/healthz" if peer.extension else f"{peer.url}/api/status"
    headers = {"Authorization": f"token {peer.token}"}
    with anyio.fail_after(_READY_DEADLINE_S):
        async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
            while True:
                if process.poll() is not None:
                    raise RuntimeError(f"Jupyter ended with {process.returncode}: see {peer.log.name}")
                try:
                    if (await http.get(address)).status_code == 200:
                        return
                except httpx2.TransportError:
                    pass
                await anyio.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a Jupyter server with its kernels."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.terminate()
    try:
        process.wait(_STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for left in psutil.wait_procs(below, timeout=2)[1]:
        left.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Environments --------------------------------------------------------------------------------------------------------


def peer_environment(say: Callable[[str], None]) -> None:
    """Make the peer's environment, or leave it where it is what the lock says."""
    wanted = hashlib.sha256(_LOCK.read_bytes() + sys.version.encode()).hexdigest()
    stamp = _ENVIRONMENT / ".stamp"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"making {_ENVIRONMENT.relative_to(_ROOT)} from {_LOCK.relative_to(_ROOT)}, once")
    uv = _command("uv")
    python = str(_ENVIRONMENT / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, _ENVIRONMENT], check=True)
    install = ["pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "--python", python]
    subprocess.run([uv, *install, _LOCK], check=True)
    stamp.write_text(wanted)


def _log(directory: Path, name: str) -> TextIO:
    directory.mkdir(parents=True, exist_ok=True)
    return Path(directory, f"{name}.log").open("w")


def _environment(directory: Path) -> dict[str, str]:
    """The variables of a user who has set nothing."""
    kept: Mapping[str, str] = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNWANTED and not name.startswith(("CELLWRIGHT_", "JUPYTER_"))
    }
    return {**kept, "XDG_CONFIG_HOME": str(directory / "config"), "NO_PROXY": "127.0.0.1,localhost"}


def _command(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        raise RuntimeError(f"{name} is not installed: run `make bench` once, which installs it")
    return found

"""One broker: a process that has one connection's credentials, and answers one request after the other over its pipes.

The credential goes to the process by its standard input, never by its arguments or environment. A driver that crashes,
hangs or answers too much costs this process and no other; the next request starts a new one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Literal, TypeAlias

import anyio
import msgspec
from anyio.abc import Process

from cellwright import children
from cellwright.connections.known import Connection
from cellwright.errors import ConnectionFailed
from cellwright.rlimits import unlimited_children
from cellwright_kernel.descendants import kill_tree

__all__ = ["Answer", "Broker"]

_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LOGNAME",
    "USER",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
_LENGTH_BYTES = 4
_SPARE_BYTES = 1024**2
_SPARE_S = 5.0
"""What a driver gets to say itself that time is up, before its process is killed."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a broker said: JSON, bytes as they are, or a failure as JSON with ``error`` and ``hint``."""

    kind: Literal["json", "bytes", "error"]
    payload: bytes
    rows: int = 0

    def value(self) -> Any:
        """What the JSON holds.

        Raises:
            ConnectionFailed: the server, or the broker, refused or failed.
        """
        decoded = msgspec.json.decode(self.payload)
        if self.kind == "error":
            raise ConnectionFailed(decoded["error"], hint=decoded.get("hint"))
        return decoded


Request: TypeAlias = dict[str, Any]
_decode = msgspec.msgpack.Decoder(Answer).decode


class Broker:
    """The process of one connection; started with the first request, one request at a time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.last_used = anyio.current_time()
        self._process: Process | None = None
        self._turn = anyio.Lock()

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    async def ask(self, request: Request) -> Answer:
        """Have a request answered.

        Raises:
            ConnectionFailed: the process could not be had, ended, or took too long.
        """
        async with self._turn:
            self.last_used = anyio.current_time()
            try:
                with anyio.fail_after(self.connection.timeout_s + _SPARE_S):
                    process = await self._started()
                    await _send(process, msgspec.msgpack.encode(request))
                    return _decode(await self._receive(process))
            except TimeoutError:
                await self.close()
                raise ConnectionFailed(
                    f"Connection {self.connection.name!r} did not answer within {self.connection.timeout_s:g} s",
                    hint="Ask for less, or have the operator raise its timeout_s",
                ) from None
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, msgspec.DecodeError):
                await self.close()
                raise ConnectionFailed(
                    f"The broker of connection {self.connection.name!r} ended before it answered",
                    hint="Ask again; it may have been cancelled, or needed more memory than it has",
                ) from None
            except BaseException:
                # Whoever asked is gone: what is still said would be the answer to the next request.
                await self.close()
                raise
            finally:
                self.last_used = anyio.current_time()

    async def close(self) -> None:
        """End the process, and with it what it does now."""
        process, self._process = self._process, None
        if process is not None:
            # Also what a server of tools has started: nobody else would end that.
            kill_tree(process.pid)
            await children.end(process)

    async def _started(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        await self.close()
        password = await anyio.to_thread.run_sync(self.connection.password)
        with unlimited_children():
            self._process = await anyio.open_process(
                [sys.executable, "-P", "-m", "cellwright.connections.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,
            )
        first = {"connection": self.connection.described(), "password": password}
        await _send(self._process, msgspec.msgpack.encode(first))
        return self._process

    async def _receive(self, process: Process) -> bytes:
        assert process.stdout is not None  # a pipe was asked for
        stream, held = process.stdout, bytearray()
        wanted = _LENGTH_BYTES
        while len(held) < wanted:
            held += await stream.receive()
            if len(held) >= _LENGTH_BYTES:
                wanted = _LENGTH_BYTES + int.from_bytes(held[:_LENGTH_BYTES])
            if wanted > 2 * self.connection.max_bytes + _SPARE_BYTES:
                raise anyio.EndOfStream
        return bytes(memoryview(held)[_LENGTH_BYTES:])


async def _send(process: Process, data: bytes) -> None:
    assert process.stdin is not None  # a pipe was asked for
    await process.stdin.send(len(data).to_bytes(_LENGTH_BYTES) + data)

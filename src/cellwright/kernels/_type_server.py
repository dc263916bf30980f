"""One Deno language server that checks types: a process that stays up, and the documents that it was given.

It reads documents from its standard input and never runs them. What it is asked, in which sandbox, and what its words mean is
``typecheck``'s.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from cellwright.errors import CellwrightError, KernelError, KernelStartError
from cellwright.kernels._pipe_client import Pipes
from cellwright.kernels._resources import KernelCgroup, KernelResources
from cellwright.kernels._spawn import Start, watched
from cellwright.kernels.processes import KernelProcess, expected_child

__all__ = ["IDLE_S", "Found", "ServerGone", "TypeServer"]

Found = dict[str, Any]
"""One diagnostic as the protocol has it: ``range``, ``severity``, ``code``, ``source``, ``message``."""

IDLE_S = 120.0
"""A server without a request for so long ends: it holds some 250 MB."""

MAX_MESSAGE = 16 << 20

READ_BYTES = 1 << 16

LANGUAGES = {".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact"}
LANGUAGES |= {".tsx": "typescriptreact", ".json": "json"}

_log = logging.getLogger(__name__)

_HEADER_END = b"\r\n\r\n"


class ServerGone(KernelError):
    """The server ended, or sent something unreadable, before it had answered."""

    code = "type_server_gone"


class TypeServer:
    """A server at work. One call at a time; ``run`` holds its process."""

    def __init__(self, signature: object, directory: Path, *, top: str, config: str, idle_s: float) -> None:
        """``signature`` says what it was started for; at ``top`` it sees its files, and its configuration there."""
        self.signature = signature
        self.top = top
        self._config = config
        self._directory = directory
        self._pipes = Pipes()
        self._answers: dict[int, Any] = {}
        self._grown = anyio.Event()
        self._closing = False
        self._gone = False
        self._number = 0
        self._open: dict[str, tuple[int, str]] = {}
        """The version and text of each document that it has, by address."""
        self._idle_s = idle_s
        self._used_at = time.monotonic()
        self._busy = True
        """Whether a check is under way, or due since it was started for one."""

    @property
    def is_alive(self) -> bool:
        return not self._gone and not self._closing

    @property
    def pipes(self) -> Pipes:
        """Its standard input and output, to be started with."""
        return self._pipes

    def close(self) -> None:
        """Have it end; ``run`` sees to it."""
        self._closing = True
        self._wake()

    # Its process -------------------------------------------------------------------------------------------------

    async def run(
        self,
        start: Start,
        cgroup: KernelCgroup,
        *,
        timeout_s: float,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        """Start it, report when it answers, and hold it until it ends, is closed or has had no request for long.

        Raises:
            KernelStartError: it could not be started.
            ServerGone: it ended before it answered.
            TimeoutError: it did not answer in time.
        """
        try:
            process = await start.open(cgroup)
        except OSError as error:
            self._pipes.close()
            await cgroup.remove()
            raise KernelStartError(f"The type check could not be started: {error}") from error
        finally:
            cgroup.handed_over()
        resources = KernelResources(self._directory, start.line, None, cgroup.group)
        with expected_child(process.pid):
            try:
                failed = await self._attend(
                    watched(process, start, cgroup), start, resources, timeout_s, task_status
                )
            finally:
                start.exit_output.close()
                self._pipes.close()
                await resources.close()
                shutil.rmtree(self._directory, ignore_errors=True)
        if failed is not None:
            raise failed

    async def _attend(
        self,
        process: KernelProcess,
        start: Start,
        resources: KernelResources,
        timeout_s: float,
        task_status: anyio.abc.TaskStatus[None],
    ) -> Exception | None:
        """Hold the process to its end; what failed before it answered is not raised, which would make it one of a group."""
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            for work in (process.watch, start.exit_output.run, resources.run, self._hear):
                tasks.start_soon(work)
            try:
                with anyio.fail_after(timeout_s):
                    await start.ready()
                    await self._greet()
                task_status.started()
                await self._stay()
            except (CellwrightError, TimeoutError) as error:
                failed = error
            finally:
                self._lose()
                await _end(process)
                tasks.cancel_scope.cancel()
        return failed

    async def _greet(self) -> None:
        settings = {
            "enable": True,
            "config": self._config,
            "lint": False,
            "suggest": {"imports": {"autoDiscover": False}},
        }
        folder = {"uri": f"{self.top}/", "name": "notebook"}
        capabilities = {"textDocument": {"diagnostic": {}}, "workspace": {"workspaceFolders": True}}
        params = {
            "processId": None,
            "rootUri": folder["uri"],
            "workspaceFolders": [folder],
            "capabilities": capabilities,
            "initializationOptions": settings,
        }
        await self._ask("initialize", params)
        await self._tell("initialized", {})

    async def _stay(self) -> None:
        """Return once it ended, is to be closed, or has had no request for long."""
        while self.is_alive:
            left = math.inf if self._busy else self._used_at + self._idle_s - time.monotonic()
            if left <= 0:
                return
            with anyio.move_on_after(left):
                await self._grown.wait()

    # Requests to it ------------------------------------------------------------------------------------------

    async def check(self, files: Mapping[str, str], others: Sequence[str]) -> dict[str, list[Found]]:
        """What is wrong in these documents, and in others that it finds on its disk, by address.

        Raises:
            ServerGone: it ended before it had answered.
        """
        self._busy = True
        try:
            return await self._check(files, others)
        finally:
            self._busy, self._used_at = False, time.monotonic()
            self._wake()

    async def _check(self, files: Mapping[str, str], others: Sequence[str]) -> dict[str, list[Found]]:
        for address, text in files.items():
            await self._give(address, text)
        found: dict[str, list[Found]] = {}
        for address in (*files, *others):
            reply = await self._ask("textDocument/diagnostic", {"textDocument": {"uri": address}})
            items = reply.get("items") if isinstance(reply, dict) else None
            found[address] = [item for item in items or () if isinstance(item, dict)]
        return found

    async def _give(self, address: str, text: str) -> None:
        """Let it have a document as it is now."""
        version, known = self._open.get(address, (0, None))
        if text == known:
            return
        self._open[address] = (version + 1, text)
        document: dict[str, Any] = {"uri": address, "version": version + 1}
        if known is None:
            language = LANGUAGES.get(os.path.splitext(address)[1], "typescript")
            document |= {"languageId": language, "text": text}
            await self._tell("textDocument/didOpen", {"textDocument": document})
        else:
            change = {"textDocument": document, "contentChanges": [{"text": text}]}
            await self._tell("textDocument/didChange", change)

    # The protocol ------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request; None where it was refused."""
        self._number += 1
        number = self._number
        await self._send({"id": number, "method": method, "params": params})
        while number not in self._answers:
            if self._gone:
                raise ServerGone("The type check did not get through: its process ended")
            await self._grown.wait()
        return self._answers.pop(number)

    async def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        await self._send({"method": method, "params": params})

    async def _send(self, message: Mapping[str, Any]) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        left = b"Content-Length: %d\r\n\r\n" % len(body) + body
        while left:
            if self._gone:
                raise ServerGone("The type check did not get through: its process ended")
            try:
                left = left[os.write(self._pipes.our_output, left) :]
            except BlockingIOError:
                await anyio.wait_writable(self._pipes.our_output)
            except BrokenPipeError:
                self._lose()

    async def _hear(self) -> None:
        """Take its messages until it ends."""
        held = bytearray()
        while not self._gone:
            await anyio.wait_readable(self._pipes.our_input)
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._pipes.our_input, READ_BYTES)
                held += data
                try:
                    while (body := _next_body(held)) is not None:
                        await self._take(msgspec.json.decode(body, type=dict[str, Any]))
                except (ValueError, msgspec.MsgspecError) as error:
                    _log.warning("type_server_unreadable %s", error)
                    data = b""
                if not data:
                    self._lose()

    async def _take(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if "method" in message:
            if number is not None:
                # It asks for nothing that it needs: what it is set to was said at the beginning.
                with contextlib.suppress(ServerGone):
                    await self._send({"id": number, "result": None})
        elif isinstance(number, int):
            self._answers[number] = message.get("result")
            self._wake()

    def _lose(self) -> None:
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = anyio.Event()


def _next_body(held: bytearray) -> bytes | None:
    """The next whole message, taken out of what was heard.

    Raises:
        ValueError: there is none, and there will be none.
    """
    end = held.find(_HEADER_END)
    if end < 0:
        if len(held) > READ_BYTES:
            raise ValueError("a header without an end")
        return None
    headers = dict(line.lower().split(b":", 1) for line in bytes(held[:end]).split(b"\r\n"))
    length = int(headers.get(b"content-length", b"-1"))
    if not 0 <= length <= MAX_MESSAGE:
        raise ValueError(f"a message of {length} bytes")
    begin = end + len(_HEADER_END)
    if len(held) < begin + length:
        return None
    body = bytes(held[begin : begin + length])
    del held[: begin + length]
    return body


async def _end(process: KernelProcess) -> None:
    process.kill_tree("the type check is over")
    with anyio.CancelScope(shield=True):
        await process.wait()

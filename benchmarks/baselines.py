"""Kernels the way ``jupyter_client`` starts them, used as its own documentation and nbclient use it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

__all__ = ["PlainKernel", "start_plain_kernel"]

_START_DEADLINE_S = 60.0
_ATTEMPTS = 3
# What nbclient passes: without it kernels started together wait for one another's lock on the history.
_ARGUMENTS = ["--HistoryManager.hist_file=:memory:"]


@dataclass(slots=True)
class PlainKernel:
    """A kernel with its manager and its client."""

    manager: AsyncKernelManager
    client: AsyncKernelClient

    @property
    def pid(self) -> int:
        pid: int = self.manager.provisioner.pid  # type: ignore[union-attr]  # set by start_kernel
        return pid

    async def run(self, code: str, *, timeout_s: float = 60) -> list[dict[str, Any]]:
        """Run code and return what it put out, once the kernel is idle again.

        Raises:
            TimeoutError: the idle status, or a message before it, never came.
        """
        outputs = []
        message_id = self.client.execute(code)
        with anyio.fail_after(timeout_s):
            while True:
                message = await self.client.get_iopub_msg()
                if message["parent_header"].get("msg_id") != message_id:
                    continue
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    return outputs
                if message["msg_type"] not in ("status", "execute_input"):
                    outputs.append(message)

    async def stop(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


async def start_plain_kernel(name: str = "python3", *, cwd: Path | None = None) -> PlainKernel:
    """Start a kernel cold and wait until it is ready; one that dies on the way is started again."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _start_once(name, cwd)
        except RuntimeError as error:  # seen a few times in a thousand starts, cause unknown
            print(f"   baseline: {error}; starting another", file=sys.stderr, flush=True)
    return await _start_once(name, cwd)


async def _start_once(name: str, cwd: Path | None) -> PlainKernel:
    manager = AsyncKernelManager(kernel_name=name)
    arguments = _ARGUMENTS if name == "python3" else []
    where = {} if cwd is None else {"cwd": str(cwd)}
    await manager.start_kernel(extra_arguments=arguments, stderr=subprocess.DEVNULL, **where)
    client = manager.client()
    client.start_channels()
    kernel = PlainKernel(manager, client)
    try:
        await client.wait_for_ready(timeout=_START_DEADLINE_S)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await kernel.stop()
        raise
    return kernel

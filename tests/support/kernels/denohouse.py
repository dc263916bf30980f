"""Deno kernels as the host has them: started by its launchers, run by its runner, in the real sandbox."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from cellwright.hosts import _cell_queue, protocol
from cellwright.hosts.kernels import Ending, Kernels
from cellwright.hosts.launchers import Launchers
from cellwright.hosts.protocol import HostOptions
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.workspace import PRIVATE, Workspace
from tests.waiting import LIMIT_S, fail_after, until

TINY = Path(__file__).with_name("drivers") / "tiny.mjs"
OPTIONS = HostOptions(
    standby_kernels=0,
    preload=(),
    max_concurrent_starts=2,
    start_timeout_s=LIMIT_S,
    interrupt_grace_s=LIMIT_S,
    max_output_bytes=100_000,
    max_output_messages=1_000,
    max_memory_fraction=1.0,
    idle_s=60,
    policy=Policy(),
)


@dataclass
class Execution:
    """What the host told of one run."""

    outputs: list[tuple[str, Any]] = field(default_factory=list)
    finished: protocol.Finished | None = None
    began: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)

    @property
    def end(self) -> protocol.Finished:
        assert self.finished is not None
        return self.finished

    def text(self, stream: str = "stdout") -> str:
        return "".join(
            content["text"]
            for kind, content in self.outputs
            if kind == "stream" and content["name"] == stream
        )

    @property
    def result(self) -> str:
        (found,) = [content for kind, content in self.outputs if kind == "execute_result"]
        return str(found["data"]["text/plain"])

    @property
    def error(self) -> str:
        assert self.end.error is not None, self.outputs
        return f"{self.end.error['ename']}: {self.end.error['evalue']}"


class House:
    """A host's kernels, without its socket."""

    def __init__(self, tasks: anyio.abc.TaskGroup, root: Path, options: HostOptions) -> None:
        self.root = root
        self.options = options
        self.ends: dict[str, protocol.KernelDied] = {}
        self.launchers = Launchers(tasks, runtime=root / "r", cache=root / "cache")
        self.kernels = Kernels(
            tasks,
            self.launchers,
            runtime=root / "r",
            options=lambda: self.options,
            report=self._report,
            ending=Ending(),
        )
        self._executions: dict[str, Execution] = {}
        self._numbers = count(1)

    async def start(
        self, mode: Mode = "private", *, name: str = "", project: Path | None = None, **options: Any
    ) -> str:
        """A new kernel's id; one of the same name works where an earlier one did."""
        kernel_id = f"k{next(self._numbers)}"
        storage = self.root / (name or kernel_id)
        storage.mkdir(mode=0o700, exist_ok=True)
        cwd = storage / PRIVATE if mode == "private" or project is None else project / "work"
        place = Workspace(mode, str(cwd), str(project) if project is not None else None, str(storage))
        request = protocol.StartKernel(
            kernel_id, protocol.DenoKernel(), str(cwd), dict(os.environ), place=place, **options
        )
        with fail_after():
            await self.kernels.start(request)
        return kernel_id

    def begin(self, kernel_id: str, code: str, *, timeout_s: float = LIMIT_S, **options: Any) -> Execution:
        """Queue code, whose end is told when it comes."""
        execution_id = f"e{next(self._numbers)}"
        told = self._executions[execution_id] = Execution()
        run = protocol.Run(execution_id, code, timeout_s, **options)
        self.kernels.runner(kernel_id).handle(_cell_queue.Submitted(run))
        return told

    async def run(self, kernel_id: str, code: str, **options: Any) -> Execution:
        told = self.begin(kernel_id, code, **options)
        with fail_after():
            await told.over.wait()
        return told

    async def value(self, kernel_id: str, code: str) -> str:
        """What an expression shows."""
        return (await self.run(kernel_id, code)).result

    async def ended(self, kernel_id: str) -> protocol.KernelDied:
        """How a kernel ended, once it has."""
        await until(lambda: kernel_id in self.ends)
        return self.ends[kernel_id]

    def _report(self, kernel_id: str, body: protocol.EventBody) -> None:
        match body:
            case protocol.Output(execution_id, kind, content):
                self._executions[execution_id].outputs.append((kind, json.loads(content)))
                self._executions[execution_id].began.set()
            case protocol.Finished(execution_id):
                self._executions[execution_id].finished = body
                self._executions[execution_id].over.set()
            case protocol.KernelDied():
                self.ends[kernel_id] = body
            case _:
                pass


@asynccontextmanager
async def open_house(root: Path, options: HostOptions = OPTIONS) -> AsyncIterator[House]:
    async with anyio.create_task_group() as tasks:
        house = House(tasks, root, options)
        try:
            yield house
        finally:
            with anyio.CancelScope(shield=True):
                await house.kernels.stop_all()
            tasks.cancel_scope.cancel()

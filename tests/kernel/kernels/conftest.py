"""Real kernels for the tests here: one fork server for all, a fresh kernel for each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from cellwright.kernels import kernel as kernels
from cellwright.kernels._forkserver import ForkServer
from cellwright.kernels._interpreters import prepare_interpreter
from cellwright.kernels.client import Message, new_message_id
from cellwright.kernels.kernel import Kernel, KernelLaunch, Launcher, OutputLimits
from cellwright.kernels.processes import adopt_orphans
from tests.waiting import LIMIT_S, fail_after

LIMITS = OutputLimits(max_bytes=1_000_000, max_messages=25_000)


@dataclass
class Ran:
    """What one cell said."""

    outputs: list[tuple[str, Any]] = field(default_factory=list)
    reply: dict[str, Any] = field(default_factory=dict)
    account: dict[str, Any] = field(default_factory=dict)

    def text(self, stream: str = "stdout") -> str:
        return "".join(
            content["text"]
            for kind, content in self.outputs
            if kind == "stream" and content["name"] == stream
        )

    def of(self, kind: str) -> list[Any]:
        return [content for found, content in self.outputs if found == kind]

    @property
    def result(self) -> str:
        (content,) = self.of("execute_result")
        text: str = content["data"]["text/plain"]
        return text


Run = Callable[..., Awaitable[Ran]]
Start = Callable[..., Awaitable[Kernel]]


@pytest.fixture(scope="session")
def run_cell() -> Run:
    async def run(kernel: Kernel, code: str, **options: Any) -> Ran:
        ran, message_id = Ran(), new_message_id()
        replied, idle = anyio.Event(), anyio.Event()

        def hear(message: Message) -> None:
            if message.parent_id != message_id:
                return
            content = msgspec.json.decode(message.content)
            if message.kind == "execute_reply":
                ran.reply = content
                ran.account = msgspec.json.decode(message.metadata).get("cellwright", {})
                replied.set()
            elif message.kind == "status":
                if content["execution_state"] == "idle":
                    idle.set()
            elif message.kind == "input_request":
                kernel.client.answer_input(None, reason="nobody is there")
            elif message.kind != "execute_input":
                ran.outputs.append((message.kind, content))

        kernel.client.on_message = hear
        kernel.client.execute(code, message_id=message_id, **options)
        with fail_after():
            await replied.wait()
            await idle.wait()
        return ran

    return run


@pytest.fixture(scope="session")
def short_path() -> Iterator[Path]:
    """A directory whose name is short enough for unix sockets, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="cw-") as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here is about a kernel that takes long to note an interrupt, or to end when it is killed."""
    monkeypatch.setattr(kernels, "CONTROL_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(kernels, "END_GRACE_S", LIMIT_S)


@pytest.fixture(scope="session", autouse=True)
def _adopted_orphans() -> None:
    """As the host does, and whichever test comes first."""
    adopt_orphans()


@pytest.fixture(scope="session")
async def server(short_path: Path) -> AsyncIterator[ForkServer]:
    server = await new_server(
        short_path / "f", preload=("numpy", "pandas", "matplotlib.pyplot", "no_such_module")
    )
    async with anyio.create_task_group() as tasks:
        await tasks.start(server.run)
        yield server
        tasks.cancel_scope.cancel()


async def new_server(directory: Path, *, preload: tuple[str, ...] = (), standby: int = 1) -> ForkServer:
    return ForkServer(
        await prepare_interpreter(None, cache=directory),
        preload=preload,
        environment=os.environ,
        standby=standby,
        directory=directory,
        limits=LIMITS,
        start_timeout_s=LIMIT_S,
    )


@pytest.fixture(scope="session")
def make_server(short_path: Path) -> Callable[..., Awaitable[ForkServer]]:
    """Builds a further fork server, for tests that end it."""
    numbers = count(1)

    async def make(**options: Any) -> ForkServer:
        return await new_server(short_path / f"f{next(numbers)}", **options)

    return make


@pytest.fixture(scope="session")
def launch_on(short_path: Path) -> Start:
    """Launches with defaults for whatever a test does not care about."""
    numbers = count(1)

    async def launch(launcher: Launcher, **options: Any) -> Kernel:
        number = next(numbers)
        defaults: dict[str, Any] = {
            "kernel_id": f"k{number}",
            "directory": short_path / f"k{number}",
            "cwd": short_path,
            "environment": {},
            "limits": LIMITS,
        }
        with fail_after():
            return await launcher.launch(KernelLaunch(**{**defaults, **options}))

    return launch


@pytest.fixture
async def kernel(server: ForkServer, launch_on: Start) -> AsyncIterator[Kernel]:
    kernel = await launch_on(server)
    yield kernel
    await kernel.stop(grace_s=0)

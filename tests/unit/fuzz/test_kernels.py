"""Whatever a kernel says, over ZeroMQ or in lines: the next cell runs, and what everybody after the host gets is sound.

The test is the kernel. It signs what it says, as code in a kernel can, so that nothing is refused for that alone.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest
import zmq
import zmq.asyncio
from hypothesis import strategies as st

from cellwright.engine.charts import held_in
from cellwright.engine.introspection import (
    completion_of,
    diagnosis_of,
    fingerprints_of,
    inputs_of,
    inspection_of,
    profile_of,
)
from cellwright.engine.journal import Event, insert_event
from cellwright.engine.placement import inspect_reply
from cellwright.errors import CellwrightError, KernelError, NoSuchData
from cellwright.hosts import _cell_queue, protocol
from cellwright.hosts._runner import KernelRunner
from cellwright.hosts.connection import frame
from cellwright.hosts.protocol import HostOptions
from cellwright.kernels._resources import Connection, create_connection
from cellwright.kernels.client import DELIMITER, Client, Codec, KernelClient, read_reply
from cellwright.kernels.kernel import Kernel
from cellwright.kernels.processes import Exit, Lifetime, explain_exit
from cellwright.mcp.outputs import parts_of
from cellwright.notebook import OutputCollector
from cellwright.sandbox.exit_reasons import LimitHit
from tests.support.fuzzing import each_effort, mutated_json, seeds, try_all
from tests.waiting import scaled

SEEDS = seeds("jupyter.json")
OPTIONS = HostOptions(
    standby_kernels=0,
    preload=(),
    max_concurrent_starts=1,
    start_timeout_s=30,
    interrupt_grace_s=30,
    max_output_bytes=100_000,
    max_output_messages=100,
    max_memory_fraction=1.0,
    idle_s=30,
)
_ENOUGH_S = scaled(10)
EARLIER, RUNNING, AFTERWARDS = "x-earlier", "x-running", "x-afterwards"


class Saying(msgspec.Struct):
    """One message: the four parts that are signed, and where it goes."""

    channel: str
    header: bytes
    parent: bytes
    metadata: bytes
    content: bytes


@st.composite
def sayings(draw: st.DrawFn) -> Saying:
    seed = draw(st.sampled_from(SEEDS))
    kind = draw(
        st.just(seed["kind"]) | st.sampled_from([one["kind"] for one in SEEDS]) | st.text(max_size=10)
    )
    header, parent = (
        {"msg_id": "m", "msg_type": kind},
        {"msg_id": draw(st.sampled_from([EARLIER, RUNNING, ""]))},
    )
    odd = draw(st.integers(0, 5)) == 0
    return Saying(
        channel=draw(st.sampled_from(["iopub", "iopub", "shell", "control"])),
        header=draw(mutated_json([header])) if odd else json.dumps(header).encode(),
        parent=draw(mutated_json([parent])) if odd else json.dumps(parent).encode(),
        metadata=draw(mutated_json([seed.get("metadata", {})])),
        content=draw(mutated_json([seed["content"]])),
    )


class Process(Lifetime):
    """The process of a kernel that is none."""

    async def watch(self) -> None:
        await self._ended.wait()

    def kill_tree(self, reason: str | LimitHit) -> None:
        self._exit = explain_exit(-9, killed_by_us=str(reason), oom_kills_seen=False)
        self._ended.set()


class Following:
    """A runner, and what it tells: as the journal and everybody after it have it."""

    def __init__(self, client: Client) -> None:
        self.outputs: dict[str, OutputCollector] = {}
        self.ended: dict[str, protocol.Finished] = {}
        self.kernel = Kernel(
            process=Process(0),
            client=client,
            info={},
            started_by="fork",
            directory=Path(),
            interrupt_by="message",
            ours=True,
        )

        async def no_sides(_: protocol.Side) -> Any:
            raise AssertionError

        async def explain(end: Exit) -> tuple[Exit, bool]:
            return end, False

        self.runner = KernelRunner(
            "s.1", self.kernel, lambda: OPTIONS, self._told, start_secondary=no_sides, explain=explain
        )

    def _told(self, kernel_id: str, body: protocol.EventBody) -> None:
        encoded = frame(protocol.Event(1, 0.0, kernel_id, body))[4:]
        match protocol.decode_event(encoded).body:
            case protocol.Output(execution_id, kind, content):
                said = json.loads(content)
                collector = self.outputs.setdefault(execution_id, OutputCollector())
                collector.add(kind, said)
                insert_event(
                    Event(1, 0.0, "notebook.cell.output", "s", 1, data={"type": kind, "content": said})
                )
            case protocol.Finished() as finished:
                self.ended[finished.execution_id] = finished
            case _:
                pass

    def submit(self, execution_id: str) -> None:
        self.runner.handle(_cell_queue.Submitted(protocol.Run(execution_id, "1", timeout_s=100)))

    def check(self) -> None:
        """The cell after it all ran as if nothing had been, and all outputs can be shown."""
        assert self.ended[AFTERWARDS].state == "ok"
        assert self.outputs[AFTERWARDS].outputs == [
            {"output_type": "stream", "name": "stdout", "text": "mark"}
        ]
        for collector in self.outputs.values():
            parts_of(collector.outputs)
            json.dumps(collector.outputs, ensure_ascii=False).encode()


class SocketKernel:
    """A kernel's sockets."""

    def __init__(self, connection: Connection, context: zmq.asyncio.Context) -> None:
        kinds = {"iopub": zmq.PUB, "shell": zmq.ROUTER, "control": zmq.ROUTER}
        self._sockets = {name: context.socket(kind) for name, kind in kinds.items()}
        self._codec = Codec(connection.key)
        self._client: dict[str, bytes] = {}
        for name, socket in self._sockets.items():
            socket.linger = 0
            socket.bind(connection.url(name))  # type: ignore[arg-type]  # a name of a channel

    async def answer(self, said: list[Saying], replies: list[bytes]) -> None:
        """Answer requests: the first cell with what is to be said, the one after it properly."""
        waiting = list(replies)
        while True:
            identity, *frames = await self._sockets["shell"].recv_multipart()
            self._client["shell"] = self._client["control"] = identity
            header = json.loads(frames[2])
            parent = frames[2]
            match header["msg_type"], header["msg_id"]:
                case "execute_request", execution_id:
                    for saying in said if execution_id == RUNNING else ():
                        await self.say(saying)
                    if execution_id == AFTERWARDS:
                        await self._say("iopub", "stream", parent, {"name": "stdout", "text": "mark"})
                    await self._end(parent)
                case "inspect_request", _:
                    await self.say(_reply("inspect_reply", parent, waiting.pop()))
                case _:
                    await self._end(parent, "kernel_info_reply")

    async def _end(self, parent: bytes, kind: str = "execute_reply") -> None:
        await self._say("shell", kind, parent, {"status": "ok"})
        await self._say("iopub", "status", parent, {"execution_state": "idle"})

    async def _say(self, channel: str, kind: str, parent: bytes, content: dict[str, Any]) -> None:
        header = json.dumps({"msg_id": "m", "msg_type": kind}).encode()
        await self.say(Saying(channel, header, parent, b"{}", json.dumps(content).encode()))

    async def say(self, saying: Saying) -> None:
        parts = [saying.header, saying.parent, saying.metadata, saying.content]
        signed = [DELIMITER, self._codec._sign(parts), *parts]
        to = self._client.get(saying.channel, b"topic")
        await self._sockets[saying.channel].send_multipart([to, *signed])

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()


def _reply(kind: str, parent: bytes, content: bytes) -> Saying:
    return Saying("shell", json.dumps({"msg_id": "m", "msg_type": kind}).encode(), parent, b"{}", content)


async def follow(following: Following, asks: int, failed: Callable[[], list[str]]) -> None:
    """Run a cell that says anything, ask for something that is answered with anything, then run another."""

    async def until_ended(execution_id: str) -> None:
        while execution_id not in following.ended:
            assert not failed()
            await anyio.sleep(0)

    async with anyio.create_task_group() as tasks:
        await tasks.start(following.runner.run)
        following.submit(EARLIER)
        following.submit(RUNNING)
        with anyio.fail_after(_ENOUGH_S):
            await until_ended(RUNNING)
            for _ in range(asks):
                with suppress(CellwrightError):
                    reply = await following.runner.ask("inspect_request", {}, timeout_s=_ENOUGH_S)
                    assert isinstance(reply, dict)
            following.submit(AFTERWARDS)
            await until_ended(AFTERWARDS)
        tasks.cancel_scope.cancel()
    following.check()


@each_effort
def test_whatever_a_kernel_says_the_next_cell_runs(effort: float, caplog: pytest.LogCaptureFixture) -> None:
    def failed() -> list[str]:
        """What a boundary had to keep from climbing further."""
        return [record.getMessage() for record in caplog.records if record.exc_info]

    def check(said: list[Saying], replies: list[bytes]) -> None:
        async def work() -> None:
            with tempfile.TemporaryDirectory(prefix="cw-") as directory, zmq.asyncio.Context() as context:
                connection = create_connection(Path(directory, "k"))
                kernel = SocketKernel(connection, context)
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(kernel.answer, said, replies)
                        client = KernelClient(connection)
                        await tasks.start(client.run)
                        await follow(Following(client), len(replies), failed)
                        tasks.cancel_scope.cancel()
                finally:
                    kernel.close()

        caplog.clear()
        anyio.run(work)
        assert not failed()

    replies = st.lists(
        mutated_json([one["content"] for one in SEEDS if one["kind"] == "inspect_reply"]), max_size=2
    )
    try_all(check, st.lists(sayings(), max_size=40), replies, examples=25, effort=effort)


@each_effort
def test_whatever_a_kernel_answers_is_read_or_is_the_kernels_error(effort: float) -> None:
    readers: dict[str, Callable[[dict[str, Any]], object]] = {
        "inspection": inspection_of,
        "completion": completion_of,
        "inputs": inputs_of,
        "diagnosis": diagnosis_of,
        "profile": profile_of,
        "fingerprints": fingerprints_of,
        "data": held_in,
        "elsewhere": inspect_reply,
    }

    def check(content: bytes, reader: str) -> None:
        with suppress(KernelError, NoSuchData):
            readers[reader](read_reply(content))

    try_all(
        check,
        mutated_json(seeds("replies.json")),
        st.sampled_from(sorted(readers)),
        examples=300,
        effort=effort,
    )

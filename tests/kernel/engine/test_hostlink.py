"""One link to a host that can be cut off from it: what is out of reach goes on, and nothing it said is missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from cellwright import Settings
from cellwright.assembly import host_options
from cellwright.engine.hosts import HostLink
from cellwright.engine.journal import Journal, Statement
from cellwright.errors import HostUnreachable
from cellwright.hosts import HostConnection, HostPaths, LocalTransport, protocol
from cellwright.unixstreams import UnixStream
from tests.kernel.engine.conftest import end_host
from tests.waiting import until

pytestmark = pytest.mark.anyio
LINES = 60
NEVER_S = 600.0
CUT = "the network is cut"
# Begins in two parts: the first is printed before the cut, the second while nobody hears it.
LOOP = f"""
import time, pathlib
for number in range({LINES}):
    print("line " + str(number), flush=True)
    if number == 19:
        while not pathlib.Path({{gate!r}}).exists():
            time.sleep(0.01)
"""


class DeafStream(anyio.abc.ByteStream):
    """A connection that can go silent, as one does whose network is cut: nothing arrives, and nobody is told."""

    def __init__(self, stream: anyio.abc.ByteStream, is_cut: Callable[[], bool]) -> None:
        self._stream = stream
        self._is_cut = is_cut
        self._closed = anyio.Event()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        data = await self._stream.receive(max_bytes)
        if self._is_cut():
            await self._closed.wait()
            raise anyio.ClosedResourceError
        return data

    async def send(self, item: bytes) -> None:
        if not self._is_cut():
            await self._stream.send(item)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self._closed.set()
        await self._stream.aclose()


@dataclass
class CutWay:
    """The way to this machine's host as if it went through a network."""

    local: LocalTransport
    beat_s: float | None = NEVER_S  # so that only a test cuts it (see ``notices_cuts``)
    cut: bool = False

    @property
    def paths(self) -> HostPaths:
        return self.local.paths

    async def connect(self) -> HostConnection:
        if self.cut:
            raise HostUnreachable(CUT)
        await (await self.local.connect()).close()
        about = json.loads(self.paths.current.read_text())
        return HostConnection(
            DeafStream(UnixStream.over(await anyio.connect_unix(about["socket"])), lambda: self.cut)
        )

    async def end(self) -> str | None:
        return await self.local.end() if not self.cut else None


@dataclass
class Heard:
    """Who listens to the link."""

    journal: Journal
    events: list[protocol.Event] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)

    def taken(self, events: list[protocol.Event], consumed: Statement, committed: Callable[[], None]) -> None:
        self.events += events
        self.journal.write([consumed])
        committed()
        self._wake()

    def lost(self, link: HostLink, why: str) -> None:  # as a listener is called
        self.told.append(f"lost: {why}")
        self._wake()

    def out_of_reach(self, link: HostLink, why: str) -> None:  # as a listener is called
        self.told.append(f"away: {why}")
        self._wake()

    async def back(self, link: HostLink, attached: protocol.Attached) -> None:  # as a listener is called
        self.told.append("back")
        self._wake()

    def lines(self) -> list[str]:
        text = "".join(
            json.loads(event.body.content)["text"]
            for event in self.events
            if isinstance(event.body, protocol.Output)
        )
        return text.splitlines()

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            await self.changed.wait()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


@dataclass
class Linked:
    link: HostLink
    way: CutWay
    heard: Heard
    root: Path


@pytest.fixture
async def linked(tmp_path: Path) -> AsyncIterator[Linked]:
    settings = Settings(root=tmp_path, storage=tmp_path / "state", standby_kernels=0, unsafe_no_sandbox=True)
    settings.storage.mkdir()
    journal = Journal(settings.storage / "journal.db")
    heard = Heard(journal)
    way = CutWay(LocalTransport(HostPaths(settings.storage)))
    link = HostLink(
        "slurm:test",
        way,
        journal,
        options=host_options(settings, tmp_path / "home"),
        environment={"PATH": os.environ["PATH"]},
        listener=heard,
    )
    async with anyio.create_task_group() as tasks:
        link.begin(tasks)
        yield Linked(link, way, heard, tmp_path)
        await link.close(stop_host=True)
        tasks.cancel_scope.cancel()
    await journal.close()
    end_host(settings.storage)


async def begin_loop(linked: Linked) -> Path:
    gate = linked.root / "gate"
    await linked.link.connect()
    start = protocol.StartKernel(
        "k.1", protocol.PythonKernel(), str(linked.root), {"PATH": os.environ["PATH"]}
    )
    await linked.link.call(start, protocol.KernelReady)
    run = protocol.Run("x-1", LOOP.format(gate=str(gate)), timeout_s=600)
    await linked.link.call(protocol.Execute("k.1", (run,)), type(None))
    await linked.heard.until(lambda: len(linked.heard.lines()) >= 20)
    return gate


async def notices_cuts(linked: Linked) -> None:
    """Have the link ask for signs of life often, until the next connection."""
    await linked.link.close(stop_host=False)
    linked.way.beat_s = 0.1
    linked.link.seek()  # which tries again where the host is too slow for that
    await linked.heard.until(lambda: "back" in linked.heard.told)
    linked.heard.told.clear()


async def cut(linked: Linked) -> None:
    """Cut the host off, and return when the link knows."""
    await notices_cuts(linked)
    linked.way.cut = True
    await until(lambda: linked.link.away == CUT)
    linked.way.beat_s = NEVER_S


async def test_a_cut_host_refuses_calls_but_goes_on_and_no_line_is_missing_when_it_is_back(
    linked: Linked,
) -> None:
    gate = await begin_loop(linked)
    await cut(linked)
    with pytest.raises(HostUnreachable, match="cannot be reached now: the network is cut") as refused:
        await linked.link.call(protocol.Interrupt("k.1"), type(None))
    assert "kernels go on" in str(refused.value)
    with pytest.raises(HostUnreachable):
        await linked.link.connect()
    gate.touch()
    linked.way.cut = False
    await linked.heard.until(lambda: isinstance(linked.heard.events[-1].body, protocol.Finished))
    assert linked.heard.lines() == [f"line {number}" for number in range(LINES)]
    await linked.heard.until(lambda: "back" in linked.heard.told)
    assert [told.partition(":")[0] for told in linked.heard.told] == ["away", "back"]
    assert linked.link.away is None
    await linked.link.call(protocol.Ping(), type(None))


async def test_a_call_that_a_cut_swallows_is_told_as_out_of_reach_not_as_lost(linked: Linked) -> None:
    await begin_loop(linked)
    await notices_cuts(linked)
    linked.way.cut = True
    with pytest.raises(HostUnreachable):
        await linked.link.call(protocol.Cancel("k.1", "x-1"), type(None))
    linked.way.beat_s = NEVER_S
    linked.way.cut = False
    await linked.heard.until(lambda: "back" in linked.heard.told)
    assert not any(told.startswith("lost") for told in linked.heard.told)


async def test_a_host_that_died_while_out_of_reach_is_read_to_its_end_and_told_as_lost(
    linked: Linked,
) -> None:
    gate = await begin_loop(linked)
    pid = json.loads(linked.way.paths.current.read_text())["pid"]
    await cut(linked)
    gate.touch()
    journal = next(path for path in linked.way.paths.home.iterdir() if path.is_dir())
    # What it says now is in its journal alone.
    await until(lambda: b"line 59" in b"".join(path.read_bytes() for path in journal.iterdir()))
    os.kill(pid, signal.SIGKILL)
    linked.way.cut = False
    await linked.heard.until(lambda: any(told.startswith("lost") for told in linked.heard.told))
    assert linked.heard.lines() == [f"line {number}" for number in range(LINES)]
    shutil.rmtree(linked.way.paths.runtime)  # the next host would


async def test_a_host_that_is_sought_is_found_and_told_as_back(linked: Linked) -> None:
    await begin_loop(linked)
    await linked.link.close(stop_host=False)
    linked.link.seek()
    await linked.heard.until(lambda: "back" in linked.heard.told)
    assert linked.link.is_connected

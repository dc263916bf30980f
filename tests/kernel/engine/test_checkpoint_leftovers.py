"""Checkpoints that were taken and dropped leave nothing: no process, no descriptor, no file, no memory worth naming."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil
import pytest

from cellwright.engine import Engine, Session
from cellwright.hosts import HostPaths
from tests.kernel.engine.conftest import empty, host_process, open_anew
from tests.waiting import LIMIT_S, look_again

pytestmark = pytest.mark.anyio

CHECKPOINTS = 24
ROLLBACKS = 6
# Allocators and journals of a host that has worked; a leak of each would be a multiple of it.
WORTH_NAMING = 16 << 20
PER_CHECKPOINT = 16 << 10


@dataclass(frozen=True)
class Held:
    """What a host and everything below it hold."""

    processes: Counter[str]
    descriptors: int
    files: Counter[str]
    """By name without the numbers in it: the one that is kept for the next time has another each time."""
    private_bytes: int


def held(engine: Engine) -> Held:
    """As the system tells it now."""
    host = host_process(engine.settings.storage)
    assert host is not None
    tree = [host, *host.children(recursive=True)]
    roots = [engine.settings.storage, HostPaths(engine.settings.storage).runtime]
    return Held(
        processes=Counter(_name(process) for process in tree),
        descriptors=sum(_descriptors(process.pid) for process in tree),
        files=Counter(
            re.sub(r"\d+", "#", str(path.relative_to(root)))
            for root in roots
            # Others are at work there: a directory that goes meanwhile is passed over.
            for directory, _, names in os.walk(root)
            for path in (Path(directory, name) for name in names)
            if _counts(path)
        ),
        private_bytes=sum(_private(process.pid) for process in tree),
    )


@pytest.fixture(scope="module")
async def warm_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """An engine whose host has done all that it does once: a second kernel has its fork server warm up."""
    async with open_anew(tmp_path_factory) as engine:
        for name in ("first", "second"):
            await run(await engine.create(name), "1")
        await empty(engine)
        yield engine


async def test_checkpoints_taken_and_dropped_leave_nothing_behind(warm_engine: Engine) -> None:
    session = await warm_engine.create("leftovers", mode="private")
    await run(session, "data = bytearray(20_000_000); n = 0")
    # What is made once and kept: the stores, the thread that writes, caches.
    await take_and_drop(session, 12)
    before = held(warm_engine)
    await take_and_drop(session, CHECKPOINTS)
    assert not session.checkpoints
    await settle(warm_engine, before)
    after = held(warm_engine)
    grown = after.private_bytes - before.private_bytes
    assert grown < CHECKPOINTS * PER_CHECKPOINT + WORTH_NAMING // 4, f"{grown / 2**20:.1f} MB more"


async def test_rollbacks_leave_nothing_behind(warm_engine: Engine) -> None:
    session = await warm_engine.create("leftovers", mode="private")
    await run(session, "data = bytearray(20_000_000); n = 0")
    await there_and_back(session, 3)
    before = held(warm_engine)
    await there_and_back(session, ROLLBACKS)
    await settle(warm_engine, before)
    grown = held(warm_engine).private_bytes - before.private_bytes
    assert grown < WORTH_NAMING, f"{grown / 2**20:.1f} MB more"
    assert await run(session, "print(n)") == "0\n"


async def test_a_session_that_is_suspended_takes_its_checkpoints_with_it(warm_engine: Engine) -> None:
    other = await warm_engine.create("stays", mode="private")
    await run(other, "x = 1")
    before = held(warm_engine)
    session = await warm_engine.create("goes", mode="private")
    await run(session, "open('a.txt', 'w').write('a')")
    for number in range(5):
        await session.checkpoint(f"c{number}")
        await run(session, f"open('a.txt', 'w').write('{number}')")
    await session.roll_back("c2")
    await warm_engine.delete(session.id)
    await settle(warm_engine, before)


async def take_and_drop(session: Session, count: int) -> None:
    for number in range(count):
        kept = await session.checkpoint()
        # Another part of the memory and a file change each time, so that each checkpoint has something of its own.
        await run(session, f"data[{number} * 4096 % len(data)] = 1; n += 1; _ = open('f', 'w').write(str(n))")
        await session.drop_checkpoint(kept.id)


async def there_and_back(session: Session, count: int) -> None:
    for _ in range(count):
        kept = await session.checkpoint()
        await run(
            session,
            "n += 1; data[:5_000_000] = bytes([n % 256]) * 5_000_000; _ = open(f'f{n}', 'w').write('x')",
        )
        await session.roll_back(kept.id)
        await session.drop_checkpoint(kept.id)


async def settle(engine: Engine, before: Held) -> None:
    """Wait for what ends in the background, then hold what there is against what there was."""
    with anyio.move_on_after(LIMIT_S):
        while not _is_the_same(held(engine), before):
            await look_again()
    after = held(engine)
    assert not after.processes - before.processes
    assert not after.files - before.files
    assert after.descriptors <= before.descriptors


def _is_the_same(after: Held, before: Held) -> bool:
    return (
        not after.processes - before.processes
        and not after.files - before.files
        and after.descriptors <= before.descriptors
    )


async def run(session: Session, code: str) -> str:
    execution = await (await session.execute_code(code)).wait()
    assert execution.ok, execution.text
    return execution.text


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "gone"


def _descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def _counts(path: Path) -> bool:
    """Not what is journalled, which grows with what is done."""
    return path.is_file() and not path.name.startswith(("journal.db", "events-"))


def _private(pid: int) -> int:
    """The pages that only this process has."""
    found = 0
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                found += int(line.split()[1]) * 1024
    return found

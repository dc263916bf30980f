"""Servers that say what no server should: the host goes on, and so do kernels elsewhere."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellwright.errors import CellwrightError
from cellwright.hosts import protocol
from cellwright.jupyter._rest import Api, ServerRefused
from tests.kernel.engine.conftest import host_process
from tests.matrix import first_of
from tests.support.jupyter.desk import Desk
from tests.support.jupyter.hostile import ENDLESS, Hostile, hostile_server, said

pytestmark = pytest.mark.anyio
DEEP = "[" * 200_000


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    async with hostile_server() as server:
        yield server


@pytest.mark.parametrize(
    "frame",
    first_of(
        [
            "",
            b"",
            b"\0",
            b"\xff" * 100,
            "null",
            "{",
            DEEP,
            said("status", None),
            said("status", []),
            said("status", {"execution_state": []}),
            said("status", {"execution_state": {}}),
            said("status", 0).replace('"content": 0', '"content": ' + DEEP + "]" * 200_000),
            said("shutdown_reply", "restart"),
            said("input_request", None),
            said("stream", None),
            said("execute_reply", None, channel="shell"),
        ],
        8,
    ),
    ids=lambda frame: repr(frame)[:60],
)
async def test_whatever_a_server_says_the_host_goes_on(
    desk: Desk, hostile: Hostile, shared_storage: Path, frame: str | bytes
) -> None:
    before = host_process(shared_storage)
    await desk.start(hostile.address)
    hostile.frames = [frame]
    await desk.run("1", timeout_s=2)
    await _tried(desk, hostile, "later")
    hostile.frames = []
    await desk.connection.call(protocol.Status(), protocol.Attached)
    assert host_process(shared_storage) == before
    await desk.start(hostile.address, "another")
    assert (await desk.run("1", "another")).state == "ok"


@pytest.mark.parametrize("answer", first_of(["null", "[1]", "{", DEEP], 1))
@pytest.mark.parametrize("path", ["/api/kernelspecs", "/api/kernels", "/api/kernels/one", "/hub/api"])
async def test_whatever_a_server_answers_is_refused_in_words(
    desk: Desk, hostile: Hostile, path: str, answer: Any
) -> None:
    hostile.answers[path] = answer
    told = await _tried(desk, hostile)
    assert "The host failed" not in told
    hostile.answers.clear()
    await desk.start(hostile.address, "another")
    assert (await desk.run("1", "another")).state == "ok"


async def test_an_answer_without_an_end_is_cut_off(hostile: Hostile) -> None:
    hostile.answers["/api/kernelspecs"] = ENDLESS
    before = psutil.Process(os.getpid()).memory_info().rss
    api = Api("hostile", hostile.address.url, "")
    try:
        with pytest.raises(ServerRefused, match="more than"):
            await api.kernelspecs()
    finally:
        await api.close()
    assert psutil.Process(os.getpid()).memory_info().rss - before < 600 << 20


async def _tried(desk: Desk, hostile: Hostile, kernel_id: str = "k") -> str:
    """Use a kernel there as far as that goes; what was told where it does not."""
    try:
        await desk.start(hostile.address, kernel_id)
        await desk.run("1", kernel_id, timeout_s=2)
        await desk.stop(kernel_id)
    except CellwrightError as error:
        return error.message
    return ""

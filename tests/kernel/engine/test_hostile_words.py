"""Code that speaks for its kernel and says what no kernel would: its own cell is told, and nobody else notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from cellwright import Engine
from cellwright.engine import Session
from tests.kernel.engine.conftest import host_process
from tests.matrix import first_of

pytestmark = pytest.mark.anyio

FORGE = """
def say(kind, content):
    kernel = get_ipython().kernel
    kernel.session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent())
"""
SHAPES: tuple[Any, ...] = (
    {"data": 5, "metadata": 7, "transient": 9},
    {"data": {"text/plain": {"a": 1}, "image/png": 5}, "transient": {"display_id": [1]}},
    {"name": 5, "text": {}},
    {"ename": 1, "evalue": [2], "traceback": 5},
    {"execution_count": "x"},
    {"wait": {}},
)
OUTPUTS = ("stream", "display_data", "execute_result", "update_display_data", "error", "clear_output")
# What belongs on other channels, or is said by others than kernels.
OUT_OF_PLACE = (
    "input_request",
    "execute_reply",
    "shutdown_reply",
    "status",
    "execute_input",
    "comm_open",
    "nonsense",
)


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    return await engine.create("words", directory=tmp_path)


async def goes_on(engine: Engine, session: Session) -> None:
    assert (await (await session.execute_code("40 + 2")).wait()).text.strip() == "42"
    assert engine.session(session.id) is session


@pytest.fixture
async def neighbour(engine: Engine) -> Session:
    neighbour = await engine.create("neighbour")
    await (await neighbour.execute_code("kept = 42")).wait()
    return neighbour


@pytest.mark.parametrize("kind", first_of(OUTPUTS + OUT_OF_PLACE, 4))
async def test_messages_of_no_shape_end_nothing(
    engine: Engine, session: Session, neighbour: Session, kind: str
) -> None:
    for shape in (*SHAPES, {}):
        code = f"{FORGE}\nsay({kind!r}, {shape!r})"
        execution = await (await session.execute_code(code)).wait()
        # Our own kernel refuses some of them by itself.
        assert execution.state in ("ok", "error"), shape
    await goes_on(engine, session)
    assert (await (await neighbour.execute_code("kept")).wait()).text.strip() == "42"


async def test_a_message_that_is_left_out_is_told_in_its_cell(session: Session) -> None:
    execution = await (await session.execute_code(f"{FORGE}\nsay('display_data', {SHAPES[0]!r})")).wait()
    assert "a display_data message of the kernel was left out" in execution.text


async def test_displays_deeper_than_anybody_can_follow_end_nothing(engine: Engine, session: Session) -> None:
    code = f"{FORGE}\ndeep = 1\nfor _ in range(600): deep = [deep]\nsay('display_data', {{'data': {{'application/json': deep}}}})"
    execution = await (await session.execute_code(code)).wait()
    assert "nested more than" in execution.text
    await goes_on(engine, session)


async def test_what_typescript_broadcasts_ends_nothing(engine: Engine, session: Session) -> None:
    for kind in OUTPUTS:
        for shape in SHAPES:
            code = f"await Deno.jupyter.broadcast({json.dumps(kind)}, {json.dumps(shape)}); 1"
            await (await session.execute_code(code, language="typescript")).wait()
    await goes_on(engine, session)
    again = await (await session.execute_code("1 + 1", language="typescript")).wait()
    assert again.text.strip() == "2"


async def test_work_in_the_background_fails_alone(engine: Engine, session: Session) -> None:
    async def stumble() -> None:
        raise RecursionError("over what a session left lying about")

    engine.in_background(stumble)
    await goes_on(engine, session)


RAW = """
import os, socket

def iopub():
    "The connection to the host over which this kernel publishes."
    for name in os.listdir("/proc/self/fd"):
        try:
            end = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        if end.family == socket.AF_UNIX and str(end.getsockname()).endswith("s-2"):
            if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                end.setblocking(True)
                return end

end = iopub()
"""
MANY_BYTES = 300 << 20


async def test_a_message_of_any_size_takes_no_memory_of_the_host(
    engine: Engine, session: Session, neighbour: Session
) -> None:
    host = host_process(engine.settings.storage)
    assert host is not None
    await (await session.execute_code("1")).wait()
    before = peak_bytes(host)
    long_frame = f"end.sendall(b'\\x02' + ({MANY_BYTES}).to_bytes(8, 'big') + bytes({MANY_BYTES}))"
    execution = await (await session.execute_code(f"{RAW}\n{long_frame}\nprint('sent')")).wait()
    assert "a message of 314,572,800 bytes was dropped" in execution.text
    assert "sent" in execution.text
    assert (await (await neighbour.execute_code("kept")).wait()).text.strip() == "42"
    assert peak_bytes(host) - before < MANY_BYTES // 2


def peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.parametrize(
    "attack",
    ["b'\\x02' + (1 << 62).to_bytes(8, 'big')", "b'\\x01\\x00' * 20_000"],
    ids=["a frame of any size", "frames without end"],
)
async def test_words_that_no_kernel_says_end_that_kernel_alone(
    engine: Engine, session: Session, neighbour: Session, attack: str
) -> None:
    await (await session.execute_code("1")).wait()
    code = f"{RAW}\nend.sendall({attack})\nimport time; time.sleep(600)"
    execution = await (await session.execute_code(code)).wait()
    assert execution.state == "died"
    assert "could not be followed" in str(execution.reason)
    assert (await (await neighbour.execute_code("kept")).wait()).text.strip() == "42"
    await goes_on(engine, session)

"""Code that writes its kernel's bytes itself: what it says or answers ends its own session at most."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.engine import Session
from cellwright.errors import CellwrightError
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

RAW = """
kernel = get_ipython().kernel
def signed(kind, parent, content):
    session = kernel.session
    frames = [*session.serialize(session.msg(kind, {}, parent=parent))[-4:-1], content]
    return [b"<IDS|MSG>", session.sign(frames), *frames]

def answer(request, content):
    def handler(stream, ident, parent):
        stream.send_multipart([*ident, *signed(request.replace("request", "reply"), parent, content)])
    kernel.shell_handlers[request] = kernel.control_handlers[request] = handler
"""
DEEP = b"[" * 3_000 + b"]" * 3_000
ANSWERS = {
    "no JSON": b"\x80",
    "no object": b"[]",
    "a number": b'{"status": "ok", "matches": [], "x": 1%s}' % (b"0" * 40),
    "no fields": b'{"status": "ok"}',
    "other types": b'{"status": "ok", "matches": 5, "cursor_start": "x", "cursor_end": {}}',
    "deep": b'{"status": "ok", "x": %s}' % DEEP,
}


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    return await engine.create("answers", directory=tmp_path)


@pytest.fixture
async def neighbour(engine: Engine) -> Session:
    neighbour = await engine.create("neighbour")
    await (await neighbour.execute_code("kept = 42")).wait()
    return neighbour


async def all_goes_on(session: Session, neighbour: Session) -> None:
    """The session answers, whatever became of its kernel; the other one has its own still."""
    with fail_after():
        assert (await (await session.execute_code("40 + 2")).wait()).text.strip() == "42"
        assert (await (await neighbour.execute_code("kept")).wait()).text.strip() == "42"


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b'"\x80"', id="bytes"),
        pytest.param(b'"\\ud800"', id="half", marks=pytest.mark.matrix),
        pytest.param(b'"\n"', id="break", marks=pytest.mark.matrix),
        pytest.param(DEEP, id="deep"),
    ],
)
async def test_what_no_shape_knows_ends_nothing(session: Session, neighbour: Session, odd: bytes) -> None:
    content = b'{"name": "stdout", "text": "x", "more": %s}' % odd
    said = f"kernel.iopub_socket.send_multipart([b'', *signed('stream', kernel.get_parent(), {content!r})])"
    await (await session.execute_code(f"{RAW}\n{said}")).wait()
    await all_goes_on(session, neighbour)


@pytest.mark.parametrize("content", ANSWERS.values(), ids=list(ANSWERS))
async def test_what_is_answered_to_questions_ends_nothing(
    session: Session, neighbour: Session, content: bytes
) -> None:
    kinds = ("complete_request", "cellwright_inspect_request")
    said = "\n".join(f"answer({kind!r}, {content!r})" for kind in kinds)
    assert (await (await session.execute_code(f"{RAW}\n{said}")).wait()).ok
    with suppress(CellwrightError):
        await session.complete("x", 1)
    with suppress(CellwrightError):
        await session.inspect()
    await all_goes_on(session, neighbour)


async def test_a_kernel_that_answers_nonsense_is_interrupted_and_stopped_all_the_same(
    session: Session, neighbour: Session
) -> None:
    said = "\n".join(f"answer({kind!r}, b'\\x80')" for kind in ("interrupt_request", "shutdown_request"))
    assert (await (await session.execute_code(f"{RAW}\n{said}")).wait()).ok
    running = await session.execute_code("import time\nfor _ in range(50): time.sleep(0.02)")
    await session.interrupt()
    await running.wait()
    await session.suspend()
    assert session.state == "suspended"
    await all_goes_on(session, neighbour)

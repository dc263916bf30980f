"""Sessions tell what their last execution raised, also after they went back or moved to another kernel."""

from __future__ import annotations

import pytest

from cellwright import Engine, Session
from cellwright.engine import Diagnosis
from cellwright.engine.introspection import diagnosis_of, inputs_of
from cellwright.errors import KernelBusy, KernelError

pytestmark = pytest.mark.anyio


async def told(session: Session, source: str) -> Diagnosis | None:
    await (await session.execute_code(source)).wait()
    return await session.diagnose()


async def test_a_session_tells_what_its_last_execution_raised(engine: Engine) -> None:
    session = await engine.create("one that fails")
    assert await session.diagnose() is None
    found = await told(session, "[1, 2][5]")
    assert found is not None
    assert found.raised.type == "IndexError"
    assert await told(session, "1 + 1") is None


async def test_it_is_told_also_in_a_kernel_that_came_from_a_checkpoint(engine: Engine) -> None:
    session = await engine.create("one that goes back")
    before = await told(session, "d = {'a': 1}\nd['b']")
    checkpoint = await session.checkpoint()
    await told(session, "d = None")
    await session.roll_back(checkpoint.id)
    assert await session.diagnose() == before
    found = await told(session, "d['c']")
    assert found is not None
    assert found.subject is not None
    assert found.subject.keys == ("a",)
    assert found.raised.span is not None


async def test_a_session_without_a_kernel_has_raised_nothing_and_starts_none(engine: Engine) -> None:
    session = await engine.create("one that rests")
    await told(session, "1 / 0")
    await session.suspend()
    assert await session.diagnose() is None
    assert session.state == "suspended"


async def test_a_busy_kernel_is_not_waited_for(engine: Engine) -> None:
    session = await engine.create("one that works")
    execution = await session.execute_code("import time; time.sleep(1000)")
    with pytest.raises(KernelBusy):
        await session.diagnose()
    await session.interrupt()
    await execution.wait()


@pytest.mark.parametrize(
    "reply",
    [
        {"status": "error", "ename": "TypeError", "evalue": "no"},
        {"status": "ok", "raised": 3},
        {"status": "ok", "raised": {"type": "KeyError", "message": "x"}, "roots": [{}]},
    ],
)
def test_a_kernel_that_answers_nonsense_is_an_error_of_the_kernel(reply: dict[str, object]) -> None:
    with pytest.raises(KernelError):
        diagnosis_of(reply)


@pytest.mark.parametrize(
    "reply",
    [{"status": "error", "ename": "TypeError", "evalue": "no"}, {"status": "ok", "files": [{"path": 3}]}],
)
def test_a_kernel_that_tells_nonsense_of_the_files_it_read_is_one_too(reply: dict[str, object]) -> None:
    with pytest.raises(KernelError):
        inputs_of(reply)

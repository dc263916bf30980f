from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from cellwright.engine.introspection import Diagnosis, Raised
from cellwright.errors import KernelBusy
from cellwright.plans import Failure, Proposal, hints
from cellwright.plans.hints import Hint, Hints

pytestmark = pytest.mark.anyio


class FakeEngine:
    """What hints ask of an engine."""

    settings = SimpleNamespace(error_hints=True)
    options = SimpleNamespace(packages=SimpleNamespace(approved=SimpleNamespace(packages=())))


class FakeSession:
    """A session whose kernel says what it is told to, once it may."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.may = anyio.Event()
        self.last = True
        self.read = 0
        self.language = "python"
        self.checkpoints = ()
        self.document = SimpleNamespace(cells=())

    async def diagnose(self) -> Diagnosis | None:
        answer = self.answers.pop(0)
        await self.may.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def state_history(self) -> list[Any]:
        self.read += 1
        return []


KNOWN = Diagnosis((Raised("NameError", "no"),), Raised("NameError", "no"))
RECORD = SimpleNamespace(
    source="x", state="error", error={}, reason=None, language="python", checkpoint=None, number=1
)
FAILED: Any = SimpleNamespace(id="e1", cell_id="c1", state="error", record=RECORD)


def told(_: Failure) -> Proposal:
    return Proposal("told", "Because.")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Hints:
    monkeypatch.setattr(hints, "is_last", lambda session, _: session.last)
    engine: Any = FakeEngine()
    monkeypatch.setattr(hints, "proxy", lambda same: same)
    return Hints(engine, (told,))


async def test_of_an_execution_that_was_not_the_last_one_nothing_is_looked_up(found: Hints) -> None:
    session: Any = FakeSession()
    session.last = False
    assert await found.of(session, FAILED) is None
    assert session.read == 0


async def test_all_who_ask_at_once_share_one_answer(found: Hints) -> None:
    session: Any = FakeSession(KNOWN)
    got: list[Hint | None] = []

    async def ask() -> None:
        got.append(await found.of(session, FAILED))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        session.last = False  # another cell runs meanwhile
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        session.may.set()
    assert got == [Hint("told", "Because.")] * 2
    assert await found.of(session, FAILED) == got[0]


async def test_a_kernel_that_was_busy_or_slow_is_asked_again(
    found: Hints, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = FakeSession(KNOWN, KernelBusy("It runs a cell"), KNOWN)
    monkeypatch.setattr(hints, "_ASKED_S", 0.01)
    assert await found.of(session, FAILED) is None
    monkeypatch.undo()
    monkeypatch.setattr(hints, "is_last", lambda session, _: session.last)
    session.may.set()
    assert await found.of(session, FAILED) is None
    assert await found.of(session, FAILED) == Hint("told", "Because.")

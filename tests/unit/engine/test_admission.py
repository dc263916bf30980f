"""Which session makes room for another, and that nobody waits for those that need no room."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from cellwright.engine._admission import Admission
from cellwright.errors import TooManySessions

pytestmark = pytest.mark.anyio


class Sessions:
    """Active sessions that are nothing but idle for so long, and take their time to be suspended."""

    def __init__(self, **idle_s: float) -> None:
        self.active = [self._new(name, seconds) for name, seconds in idle_s.items()]
        self.suspending = anyio.Event()
        self.may_end = anyio.Event()

    def _new(self, name: str, idle_s: float) -> Any:
        async def suspend(*, reason: str) -> None:
            assert "max_sessions" in reason
            self.suspending.set()
            await self.may_end.wait()
            self.active = [one for one in self.active if one.id != name]

        kernel = SimpleNamespace(suspend=suspend)
        return SimpleNamespace(id=name, is_idle=True, last_active=time.monotonic() - idle_s, kernel=kernel)

    def admission(self, limit: int) -> Admission:
        options: Any = SimpleNamespace(max_sessions=limit, suspends_when_full=True)
        return Admission(lambda: self.active, options)


def record(name: str) -> Any:
    return SimpleNamespace(id=name, is_unseen=False)


async def test_only_a_session_that_was_not_used_for_a_minute_makes_room() -> None:
    sessions = Sessions(young=59, old=61, older=62)
    sessions.may_end.set()
    admission = sessions.admission(3)
    admission.check()
    async with admission.of(record("new")), admission.of(record("newer")):
        assert [one.id for one in sessions.active] == ["young"]
        with pytest.raises(TooManySessions, match="within the last 60 s"):
            admission.check()
        with anyio.fail_after(5), pytest.raises(TooManySessions):
            async with admission.of(record("newest")):
                """It is refused at once, though others are starting."""


async def test_room_that_comes_meanwhile_is_had_without_waiting_for_a_suspension() -> None:
    sessions = Sessions(old=61, ended=5)
    admission = sessions.admission(2)
    admitted: list[str] = []

    async def admit(name: str) -> None:
        async with admission.of(record(name)):
            admitted.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admit, "first")
        await sessions.suspending.wait()
        del sessions.active[1]
        with anyio.fail_after(5):
            await admit("second")
        assert admitted == ["second"]
        sessions.may_end.set()
    assert admitted == ["second", "first"]

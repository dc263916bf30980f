from __future__ import annotations

import re

import pytest

from cellwright import Engine
from cellwright.errors import LimitReached
from cellwright.hosts.server import machine_memory
from cellwright.notebook.outputs import TERMINAL_CODES
from cellwright.sandbox.policy import Narrowing, memory_share
from tests.kernel.engine.conftest import OpenEngine
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio


async def test_a_cell_over_its_time_is_interrupted_and_the_kernel_keeps_its_state(engine: Engine) -> None:
    session = await engine.create("slow")
    await session.execute_code("x = 1")
    execution = await session.execute_code("import time\ntime.sleep(60)", timeout_s=0.2)
    with fail_after():
        assert (await execution.wait()).state == "timeout"
    assert "cell_timeout_s" in (execution.reason or "")
    # It is told as what it is, without the frames of what stopped it.
    assert execution.error is not None
    assert execution.error["ename"] == execution.outputs[0]["ename"] == "TimeoutError"
    shown = TERMINAL_CODES.sub("", "\n".join(execution.outputs[0]["traceback"]))
    assert shown.endswith("TimeoutError: the cell ran longer than 0.2 s")
    assert "cellwright_kernel" not in shown
    assert "KeyboardInterrupt" not in shown
    again = await (await session.execute_code("x")).wait()
    assert (again.text, again.generation) == ("1\n", 1)


async def test_a_cell_that_will_not_stop_is_killed_and_the_loss_is_told(open_here: OpenEngine) -> None:
    async with open_here(interrupt_grace_s=0.3) as engine:
        session = await engine.create("stubborn")
        # In a cell of its own: what is interrupted before it has begun to ignore that would stop.
        deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal = lambda *_: None"
        assert (await (await session.execute_code(deaf)).wait()).ok
        execution = await session.execute_code("while True: pass", timeout_s=0.2)
        with fail_after():
            assert (await execution.wait()).state == "timeout"
        assert "did not stop when interrupted" in (execution.reason or "")
        assert session.state == "suspended"
        assert (await (await session.execute_code("1")).wait()).generation == 2


async def test_output_over_the_limit_keeps_head_and_tail_and_tells_what_was_dropped(engine: Engine) -> None:
    session = await engine.create("loud")
    code = "print('first')\nfor _ in range(100): print('x' * 99_999)\nprint('last')"
    execution = await (await session.execute_code(code)).wait()
    assert execution.ok
    assert execution.text.startswith("first\n")
    assert execution.text.endswith("last\n")
    assert len(execution.text) <= 1_100_000
    dropped = execution.record.dropped_bytes
    assert 8_900_000 < dropped < 10_000_000
    assert f"{dropped:,} bytes" in execution.text


async def test_a_thousand_prints_and_displays_under_the_limit_all_arrive(engine: Engine) -> None:
    session = await engine.create("many")
    printed = await (await session.execute_code("for i in range(1_000): print(i, flush=True)")).wait()
    assert printed.text == "".join(f"{number}\n" for number in range(1_000))
    shown = await (await session.execute_code("for i in range(1_000): display(i)")).wait()
    assert [output["data"]["text/plain"] for output in shown.outputs] == [str(i) for i in range(1_000)]


async def test_a_session_may_have_its_share_of_the_machine_where_no_setting_says(
    open_here: OpenEngine,
) -> None:
    async with open_here(max_session_memory="auto") as engine:
        session = await engine.create("memory")
        held = await (await session.execute_code("x = bytearray(700_000_000); print(len(x))")).wait()
        assert held.text == "700000000\n", held.reason
        over = await (await session.execute_code("y = bytearray(1 << 50)")).wait()
        now = machine_memory()
        share = memory_share(now.total, now.used) >> 20
        [told] = re.findall(r"may use ([\d,]+) MB \(max_session_memory\)", over.reason or "")
        assert share / 2 < int(told.replace(",", "")) < share * 2
        wide = await engine.create("more than there is", limits=Narrowing(memory_bytes=1 << 50))
        [lost] = set(wide.record.losses).difference(session.record.losses)
        assert "max_session_memory is auto" in lost


async def test_a_source_beyond_its_limit_is_kept_and_runs_nothing(engine: Engine) -> None:
    session = await engine.create("long")
    await (await session.execute_code("x = 41")).wait()
    kept = await session.add_cell("x += 1")
    long = "x = '" + "a" * 1_600_000 + "'"
    cell = await session.add_cell(long)
    ran = len(await engine.history(session.id))
    for run in (session.execute(cell.id), session.execute_all(), session.execute_code(long)):
        with pytest.raises(LimitReached, match="CELLWRIGHT_MAX_SOURCE_BYTES") as refused:
            await run
        assert refused.value.setting == "max_source_bytes"
        assert "nothing ran" in refused.value.message
    assert len(await engine.history(session.id)) == ran
    assert [one.source for one in session.document.cells[-2:]] == [kept.source, long]
    again = await (await session.execute_code("x")).wait()
    assert (again.text, again.generation) == ("41\n", 1)


async def test_nothing_starts_above_the_memory_limit(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("memory")
    async with open_here(max_memory_fraction=1e-6) as engine:
        session = engine.session(session.id)
        with pytest.raises(LimitReached, match="CELLWRIGHT_MAX_MEMORY_FRACTION") as refused:
            await session.execute_code("1")
        assert refused.value.setting == "max_memory_fraction"
        with pytest.raises(LimitReached):
            await engine.create("another")
        assert [past.state for past in await engine.history(session.id)] == ["interrupted"]


async def test_a_running_cell_is_stopped_above_the_memory_limit(open_here: OpenEngine) -> None:
    async with open_here() as engine:
        session = await engine.create("memory")
        execution = await session.execute_code("import time\nwhile True: time.sleep(0.01)", timeout_s=600)
    async with open_here(max_memory_fraction=1e-6) as engine:
        with fail_after():
            stopped = await engine.execution(execution.id).wait()
        assert stopped.state == "interrupted"
        assert "max_memory_fraction" in (stopped.reason or "")


# A process that ends for ever: its first thread is over, and another goes on.
NEVER_GONE = """
import ctypes, platform, subprocess, sys, time
number = 60 if platform.machine() == "x86_64" else 93
code = f"import ctypes, threading, time; threading.Thread(target=time.sleep, args=[600]).start(); print(1, flush=True); ctypes.CDLL(None).syscall({number}, 0)"
subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout.readline()
print("begun", flush=True)
time.sleep(600)
"""


async def test_a_process_that_never_ends_its_ending_does_not_keep_its_cell_from_being_stopped(
    open_here: OpenEngine,
) -> None:
    async with open_here() as engine:
        session = await engine.create("memory")
        with engine.subscribe(session.id) as events, fail_after():
            execution = await session.execute_code(NEVER_GONE, timeout_s=600)
            async for event in events:
                if "begun" in str(getattr(event, "data", "")):
                    break
    async with open_here(max_memory_fraction=1e-6) as engine:
        with fail_after():
            stopped = await engine.execution(execution.id).wait()
        assert stopped.state == "interrupted", (stopped.text, stopped.reason)
        assert "max_memory_fraction" in (stopped.reason or "")


async def test_an_idle_session_is_suspended_and_says_why(open_here: OpenEngine) -> None:
    async with open_here(session_idle_s=0.2) as engine:
        # From before it is there: it may be idle for long enough before anybody is given it.
        with engine.subscribe() as events, fail_after():
            session = await engine.create("idle")
            async for event in events:
                if getattr(event, "data", {}).get("session") == "suspended":
                    break
        assert session.state == "suspended"
        assert "session_idle_s" in (session.reason or "")


async def test_cancelling_right_after_submitting_keeps_the_kernel(engine: Engine) -> None:
    session = await engine.create("at once")
    for _ in range(20):
        execution = await session.execute_code("import time; time.sleep(60)")
        await session.cancel(execution.id)
        with fail_after():
            assert (await execution.wait()).state == "interrupted"
    assert session.generation == 1

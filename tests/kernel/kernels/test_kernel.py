"""A Python kernel of the fork server behaves as a Jupyter kernel does, and its life and death are told."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright.errors import KernelGone, KernelStartError
from tests.waiting import LIMIT_S, fail_after, look_again

pytestmark = pytest.mark.anyio


async def test_a_cell_gives_its_result_and_the_state_stays(kernel: Any, run_cell: Any) -> None:
    assert (await run_cell(kernel, "x = 20\nx + 1")).result == "21"
    second = await run_cell(kernel, "x += 22; x")
    assert second.result == "42"
    assert second.reply["execution_count"] == 2


async def test_an_error_is_a_reply_and_the_kernel_goes_on(kernel: Any, run_cell: Any) -> None:
    failed = await run_cell(kernel, "1 / 0")
    assert failed.reply["status"] == "error"
    assert failed.of("error")[0]["ename"] == "ZeroDivisionError"
    assert (await run_cell(kernel, "'alive'")).result == "'alive'"


async def test_a_traceback_folds_recursions_and_tells_groups_and_values_that_cannot_be_shown(
    kernel: Any, run_cell: Any
) -> None:
    deep = await run_cell(
        kernel,
        "def even(n): return odd(n + 1)\ndef odd(n): return even(n + 1)\n"
        "try:\n    even(0)\nexcept RecursionError as deep:\n    raise ValueError('too deep') from deep",
    )
    shown = "\n".join(deep.of("error")[0]["traceback"])
    assert "more rounds of even, odd …]" in shown
    assert len(shown.splitlines()) < 60
    assert deep.reply["ename"] == "ValueError"
    frames = await run_cell(
        kernel, "import sys, traceback\nlen(traceback.extract_tb(sys.last_value.__cause__.__traceback__))"
    )
    assert int(frames.result) > 500  # a debugger finds them all

    both = await run_cell(kernel, "raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])")
    (group,) = both.of("error")
    assert group["ename"] == "ExceptionGroup"
    assert "ValueError: a" in group["traceback"][0]
    assert "IPython" not in group["traceback"][0]

    unshown = await run_cell(kernel, "class Odd:\n    def _repr_html_(self):\n        return missing\nOdd()")
    assert (unshown.reply["ename"], unshown.reply["evalue"]) == (
        "NameError",
        "name 'missing' is not defined",
    )


async def test_top_level_await_works(kernel: Any, run_cell: Any) -> None:
    assert (await run_cell(kernel, "import asyncio\nawait asyncio.sleep(0, 'slept')")).result == "'slept'"


async def test_text_of_any_language_arrives_whole(kernel: Any, run_cell: Any) -> None:
    text = "naïve 日本語 🐍 \u0000 \\ud800 end"
    assert (await run_cell(kernel, f"print({text!r})")).text() == text + "\n"
    assert (await run_cell(kernel, "print('lone \\ud800 surrogate')")).text() == "lone \\ud800 surrogate\n"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1000)", "!sleep 1000"])
async def test_an_interrupt_stops_a_cell(kernel: Any, run_cell: Any, code: str) -> None:
    async with anyio.create_task_group() as tasks:
        running = Box()
        tasks.start_soon(running.fill, run_cell(kernel, f"print('begun', flush=True)\n{code}"), kernel)
        await running.printed.wait()
        await kernel.interrupt()
    assert running.value.reply["ename"] == "KeyboardInterrupt"
    assert (await run_cell(kernel, "1")).result == "1"


async def test_an_interrupt_that_comes_after_the_code_leaves_the_reply_as_it_is(
    kernel: Any, run_cell: Any
) -> None:
    code = """
import os, signal
kernel = get_ipython().kernel
def interrupted(*arguments, **options):
    del kernel.finish_metadata
    os.kill(os.getpid(), signal.SIGINT)
    return kernel.finish_metadata(*arguments, **options)
kernel.finish_metadata = interrupted
"""
    with fail_after():
        assert (await run_cell(kernel, code)).reply["status"] == "ok"
        assert (await run_cell(kernel, "1")).result == "1"


class Box:
    """Runs a cell beside the test, and tells when it has said something."""

    def __init__(self) -> None:
        self.value: Any = None
        self.printed = anyio.Event()

    async def fill(self, cell: Any, kernel: Any) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, kernel)
            self.value = await cell
            tasks.cancel_scope.cancel()

    async def _listen(self, kernel: Any) -> None:
        inner = kernel.client.on_message

        def hear(message: Any) -> None:
            if message.kind == "stream":
                self.printed.set()
            inner(message)

        kernel.client.on_message = hear


async def test_a_cell_that_swallows_interrupts_is_ended_by_kill_tree(kernel: Any) -> None:
    stubborn = (
        "print('begun', flush=True)\nwhile True:\n  try:\n    while True: pass\n  except BaseException: pass"
    )
    begun = anyio.Event()
    kernel.client.on_message = lambda message: begun.set() if message.kind == "stream" else None
    kernel.client.execute(stubborn, message_id="m")
    with fail_after():
        await begun.wait()
        await kernel.interrupt()
        kernel.process.kill_tree("the cell ran longer than cell_timeout_s=30")
        ended = await kernel.wait()
    assert ended.cause == "killed"
    assert "cell_timeout_s=30" in ended.message


@pytest.mark.parametrize(
    ("code", "cause", "number", "told"),
    [
        ("import os; os._exit(3)", "exit", 3, "code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal", signal.SIGKILL, "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "signal", signal.SIGSEGV, "native code (SIGSEGV)"),
    ],
)
async def test_a_death_is_told_with_its_cause(
    kernel: Any, run_cell: Any, code: str, cause: str, number: int, told: str
) -> None:
    heard: list[bytes] = []
    await run_cell(kernel, "pass")
    kernel.client.on_message = lambda message: heard.append(message.content)
    kernel.client.execute(f"print('last words', flush=True)\n{code}", message_id="m")
    with fail_after():
        ended = await kernel.wait()
    assert ended.cause == cause
    assert (ended.code if cause == "exit" else ended.signal) == number
    assert told in ended.message
    assert ended.next_step
    assert any(b"last words" in content for content in heard)


async def test_a_crash_in_native_code_says_where(kernel: Any) -> None:
    kernel.client.execute("import ctypes\ndef dive(): ctypes.string_at(0)\ndive()", message_id="m")
    with fail_after():
        ended = await kernel.wait()
    assert "in dive" in ended.exit_output


async def test_a_request_to_a_kernel_that_dies_fails_at_once(kernel: Any) -> None:
    kernel.client.execute("import os; os._exit(1)", message_id="m")
    with fail_after(), pytest.raises(KernelGone, match="exited by itself with code 1"):
        await kernel.client.request("kernel_info_request", {}, timeout_s=LIMIT_S)
    with pytest.raises(KernelGone):
        kernel.client.execute("1", message_id="n")


async def test_completion_and_object_help_answer(kernel: Any, run_cell: Any) -> None:
    live = "class Row:\n    def __getattr__(self, name): return 1\n    def __dir__(self): return ['column', 'count']"
    await run_cell(kernel, f"apple_count = 3\nimport os, json, xml.dom.minidom as dom\n{live}\nrow = Row()")
    expected = {
        "apple_c": (0, ["apple_count"]),
        "x = json.dum": (9, ["dump", "dumps"]),
        "os.path.isa": (8, ["isabs"]),
        "dom.parseS": (4, ["parseString"]),
        "row.co": (4, ["column", "count"]),
    }
    for code, (start, matches) in expected.items():
        completion = {"code": code, "cursor_pos": len(code)}
        reply = await kernel.client.request("complete_request", completion, timeout_s=LIMIT_S)
        assert (reply["cursor_start"], reply["matches"]) == (start, matches), code
    reply = await kernel.client.request(
        "inspect_request", {"code": "len", "cursor_pos": 3}, timeout_s=LIMIT_S
    )
    assert reply["found"]


async def test_a_cell_whose_question_nobody_answers_is_told_what_to_do_instead(
    kernel: Any, run_cell: Any
) -> None:
    ran = await run_cell(kernel, "input('Your name: ')")
    assert ran.reply["ename"] == "InputUnavailable"
    assert "'Your name:'" in ran.reply["evalue"]
    assert "assign it to a variable" in ran.reply["evalue"]
    ran = await run_cell(
        kernel, "import getpass\ntry: getpass.getpass()\nexcept EOFError as error: print(error)"
    )
    assert "pass_environment" in ran.text()


async def test_a_stopped_kernel_leaves_no_process_and_no_file(
    server: Any, launch_on: Any, run_cell: Any
) -> None:
    kernel = await launch_on(server)
    code = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\nchild.pid"
    child = int((await run_cell(kernel, code)).result)
    daemon = int((await run_cell(kernel, DAEMON)).text())
    assert {child, daemon} <= set(kernel.process.descendants())
    with fail_after():
        await kernel.stop(grace_s=10)
    await none_left(child, daemon, kernel.process.pid)
    assert not kernel.directory.exists()


async def test_a_crashed_kernel_leaves_no_process(server: Any, launch_on: Any, run_cell: Any) -> None:
    kernel = await launch_on(server)
    daemon = int((await run_cell(kernel, DAEMON)).text())
    os.kill(kernel.process.pid, signal.SIGKILL)
    with fail_after():
        await kernel.wait()
    await none_left(daemon)
    assert not kernel.directory.exists()


DAEMON = """
import os, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "1000"])
    os.write(write, str(pid).encode())
    os._exit(0)
os.wait()
print(os.read(read, 20).decode())
"""


async def none_left(*pids: int) -> None:
    """Wait until no such process runs; one that is dead but not buried does not."""
    with fail_after():
        for pid in pids:
            while _runs(pid):
                await look_again()


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def test_a_kernel_enters_its_session_without_a_trace(
    server: Any, launch_on: Any, run_cell: Any, tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text("value = 'imported from the working directory'")
    kernel = await launch_on(server, cwd=tmp_path, environment={"COLOUR": "blue"})
    before = await run_cell(kernel, "sorted(globals())", silent=False)
    assert "cellwright" not in before.result
    assert before.reply["execution_count"] == 1
    names = "[name for name in globals() if not name.startswith('_')]"
    assert (await run_cell(kernel, names)).result == "['In', 'Out', 'get_ipython', 'exit', 'quit']"
    assert (await run_cell(kernel, "import os; os.getcwd()")).result == repr(str(tmp_path))
    assert (await run_cell(kernel, "os.environ['COLOUR']")).result == "'blue'"
    assert "working directory" in (await run_cell(kernel, "import beside; beside.value")).result
    await kernel.stop(grace_s=0)


async def test_a_missing_working_directory_is_a_start_error(
    server: Any, launch_on: Any, tmp_path: Path
) -> None:
    with pytest.raises(KernelStartError, match="No such file or directory"):
        await launch_on(server, cwd=tmp_path / "nowhere")


async def test_the_kernel_looks_like_an_ordinary_one(kernel: Any, run_cell: Any) -> None:
    asked = "import sys\ntype(get_ipython()).__name__, open.__module__, sys.stdin.read(), 'cellwright' in sys.modules"
    assert (await run_cell(kernel, asked)).result == "('ZMQInteractiveShell', 'io', '', False)"
    patched = "from unittest import mock\nwith mock.patch('builtins.open') as fake:\n  open('x')\nfake.called"
    assert (await run_cell(kernel, patched)).result == "True"


async def test_siblings_draw_different_random_numbers(server: Any, launch_on: Any, run_cell: Any) -> None:
    draw = "import random, numpy as np; (random.random(), np.random.rand(), np.random.default_rng().random())"
    first, second = await launch_on(server), await launch_on(server)
    drawn = [eval((await run_cell(kernel, draw)).result) for kernel in (first, second)]  # noqa: S307  # our numbers
    assert not set(drawn[0]) & set(drawn[1])
    for kernel in (first, second):
        await kernel.stop(grace_s=0)


async def test_a_figure_arrives_as_png_without_any_magic(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);")
    (display,) = ran.of("display_data")
    assert display["data"]["image/png"].startswith("iVBOR")


async def test_forked_workers_compute_and_print(kernel: Any, run_cell: Any) -> None:
    code = """
import multiprocessing
def work(n):
    print("worker", n, flush=True)
    return n * n
with multiprocessing.get_context("fork").Pool(2) as pool:
    squares = pool.map(work, range(4))
squares
"""
    ran = await run_cell(kernel, code)
    assert ran.result == "[0, 1, 4, 9]"
    assert sorted(ran.text().split()) == sorted(["worker", "0", "worker", "1", "worker", "2", "worker", "3"])


async def test_an_exception_that_cannot_be_printed_still_ends_the_cell(kernel: Any, run_cell: Any) -> None:
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad"
    assert (await run_cell(kernel, code)).reply["status"] == "error"
    assert (await run_cell(kernel, "1")).result == "1"


async def test_a_kernel_remembers_nothing_of_what_it_printed(kernel: Any, run_cell: Any) -> None:
    peak = "__import__('resource').getrusage(0).ru_maxrss"
    await run_cell(kernel, f"for _ in range(100): print('x' * 999_999)\nbefore = {peak}")
    ran = await run_cell(kernel, f"for _ in range(100): print('y' * 999_999)\n{peak} - before")
    assert int(ran.result) < 20_000

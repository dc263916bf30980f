"""Output is capped inside the kernel: head and tail kept, the rest counted, and nothing lost below the limit."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright_kernel._outputs import Budget, HeldText, Limits, utf8_length
from tests.matrix import first_of
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

MARKER = re.compile(
    r"\n\[cellwright: ([\d,]+) bytes in ([\d,]+) writes dropped here; limit (\w+)=([\d,]+)\]\n"
)


MANY = first_of([2_000, 10_000], 1)


@pytest.mark.parametrize("count", MANY)
async def test_many_flushed_prints_all_arrive(kernel: Any, run_cell: Any, count: int) -> None:
    ran = await run_cell(kernel, f"for i in range({count}): print(i, flush=True)")
    assert ran.text() == "".join(f"{i}\n" for i in range(count))
    assert ran.account["dropped_bytes"] == ran.account["dropped_messages"] == 0


async def test_what_is_displayed_arrives_before_what_is_printed_after_it(kernel: Any, run_cell: Any) -> None:
    # The thread that sends is kept busy, and then sends the text by its clock before it looks at what waits.
    code = """
import sys, threading
thread, begun, held = get_ipython().kernel.iopub_thread, threading.Event(), threading.Event()
thread.io_loop.add_callback(lambda: (begun.set(), held.wait(), sys.stdout._flush()))
begun.wait()
display('shown first')
print('printed next')
held.set()
"""
    ran = await run_cell(kernel, code)
    said = [kind for kind, content in ran.outputs]
    assert said == ["display_data", "stream"], ran.outputs


@pytest.mark.parametrize("count", MANY)
async def test_many_displays_all_arrive(kernel: Any, run_cell: Any, count: int) -> None:
    ran = await run_cell(kernel, f"for i in range({count}): display(i)")
    assert [content["data"]["text/plain"] for content in ran.of("display_data")] == [
        str(i) for i in range(count)
    ]


async def test_a_huge_print_keeps_its_head_and_its_tail(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "print('the beginning' + 'x' * 100_000_000 + 'the end')")
    head, dropped, _, limit, value, tail = MARKER.split(ran.text())
    assert head.startswith("the beginning")
    assert tail.endswith("the end\n")
    assert (limit, value) == ("max_output_bytes", "1,000,000")
    assert len(head) + len(tail) <= 1_000_000
    assert len(head) + len(tail) + int(dropped.replace(",", "")) == 100_000_000 + 21
    assert ran.account["dropped_bytes"] == int(dropped.replace(",", ""))
    assert ran.account["limit"] == "max_output_bytes"


async def test_a_huge_print_takes_no_memory(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, "import resource\ntext = 'x' * 100_000_000\nprint('warm')")
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    ran = await run_cell(kernel, f"before = {peak}\nprint('a small one'); print(text)\n{peak} - before")
    assert int(ran.result) < 20_000


async def test_many_small_prints_count_every_write(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "for i in range(50_000): print(f'{i:039d}')")
    head, dropped, _, _, _, tail = MARKER.split(ran.text())
    assert head.startswith(f"{0:039d}\n{1:039d}\n")
    assert tail.endswith(f"{49_998:039d}\n{49_999:039d}\n")
    assert len(head) + len(tail) + int(dropped.replace(",", "")) == 2_000_000


async def test_both_streams_and_raw_writes_share_one_account(kernel: Any, run_cell: Any) -> None:
    code = """
import os, sys
for _ in range(10):
    print("o" * 100_000)
    print("e" * 100_000, file=sys.stderr)
    os.write(1, b"r" * 50_000)
"""
    ran = await run_cell(kernel, code)
    kept = len(MARKER.sub("", ran.text())) + len(MARKER.sub("", ran.text("stderr")))
    assert kept <= 1_000_000
    assert kept + ran.account["dropped_bytes"] == 10 * 250_002


async def test_what_subprocesses_and_raw_writes_say_arrives_in_order(kernel: Any, run_cell: Any) -> None:
    code = """
import os, subprocess, sys
os.system("echo one")
print("two")
subprocess.run(["echo", "three"])
subprocess.run(["echo", "four"], stdout=sys.stdout)
for i in range(500):
    os.write(1, f"raw {i}\\n".encode())
    print("print", i)
"""
    expected = "one\ntwo\nthree\nfour\n" + "".join(f"raw {i}\nprint {i}\n" for i in range(500))
    assert (await run_cell(kernel, code)).text() == expected


async def test_a_print_waits_for_a_raw_write_that_was_read_and_not_yet_taken_in(
    kernel: Any, run_cell: Any
) -> None:
    code = """
import os, sys, threading, time
read, admit = threading.Event(), sys.stdout._admit
def slowly(text):
    read.set()
    time.sleep(0.1)  # long enough for a print that does not wait
    admit(text)
sys.stdout._admit = slowly
os.write(1, b"raw\\n")
read.wait()
print("printed")
del sys.stdout._admit
"""
    assert (await run_cell(kernel, code)).text() == "raw\nprinted\n"


async def test_a_character_written_in_pieces_arrives_whole(kernel: Any, run_cell: Any) -> None:
    code = "import os, sys\nfor byte in 'ü🐍'.encode(): os.write(1, bytes([byte])); sys.stdout.flush()"
    assert (await run_cell(kernel, code)).text() == "ü🐍"


async def test_an_oversize_display_keeps_its_small_forms(kernel: Any, run_cell: Any) -> None:
    code = "display({'image/png': 'x' * 3_000_000, 'text/plain': 'a figure'}, raw=True)"
    ran = await run_cell(kernel, code)
    assert [content["data"] for content in ran.of("display_data")] == [{"text/plain": "a figure"}]
    assert ran.account["dropped_bytes"] >= 3_000_000


async def test_an_oversize_display_without_small_forms_gets_a_stand_in(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "display({'image/png': 'x' * 3_000_000}, raw=True)\n'y' * 2_000_000")
    (display,), (result,) = ran.of("display_data"), ran.of("execute_result")
    assert "display dropped (image/png of 3,000,004 bytes); limit max_output_bytes=1,000,000" in str(
        display["data"]
    )
    assert "display dropped (text/plain" in str(result["data"])


async def test_output_goes_on_live_after_an_oversize_display(kernel: Any) -> None:
    live = anyio.Event()
    kernel.client.on_message = lambda message: live.set() if b"progress" in message.content else None
    code = "display({'image/png': 'x' * 3_000_000}, raw=True)\nprint('prog' + 'ress', flush=True)\n"
    kernel.client.execute(code + "import time; time.sleep(1000)", message_id="m")
    with fail_after():
        await live.wait()
        await kernel.interrupt()


async def test_a_figure_after_a_flood_is_kept(kernel: Any, run_cell: Any) -> None:
    code = "print('x' * 5_000_000)\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    ran = await run_cell(kernel, code)
    assert len(ran.of("display_data")) == 1


async def test_too_many_messages_are_dropped_and_counted(server: Any, launch_on: Any, run_cell: Any) -> None:
    from cellwright.kernels.kernel import OutputLimits

    kernel = await launch_on(server, limits=OutputLimits(max_bytes=1_000_000, max_messages=100))
    ran = await run_cell(kernel, "for i in range(1_000): display(i)")
    shown = [int(content["data"]["text/plain"]) for content in ran.of("display_data")]
    assert len(shown) == 100
    assert shown[0] == 0
    assert shown[-1] == 999
    assert ran.account["dropped_messages"] == 900
    assert "limit max_output_messages=100" in ran.text()
    ran = await run_cell(kernel, "for i in range(1_000): print(i, flush=True)")
    assert len(ran.outputs) <= 101
    assert ran.text().startswith("0\n1\n")
    assert ran.text().endswith("998\n999\n")
    await kernel.stop(grace_s=0)


async def test_a_huge_error_is_cut_on_both_channels(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "raise ValueError('v' * 20_000_000)")
    for content in (ran.of("error")[0], ran.reply):
        assert len(content["evalue"]) < 200_000
        assert sum(map(len, content["traceback"])) < 300_000
    assert (await run_cell(kernel, "1")).result == "1"


async def test_a_flood_before_an_error_is_released_before_it(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "print('x' * 5_000_000 + 'the end')\n1 / 0")
    assert [kind for kind, _ in ran.outputs][-1] == "error"
    assert "the end" in ran.text()


async def test_threads_may_flood_together(kernel: Any, run_cell: Any) -> None:
    code = """
from threading import Thread
def shout():
    for _ in range(2_000): print("x" * 999)
threads = [Thread(target=shout) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    ran = await run_cell(kernel, code)
    assert len(MARKER.sub("", ran.text())) + ran.account["dropped_bytes"] == 16_000_000


async def test_the_next_cell_has_an_account_of_its_own(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, "print('x' * 5_000_000)")
    ran = await run_cell(kernel, "print('fresh')")
    assert ran.text() == "fresh\n"
    assert ran.account["output_bytes"] == 6


async def test_a_thread_that_outlives_its_cell_is_capped_too(kernel: Any, run_cell: Any) -> None:
    code = """
import threading
go, over = threading.Event(), threading.Event()
def shout():
    go.wait()
    for _ in range(100): print("z" * 99_999, flush=True)
    over.set()
threading.Thread(target=shout).start()
"""
    await run_cell(kernel, code)
    ran = await run_cell(kernel, "_ = go.set(), over.wait()")
    assert "z" in ran.text()
    assert len(ran.text()) < 1_001_000


def test_text_after_the_cells_end_passes_up_to_the_limit_and_then_one_line_says_so() -> None:
    budget = Budget(Limits(1_000, 100))
    budget.admit_text("stdout", "x" * 900)
    budget.release()
    budget.closed = True
    assert budget.admit_text("stdout", "y" * 50) == "y" * 50
    assert "output after the cell's end is dropped" in budget.admit_text("stdout", "y" * 60)
    assert not budget.admit_text("stdout", "y")
    assert budget.lost.bytes == 61


texts = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(max_size=300)), max_size=60)


@settings(deadline=None)
@given(texts, st.integers(100, 3_000))
def test_every_byte_passes_or_waits_or_is_counted(written: list[tuple[str, str]], max_bytes: int) -> None:
    budget = Budget(Limits(max_bytes, 1_000))
    passed = sum(utf8_length(budget.admit_text(name, text)) for name, text in written)
    _, marker, held = budget.release()
    total = sum(utf8_length(text) for _, text in written)
    kept = passed + sum(item.size for item in held)
    assert kept <= max_bytes
    assert kept + budget.lost.bytes == total
    assert bool(marker) == (kept < total)
    if total <= max_bytes:
        assert kept == total


@settings(deadline=None)
@given(texts, st.integers(100, 3_000))
def test_what_is_kept_is_how_the_output_began_and_ended(
    written: list[tuple[str, str]], max_bytes: int
) -> None:
    budget = Budget(Limits(max_bytes, 1_000))
    head = "".join(budget.admit_text("stdout", text) for _, text in written)
    _, _, held = budget.release()
    tail = "".join(item.text for item in held if isinstance(item, HeldText))
    whole = "".join(text for _, text in written)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    if utf8_length(whole) > max_bytes:
        # No more is given up than the chunk that did not fit and the pieces of characters at the cuts.
        assert utf8_length(head + tail) >= max_bytes - 4 * max(1, max_bytes // 32) - 8

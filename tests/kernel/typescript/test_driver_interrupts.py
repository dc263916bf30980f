"""Interrupts: whatever a cell does, it ends, and what was there before is there after."""

from __future__ import annotations

import pytest

from tests.kernel.typescript.conftest import Driver
from tests.matrix import first_of
from tests.waiting import LIMIT_S

# BEGUN is where a loop says that it is at it, if that is not at once: interrupted before, it would be no loop yet.
LOOPS = {
    "synchronous": "while (true);",
    "inside of a function": "function spin() { for (;;); }\nspin();",
    "after an await": "await null; while (true);",
    "after a timer": "await new Promise((r) => setTimeout(r, 1)); while (true);",
    "after a file was read": "await Deno.readTextFile(Deno.execPath().replace(/./g, '') || '/etc/hostname').catch(() => 0); BEGUN; while (true);",
    "of microtasks": "while (true) await null;",
    "of sleeps": "while (true) await new Promise((r) => setTimeout(r, 1));",
    "that catches everything": "for (;;) { try { for (;;); } catch { /* never */ } finally { for (;;); } }",
    "in a timer": "setTimeout(() => { BEGUN; for (;;); }, 1); await new Promise(() => {});",
    "in an immediate": "setImmediate(() => { BEGUN; for (;;); }); await new Promise(() => {});",
    "in a listener": "const t = new EventTarget(); t.addEventListener('x', () => { for (;;); }); t.dispatchEvent(new Event('x'));",
    "in a display": "({ [Symbol.for('Jupyter.display')]() { for (;;); } })",
    "in a regular expression": "/^(a+)+$/.test('a'.repeat(50) + 'b')",
    "that prints": "for (;;) console.log('again');",
    "that awaits for ever": "await new Promise(() => {});",
}


@pytest.mark.parametrize("loop", first_of(LOOPS.values(), 6), ids=LOOPS.keys())
def test_loop_is_interrupted_and_state_is_kept(own_driver: Driver, loop: str) -> None:
    own_driver.value("let kept = 41;")
    begun = "console.log('begun')"
    code = loop.replace("BEGUN", begun) if "BEGUN" in loop else f"{begun};\n{loop}"
    for _ in range(3):
        ran = own_driver.interrupt(own_driver.start(code))
        assert ran.reply["status"] == "error"
        assert ran.reply["ename"] == "KeyboardInterrupt"
        assert own_driver.value("kept + 1") == "42"


@pytest.mark.parametrize("interrupts", [10, pytest.param(50, marks=pytest.mark.matrix)])
def test_many_interrupts_of_each_kind_leave_a_working_kernel(own_driver: Driver, interrupts: int) -> None:
    own_driver.value("let kept = 41;")
    for loop in ("while (true);", "await new Promise(() => {});"):
        for _ in range(interrupts):
            own_driver.interrupt(own_driver.start(f"console.log('begun');\n{loop}"))
    # What the cells waited for is collected now.
    own_driver.value("let heaps = []; for (let i = 0; i < 40; i++) heaps = new Array(1e6).fill(i);")
    assert own_driver.value("kept + 1") == "42"


def test_interrupt_without_a_cell_does_nothing(driver: Driver) -> None:
    assert driver.finish(driver.send("interrupt_request", {}, "control")).reply == {"status": "ok"}
    assert driver.value("'undisturbed'") == '"undisturbed"'


def test_cells_that_wait_run_after_an_interrupt(driver: Driver) -> None:
    first = driver.start("console.log('begun'); while (true);")
    second = driver.send("execute_request", {"code": "'next'"})
    driver.send("interrupt_request", {}, "control")
    assert driver.finish(first).reply["ename"] == "KeyboardInterrupt"
    assert driver.finish(second).result == '"next"'


def test_sleeping_loop_says_nothing_more_after_its_interrupt(driver: Driver) -> None:
    request = driver.start(
        "let n = 0; while (true) { console.log('n', n++); await new Promise((r) => setTimeout(r, 1)); }"
    )
    driver.interrupt(request)
    later = driver.run("await new Promise((r) => setTimeout(r, 30)); 'quiet'")
    assert [each["parent"] for each in later.messages if each["kind"] == "stream"] == []


def test_interrupted_cell_gets_no_more_timers(driver: Driver) -> None:
    gate = "let resume; const gate = new Promise((r) => resume = r); console.log('begun');\n"
    driver.interrupt(
        driver.start(
            f"{gate}await gate; setTimeout(() => console.log('back'), 0); await new Promise(() => {{}});"
        )
    )
    later = driver.run("resume(); await new Promise((r) => setTimeout(r, 20));")
    assert "back" not in later.stdout


def test_shutdown_ends_the_process_also_while_a_cell_computes(own_driver: Driver) -> None:
    own_driver.start("console.log('begun'); while (true);")
    own_driver.send("shutdown_request", {"restart": False}, "control")
    assert own_driver.process.wait(LIMIT_S) == 0


def test_end_of_the_hosts_line_ends_the_process(own_driver: Driver) -> None:
    own_driver.start("console.log('begun'); while (true);")
    assert own_driver.process.stdin is not None
    own_driver.process.stdin.close()
    assert own_driver.process.wait(LIMIT_S) == 0


def test_cells_get_neither_the_inspector_nor_its_address(start_driver: object) -> None:
    driver = start_driver(flags=("--allow-read", "--allow-sys=inspector", "--allow-net=127.0.0.1"))  # type: ignore[operator]
    assert driver.run("import { url } from 'node:inspector'; url()").reply["status"] == "error"

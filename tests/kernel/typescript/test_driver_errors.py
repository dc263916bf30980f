"""Errors: their names, places and causes, and those that nobody catches."""

from __future__ import annotations

import pytest

from tests.kernel.typescript.conftest import Driver
from tests.waiting import LIMIT_S


def test_error_tells_line_column_and_the_line_itself(driver: Driver) -> None:
    ran = driver.run("const fine = 1;\nfunction bad() {\n  return undefined!.x;\n}\nbad();")
    number = ran.reply["execution_count"]
    assert ran.reply["ename"] == "TypeError"
    assert ran.reply["evalue"] == "Cannot read properties of undefined (reading 'x')"
    assert ran.reply["traceback"] == [
        "TypeError: Cannot read properties of undefined (reading 'x')",
        f"    at bad (cell {number}:3:21)",
        f"    at cell {number}:5:1",
        "",
        f"cell {number}, line 3, column 21:",
        "    return undefined!.x;",
        "                      ^",
    ]
    assert ran.metadata["place"] == {"cell": f"cell {number}", "line": 3, "column": 21}
    assert ran.contents("error")[0]["traceback"] == ran.reply["traceback"]


@pytest.mark.parametrize(
    "first", ["", "enum Moves { Lines }\n", "class P { constructor(public x: number) {} }\n"]
)
def test_first_lines_column_is_the_cells_own(driver: Driver, first: str) -> None:
    ran = driver.run(f"{first}let q = 1; throw new Error('x')")
    assert ran.metadata["place"]["line"] == first.count("\n") + 1
    assert ran.metadata["place"]["column"] == 18


def test_error_from_an_earlier_cell_names_that_cell(driver: Driver) -> None:
    defined = driver.run("function thrower() {\n  throw new Error('old');\n}").reply["execution_count"]
    ran = driver.run("\n\nthrower()")
    assert f"at thrower (cell {defined}:2:9)" in ran.traceback
    assert f"at cell {ran.reply['execution_count']}:3:1" in ran.traceback
    assert "  throw new Error('old');" in ran.traceback


def test_no_frame_of_the_driver_is_shown(driver: Driver) -> None:
    for code in (
        "throw new Error('x')",
        "await (async () => { throw new Error('y') })()",
        "import './none.ts'",
    ):
        assert "cellwright_kernel" not in driver.run(code).traceback
        assert "ext:" not in driver.run(code).traceback


def test_frame_after_an_await_is_told(driver: Driver) -> None:
    ran = driver.run("async function inner() {\n  await null;\n  throw new Error('late');\n}\nawait inner();")
    number = ran.reply["execution_count"]
    assert f"at inner (cell {number}:3:9)" in ran.traceback
    assert f"at async cell {number}:5:1" in ran.traceback


@pytest.mark.parametrize(
    ("code", "language", "line", "column", "word"),
    [
        ("let ok = 1;\nlet bad = ;", "typescript", 2, 11, "let bad = ;"),
        ("let ok = 1;\nlet bad = ;", "javascript", 2, 11, "let bad = ;"),
        ("const x: = 3", "typescript", 1, 10, "const x: = 3"),
        ("function f( {\n", "javascript", 2, 1, ""),
        ("import { from 'x'", "typescript", 1, 15, "import { from 'x'"),
    ],
)
def test_syntax_error_tells_its_place(
    driver: Driver, code: str, language: str, line: int, column: int, word: str
) -> None:
    ran = driver.run(code, language=language)
    assert ran.reply["ename"] == "SyntaxError"
    assert (ran.metadata["place"]["line"], ran.metadata["place"]["column"]) == (line, column)
    assert word in ran.traceback
    assert "stripTypeScriptTypes" not in ran.traceback


def test_nothing_of_a_cell_with_a_syntax_error_runs(driver: Driver) -> None:
    assert driver.run("console.log('ran')\nlet bad = ;").stdout == ""


@pytest.mark.parametrize(
    ("thrown", "evalue"),
    [
        ("'text'", "text"),
        ("42", "42"),
        ("null", "null"),
        ("undefined", "undefined"),
        ("{ code: 7 }", "{ code: 7 }"),
        ("5n", "5n"),
    ],
)
def test_thrown_value_that_is_no_error_is_shown(driver: Driver, thrown: str, evalue: str) -> None:
    ran = driver.run(f"throw {thrown}")
    assert (ran.reply["ename"], ran.reply["evalue"]) == ("Uncaught", evalue)


def test_own_error_class_is_named(driver: Driver) -> None:
    ran = driver.run("class Odd extends Error { name = 'Odd' }\nthrow new Odd('strange')")
    assert (ran.reply["ename"], ran.reply["evalue"]) == ("Odd", "strange")


def test_causes_are_told(driver: Driver) -> None:
    ran = driver.run("throw new Error('outer', { cause: new TypeError('inner', { cause: 'deep' }) })")
    assert "Caused by: TypeError: inner" in ran.traceback
    assert "Caused by: deep" in ran.traceback.replace('"', "")


def test_cause_that_is_its_own_cause_is_told_once(driver: Driver) -> None:
    ran = driver.run("const round = new Error('round'); round.cause = round; throw round")
    assert "Caused by: [Circular]" in ran.traceback


def test_all_errors_of_an_aggregate_are_told(driver: Driver) -> None:
    ran = driver.run("await Promise.any([Promise.reject(new Error('one')), Promise.reject('two')])")
    assert ran.reply["ename"] == "AggregateError"
    assert "[0] Error: one" in ran.traceback
    assert "[1] " in ran.traceback
    assert "two" in ran.traceback


def test_error_whose_parts_throw_is_told_all_the_same(driver: Driver) -> None:
    ran = driver.run(
        "throw Object.create(Error.prototype, { message: { get() { throw 1 } }, stack: { get() { throw 2 } } })"
    )
    assert ran.reply["status"] == "error"
    assert driver.value("1") == "1"


def test_huge_message_is_cut(driver: Driver) -> None:
    ran = driver.run("throw new Error('x'.repeat(1e6))")
    assert len(ran.reply["evalue"]) < 100_000
    assert "characters dropped here" in ran.reply["evalue"]


def test_rejection_that_nobody_handles_is_told_by_its_cell(driver: Driver) -> None:
    # A timer that is due at once may come before what nobody handles; the next one does not.
    wait = "for (const _ of [1, 2]) await new Promise((r) => setTimeout(r, 5));"
    ran = driver.run(f"Promise.reject(new Error('alone')); {wait} 'on'")
    assert ran.result == '"on"'
    assert ran.stderr.startswith("Uncaught (in promise) Error: alone\n    at cell ")


def test_error_in_a_timer_is_told_by_the_cell_that_set_it(driver: Driver) -> None:
    code = "let strike; const stroke = new Promise((r) => strike = r);\nstroke.then(() => setTimeout(() => { throw new Error('timed') }, 1)); undefined"
    first = driver.send("execute_request", {"code": code})
    driver.finish(first)
    # Only then is the timer of the first cell set, before the one of this cell.
    ran = driver.run("strike(); await stroke; await new Promise((r) => setTimeout(r, 20));")
    (said,) = (each for each in ran.messages if each["kind"] == "stream")
    assert said["parent"] == first
    assert said["content"]["name"] == "stderr"
    assert said["content"]["text"].startswith("Uncaught Error: timed\n    at cell ")
    assert driver.value("'alive'") == '"alive"'


def test_words_of_a_timer_belong_to_the_cell_that_set_it(driver: Driver) -> None:
    first = driver.send(
        "execute_request",
        {"code": "let release; new Promise((r) => release = r).then(() => console.log('late'));"},
    )
    driver.finish(first)
    second = driver.run("release(); await new Promise((r) => setTimeout(r, 5)); console.log('own')")
    spoken = {each["content"]["text"]: each["parent"] for each in second.messages if each["kind"] == "stream"}
    assert spoken["late\n"] == first
    assert spoken["own\n"] != first


def test_stack_that_a_cell_prints_has_the_cells_lines(driver: Driver) -> None:
    ran = driver.run("enum Shift { A }\n\nconsole.log(new Error('printed').stack)")
    assert f"at cell {ran.reply['execution_count']}:3:13" in ran.stdout


def test_promise_that_can_never_settle_ends_the_cell_when_v8_finds_out(own_driver: Driver) -> None:
    request = own_driver.send("execute_request", {"code": "await new Promise(() => {})"})
    own_driver.wait_for(lambda message: message["kind"] == "execute_input")
    ran = own_driver.interrupt(request)
    assert ran.reply["ename"] == "KeyboardInterrupt"
    # Many of them, so that V8 collects what they waited for: that once ended the process.
    filled = own_driver.run(
        "let heaps = []; for (let i = 0; i < 40; i++) heaps = new Array(1e6).fill(i); heaps.length"
    )
    assert filled.result == "1000000"


@pytest.mark.parametrize("call", ["Deno.exit(3)", "process.exit(3)"])
def test_exit_of_a_cell_ends_the_process_with_its_code_and_a_word(own_driver: Driver, call: str) -> None:
    own_driver.send("execute_request", {"code": f"console.log('before'); {call}"})
    with pytest.raises(EOFError):
        own_driver.wait_for(lambda message: message["content"].get("execution_state") == "idle")
    assert own_driver.process.wait(LIMIT_S) == 3
    own_driver._threads[1].join()
    assert "Deno.exit(3) was called" in own_driver.last_words

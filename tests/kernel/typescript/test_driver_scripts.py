"""The driver runs a whole program as `deno run` would: as a module, to the end of its event loop, with an exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine.hidden_sessions import script_cell
from tests.kernel.typescript.conftest import Driver, Ran, StartDriver
from tests.waiting import LIMIT_S

RunScript = Callable[..., Ran]


@pytest.fixture
def run_script(start_driver: StartDriver) -> RunScript:
    def run(code: str, *argv: str, language: str = "typescript") -> Ran:
        return start_driver().run(script(code, f"script.{language[0]}s", *argv), language=language)

    return run


def script(code: str, name: str = "script.ts", *argv: str) -> str:
    """The cell that runs a program."""
    cell = script_cell("deno", code, name, argv)
    assert cell is not None
    return cell


def exit_code(ran: Ran) -> int:
    code: int = ran.metadata["exit_code"]
    return code


def test_last_expression_is_not_shown(run_script: RunScript) -> None:
    ran = run_script("console.log('said');\n1 + 1")
    assert (ran.stdout, ran.result, exit_code(ran)) == ("said\n", None, 0)


def test_console_methods_go_to_their_streams(run_script: RunScript) -> None:
    ran = run_script("console.log(1); console.error(2); console.warn(3); console.info(4);")
    assert (ran.stdout, ran.stderr) == ("1\n4\n", "2\n3\n")


def test_types_enums_and_decorators_are_compiled(run_script: RunScript) -> None:
    ran = run_script(
        "enum Size { Small = 3 }\n"
        "interface Box { size: Size }\n"
        "function marked(_: unknown, context: ClassDecoratorContext) { console.log(context.name) }\n"
        "@marked class Held implements Box { size = Size.Small }\n"
        "console.log(new Held().size satisfies number);\n"
    )
    assert ran.stdout == "Held\n3\n", ran.stderr


def test_imports_are_seen_from_the_working_directory(run_script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "beside.ts").write_text("export const beside: string = 'beside'; export default 5;\n")
    (tmp_path / "data.json").write_text('{"told": 7}')
    ran = run_script(
        "import five, { beside } from './beside.ts';\n"
        "import data from './data.json' with { type: 'json' };\n"
        "import { join } from 'path';\n"
        "import * as os from 'node:os';\n"
        "export { beside as again } from './beside.ts';\n"
        "const late = await import('./beside.ts');\n"
        "const built = await import('./besi' + 'de.ts');\n"
        "console.log(five, beside, data.told, join('a', 'b'), typeof os.cpus, late.default, built.default);\n"
    )
    assert ran.stdout == "5 beside 7 a/b function 5 5\n", ran.stderr


def test_program_knows_its_name_and_arguments(run_script: RunScript, tmp_path: Path) -> None:
    ran = run_script(
        "console.log(Deno.args.join(), process.argv.slice(1).join(), import.meta.main, import.meta.filename);",
        "one",
        "two",
    )
    assert ran.stdout == f"one,two {tmp_path}/script.ts,one,two true {tmp_path}/script.ts\n"


def test_commonjs_code_finds_what_it_takes_for_granted(run_script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text('{"a": 1}')
    ran = run_script(
        "const fs = require('fs');\n"
        "const { a } = require('./told.json');\n"
        "module.exports = { a };\n"
        "if (require.main === module) console.log(a, __dirname, fs.existsSync('told.json'));\n",
        language="javascript",
    )
    assert ran.stdout == f"1 {tmp_path} true\n", ran.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("Deno.exit(3)", 3),
        ("process.exit(4)", 4),
        ("process.exitCode = 5", 5),
        ("Deno.exitCode = 6", 6),
        ("setTimeout(() => Deno.exit(7), 5)", 7),
        ("Deno.exit()", 0),
        ("process.exitCode = 8; process.exit()", 8),
    ],
)
def test_exit_code_is_the_programs_own(run_script: RunScript, code: str, expected: int) -> None:
    ran = run_script(f"console.log('before');\n{code};\n")
    assert (exit_code(ran), ran.reply["status"], ran.stdout) == (expected, "ok", "before\n")


def test_nothing_below_an_exit_runs(run_script: RunScript, tmp_path: Path) -> None:
    ran = run_script(
        "setTimeout(() => Deno.writeTextFileSync('late', ''), 0);\n"
        "try { Deno.exit(2) } finally { console.log('finally'); Deno.writeTextFileSync('below', '') }\n"
    )
    assert (exit_code(ran), ran.stdout) == (2, "")
    assert not (tmp_path / "below").exists()
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        ("\nthrow new RangeError('no')", "Uncaught (in promise) RangeError: no", 2),
        (
            "const a: number = 1;\n\nnull.x;",
            "Uncaught (in promise) TypeError: Cannot read properties of null",
            3,
        ),
        (
            "Promise.reject(new Error('later'));\nsetTimeout(() => console.log('never'), 600_000)",
            "Error: later",
            1,
        ),
        ("setTimeout(() => {\n  throw new Error('timed') })", "error: Uncaught Error: timed", 2),
        ("const x = ;", "Expression expected", 1),
        ("import './none.ts'", "Module not found", 1),
    ],
)
def test_uncaught_error_is_told_with_its_line_and_ends_the_program(
    run_script: RunScript, tmp_path: Path, code: str, said: str, line: int
) -> None:
    ran = run_script(code)
    assert exit_code(ran) == 1
    assert ran.stderr.startswith("error: ")
    assert said in ran.stderr
    assert f"{tmp_path}/script.ts:{line}:" in ran.stderr
    assert "blob:" not in ran.stderr
    assert "driver.mjs" not in ran.stderr
    assert "never" not in ran.stdout


def test_source_line_is_shown_with_a_mark(run_script: RunScript) -> None:
    ran = run_script("function f() {\n  throw new Error('here');\n}\nf();")
    assert "  throw new Error('here');\n        ^\n    at f (" in ran.stderr


@pytest.mark.parametrize(
    "listener",
    [
        "process.on('unhandledRejection', (error) => console.log('took', error.message));",
        "onunhandledrejection = (event) => console.log('took', event.preventDefault() ?? event.reason.message);",
    ],
)
def test_program_may_take_its_own_rejections(run_script: RunScript, listener: str) -> None:
    # A timer that is due at once may come before what nobody handles; the next one does not.
    later = "setTimeout(() => setTimeout(() => console.log('on'), 20), 20);"
    ran = run_script(f"{listener}\nPromise.reject(new Error('it'));\n{later}\n")
    assert (ran.stdout, exit_code(ran)) == ("took it\non\n", 0), ran.stderr


def test_timers_promises_and_events_are_waited_for(run_script: RunScript) -> None:
    ran = run_script(
        "import fs from 'node:fs';\n"
        "setTimeout(() => console.log('timer'), 20);\n"
        "let turns = 0;\n"
        "const each = setInterval(() => { if (++turns === 3) { clearInterval(each); console.log('turns') } }, 1);\n"
        "fs.writeFile('kept.txt', 'kept', () => fs.readFile('kept.txt', 'utf8', (_, text) => console.log(text)));\n"
        "process.on('exit', (code) => console.log('exit', code));\n"
        "addEventListener('unload', () => console.log('unload'));\n"
    )
    said = ran.stdout.split("\n")
    assert sorted(said[:3]) == ["kept", "timer", "turns"]
    assert said[3:] == ["exit 0", "unload", ""]


def test_timer_that_is_let_go_of_is_not_waited_for(run_script: RunScript) -> None:
    ran = run_script("Deno.unrefTimer(setTimeout(() => console.log('never'), 600_000)); console.log('over')")
    assert ran.stdout == "over\n"


@pytest.mark.parametrize(
    "question",
    [
        "prompt('name?')", "confirm('sure?')", "await Deno.stdin.read(new Uint8Array(1))", "Deno.stdin.readable",
        "process.stdin", "Deno.stdin.readSync(new Uint8Array(1))",
    ],
)  # fmt: skip
def test_question_is_refused(run_script: RunScript, question: str) -> None:
    ran = run_script(question)
    assert "nobody can be asked here" in ran.stderr
    assert exit_code(ran) == 1


def test_program_that_computes_for_ever_is_torn_off_with_what_it_said(own_driver: Driver) -> None:
    request = own_driver.send("execute_request", {"code": script("console.log('begun'); while (true);")})
    said = own_driver.wait_for(lambda message: message["kind"] == "stream")
    assert said[-1]["content"]["text"] == "begun\n"
    assert own_driver.interrupt(request).reply["ename"] == "KeyboardInterrupt"


def test_program_that_waits_for_ever_is_ended(own_driver: Driver) -> None:
    request = own_driver.send(
        "execute_request", {"code": script("setInterval(() => {}, 5); console.log('begun');")}
    )
    own_driver.wait_for(lambda message: message["kind"] == "stream")
    assert own_driver.interrupt(request).reply["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("code", ["Deno.exit(3)", "console.log('over')", "throw 1"])
def test_process_ends_soon_after_its_program(own_driver: Driver, code: str) -> None:
    own_driver.run(script(code))
    own_driver.send("shutdown_request", {"restart": False}, "control")
    own_driver.process.wait(LIMIT_S)


def test_thrown_value_that_is_no_error_is_shown(run_script: RunScript) -> None:
    ran = run_script("throw { code: 7 }")
    assert ran.stderr == "error: Uncaught (in promise) { code: 7 }\n"


def test_file_of_the_scripts_name_is_left_alone(run_script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "script.ts").write_text("export const mine = 1;\n")
    ran = run_script("import { mine } from './script.ts'; console.log(mine)")
    assert ran.stdout == "1\n"
    assert (tmp_path / "script.ts").read_text() == "export const mine = 1;\n"


def test_output_is_capped_as_a_cells_is(start_driver: StartDriver) -> None:
    ran = start_driver(max_bytes=10_000).run(
        "for (let i = 0; i < 1e5; i++) console.log('line ' + i)", script={}
    )
    assert len(ran.stdout) < 20_000
    assert ran.stdout.endswith("line 99999\n")
    dropped: Any = ran.metadata["dropped_bytes"]
    assert dropped > 0

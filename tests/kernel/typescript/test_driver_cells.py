"""State, declarations, languages and values of cells."""

from __future__ import annotations

import pytest

from tests.kernel.typescript.conftest import Driver
from tests.support.typescript.srcbook_examples import ANALYSIS, BENCHMARK, BUBBLE_SORT, QUICK_SORT, SALES


def test_sales_example_runs_as_written(driver: Driver) -> None:
    assert driver.run(SALES).stdout == "Data loaded: 3 months\n"
    assert driver.run(ANALYSIS).stdout.splitlines() == [
        "Q4 Summary:",
        "- Total Revenue: $445,000",
        "- Average Monthly: $148,333.333",
    ]
    assert driver.value("totalRevenue") == "445000"


def test_sorting_example_runs_as_written(driver: Driver) -> None:
    assert driver.value(BUBBLE_SORT) is None
    assert driver.value(QUICK_SORT) is None
    first, second = driver.run(BENCHMARK).stdout.splitlines()
    assert first.startswith("Bubble Sort: ")
    assert second.startswith("Quick Sort: ")
    assert (
        driver.value("JSON.stringify(bubbleSort([3, 1, 2])) === JSON.stringify(quickSort([2, 3, 1]))")
        == "true"
    )


def test_messages_of_a_cell_come_in_order(driver: Driver) -> None:
    ran = driver.run("console.log(1); 2")
    assert ran.kinds == ["status", "execute_input", "stream", "execute_result", "execute_reply", "status"]
    assert {message["parent"] for message in ran.messages} == {ran.messages[0]["parent"]}


def test_executions_are_counted_unless_they_are_silent(own_driver: Driver) -> None:
    assert own_driver.run("1").reply["execution_count"] == 1
    silent = own_driver.run("console.log('said'); 2", silent=True)
    assert silent.result is None
    assert silent.stdout == "said\n"
    assert own_driver.run("3", store_history=False).reply["execution_count"] == 1
    assert own_driver.run("4").reply["execution_count"] == 2


@pytest.mark.parametrize(
    "before", ["let {0} = 1", "const {0} = 1", "class {0} {{}}", "function {0}() {{}}", "var {0} = 1"]
)
@pytest.mark.parametrize(
    "after",
    [
        "let {0} = 2; {0}",
        "const {0} = 2; {0}",
        "const {{ {0} }} = {{ {0}: 2 }}; {0}",
        "var {0} = 2; {0}",
        "const f{0} = {0}(); function {0}() {{ return 2 }}; f{0}",
        "class {0} {{ static two = 2 }}; {0}.two",
    ],
)
def test_any_declaration_can_follow_any_other(driver: Driver, before: str, after: str) -> None:
    name = f"n{abs(hash((before, after)))}"
    driver.value(before.format(name))
    assert driver.value(after.format(name)) == "2"
    assert driver.value(before.format(name) + "; 7") == "7"


@pytest.mark.parametrize("statement", ["k = 2", "k += 1", "k++", "k ??= 3"])
def test_assigning_to_a_constant_in_plain_sight_is_refused(driver: Driver, statement: str) -> None:
    ran = driver.run(f"const k = 1;\n{statement}")
    assert (ran.reply["ename"], ran.reply["evalue"]) == ("TypeError", "Assignment to constant variable.")


def test_comparing_a_constant_is_not_assigning(driver: Driver) -> None:
    assert driver.value("const k = 1;\nk == 1") == "true"
    assert driver.value("const g = k;\n(k => k + 1)(g)") == "2"


def test_name_twice_in_one_cell_is_a_syntax_error(driver: Driver) -> None:
    ran = driver.run("let twice = 1; let twice = 2;", language="javascript")
    assert ran.reply["ename"] == "SyntaxError"
    assert "twice" in ran.reply["evalue"]


def test_declaration_that_failed_can_be_made_again(driver: Driver) -> None:
    assert driver.run("const broken = (() => { throw new Error('no') })()").reply["status"] == "error"
    assert driver.value("const broken = 3; broken") == "3"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("await Promise.resolve(5)", "5"),
        ("const slow = await new Promise<number>((resolve) => setTimeout(() => resolve(6), 1)); slow", "6"),
        ("for await (const each of (async function* () { yield 7 })()) each", "7"),
        ("1 + 1;", "2"),
        ("if (true) 5; else 6", "5"),
        ("{ a: 1 }", "{ a: 1 }"),
        ("{ a: 1, b: [1, 2] }", "{ a: 1, b: [ 1, 2 ] }"),
        ("// a comment\n{ a: 1 as number }", "{ a: 1 }"),
        ("{ let inner = 1; inner + 1 }", "2"),
        ("{}", "{}"),
        ("undefined", None),
        ("", None),
        ("// nothing", None),
        ("null", "null"),
        ("let unshown = 3", None),
        ("'text'", '"text"'),
        ("'use strict'; 4", "4"),
        ("`${1}${'`'}`", '"1`"'),
    ],
)
def test_result_is_that_of_a_repl(driver: Driver, code: str, result: str | None) -> None:
    assert driver.value(code) == result
    assert (
        driver.value(code.replace(" as number", "").replace("<number>", ""), language="javascript") == result
    )


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("enum Colour { Red = 1, Green }\nColour.Green", "2"),
        ("enum Word { Yes = 'y' }\nWord.Yes", '"y"'),
        ("const enum Fixed { One = 1 }\nFixed.One", "1"),
        ("namespace Space { export const inside = 3 }\nSpace.inside", "3"),
        (
            "class Point { constructor(public x: number, private y = 2) {} }\nnew Point(1)",
            "Point { x: 1, y: 2 }",
        ),
        ("const palette = { red: 1 } satisfies Record<string, number>; palette.red", "1"),
        ("const same = <T,>(value: T): T => value; same<number>(4)", "4"),
        ("function first<T extends unknown[]>(all: T) { return all[0] }\nfirst([5])", "5"),
        (
            "interface Shape { area(): number }\ntype Alias = Shape | null;\nlet shape: Alias = null; shape",
            "null",
        ),
        (
            "abstract class Base { abstract m(): void; declare y: number }\nclass Real extends Base { m() {} }\nnew Real()",
            "Real {}",
        ),
        ("(<any>'cast').length", "4"),
        ("const tuple = [1, 2] as const; tuple", "[ 1, 2 ]"),
        ("let maybe: { a?: number } = {}; maybe!.a ?? 6", "6"),
        ("function over(a: string): string;\nfunction over(a: any) { return a }\nover('x')", '"x"'),
        ("declare const ghost: number; 7", "7"),
        ("import alias = Math.max;\nalias(1, 8)", "8"),
    ],
)
def test_typescript_is_understood(driver: Driver, code: str, result: str) -> None:
    assert driver.value(code) == result


def test_decorators_are_those_of_the_standard(driver: Driver) -> None:
    seen = driver.run(
        "const log: string[] = [];\n"
        "function noted(value: any, { kind, name }: any) { log.push(`${kind} ${String(name)}`); return value }\n"
        "@noted class EarlyResponder {\n  @noted greet() { return 'hello' }\n  @noted accessor size = 3;\n  @noted field = 1;\n}\n"
        "log.join(', ')"
    )
    assert seen.result == '"method greet, accessor size, field field, class EarlyResponder"', seen.traceback
    assert driver.value("new EarlyResponder().greet() + new EarlyResponder().size") == '"hello3"'


def test_decorated_class_is_the_decorated_one_for_later_cells(driver: Driver) -> None:
    driver.value("function tag(C: any) { return class extends C { tagged = true } }\n@tag\nclass Plain {}")
    assert driver.value("(new Plain() as any).tagged") == "true"


def test_error_in_a_decorated_cell_tells_the_cells_line(driver: Driver) -> None:
    ran = driver.run(
        "function d(v: any) { return v }\n@d\nclass A {\n  @d m() {\n    throw new Error('here')\n  }\n}\nnew A().m()"
    )
    assert ran.metadata["place"]["line"] == 5
    assert "    throw new Error('here')" in ran.traceback


def test_cell_that_redeclares_the_world_harms_nobody_else(own_driver: Driver) -> None:
    names = own_driver.value(
        "Object.getOwnPropertyNames(globalThis).filter(name => /^[A-Za-z]\\w+$/.test(name)).join(' ')"
    )
    assert names is not None
    free = [name for name in names.strip('"').split() if name not in {"undefined", "NaN", "Infinity", "eval"}]
    assert {"Map", "JSON", "Deno", "console", "setTimeout"} <= set(free)
    assert own_driver.run("".join(f"let {name} = 0;" for name in free)).traceback == ""
    assert own_driver.value("[1, { a: 2 }]") == "[ 1, { a: 2 } ]"
    assert own_driver.run("enum E { A }\nnull.x").reply["ename"] == "TypeError"
    assert own_driver.ask("complete_request", code="free", cursor_pos=4)["status"] == "ok"
    assert own_driver.ask("cellwright_inspect_request")["status"] == "ok"
    assert own_driver.value("import { join } from 'node:path';\njoin('a', 'b')") == '"a/b"'


def test_strings_and_comments_are_left_alone(driver: Driver) -> None:
    code = "const text = `import x from 'y'; ${'export const a'} const b`; // import z from 'z'\n/* export */ text"
    assert driver.value(code) == "\"import x from 'y'; export const a const b\""


def test_unicode_passes_in_both_directions(driver: Driver) -> None:
    assert driver.run("console.log('héllo 😀 عربي')").stdout == "héllo 😀 عربي\n"
    assert driver.value("const größe = '日本'; größe.length") == "2"


def test_half_a_character_is_told_in_words(driver: Driver) -> None:
    assert driver.run("html`${'😀'[0]} \\\\ud83d`").data["text/html"] == "\\ud83d \\ud83d"


def test_named_cell_is_known_by_its_name(driver: Driver) -> None:
    ran = driver.run("\nthrow new Error('x')", filename="analysis.ts")
    assert "at analysis.ts:2:7" in ran.traceback

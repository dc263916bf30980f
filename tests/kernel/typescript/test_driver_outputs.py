"""What cells say and show: consoles, streams, rich display, and the cap on all of it."""

from __future__ import annotations

import base64

import pytest

from tests.kernel.typescript.conftest import Driver, StartDriver

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
FLOOD = "function flood() { for (let i = 0; i < 100; i++) console.log('z'.repeat(50)); }"


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        ("console.log('a', 1, { b: [2] })", "a 1 { b: [ 2 ] }\n", ""),
        ("console.info('i'); console.debug('d')", "i\nd\n", ""),
        ("console.error('e'); console.warn('w')", "", "e\nw\n"),
        ("console.log('%s is %d and %o', 'x', 3, { a: 1 })", "x is 3 and { a: 1 }\n", ""),
        (
            "console.group('g'); console.log('in'); console.groupEnd(); console.log('out')",
            "g\n  in\nout\n",
            "",
        ),
        (
            "console.count('c'); console.count('c'); console.countReset('c'); console.count('c')",
            "c: 1\nc: 2\nc: 1\n",
            "",
        ),
        (
            "console.assert(1 === 1, 'fine'); console.assert(false, 'wrong %s', 'here')",
            "",
            "Assertion failed: wrong here\n",
        ),
        ("console.dir({ a: { b: 1 } })", "{ a: { b: 1 } }\n", ""),
        ("console.log()", "\n", ""),
        ("console.timeEnd('unknown')", "", "Timer 'unknown' does not exist\n"),
        ("Deno.stdout.writeSync(new TextEncoder().encode('raw'))", "raw", ""),
        ("await Deno.stderr.write(new TextEncoder().encode('raw'))", "", "raw"),
        ("process.stdout.write('node\\n')", "node\n", ""),
        ("process.stderr.write('node\\n')", "", "node\n"),
        ("alert('seen')", "", "seen\n"),
    ],
)
def test_console_says_it_where_it_belongs(driver: Driver, code: str, stdout: str, stderr: str) -> None:
    ran = driver.run(code)
    assert (ran.stdout, ran.stderr) == (stdout, stderr)


def test_console_table_draws_a_table(driver: Driver) -> None:
    told = driver.run("console.table([{ a: 1, b: 'x' }])").stdout
    assert "│ (idx) │ a │ b" in told


def test_console_trace_tells_the_cells_lines(driver: Driver) -> None:
    ran = driver.run("function deep() { console.trace('here') }\ndeep()")
    assert ran.stderr.startswith("Trace: here\n    at deep (cell ")


def test_console_times(driver: Driver) -> None:
    told = driver.run(
        "console.time('t'); console.timeLog('t', 'half'); console.timeEnd('t')"
    ).stdout.splitlines()
    assert [line.split(":")[0] for line in told] == ["t", "t"]
    assert told[0].endswith(" half")


def test_console_clear_clears_the_output(driver: Driver) -> None:
    assert driver.run("console.log(1); console.clear()").contents("clear_output") == [{"wait": False}]


def test_questions_are_answered_without_anybody(driver: Driver) -> None:
    ran = driver.run("[prompt('Name?'), confirm('Sure?')]")
    assert ran.result == "[ null, false ]"
    assert "nobody can be asked here" in ran.stderr


def test_standard_input_is_at_its_end(driver: Driver) -> None:
    assert driver.value("Deno.stdin.readSync(new Uint8Array(9))") == "null"
    assert driver.value("await Deno.stdin.read(new Uint8Array(9))") == "null"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("new Map([['k', { v: 1 }]])", 'Map(1) { "k" => { v: 1 } }'),
        ("new Set([1, 2])", "Set(2) { 1, 2 }"),
        ("class Box { x = 1 }\nnew Box()", "Box { x: 1 }"),
        ("const self_: any = {}; self_.me = self_; self_", "<ref *1> { me: [Circular *1] }"),
        ("10n ** 20n", "100000000000000000000n"),
        ("Symbol('s')", "Symbol(s)"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new Uint8Array([1, 2])", "Uint8Array(2) [ 1, 2 ]"),
        ("function named() {}\nnamed", "[Function: named]"),
        ("Promise.resolve(1)", "Promise { 1 }"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("[undefined, null, , 1]", "[ undefined, null, <1 empty item>, 1 ]"),
        ("/re/g", "/re/g"),
        ("Object.create(null)", "[Object: null prototype] {}"),
    ],
)
def test_value_is_shown_readably(driver: Driver, code: str, shown: str) -> None:
    assert driver.value(code) == shown


def test_long_array_is_shortened(driver: Driver) -> None:
    shown = driver.value("Array.from({ length: 1000 }, (_, i) => i)")
    assert shown is not None
    assert "900 more items" in shown


def test_error_as_a_value_is_shown_with_its_stack(driver: Driver) -> None:
    shown = driver.value("new RangeError('as value')")
    assert shown is not None
    assert shown.startswith("RangeError: as value\n    at cell ")


def test_records_are_shown_as_a_table_too(driver: Driver) -> None:
    data = driver.run("[{ name: '<Ann>', age: 3 }, { name: 'Bo', age: null }]").data
    assert "<th>name</th><th>age</th>" in data["text/html"]
    assert "<td>&lt;Ann&gt;</td>" in data["text/html"]
    assert data["text/plain"].startswith("[ { name:")


def test_many_records_are_shown_as_a_digest(driver: Driver) -> None:
    data = driver.run("Array.from({ length: 500 }, (_, i) => ({ i, square: i * i }))").data
    assert [line.split() for line in data["text/plain"].splitlines()[:2]] == [["i", "square"], ["0", "0"]]
    assert data["text/plain"].endswith("… 500 rows, 2 columns")
    assert "20 of 500 rows" in data["text/html"]


@pytest.mark.parametrize(
    "code",
    [
        "[1, 2]",
        "[]",
        "[{}]",
        "[{ a: { b: 1 } }]",
        "[new Date()]",
        "[{ a: 1 }, null]",
        "[{ get a() { return 1 } }]",
    ],
)
def test_what_is_no_table_is_not_shown_as_one(driver: Driver, code: str) -> None:
    assert list(driver.run(code).data) == ["text/plain"]


@pytest.mark.parametrize(
    ("code", "mime", "data"),
    [
        ("html`<b>${1 + 1}</b>`", "text/html", "<b>2</b>"),
        ("md`# Title`", "text/markdown", "# Title"),
        ("svg`<svg/>`", "image/svg+xml", "<svg/>"),
        ("Deno.jupyter.html`<i/>`", "text/html", "<i/>"),
        ("Deno.jupyter.md`*x*`", "text/markdown", "*x*"),
        ("cellwright.json({ a: [1] })", "application/json", {"a": [1]}),
        ("({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': 'own' }) })", "text/html", "own"),
        (
            "({ async [Symbol.for('Jupyter.display')]() { return { 'text/html': 'slow' } } })",
            "text/html",
            "slow",
        ),
        ("({ [Deno.jupyter.$display]() { return { 'text/plain': 'plain' } } })", "text/plain", "plain"),
        ("({ outerHTML: '<p>element</p>' })", "text/html", "<p>element</p>"),
        ("({ toDataURL: () => 'data:image/png;base64,AAAA' })", "image/png", "AAAA"),
        ("({ toSpec: () => ({ mark: 'bar' }) })", "application/vnd.vegalite.v5+json", {"mark": "bar"}),
    ],
)
def test_value_that_knows_how_shows_itself(driver: Driver, code: str, mime: str, data: object) -> None:
    assert driver.run(code).data[mime] == data
    assert driver.run(f"display({code}); undefined").displays[0][mime] == data


def test_bytes_of_a_picture_are_shown_as_one(driver: Driver) -> None:
    bytes_ = f"Uint8Array.fromBase64('{base64.b64encode(PNG).decode()}')"
    assert base64.b64decode(driver.run(bytes_).data["image/png"]) == PNG
    assert base64.b64decode(driver.run(f"Deno.jupyter.image({bytes_})").data["image/png"]) == PNG


def test_displays_come_in_order_with_what_is_printed(driver: Driver) -> None:
    ran = driver.run("console.log(1); display(html`2`); console.log(3); display(4); 5")
    assert ran.kinds[2:-2] == ["stream", "display_data", "stream", "display_data", "execute_result"]


def test_displaying_last_leaves_no_result(driver: Driver) -> None:
    ran = driver.run("display(1)")
    assert ran.displays == [{"text/plain": "1"}]
    assert ran.result is None


def test_display_can_be_updated(driver: Driver) -> None:
    ran = driver.run(
        "await Deno.jupyter.display({ 'text/plain': 'a' }, { raw: true, display_id: 'd' });\n"
        "await Deno.jupyter.display({ 'text/plain': 'b' }, { raw: true, display_id: 'd', update: true });"
    )
    assert ran.contents("display_data")[0]["transient"] == {"display_id": "d"}
    assert ran.contents("update_display_data")[0]["data"] == {"text/plain": "b"}


def test_broadcast_sends_the_message(driver: Driver) -> None:
    ran = driver.run(
        "await Deno.jupyter.broadcast('display_data', { data: { 'text/plain': 'x' }, metadata: {} })"
    )
    assert ran.displays == [{"text/plain": "x"}]


def test_display_that_throws_fails_the_cell_and_not_the_driver(driver: Driver) -> None:
    ran = driver.run("({ [Symbol.for('Jupyter.display')]() { throw new Error('shy') } })")
    assert (ran.reply["ename"], ran.reply["evalue"]) == ("Error", "shy")


def test_flood_keeps_its_head_and_its_tail(start_driver: StartDriver) -> None:
    driver = start_driver(max_bytes=10_000)
    ran = driver.run("for (let i = 0; i < 100_000; i++) console.log(i)")
    assert ran.stdout.startswith("0\n1\n2\n")
    assert ran.stdout.endswith("99998\n99999\n")
    assert "writes dropped here; limit max_output_bytes=10,000]" in ran.stdout
    assert len(ran.stdout) < 10_200
    assert ran.metadata["dropped_bytes"] > 400_000
    assert ran.metadata["limit"] == "max_output_bytes"
    assert ran.metadata["output_bytes"] + ran.metadata["dropped_bytes"] == sum(
        len(str(i)) + 1 for i in range(100_000)
    )


def test_one_huge_text_keeps_its_head_and_its_tail(start_driver: StartDriver) -> None:
    ran = start_driver(max_bytes=8_000).run("console.log('ä'.repeat(1e6) + 'end')")
    assert ran.stdout.startswith("äää")
    assert ran.stdout.endswith("äend\n")
    assert len(ran.stdout.encode()) < 8_200
    assert ran.metadata["dropped_bytes"] > 1_900_000


def test_messages_are_counted(start_driver: StartDriver) -> None:
    ran = start_driver(max_messages=20).run("for (let i = 0; i < 100; i++) display(i)")
    assert len(ran.displays) == 20
    assert [ran.displays[0]["text/plain"], ran.displays[-1]["text/plain"]] == ["0", "99"]
    assert ran.metadata["dropped_messages"] == 100 - len(ran.displays)
    assert ran.metadata["limit"] == "max_output_messages"


def test_display_that_is_too_large_keeps_its_small_forms(start_driver: StartDriver) -> None:
    driver = start_driver(max_bytes=5_000)
    ran = driver.run("display({ 'text/html': 'x'.repeat(1e5), 'text/plain': 'small' }, { raw: true })")
    assert ran.displays == [{"text/plain": "small"}]
    lone = driver.run("html`${'x'.repeat(1e5)}`")
    assert "display dropped (text/html of 100,000 bytes)" in lone.data["text/plain"]


def test_cell_within_its_limit_loses_nothing(start_driver: StartDriver) -> None:
    ran = start_driver(max_bytes=10_000).run("for (let i = 0; i < 900; i++) console.log('123456789')")
    assert ran.stdout == "123456789\n" * 900
    assert ran.metadata["dropped_bytes"] == 0


def test_each_cell_has_a_limit_of_its_own(start_driver: StartDriver) -> None:
    driver = start_driver(max_bytes=5_000)
    driver.run("console.log('x'.repeat(1e5))")
    assert driver.run("console.log('y'.repeat(1000))").metadata["dropped_bytes"] == 0


def test_words_after_the_cells_end_are_capped(start_driver: StartDriver) -> None:
    driver = start_driver(max_bytes=1_000)
    first = driver.send(
        "execute_request", {"code": "let go; new Promise((r) => go = r).then(flood); undefined;\n" + FLOOD}
    )
    driver.finish(first)
    ran = driver.run("go(); await null;")
    late = [
        each["content"]["text"]
        for each in ran.messages
        if each["kind"] == "stream" and each["parent"] == first
    ]
    assert 500 < len("".join(late)) < 1_200
    assert late[-1].startswith("\n[cellwright: output after the cell's end is dropped")


def test_what_is_printed_leaves_before_the_cell_computes(driver: Driver) -> None:
    request = driver.send(
        "execute_request", {"code": "console.log('begun'); console.log('twice'); while (true);"}
    )
    driver.wait_for(lambda message: message["content"].get("text") == "twice\n")
    assert driver.interrupt(request).reply["ename"] == "KeyboardInterrupt"


def test_limits_can_be_changed_by_adopting(start_driver: StartDriver) -> None:
    driver = start_driver(max_bytes=1_000)
    assert (
        driver.ask("cellwright_adopt_request", max_bytes=50_000, max_messages=100, environment={})["status"]
        == "ok"
    )
    assert driver.run("console.log('x'.repeat(30_000))").metadata["dropped_bytes"] == 0

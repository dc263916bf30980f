"""What is asked about a kernel: what it is, what could follow, what its values hold; and values for other languages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.engine.introspection import inspection_of
from cellwright_kernel.tables import Table
from tests.kernel.typescript.conftest import Driver


def complete(driver: Driver, code: str, position: int | None = None) -> list[str]:
    reply = driver.ask("complete_request", code=code, cursor_pos=len(code) if position is None else position)
    matches: list[str] = reply["matches"]
    return matches


def test_kernel_tells_what_it_is(driver: Driver) -> None:
    info = driver.ask("kernel_info_request")
    assert info["language_info"]["name"] == "typescript"
    assert info["protocol_version"] == "5.4"


def test_unknown_request_is_refused_and_not_left_open(driver: Driver) -> None:
    reply = driver.ask("surprise_request")
    assert reply["status"] == "error"
    assert "surprise_request" in reply["evalue"]


def test_globals_cells_names_and_keywords_are_completed(driver: Driver) -> None:
    driver.value("const myVeryOwn = { inner: { deep: 1 }, get trap() { throw new Error('called') } };")
    assert complete(driver, "myVery") == ["myVeryOwn"]
    assert "structuredClone" in complete(driver, "struct")
    assert "satisfies" in complete(driver, "sat")
    assert not any(name.startswith("__cellwright") for name in complete(driver, "__cell"))


def test_members_of_live_values_are_completed_without_calling_getters(driver: Driver) -> None:
    driver.value("const holder = { alpha: { beta: [1] }, get trap() { globalThis.sprung = 1; return {} } };")
    assert complete(driver, "holder.")[:2] == ["alpha", "trap"]
    assert complete(driver, "holder.alpha.be") == ["beta"]
    assert "map" in complete(driver, "const x = holder.alpha.beta.ma")
    assert "log" in complete(driver, "console.lo")
    assert "toUpperCase" in complete(driver, "'text'.toUp")
    assert complete(driver, "holder.trap.x") == []
    assert driver.value("typeof globalThis.sprung") == '"undefined"'


def test_completing_calls_nothing_that_has_consequences(driver: Driver) -> None:
    driver.value("let called = 0; const touch = () => { called++; return { yes: 1 } };")
    assert complete(driver, "touch().y") == []
    assert driver.value("called") == "0"


def test_positions_count_characters(driver: Driver) -> None:
    driver.value("const uniquely = 1;")
    reply = driver.ask("complete_request", code="'😀' + uniq", cursor_pos=10)
    assert (reply["matches"], reply["cursor_start"], reply["cursor_end"]) == (["uniquely"], 6, 10)


def test_nothing_is_completed_in_a_text(driver: Driver) -> None:
    assert complete(driver, "'cons") == []
    assert complete(driver, "// cons") == []


def test_name_at_the_cursor_is_explained(driver: Driver) -> None:
    driver.value("const explained = { size: 3 };")
    reply = driver.ask("inspect_request", code="explained.size", cursor_pos=4)
    assert reply["data"]["text/plain"] == "Object: { size: 3 }"
    assert driver.ask("inspect_request", code="nowhere", cursor_pos=3)["found"] is False


def test_namespace_is_told_as_the_engine_reads_it(own_driver: Driver) -> None:
    own_driver.value(
        "const n = 1; let text = 'abc'; const list = [1, 2, 3]; class Car {}\n"
        "function drive(car: Car, speed = 3) {}\nvar old = new Map([[1, 2]]); let later: any; const _hidden = 1;"
    )
    told = inspection_of(own_driver.ask("cellwright_inspect_request"))
    variables = {each.name: each for each in told.variables}
    assert set(variables) == {"n", "text", "list", "old", "later"}
    assert (variables["n"].type, variables["n"].digest) == ("number", "1")
    assert (variables["list"].type, variables["list"].length) == ("Array", 3)
    assert (variables["old"].type, variables["old"].length) == ("Map", 1)
    assert [each.name for each in told.classes] == ["Car"]
    assert [(each.name, each.signature) for each in told.functions] == [("drive", "(car, speed = 3)")]


def test_namespace_is_told_without_calling_anything(own_driver: Driver) -> None:
    own_driver.value(
        "let rung = 0; const bell = { get ring() { rung++; return 1 } }; const ghost = new Proxy({}, { get() { rung++ } });"
    )
    own_driver.ask("cellwright_inspect_request")
    assert own_driver.value("rung") == "0"


def test_records_are_given_as_a_table(driver: Driver) -> None:
    driver.value(
        "const rows = [{ day: new Date(0), n: 1, ok: true }, { day: new Date(1e10), n: NaN, ok: false }];"
    )
    reply = driver.ask("cellwright_data_request", name="rows", max_rows=1)
    table = Table.from_wire(reply["table"])
    assert [(column.name, column.kind, column.missing) for column in table.columns] == [
        ("day", "time", 0),
        ("n", "number", 1),
        ("ok", "bool", 0),
    ]
    assert table.rows == (("1970-01-01T00:00:00.000Z", 1, True),)
    assert table.total_rows == 2


def test_result_is_given_by_its_count(driver: Driver) -> None:
    count = driver.run("({ nested: [1, { a: 2 }] })").reply["execution_count"]
    assert driver.ask("cellwright_data_request", execution_count=count)["value"] == {"nested": [1, {"a": 2}]}
    missing = driver.ask("cellwright_data_request", execution_count=count + 1000)
    assert missing["status"] == "error"
    assert "left no result" in missing["evalue"]


def test_path_to_a_value_is_followed(driver: Driver) -> None:
    driver.value("const tree = { leaves: [{ deep: { down: 'here' } }] };")
    assert driver.ask("cellwright_data_request", name="tree.leaves[0].deep.down")["value"] == "here"
    assert driver.ask("cellwright_data_request", name="tree.grow()")["status"] == "error"
    assert driver.ask("cellwright_data_request", name="nowhere")["status"] == "error"


@pytest.mark.parametrize(
    "value", ["{ a: [1, 'x', null], b: { c: true } }", "'text'", "[1, 2]", "null", "12.5"]
)
def test_value_that_was_put_can_be_got(driver: Driver, value: str) -> None:
    assert (
        driver.value(
            f"cellwright.put('passed', {value}); JSON.stringify(await cellwright.get('passed')) === JSON.stringify({value})"
        )
        == "true"
    )


def test_table_that_was_put_lies_where_others_find_it(driver: Driver) -> None:
    driver.value("cellwright.put('sales', [{ day: new Date(0), n: 1 }, { day: null, n: 2 }])")
    place = Path(f"/proc/{driver.process.pid}/cwd").resolve() / ".cellwright" / "values"
    held = json.loads((place / "sales.json").read_text())
    assert (held["version"], held["kind"]) == (1, "table")
    assert Table.from_wire(held["table"]).names == ("day", "n")
    assert (
        driver.value(
            "const back = await cellwright.get('sales'); [back[0].day instanceof Date, back[1].day, back[1].n]"
        )
        == "[ true, null, 2 ]"
    )
    assert driver.value("cellwright.names().includes('sales')") == "true"


@pytest.mark.parametrize("name", ["'../x'", "'a b'", "''", "3", "'x/y'"])
def test_name_that_is_no_identifier_is_refused(driver: Driver, name: str) -> None:
    assert "is an identifier" in driver.run(f"cellwright.put({name}, 1)").reply["evalue"]


def test_value_without_a_form_in_json_is_refused(driver: Driver) -> None:
    assert "cannot pass to another language" in driver.run("cellwright.put('f', () => 1)").reply["evalue"]


def test_missing_value_is_named_with_those_that_are_there(driver: Driver) -> None:
    driver.value("cellwright.put('there', 1)")
    ran = driver.run("await cellwright.get('missing')")
    assert "No value is called 'missing'" in ran.reply["evalue"]
    assert "there" in ran.reply["evalue"]


def test_rows_to_draw_from_are_spread_over_all_of_them(driver: Driver) -> None:
    driver.value("const many = Array.from({ length: 1000 }, (_, i) => ({ i })); 0")
    table = driver.ask("cellwright_data_request", name="many", max_rows=10)["table"]
    assert [row[0] for row in table["rows"]] == list(range(0, 1000, 100))
    assert (table["total_rows"], table["notices"]) == (1000, ["10 of 1,000 rows, spread evenly"])

"""What an agent reads of cells in other languages than Python: errors, names, values, pictures."""

from __future__ import annotations

import re

import pytest
from mcp import Client

from tests.kernel.mcp.conftest import ask, images_of, new_session, read, refused, text_of
from tests.matrix import first_of

pytestmark = pytest.mark.anyio


async def run(client: Client, session: str, code: str, language: str | None = None) -> str:
    about = {"language": language} if language else {}
    return await read(client, "cell_add_and_run", session_id=session, content=code, **about)


def cell_of(reply: str) -> str:
    found = re.search(r"cell (\w+)", reply)
    assert found
    return found[1]


def body(reply: str) -> list[str]:
    return reply.splitlines()[1:]


@pytest.fixture
async def script(client: Client) -> str:
    created = await ask(client, "notebook_create", name="script", language="typescript")
    return str(created["session_id"])


async def test_an_error_of_typescript_is_told_with_the_mark_below_its_place(
    client: Client, script: str
) -> None:
    reply = await run(client, script, "const y: any = 'a';\ny.toFixed(1)")

    assert body(reply) == [
        "TypeError: y.toFixed is not a function",
        "    at cell 1:2:3",
        "cell 1, line 2, column 3:",
        "  y.toFixed(1)",
        "    ^",
    ]


async def test_a_deep_stack_is_cut_in_its_middle(client: Client, script: str) -> None:
    code = "function r(n: number): number { if (n == 0) throw new Error('deep'); return r(n - 1) }\nr(20)"
    told = body(await run(client, script, code))

    assert told[0] == "Error: deep"
    assert "    … 4 frames" in told
    assert told[-1].strip() == "^"


async def test_an_error_of_sql_is_told_once(client: Client) -> None:
    session = await new_session(client)
    reply = await run(client, session, "SELECT boom", "sql")

    assert reply.count("SELECT boom") == 1
    assert body(reply)[-1].strip() == "^^^^"


async def test_an_unhandled_rejection_is_told_once(client: Client, script: str) -> None:
    reply = await run(client, script, "Promise.reject(new Error('late')); 1")

    assert reply.count("Error: late") == 1
    assert "Uncaught (in promise)" in reply


async def test_a_wall_of_deno_s_does_not_advise_a_flag(client: Client, script: str) -> None:
    reply = await run(client, script, "await fetch('https://example.com')")

    assert "no network here" in reply
    assert "--allow" not in reply


async def test_what_a_typescript_kernel_holds_is_known(client: Client, script: str) -> None:
    await run(client, script, "class Stack {}\nconst n: number = 3;\nfunction area(r: number) { return r }")
    context = await ask(client, "session_context", session_id=script)
    found = await ask(client, "kernel_inspect", session_id=script, query="n")

    assert context["names_from"] == "kernel"
    assert "n: number = 3" in context["variables"]
    assert "class Stack" in context["functions"]
    assert found["runtime"].startswith("deno")
    assert found["variables"] == ["n: number = 3"]


async def test_only_code_that_gives_names_to_python_is_said_to(client: Client) -> None:
    session = await new_session(client)
    asked = await run(client, session, "-- result: total\nSELECT 1 AS one", "sql")
    other = await run(client, session, "let kept\nkept = 5", "typescript")

    context = await ask(client, "session_context", session_id=session)

    assert "context" not in asked + other, "the client wrote both itself"
    assert any(variable.startswith("total") for variable in context["variables"])
    assert not any(variable.startswith("kept") for variable in context["variables"])


async def test_an_outline_says_which_cells_are_of_another_language(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "1")
    await run(client, session, "SELECT 1", "sql")
    outline = await read(client, "notebook_read", session_id=session)

    assert " [ok] v1: 1" in outline
    assert " [sql, ok] v1: SELECT 1" in outline


async def test_a_small_frame_is_told_with_all_of_its_rows(client: Client) -> None:
    session = await new_session(client)
    reply = await run(client, session, "SELECT * FROM range(5)", "sql")

    assert [line.split() for line in body(reply)] == [["range"], *([str(n), str(n)] for n in range(5))]


DRAWN = {
    "new Map([['a', 1], ['b', 2]])": "bar_chart: value by key",
    "new Float64Array([1, 2, 5])": "line_chart: value by index",
    "({a: 1, b: 2})": "bar_chart: value by key",
    "({x: [1, 2, 3], y: [4, 5, 6]})": "line_chart: y by x",
    "({nodes: [{id: 'a'}, {id: 'b'}], links: [{source: 'a', target: 'b'}]})": "graph: source and target",
    "[{d: '2024-01-01', v: 1}, {d: '2024-01-02', v: 3}]": "line_chart: v by d",
    "[{a: {b: 1}, v: 1}, {a: {b: 2}, v: 4}]": "bar_chart: v by a",
}


@pytest.mark.parametrize("code", first_of(DRAWN, 2))
async def test_values_of_typescript_are_drawn_as_those_of_python(
    client: Client, script: str, code: str
) -> None:
    cell = cell_of(await run(client, script, code))
    drawn = await client.call_tool("cell_visualize", {"session_id": script, "cell_id": cell})

    assert text_of(drawn).splitlines()[1] == DRAWN[code]
    assert images_of(drawn)


async def test_a_variable_is_found_in_whichever_kernel_has_it(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "mine = [1, 2, 5]")
    await run(client, session, "const theirs = {a: 1, b: 2}", "typescript")
    mine = await read(client, "cell_visualize", session_id=session, variable="mine")
    theirs = await read(client, "cell_visualize", session_id=session, variable="theirs")

    assert "list of 3" in mine
    assert "Object of 2" in theirs
    assert "no variable 'nobodys'" in await refused(
        client, "cell_visualize", session_id=session, variable="nobodys"
    )


async def test_what_cannot_be_drawn_is_answered_with_what_can(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "x = 5")

    assert "show a frame" in await refused(client, "cell_visualize", session_id=session, variable="x")
    assert "is markdown" in await refused(client, "cell_visualize", session_id=session, cell_id="problem")


async def test_values_reach_python_whole_or_are_refused_by_their_part(client: Client, script: str) -> None:
    await run(
        client, script, "cellwright.put('kept', [new Map([['a', 1]]), new Set([2]), new Float64Array([3])])"
    )
    kept = await run(client, script, "from cellwright_kernel import get\nget('kept')", "python")
    function = await run(client, script, "cellwright.put('f', {a: [() => 1]})")
    circle = await run(client, script, "const c: any = {}; c.c = c; cellwright.put('c', c)")

    assert body(kept)[0] == "[{'a': 1}, [2], [3]]"
    assert "value.a[0] is a function, which cannot pass" in function
    assert "value.c is a value that it is itself part of" in circle
    assert "cell 3, line 1, column" in circle


async def test_a_rollback_says_which_other_kernels_it_cost(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "const k = 5", "typescript")
    failing = {"session_id": session, "content": "1 / 0", "on_error": "rollback"}
    reply = await read(client, "cell_add_and_run", **failing)

    assert "but for the variables of the deno kernel, which ended" in reply


async def test_a_branch_says_what_it_does_not_have_of_other_kernels(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "const k = 5", "typescript")
    grown = await ask(client, "session_branch", session_id=session)

    assert any("deno" in lost for lost in grown["branches"][0]["not_carried"])


async def test_a_plan_s_steps_may_be_of_other_languages_and_verify(client: Client) -> None:
    todos = [
        {"description": "load", "code": "rows = [{'a': 1}, {'a': 2}]"},
        {"description": "sum", "code": "-- result: total\nSELECT sum(a) AS s FROM rows", "language": "SQL"},
        {"description": "script", "code": "const t: number = 3; t", "language": "ts"},
        {"description": "check", "code": "int(total.s[0])", "accept": "output: 3"},
    ]
    created = await ask(client, "plan_create", problem="mixed", todos=todos)
    session = str(created["session_id"])
    reply = await read(client, "plan_run", session_id=session)

    assert "Plan succeeded: 4 of 4" in reply
    outline = await read(client, "notebook_read", session_id=session)
    assert "todo-2 [sql, ok]" in outline
    assert "todo-3 [typescript, ok]" in outline
    assert "| verified |" in await read(client, "plan_verify", session_id=session)


async def test_a_package_of_npm_is_told_where_to_ask_for_it(client: Client, script: str) -> None:
    reply = await run(client, script, "import pad from 'npm:left-pad'; pad")

    assert 'package_install(["npm:left-pad"])' in reply


async def test_a_language_that_is_not_there_is_answered_with_those_that_are(client: Client) -> None:
    told = await refused(client, "notebook_create", name="x", language="klingon")

    assert "python, sql, typescript and javascript need none" in told


async def test_values_that_are_put_are_told_by_their_names(client: Client) -> None:
    session = await new_session(client)
    reply = await run(client, session, "from cellwright_kernel import put\nput('kept', [1])\nput('also', 2)")

    assert "values put: also, kept" in reply
    assert "files:" not in reply


async def test_a_certificate_of_another_language_claims_no_more_than_is_known(
    client: Client, script: str
) -> None:
    await run(client, script, "1 + 1")
    told = await read(client, "plan_verify", session_id=script)

    assert "| verified |" in told
    assert "typescript, whose packages and input files are not known" in told


async def test_completion_of_a_mixed_notebook_is_in_the_language_of_the_cell(client: Client) -> None:
    session = await new_session(client)
    await run(client, session, "CREATE TABLE customers (region TEXT, revenue INT)", "sql")
    await run(client, session, "const margin = { gross: 3 }", "typescript")

    async def matches(code: str, language: str) -> list[str]:
        found = await ask(client, "kernel_complete", session_id=session, code=code, language=language)
        return list(found["matches"])

    assert "customers" in await matches("SELECT * FROM cust", "sql")
    assert "revenue" in await matches("FROM customers SELECT reve", "SQL")
    assert "gross" in await matches("margin.gr", "ts")
    assert (await ask(client, "kernel_complete", session_id=session, code="marg"))["matches"] == []

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace

import anyio
import pytest
from mcp import Client, MCPError
from PIL import Image

from cellwright import Engine, Event, Execution
from cellwright.mcp import McpServer
from cellwright.web._notebook import follow
from tests.kernel.mcp.conftest import (
    PACE,
    Connect,
    ask,
    connected,
    data_of,
    images_of,
    new_session,
    read,
    running,
    text_of,
)
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

LOOP = "print('begun', flush=True)\nwhile True: pass"
PLOT = "import matplotlib.pyplot as plt\nplt.figure(figsize=(12, 9)); plt.plot([1, 2, 3]); plt.show()"


async def test_a_cell_is_added_and_run_and_its_output_comes_back(client: Client) -> None:
    session = await new_session(client)
    added = await ask(client, "cell_add", session_id=session, content="print('hello'); 6 * 7")
    text = await read(client, "cell_execute", session_id=session, cell_id=added["cell_id"])
    assert text == "ok\nhello\n42", "the client named the session and the cell, and wrote the code"
    again = await read(client, "cell_add_and_run", session_id=session, content="kept = 1; print('hello')")
    head, _, rest = again.partition("\n")
    assert re.fullmatch(r"ok \| cell [\w-]+", head)
    assert rest == "hello"
    assert len(head) <= 15 * 4
    left = await read(client, "scratch_run", session_id=session, code="open('left', 'w').write('x')")
    assert left.startswith("ok\n1\nfiles: left 1 B (in /")
    more = await read(client, "scratch_run", session_id=session, code="open('more', 'w').write('x')")
    assert more == "ok\n1\nfiles: more 1 B"
    await ask(client, "kernel_restart", session_id=session)
    assert (await read(client, "scratch_run", session_id=session, code="1")).startswith(
        "ok | generation 2\n1"
    )


async def test_a_cell_that_prints_nothing_says_so(client: Client) -> None:
    session = await new_session(client)
    text = await read(client, "cell_add_and_run", session_id=session, content="pass")
    assert re.fullmatch(r"ok \| cell [\w-]+ \| no output", text)


async def test_a_failed_cell_is_answered_with_what_the_fixers_know_unless_that_is_turned_off(
    client: Client, engine: Engine
) -> None:
    session = await new_session(client)
    given = "table = {'region': 1, 'revenue': 2}\nnumbers = [1, 2, 3]"
    await read(client, "cell_add_and_run", session_id=session, content=given)

    async def hint(content: str) -> str:
        text = await read(client, "cell_add_and_run", session_id=session, content=content)
        return next((line for line in text.splitlines() if line.startswith("hint: ")), "")

    near = await hint("table['revenu']")
    assert near == "hint: did you mean `table['revenue']`? `table` has no key 'revenu', but 'revenue'."
    assert (await hint("print(nubmers)")).startswith("hint: did you mean `print(numbers)`?")
    missing = await read(client, "cell_add_and_run", session_id=session, content="import seaborn")
    assert 'package_install(["seaborn"])' in missing
    assert missing.count("package_install") == 1, "the error says it, and the hint does not again"
    assert "`numbers` has 3 elements" in await hint("numbers[3]")
    assert len(await hint(f"table['{'revenu' * 50}']")) <= 160
    assert not await hint("raise RuntimeError('nobody knows')")

    told = await ask(
        client, "cell_add_and_run", session_id=session, content="numbers.push(3)", response_format="json"
    )
    assert told["hint"]["certain"] is True
    assert told["hint"]["diff"].endswith("-numbers.push(3)\n+numbers.append(3)")
    # A person sees the same on the page, also after the next cell has run.
    await read(client, "cell_add_and_run", session_id=session, content="1")
    held = engine.session(session)
    shown = await follow(engine, held).render(f"cell-{told['cell_id']}", engine.last_event)
    assert "did you mean `numbers.append(3)`?" in (shown or "")

    before, engine.settings = engine.settings, engine.settings.model_copy(update={"error_hints": False})
    try:
        assert not await hint("table['revenu']")
    finally:
        engine.settings = before


async def test_a_plot_comes_as_a_picture_of_512_pixels_without_a_structured_form(client: Client) -> None:
    session = await new_session(client)
    result = await client.call_tool("cell_add_and_run", {"session_id": session, "content": PLOT})
    assert result.structured_content is None
    (picture,) = images_of(result)
    assert picture.mime_type == "image/png"
    assert max(Image.open(io.BytesIO(base64.b64decode(picture.data))).size) == 512
    assert "<Figure" not in text_of(result)


async def test_the_json_form_is_one_object_in_both_forms_without_pictures(client: Client) -> None:
    session = await new_session(client)
    code = f"import sys; print('out'); print('err', file=sys.stderr)\n{PLOT}\n'last'"
    arguments = {"session_id": session, "content": code, "response_format": "json"}
    result = await client.call_tool("cell_add_and_run", arguments)
    data = data_of(result)
    assert json.loads(text_of(result)) == data
    assert images_of(result) == []
    assert (data["status"], data["stdout"], data["stderr"], data["result"]) == (
        "ok",
        "out\n",
        "err\n",
        "'last'",
    )
    assert (data["error"], data["truncated"], data["generation"]) == (None, False, 1)
    assert data["execution_id"].startswith("x-")
    assert data["duration_ms"] > 0
    assert [output["type"] for output in data["outputs"]] == ["stdout", "stderr", "display", "result"]
    picture = await client.read_resource(data["outputs"][2]["uri"])
    assert picture.contents[0].mime_type == "image/png"


async def test_an_error_names_the_line_and_is_not_a_failure_of_the_tool(client: Client) -> None:
    session = await new_session(client)
    text = await read(client, "cell_add_and_run", session_id=session, content="a = 1\na / 0")
    assert text.startswith("error | cell ")
    assert "----> 2 a / 0" in text
    assert text.count("ZeroDivisionError") == 1
    assert "\x1b" not in text
    data = await ask(client, "scratch_run", session_id=session, code="1 / 0", response_format="json")
    assert data["error"]["ename"] == "ZeroDivisionError"
    assert data["error"]["evalue"] == "division by zero"
    assert data["error"]["traceback"]


async def test_frames_of_libraries_are_told_briefly(client: Client) -> None:
    session = await new_session(client)
    code = "import pandas as pd\npd.DataFrame({'a': [1]})['b']"
    text = await read(client, "cell_add_and_run", session_id=session, content=code)
    assert "KeyError: 'b'" in text
    assert "----> 2" in text
    assert len(text) < 1_500


async def test_long_output_keeps_head_and_tail_within_the_budget_and_the_rest_can_be_read(
    client: Client,
) -> None:
    session = await new_session(client)
    code = "for i in range(20_000): print('line', i)"
    text = await read(client, "cell_add_and_run", session_id=session, content=code, max_tokens=300)
    assert len(text) < 300 * 4 + 200
    assert "line 0\n" in text
    assert "line 19999" in text
    uri = text.partition("all of it: ")[2].partition(" ")[0]
    whole = await client.read_resource(uri)
    assert whole.contents[0].text.count("\n") == 20_000  # type: ignore[union-attr]
    data = await ask(client, "scratch_run", session_id=session, code=code, response_format="json")
    (output,) = data["outputs"]
    assert data["truncated"]
    assert f"left out; all of it: {output['uri']} …]" in data["stdout"]
    wide = {"response_format": "json", "max_tokens": 100_000}
    data = await ask(client, "execution_wait", execution_id=data["execution_id"], **wide)
    assert data["stdout"].count("\n") == 20_000
    assert not data["truncated"]


async def test_a_wide_frame_becomes_a_digest(client: Client) -> None:
    session = await new_session(client)
    code = (
        "import pandas as pd\n"
        "pd.DataFrame({f'column_{i}': range(1000) for i in range(12)} | {'name': ['someone'] * 1000})"
    )
    text = await read(client, "cell_add_and_run", session_id=session, content=code)
    assert "pandas.DataFrame, 1,000 rows \u00d7 13 columns" in text
    assert "column_3: int64, 0 … 999" in text
    assert "name: str, 1 distinct: someone" in text
    assert "<td>" not in text
    assert len(text) < 900


async def test_progress_bars_are_told_as_they_stand_in_the_end(client: Client) -> None:
    session = await new_session(client)
    code = "for i in range(1, 101): print(f'\\r{i}%', end='')"
    text = await read(client, "cell_add_and_run", session_id=session, content=code)
    assert text.splitlines()[1] == "100%"


async def test_all_cells_run_in_order_until_one_fails(client: Client) -> None:
    session = await new_session(client)
    ids = [
        (await ask(client, "cell_add", session_id=session, content=content))["cell_id"]
        for content in ("print('one')", "boom", "print('three')")
    ]
    text = await read(client, "cell_execute", session_id=session, cell_id="all")
    assert [line.split(" | ")[0] for line in text.splitlines() if " | cell " in line] == [
        "ok",
        "error",
        "interrupted",
    ]
    assert f"An earlier cell failed ({ids[1]}): {ids[2]}" in text
    assert session not in text
    assert "NameError" in text
    data = await ask(client, "cell_execute", session_id=session, cell_id="all", response_format="json")
    assert data["status"] == "error"
    assert data["stdout"] == "one\n"
    assert [cell["status"] for cell in data["cells"]] == ["ok", "error", "interrupted"]


async def test_many_outputs_and_many_cells_keep_to_the_budget_too(client: Client) -> None:
    session = await new_session(client)
    code = "for i in range(2_000): display(i)"
    text = await read(client, "scratch_run", session_id=session, code=code, max_tokens=200)
    assert len(text) < 200 * 4 + 600
    data = await ask(client, "scratch_run", session_id=session, code=code, response_format="json")
    assert len(data["outputs"]) == 40
    assert (data["truncated"], data["more_outputs"]) == (True, 1_960)
    wide = {"response_format": "json", "max_tokens": 100_000}
    data = await ask(client, "execution_wait", execution_id=data["execution_id"], **wide)
    assert len(data["outputs"]) == 2_000
    cells = [{"content": "boom"}, *({"content": f"value = {number}"} for number in range(80))]
    imported = await ask(client, "notebook_import", content=json.dumps(cells))
    text = await read(client, "cell_execute", session_id=imported["session_id"], cell_id="all")
    assert text.count("An earlier cell failed") == 1
    assert len(text) < 2_000


async def test_a_notebook_without_code_has_nothing_to_run(client: Client) -> None:
    session = await new_session(client)
    assert "cell_add adds one" in await read(client, "cell_execute", session_id=session, cell_id="all")


async def test_scratch_code_leaves_no_cell(client: Client) -> None:
    session = await new_session(client)
    text = await read(client, "scratch_run", session_id=session, code="print(1 + 1)")
    assert text == "ok\n2"
    assert (await ask(client, "notebook_list"))["sessions"][-1]["cells"] == 1


async def test_a_cell_over_its_limit_is_stopped_and_says_which_limit(client: Client) -> None:
    session = await new_session(client)
    with fail_after():
        text = await read(
            client,
            "cell_add_and_run",
            session_id=session,
            content="import time; time.sleep(1000)",
            timeout=300,
        )
    assert "\ntimeout | cell " in text
    assert "0.3 s" in text


async def test_a_call_that_would_wait_too_long_hands_back_the_execution_still_running(engine: Engine) -> None:
    async with running(McpServer(engine, pace=replace(PACE, wait_s=0.2))) as face, connected(face) as client:
        session = await new_session(client)
        code = "import time\nprint('started', flush=True)\ntime.sleep(1000)"
        with fail_after():
            text = await read(client, "cell_add_and_run", session_id=session, content=code, timeout=600_000)
            execution = text.partition("execution_wait('")[2].partition("'")[0]
            assert (await _in_user_code(engine, session)).id == execution
            waited = await read(client, "execution_wait", execution_id=execution, wait=0)
            assert re.match(rf"running \| cell [\w-]+ \| execution {execution}\n", waited)
            stopped = await read(client, "execution_cancel", execution_id=execution)
        assert stopped.startswith("interrupted | ")
        again = await read(client, "execution_wait", execution_id=execution)
        assert again.startswith("interrupted | ")


async def test_progress_tells_the_running_outputs_last_line(client: Client) -> None:
    session = await new_session(client)
    await client.call_tool("scratch_run", {"session_id": session, "code": "import os, time"})
    told: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:  # the SDK's names
        told.append(message or "")
        if "step 1" in (message or ""):
            finish.set()

    finish = anyio.Event()
    code = "print('step 0\\nstep 1', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)"

    async def call() -> None:
        await client.call_tool(
            "scratch_run", {"session_id": session, "code": code}, progress_callback=progress
        )

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await finish.wait()
            path = (await ask(client, "notebook_list"))["sessions"][-1]["cwd"]
            await anyio.Path(path).joinpath("go").touch()
    await anyio.Path(path).joinpath("go").unlink()
    assert any(message.endswith(": step 1") for message in told)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_cancelling_a_call_interrupts_the_cell_within_a_second(
    connect: Connect, engine: Engine, mode: str
) -> None:
    async with connect(mode) as client:
        session = engine.session(await new_session(client))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "scratch_run", {"session_id": session.id, "code": LOOP})
            execution = await _in_user_code(engine, session.id)
            tasks.cancel_scope.cancel()
        with fail_after():
            await execution.wait()
        assert execution.state == "interrupted"
        again = await read(client, "scratch_run", session_id=session.id, code="print('it', 'runs')")
        assert "it runs" in again


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_cancelled_at_once_keeps_the_kernel(connect: Connect, engine: Engine, mode: str) -> None:
    async with connect(mode) as client:
        session = engine.session(await new_session(client))
        for _ in range(15):
            with engine.subscribe(session.id) as events:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(
                        client.call_tool,
                        "scratch_run",
                        {"session_id": session.id, "code": "import time; time.sleep(1000)"},
                    )
                    async for event in events:  # queued: its code has not begun
                        assert isinstance(event, Event)
                        if event.execution_id is not None:
                            break
                    tasks.cancel_scope.cancel()
            with fail_after():
                execution = await engine.execution(event.execution_id or "").wait()
            assert execution.state == "interrupted"
        assert session.generation == 1


async def test_closing_a_connection_leaves_the_execution_alone(connect: Connect, engine: Engine) -> None:
    code = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('finish'): time.sleep(0.01)\n'finished'"
    async with anyio.create_task_group() as tasks:
        async with connect() as client:
            session = engine.session(await new_session(client))
            tasks.start_soon(_ignoring_the_end, client, session.id, code)
            execution = await _in_user_code(engine, session.id)
        assert not execution.done
        (session.cwd / "finish").touch()
        with fail_after():
            await execution.wait()
    async with connect() as restarted:
        text = await read(restarted, "execution_wait", execution_id=execution.id)
    assert text.startswith("ok\nbegun\n'finished'\n")


async def _ignoring_the_end(client: Client, session_id: str, code: str) -> None:
    with pytest.raises(MCPError):
        await client.call_tool("scratch_run", {"session_id": session_id, "code": code})


async def _in_user_code(engine: Engine, session_id: str) -> Execution:
    """The session's execution, once its code has printed something."""
    with fail_after(), engine.subscribe(session_id) as events:
        for execution in engine.session(session_id).runs.live:
            if execution.outputs:
                return execution
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.cell.output":
                return engine.execution(event.execution_id or "")
    raise AssertionError

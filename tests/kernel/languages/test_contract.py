"""What every language keeps, whichever kernel runs it: one suite, real kernels, the real sandbox."""

from __future__ import annotations

import json
import re

import pytest

from cellwright import Engine
from cellwright.engine import Execution, Session
from cellwright.mcp.outputs import clean
from tests.conftest import Require
from tests.matrix import one_of_each
from tests.support.languages.speech import LANGUAGES, R_KERNELSPEC, UNICODE, Speech
from tests.waiting import scaled, until

pytestmark = pytest.mark.anyio


# JavaScript and TypeScript have one kernel.
def _kernel(speech: Speech) -> str:
    return "typescript" if speech.language == "javascript" else speech.language


@pytest.fixture(params=one_of_each(LANGUAGES, _kernel, lambda speech: speech.language), scope="module")
def speech(request: pytest.FixtureRequest, require: Require) -> Speech:
    found: Speech = request.param
    if found.language == "r":
        require("the R kernel", R_KERNELSPEC.exists(), "apt install r-cran-irkernel")
    return found


@pytest.fixture(scope="module")
async def session(engine: Engine, speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One for all tests of a language: each begins with what it needs, whatever the last one left."""
    place = tmp_path_factory.mktemp(speech.language)
    return await engine.create(f"{speech.language} contract", language=speech.language, directory=place)


async def run(session: Session, source: str, *, timeout_s: float = 60) -> Execution:
    cell = await session.add_cell(source)
    return await session.run(cell.id, timeout_s=timeout_s)


def shown(execution: Execution) -> str:
    """Everything an execution put out, as text."""
    return json.dumps(execution.outputs, ensure_ascii=False)


async def test_what_a_cell_defines_the_next_one_has(session: Session, speech: Speech) -> None:
    assert (await run(session, speech.remember)).ok
    recalled = await run(session, speech.recall)

    assert recalled.ok
    assert "42" in shown(recalled)


async def test_a_definition_runs_again(session: Session, speech: Speech) -> None:
    again = speech.remember.replace("CREATE TABLE", "CREATE OR REPLACE TABLE")
    first = await run(session, again)
    second = await run(session, again)

    assert (first.state, second.state) == ("ok", "ok")


async def test_an_error_shows_the_line_that_failed(session: Session, speech: Speech) -> None:
    failed = await run(session, speech.fail_on_second_line)

    assert failed.state == "error"
    assert failed.error is not None
    assert speech.failing_line in clean("\n".join(failed.error["traceback"]))


async def test_code_that_cannot_be_read_is_an_error_with_its_place(session: Session, speech: Speech) -> None:
    failed = await run(session, speech.fail_to_parse)

    assert failed.state == "error"
    assert failed.error is not None
    told = clean("\n".join([failed.error["evalue"], *failed.error["traceback"]]))
    # The second line of the cell, as each language says it; a number alone may be anything's.
    assert re.search(r"(?i)(line |:)2\b", told), told
    assert speech.fail_to_parse.splitlines()[1][:6] in told


async def test_an_interrupted_cell_leaves_the_state_as_it_was(session: Session, speech: Speech) -> None:
    await run(session, speech.remember)
    cell = await session.add_cell(speech.announce_and_loop)
    execution = await session.execute(cell.id, timeout_s=scaled(60))
    await until(
        lambda: execution.state != "queued" and (speech.language == "sql" or "going" in shown(execution)),
    )
    await session.interrupt()
    await execution.wait()
    recalled = await run(session, speech.recall)

    assert execution.state == "interrupted"
    assert "42" in shown(recalled)


async def test_a_cell_over_its_time_is_stopped_and_the_state_kept(session: Session, speech: Speech) -> None:
    await run(session, speech.remember)
    stopped = await run(session, speech.loop, timeout_s=1)
    recalled = await run(session, speech.recall)

    assert stopped.state == "timeout"
    assert "cell_timeout_s" in (stopped.reason or "")
    assert "42" in shown(recalled)


async def test_a_flood_of_output_is_cut_and_counted(session: Session, speech: Speech, engine: Engine) -> None:
    flooded = await run(session, speech.flood, timeout_s=scaled(60))
    recalled = await run(session, speech.unicode)

    assert flooded.state == "ok", flooded.reason
    assert len(shown(flooded)) < 4 * engine.settings.max_output_bytes
    if speech.language != "sql":  # a frame shows a part of a long text anyway
        assert flooded.record.dropped_bytes + flooded.record.dropped_messages > 0
    assert recalled.ok


async def test_text_in_any_script_comes_out_as_it_went_in(session: Session, speech: Speech) -> None:
    assert UNICODE in shown(await run(session, speech.unicode))


async def test_rich_output_arrives_with_its_type(session: Session, speech: Speech) -> None:
    execution = await run(session, speech.html)

    forms = [output["data"] for output in execution.outputs if "data" in output]
    assert any("bold" in data.get("text/html", "") for data in forms)


async def test_records_are_shown_as_a_table(session: Session, speech: Speech) -> None:
    execution = await run(session, speech.table)

    forms = [output["data"] for output in execution.outputs if "data" in output]
    assert any("<table" in data.get("text/html", "") and "count" in data["text/html"] for data in forms)


async def test_names_are_completed(session: Session, speech: Speech) -> None:
    await run(session, speech.unicode)
    found = await session.complete(speech.prefix)

    assert any(match.endswith(speech.completion.rpartition(".")[2]) for match in found.matches)


async def test_a_kernel_that_ends_is_told_and_replaced(session: Session, speech: Speech) -> None:
    if not speech.die:
        pytest.skip("SQL cannot end its process; the Python row does")
    await run(session, speech.remember)
    before = session.generation
    died = await run(session, speech.die)
    after = await run(session, speech.unicode)

    assert died.state == "died"
    assert died.reason
    assert after.ok
    assert session.generation == before + 1


async def test_a_restart_begins_with_nothing(session: Session, speech: Speech) -> None:
    await run(session, speech.remember)
    await session.restart()

    assert (await run(session, speech.recall)).state == "error"


async def test_code_reads_nothing_outside_of_its_place(
    session: Session, speech: Speech, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.txt"
    secret.write_text("TOP-SECRET")
    attempt = await run(session, speech.read_outside.format(path=str(secret)))

    assert attempt.state == "error"
    assert "TOP-SECRET" not in shown(attempt)


async def test_code_reaches_no_network(session: Session, speech: Speech) -> None:
    assert (await run(session, speech.call_out.format())).state == "error"

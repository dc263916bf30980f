"""The Srcbooks that Srcbook ships run: each cell that needs neither a package nor a key, and the others say what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine
from cellwright.engine import Execution
from cellwright.formats import read
from cellwright.notebook import DocumentReplaced
from tests.conftest import Require
from tests.support.corpus.fetching import CorpusUnavailableError
from tests.support.corpus.srcbooks import fetch_srcbooks

pytestmark = pytest.mark.anyio  # the first test also downloads

RUNS = {
    "getting-started.src.md": {
        "simple-code.js": "Hello, Srcbook!",
        "star-wars.js": "",
        "star-liner.js": "I am your father, Luke",
        "secret-message.js": "SECRET_API_KEY not set",
        "fix-me.js": "Factorial of 5 should be 120",
    },
    "langgraph-web-agent.src.md": {},
    "websockets.src.md": {},
}
NEEDS = {
    "generate-random-word.js": "random-words",
    "env-check.ts": "OPENAI_API_KEY",
    "agent.ts": "@langchain",
    "sf-weather.ts": "@langchain",
    "ny-weather.ts": "@langchain",
    "clear.ts": "@langchain",
    "simple-server.js": "ws",
    "simple-client.js": "ws",
    "stateful-server.js": "ws",
    "client.js": "ws",
}


@pytest.fixture(scope="module")
def srcbooks(require: Require) -> dict[str, bytes]:
    try:
        return fetch_srcbooks()
    except CorpusUnavailableError as error:
        require("the corpus of Srcbooks", False, f"reach the npm registry once. {error}")
        raise


async def run_book(engine: Engine, content: bytes, name: str, directory: Path) -> dict[str, Execution]:
    document = read(content, name=name).document
    session = await engine.create(name, language=document.language, directory=directory)
    await session.apply([DocumentReplaced(document.to_bytes().decode(), {})])
    executions = await session.run_all(allow_errors=True)
    names: dict[Any, str | None] = {cell.id: cell.filename for cell in session.cells}
    return {str(names[execution.cell_id]): execution for execution in executions}


@pytest.mark.parametrize("name", RUNS)
async def test_a_srcbook_runs_as_far_as_it_needs_nothing_from_elsewhere(
    engine: Engine, srcbooks: dict[str, bytes], name: str, tmp_path: Path
) -> None:
    ran = await run_book(engine, srcbooks[name], name, tmp_path)
    well = {file: execution for file, execution in ran.items() if execution.ok}

    assert well.keys() == RUNS[name].keys()
    for file, text in RUNS[name].items():
        assert text in well[file].text
    for file in ran.keys() - well.keys():
        assert ran[file].state == "error"
        assert NEEDS[file] in str((ran[file].error or {})["evalue"])

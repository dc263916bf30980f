"""What a TypeScript notebook has beyond the contract of all languages: named cells and checked types."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright import Engine, Missed
from cellwright.engine import Session
from cellwright.notebook.document import with_tsconfig
from cellwright.notebook.languages import cell_metadata
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(engine: Engine, tmp_path: Path) -> Session:
    (tmp_path / "pyproject.toml").touch()
    return await engine.create("ts", language="typescript", directory=tmp_path, mode="overlay")


async def run(session: Session, source: str, filename: str | None = None) -> str:
    cell = await session.add_cell(source, metadata=cell_metadata(filename=filename))
    execution = await session.run(cell.id, timeout_s=LIMIT_S)
    assert execution.ok, (execution.error, execution.reason)
    return execution.text


async def test_a_named_cell_is_imported_by_its_name_before_it_ever_ran(session: Session) -> None:
    named = await session.add_cell(
        "export const answer: number = 42;", metadata=cell_metadata(filename="answers.ts")
    )
    assert "42" in await run(session, "import { answer } from './answers.ts';\nanswer")
    await session.edit_cell(named.id, "export const answer: number = 43;")

    assert "43" in await run(session, "import { answer } from './answers.ts';\nanswer")


async def test_a_named_python_cell_is_a_module_too(session: Session) -> None:
    await session.add_cell("ANSWER = 42", metadata=cell_metadata(language="python", filename="answers.py"))
    cell = await session.add_cell(
        "import answers\nprint(answers.ANSWER)", metadata=cell_metadata(language="python")
    )

    assert (await session.run(cell.id)).text == "42\n"


async def test_types_are_checked_beside_the_run_and_stop_nothing(session: Session, engine: Engine) -> None:
    await session.apply([with_tsconfig(session.document, {"strict": True})])
    await run(session, "const price: number = 3;")
    with engine.subscribe(session.id) as events:
        assert "3" in await run(session, "const total: string = price;\ntotal")
        with fail_after():
            async for event in events:
                told = None if isinstance(event, Missed) else event
                if told and told.kind == "notebook.types.checked" and told.data["diagnostics"]:
                    break
    [found] = session.cells[-1].diagnostics

    assert found["code"] == "TS2322"
    assert found["line"] == 1


async def test_a_notebook_without_compiler_options_is_not_checked(session: Session) -> None:
    await run(session, "const total: string = 3 as any as number;")

    assert not session.types.checking
    assert session.cells[-1].diagnostics == []

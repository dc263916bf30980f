"""What only kernels of others do: R asks for input although it is told that nobody can give any."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright import Engine
from tests.conftest import Require
from tests.support.languages.speech import R_KERNELSPEC
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio


async def test_code_that_asks_for_input_is_answered_or_gets_an_empty_line_and_is_told(
    engine: Engine, tmp_path: Path, require: Require
) -> None:
    require("the R kernel", R_KERNELSPEC.exists(), "apt install r-cran-irkernel")
    session = await engine.create("asks", language="r", directory=tmp_path)
    cell = await session.add_cell("cat('[', readline('name? '), ']', sep = '')")
    execution = await session.run(cell.id, timeout_s=LIMIT_S)

    assert execution.ok, execution.reason
    assert "[]" in execution.text
    assert "nobody answered" in execution.text
    with session.questions.attended():
        execution = await session.execute(cell.id, timeout_s=LIMIT_S)
        with fail_after():
            while (question := session.questions.current) is None:
                await session.questions.change()
            await session.questions.answer(question, "Ada")
            await execution.wait()
    assert "[Ada]" in execution.text

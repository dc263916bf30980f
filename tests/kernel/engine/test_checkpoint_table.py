"""What becomes of things that people hold in a session: each comes back, or is refused, or is named. Never spoiled.

The table in docs/concepts/what-comes-back.md is what is found here. ``CELLWRIGHT_WRITE_TABLE=1`` writes it anew.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Engine, Execution, Session
from cellwright.engine._checkpoints import NOT_FILES
from cellwright.errors import CheckpointRefused
from tests.matrix import one_of_each
from tests.support.engine.checkpoint_rows import DATA, ROWS, Row

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "what-comes-back.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEADER = "| what there is | after a rollback | in a branch |\n|---|---|---|\n"
IS_TO_BE_WRITTEN = os.environ.get("CELLWRIGHT_WRITE_TABLE") == "1"
# Numbers and places are another each time.
MASKS = {
    r"\d+ native threads? of a library (is|are) running \([^)]*\)": "native threads of a library are running",
    r"(?<=child process )\d+": "…",
    r"psm_\w+": "psm_…",
    r"(/tmp|/var|/home|/root)/\S*/": "…/",
    r"#\d+": "#…",
    r"\(\S*python\S* -c [^)]*\)": "(python …)",
}


@dataclass(frozen=True)
class Found:
    """What became of one thing."""

    rollback: str
    branch: str

    def line(self, row: Row) -> str:
        return f"| {row.what} | {self.rollback} | {self.branch} |"


FOUND: dict[str, Found] = {}


def table() -> list[str]:
    text = PAGE.read_text()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()[2:]


def _kind(row: Row) -> str:
    """What comes back does so with the whole process, unless it lies on disk; the rest is refused or named for itself."""
    whole = any(line.startswith(f"| {row.what} | comes back |") for line in table())
    return "data" if row in DATA else "process" if whole and not row.on_disk else row.what


@pytest.mark.parametrize("row", one_of_each(ROWS, _kind, lambda row: row.what))
async def test_it_comes_back_or_is_refused_or_is_named(engine: Engine, tmp_path: Path, row: Row) -> None:
    found = FOUND[row.what] = await find_out(engine, tmp_path, row, "private")
    assert IS_TO_BE_WRITTEN or found.line(row) in table(), f"the page does not say: {found.line(row)}"


ON_DISK = [row for row in ROWS if row.on_disk]
# By default one row stands for the rest in each mode: the rows' own outcomes are those of the private mode, above.
EACH_ON_DISK = [ON_DISK[0], *(pytest.param(row, marks=pytest.mark.matrix) for row in ON_DISK[1:])]


@pytest.mark.parametrize("mode", ["direct", "overlay"])
@pytest.mark.parametrize("row", EACH_ON_DISK, ids=lambda row: row.what)
async def test_files_are_the_same_in_every_mode(engine: Engine, tmp_path: Path, row: Row, mode: str) -> None:
    (tmp_path / "pyproject.toml").touch()
    found = await find_out(engine, tmp_path, row, mode)
    assert IS_TO_BE_WRITTEN or found.line(row) in table(), f"the page does not say: {found.line(row)}"


def test_the_page_has_these_rows_and_no_others() -> None:
    if IS_TO_BE_WRITTEN:
        write()
    assert [line.split(" | ")[0].removeprefix("| ") for line in table()] == [row.what for row in ROWS]


async def find_out(engine: Engine, directory: Path, row: Row, mode: Any) -> Found:
    session = await engine.create("a row", directory=directory, mode=mode)
    await run(session, row.setup)
    try:
        kept = await session.checkpoint()
    except CheckpointRefused as refusal:
        branched = await in_branch(engine, session, None, row, refused=True)
        await run(session, row.check)  # the session goes on as if nobody had asked
        await engine.delete(session.id)
        return Found(f"refused: {masked(refusal.message)}", branched)
    if row.change:
        await run(session, row.change)
    branched = await in_branch(engine, session, kept.id, row)
    done = await session.roll_back(kept.id)
    await look(session, row)
    lost = [told for told in done.not_restored if row.is_outside or told != NOT_FILES]
    await engine.delete(session.id)
    return Found(outcome("comes back", lost), branched)


async def in_branch(
    engine: Engine, session: Session, checkpoint: str | None, row: Row, *, refused: bool = False
) -> str:
    grown = (await engine.branch(session.id, checkpoint=checkpoint))[0]
    assert grown.by == ("replay" if refused else "checkpoint"), grown.reason
    if not refused:
        await look(grown.session, row)
    await engine.delete(grown.session.id)
    lost = [told for told in grown.not_carried if row.is_outside or told != NOT_FILES]
    return "made again by replay" if refused else outcome("is there", lost)


def outcome(well: str, lost: list[str]) -> str:
    return f"named: {'; '.join(dict.fromkeys(map(masked, lost)))}" if lost else well


async def look(session: Session, row: Row) -> None:
    execution = await run(session, row.check)
    kinds = [output["output_type"] for output in execution.outputs]
    formats = [mime for output in execution.outputs for mime in output.get("data", {})]
    assert row.shows is None or row.shows in kinds + formats, execution.outputs


async def run(session: Session, code: str) -> Execution:
    cell = await session.add_cell(code)
    execution = await session.run(cell.id)
    assert execution.ok, f"{code}\n{execution.text}"
    return execution


def masked(text: str) -> str:
    for pattern, mask in MASKS.items():
        text = re.sub(pattern, mask, text)
    return text.replace("|", "\\|")


def write() -> None:
    text = PAGE.read_text()
    lines = "\n".join(FOUND[row.what].line(row) for row in ROWS)
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{before}\n{HEADER}{lines}\n{after}")

"""A notebook is run apart, measured, and what would be faster is tried before it is offered."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from cellwright import Engine, Session
from cellwright.notebook import Cell
from cellwright.notebook.languages import cell_metadata
from cellwright.review import Hint, Review, apply_rewrites, review
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio
# Each review runs its notebook in a session of its own.
PRELOAD = ("numpy", "pandas")

SETUP = """import numpy as np
import pandas as pd
rng = np.random.default_rng(1)
n = 1500
df = pd.DataFrame({"a": rng.integers(0, 50, n), "b": rng.random(n), "s": ["x", "yy"] * (n // 2)})
whole = df[["a", "b"]]"""
LOOP = """out = []
total = 0.0
for _, row in df.iterrows():
    out.append(row["a"] * row["b"])
    total += row["b"]
print(round(total, 6))"""
# All rows of `whole` are floats to the loop, and whole numbers to the column.
WIDENED = """counts = {}
picked = []
for _, row in whole.iterrows():
    picked.append(row["a"])"""
FUNCTION = """def slow(frame):
    t = 0
    for _, r in frame.iterrows():
        t += r["b"]
    return t"""
GROWTH = """x = np.array([])
for k in range(1500):
    x = np.append(x, k * 1.0)"""
RANDOM = """import os
noise = int.from_bytes(os.urandom(4), "big")
u = []
for _, r in df.iterrows():
    u.append(r["b"] + noise)"""


async def with_cells(engine: Engine, where: Path, *sources: str) -> Session:
    session = await engine.create("to be reviewed", directory=where)
    for source in sources:
        await session.add_cell(source)
    await session.save()
    return session


async def reviewed(engine: Engine, session: Session, **options: object) -> Review:
    with fail_after(60):
        return await review(engine, session, rounds=1, **options)  # type: ignore[arg-type]


def only(found: Review, number: int) -> Hint:
    (hint,) = [one for one in found.hints if one.number == number]
    return hint


def held(hint: Hint, source: str) -> bool:
    """Whether a text gave the same; of what is read in milliseconds a busy machine hides which was faster."""
    if hint.offer is not None:
        return hint.offer.source == source and hint.offer.speedup > 1
    return hint.seen is not None and "gave the same" in hint.seen


async def test_what_costs_time_is_measured_and_faster_cells_are_offered(
    engine: Engine, tmp_path: Path
) -> None:
    session = await with_cells(engine, tmp_path, SETUP, LOOP, FUNCTION, "slow(df)", GROWTH)
    before = session.path.read_bytes()
    found = await reviewed(engine, session, min_seconds=0.002)
    assert found.reason is None
    assert [cell.state for cell in found.cells] == ["ok"] * 5
    assert all(cell.seconds > 0 and cell.cpu_s is not None for cell in found.cells)
    assert found.cells[1].overhead is not None

    loop = only(found, 3)
    assert (loop.kind, loop.line, loop.hits) == ("row_loop", 3, 1501)
    assert 0.5 < loop.share <= 1
    assert loop.offer is not None
    assert loop.offer.speedup > 1
    assert "iterrows" not in loop.offer.source
    assert 'out.extend((df["a"] * df["b"]).tolist())' in loop.offer.source
    assert loop.offer.compared >= 4

    inside = only(found, 4)
    assert (inside.kind, inside.line, inside.ran_in, inside.hits) == ("row_loop", 3, 5, 1501)
    assert inside.offer is None

    growth = only(found, 6)
    assert (growth.kind, growth.hits) == ("growth", 1500)

    assert [hint.seconds for hint in found.hints] == sorted(
        (hint.seconds for hint in found.hints), reverse=True
    )
    assert session.path.read_bytes() == before
    assert session.state == "active"
    assert [one.id for one in engine.sessions() if one.record.branch_of] == []
    await apply_rewrites(session, found, [loop.cell_id])
    assert session.cell(loop.cell_id).source == loop.offer.source
    assert "iterrows" not in session.path.read_text().split("def slow")[0]


async def test_a_rewrite_that_would_change_results_is_not_offered_and_an_adviser_may_do_better(
    engine: Engine, tmp_path: Path
) -> None:
    session = await with_cells(engine, tmp_path, SETUP, WIDENED, RANDOM)
    asked: list[tuple[str, str]] = []

    async def adviser(cell: Cell, hint: Hint) -> str | None:
        asked.append((cell.source, hint.kind))
        return 'counts = {}\npicked = list(whole["a"].to_numpy(dtype="float64"))'

    found = await reviewed(engine, session, min_seconds=0.002, adviser=adviser)
    widened, random = only(found, 3), only(found, 4)
    assert asked == [(WIDENED, "row_loop")]
    assert widened.offer is not None
    assert (widened.offer.by, widened.offer.speedup > 1) == ("model", True)
    assert random.offer is None
    assert random.seen is not None
    assert "something else each time" in random.seen
    without = await reviewed(engine, session, min_seconds=0.002)
    assert only(without, 3).seen == "it gives something else: `picked` holds something else"
    assert not without.sources


async def test_files_that_are_read_again_or_too_wide_are_read_once_and_in_part(
    engine: Engine, tmp_path: Path
) -> None:
    others = ",".join(f"c{n}" for n in range(40))
    rows = "\n".join(f"{n / 3}," + ",".join([f"{n * 1.25}"] * 40) for n in range(4_000))
    (tmp_path / "wide.csv").write_text(f"v,{others}\n{rows}\n")
    session = await with_cells(
        engine,
        tmp_path,
        "import pandas as pd",
        "first = pd.read_csv('wide.csv')",
        "print(first['v'].sum())",
        "second = pd.read_csv('wide.csv')",
        "second['v'].max(), len(second)",
        "top = second.sort_values('v', ascending=False).head(3)\ntop",
    )
    found = await reviewed(engine, session, min_seconds=0)
    kinds = {(hint.number, hint.kind): hint for hint in found.hints}
    narrow, again = kinds[3, "unused_columns"], kinds[5, "reread"]
    assert held(narrow, "first = pd.read_csv('wide.csv', usecols=['v'])")
    assert held(again, "second = first.copy()")
    assert (7, "sorted_top") in kinds


async def test_a_notebook_that_fails_half_way_tells_what_was_measured_until_there(
    engine: Engine, tmp_path: Path
) -> None:
    session = await with_cells(engine, tmp_path, "x = 1", "open('missing.csv')", "y = 2")
    found = await reviewed(engine, session)
    assert [cell.state for cell in found.cells] == ["ok", "error"]
    assert found.total == 3
    assert found.reason is not None
    assert found.reason.startswith("Cell 3 ended as error (FileNotFoundError")
    assert not found.hints


async def test_a_notebook_without_python_is_run_and_nothing_is_found(engine: Engine, tmp_path: Path) -> None:
    session = await engine.create("nothing to run", directory=tmp_path)
    found = await reviewed(engine, session)
    assert (found.cells, found.hints, found.total, found.reason) == ((), (), 0, None)
    await session.add_cell("select 1 as one", metadata=cell_metadata(language="sql"))
    found = await reviewed(engine, session, min_seconds=0)
    assert [cell.state for cell in found.cells] == ["ok"]
    assert (found.hints, found.reason) == ((), None)


async def test_a_review_that_is_cancelled_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    session = await with_cells(engine, tmp_path, "import time\nwhile True: time.sleep(0.01)")
    sessions = engine.settings.storage / "sessions"
    before = {one.name for one in sessions.iterdir()}
    with fail_after():
        async with anyio.create_task_group() as tasks:
            began = anyio.Event()

            async def tell(_: str) -> None:
                began.set()

            tasks.start_soon(lambda: review(engine, session, tell=tell))
            await began.wait()
            tasks.cancel_scope.cancel()
    assert {one.name for one in sessions.iterdir()} == before

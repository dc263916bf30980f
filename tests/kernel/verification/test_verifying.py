"""A notebook is run from the top in a clean kernel, and what is wrong with it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from cellwright import Engine, Session
from cellwright.errors import NotebookError
from cellwright.notebook import CellAdded, CellMetadataSet, Document, NotebookMetadataSet
from cellwright.tools import Files
from cellwright.verification import (
    MaskPattern,
    Verification,
    Verifier,
    Volatile,
    certificate_of,
    certificate_state,
    verify,
)
from cellwright.verification._rehearsal import time_for
from tests.waiting import fail_after, scaled

pytestmark = pytest.mark.anyio

ENDLESS = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
CHART = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.bar(df['name'], df['n'])\nplt.show()"


async def with_cells(
    engine: Engine, where: Path, *sources: str, run: bool = True
) -> tuple[Session, list[str]]:
    """A session in a folder of its own in which these cells ran in order."""
    session = await engine.create("to be verified", directory=where)
    ids = [(await session.add_cell(source)).id for source in sources]
    if run:
        for cell_id in ids:
            await session.run(cell_id)
    return session, ids


async def verified(engine: Engine, session: Session, **options: object) -> Verification:
    with fail_after(60):
        return await (await verify(engine, session, **options)).wait()  # type: ignore[arg-type]


def different(verification: Verification) -> list[str]:
    return [one.cell.id for one in verification.checked if not one.same]


def found(verification: Verification) -> list[tuple[str, str]]:
    return [(one.kind, one.cell_id) for one in verification.findings]


async def test_a_deterministic_notebook_with_files_a_frame_and_a_chart_is_verified(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text("name,n\na,1\nb,2.5\n")
    session, ids = await with_cells(
        engine,
        tmp_path,
        "import pandas as pd\ndf = pd.read_csv('data.csv')\ndf",
        "df['n'].mean(), {1.5}",
        CHART,
        "df.to_csv('out.csv')\nprint(open('out.csv').read())\nobject()",
        "1 / 0",
    )
    await session.save()  # which is due about now, by way of a file beside it
    before = (session.generation, (tmp_path / "out.csv").stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    verification = await verified(engine, session)
    assert verification.reason is None
    assert (verification.verified, verification.state, found(verification)) == (True, "completed", [])
    assert [one.cell.id for one in verification.checked] == ids
    after = (session.generation, (tmp_path / "out.csv").stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    assert after == before
    assert engine.sessions() == [one for one in engine.sessions() if one.record.rehearses is None]
    assert not [one for one in engine._sessions.values() if one.record.rehearses]
    certificate = certificate_of(session.document)
    assert certificate is not None
    assert list(certificate.inputs) == ["data.csv"]
    assert {"pandas", "matplotlib"} <= set(certificate.packages)
    assert certificate.python.startswith("3.")
    assert session.cell(ids[0]).metadata["cellwright"]["inputs"] == certificate.inputs
    nbformat.validate(nbformat.read(session.path, as_version=4))


async def test_state_that_a_deleted_cell_left_is_named(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(engine, tmp_path, "secret = 42", "print(secret)")
    await session.delete_cell(ids[0])
    verification = await verified(engine, session)
    assert not verification.verified
    assert found(verification) == [("hidden", ids[1])]
    assert "now deleted" in verification.findings[0].message
    assert verification.reason is not None
    assert ids[1] in verification.reason
    assert "NameError" in verification.reason
    assert certificate_state(session.document) == "failed"


async def test_cells_that_ran_out_of_order_are_named(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(engine, tmp_path, "x = 1", "print(x)", "x = 2", run=False)
    for place in (0, 2, 1):
        await session.run(ids[place])
    verification = await verified(engine, session)
    assert not verification.verified
    assert found(verification) == [("out_of_order", ids[1])]
    assert different(verification) == [ids[1]]


async def test_a_changed_input_is_named_with_its_cell_even_where_the_outputs_are_the_same(
    engine: Engine, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("x\n1\n2\n")
    session, ids = await with_cells(engine, tmp_path, "n = 1", "print(len(open('data.csv').readlines()))")
    assert (await verified(engine, session)).verified
    data.write_text("x\n1\n3\n")
    verification = await verified(engine, session)
    assert not verification.verified
    assert different(verification) == []
    (finding,) = verification.findings
    assert (finding.kind, finding.cell_id, finding.names) == ("changed_input", ids[1], ("data.csv",))
    await session.run(ids[1])
    assert (await verified(engine, session)).verified


async def test_random_numbers_without_a_seed_are_named_where_they_show(
    engine: Engine, tmp_path: Path
) -> None:
    session, ids = await with_cells(
        engine,
        tmp_path,
        "import numpy as np\nx = np.random.rand(3)",
        "x",
        "np.random.seed(1)",
        "np.random.rand()",
    )
    verification = await verified(engine, session)
    assert not verification.verified
    assert different(verification) == [ids[1]]
    (finding,) = verification.findings
    assert (finding.kind, finding.cell_id) == ("random", ids[1])
    assert finding.message == f"takes random numbers without a seed from cell {ids[0]} (`np.random.rand`)"


async def test_a_file_that_was_put_into_a_projects_layer_is_there_in_the_clean_kernel_and_what_code_left_is_not(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    session = await engine.create("over a project", directory=tmp_path / "notebooks", mode="overlay")
    assert session.mode == "overlay"
    await Files(engine).write("sales.csv", b"units\n7\n", session=session)
    reads = await session.add_cell("import os\nprint(open('sales.csv').read(), os.path.exists('left.txt'))")
    await session.run(reads.id)
    await session.run((await session.add_cell("open('left.txt', 'w').close()")).id)
    verification = await verified(engine, session)
    assert verification.verified, verification.reason


async def test_a_file_that_only_a_deleted_cell_wrote_is_named(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(
        engine, tmp_path, "open('left.txt', 'w').write('x')", "print(open('left.txt').read())"
    )
    await session.delete_cell(ids[0])
    verification = await verified(engine, session)
    assert not verification.verified
    assert found(verification) == [("hidden_file", ids[1])]


async def test_the_certificate_goes_stale_with_any_edit_of_the_code(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(engine, tmp_path, "x = 1", "x + 1")
    assert certificate_state(session.document) == "none"
    await verified(engine, session)
    assert certificate_state(session.document) == "valid"
    await session.add_cell("# words", "markdown")
    assert certificate_state(session.document) == "valid"
    await session.edit_cell(ids[0], "x = 1  # really")
    assert certificate_state(session.document) == "stale"
    await session.edit_cell(ids[0], "x = 1")
    assert certificate_state(session.document) == "valid"
    await session.move_cell(ids[1], 1)
    assert certificate_state(session.document) == "stale"
    await session.move_cell(ids[1], 2)
    added = await session.add_cell("3")
    assert certificate_state(session.document) == "stale"
    await session.delete_cell(added.id)
    await session.delete_cell(ids[1])
    assert certificate_state(session.document) == "stale"


async def test_the_certificate_is_in_the_file_and_comes_back_with_it(engine: Engine, tmp_path: Path) -> None:
    session, _ = await with_cells(engine, tmp_path, "x = 1")
    await verified(engine, session)
    saved = nbformat.read(session.path, as_version=4)
    assert saved["metadata"]["cellwright"]["certificate"]["verified"] is True


async def test_the_first_cell_that_fails_now_ends_it_and_the_rest_is_not_run(
    engine: Engine, tmp_path: Path
) -> None:
    session, _ = await with_cells(engine, tmp_path, "open('once', 'x').close()", "print('after')")
    (tmp_path / "once").unlink()
    assert (await verified(engine, session)).verified
    (tmp_path / "once").touch()
    verification = await verified(engine, session)
    assert not verification.verified
    certificate = certificate_of(session.document)
    assert certificate is not None
    assert [cell.state for cell in certificate.cells] == ["error", "not_run"]
    assert "FileExistsError" in certificate.cells[0].differences[0]


async def test_declared_masks_and_tolerances_make_outputs_the_same(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(
        engine,
        tmp_path,
        "import time\nprint('ran at', time.strftime('%H:%M:%S') + f'.{time.time_ns() % 1000000:06}')",
        "print('process', time.time_ns())",
        "print('worker', time.time_ns())",
        "%time x = 1",
    )
    plain = await verified(engine, session)
    assert different(plain) == ids[:3]
    declared = {"mask": ["times", {"pattern": "process [0-9]+", "as": "process N"}]}
    metadata = session.document.metadata
    ours = {**metadata.get("cellwright", {}), "verify": declared}
    own = {**session.cell(ids[2]).metadata, "cellwright": {"verify": {"mask": [{"pattern": r"\d+"}]}}}
    await session.apply([NotebookMetadataSet({**metadata, "cellwright": ours}), CellMetadataSet(ids[2], own)])
    masked = await verified(engine, session)
    assert (different(masked), masked.verified) == ([], True)
    certificate = certificate_of(session.document)
    assert certificate is not None
    assert "times" in certificate.rules["mask"]


async def test_a_pattern_that_is_none_makes_its_cell_different(engine: Engine, tmp_path: Path) -> None:
    session, ids = await with_cells(engine, tmp_path, "print(1)")
    verification = await verified(engine, session, rules=Volatile(mask=(MaskPattern("(a"),)))
    assert different(verification) == ids
    assert "cannot be used" in verification.checked[0].comparison.differences[0].why


async def test_what_is_declared_and_cannot_be_understood_is_refused_before_anything_runs(
    engine: Engine, tmp_path: Path
) -> None:
    session, _ = await with_cells(engine, tmp_path, "1", run=False)
    metadata = {**session.document.metadata, "cellwright": {"verify": {"mask": ["everything"]}}}
    await session.apply([NotebookMetadataSet(metadata)])
    with pytest.raises(NotebookError, match="there is no mask 'everything'"):
        await verify(engine, session)


async def test_a_verification_is_joined_and_can_be_cancelled_and_leaves_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    session, _ = await with_cells(engine, tmp_path, "x = 1", ENDLESS, run=False)
    verifier = Verifier(engine)
    with fail_after(), engine.subscribe() as events:
        first = await verifier.start(session, timeout_s=scaled(60))
        assert await verifier.start(session) is first
        async for event in events:
            if getattr(event, "kind", "") == "notebook.cell.output":
                break
    with fail_after():
        await first.cancel()
    assert (first.done, first.verified, first.certificate) == (True, False, None)
    assert first.reason == "It was cancelled after 1 of 2 cells"
    assert certificate_state(session.document) == "none"
    assert not [one for one in engine._sessions.values() if one.record.rehearses]
    known = {one.id for one in engine.sessions()}
    assert {one.name for one in (engine.settings.storage / "sessions").iterdir()} <= known


@pytest.mark.parametrize(
    ("took", "limit_s"),
    [
        (11, 300),
        (200, 600),
        (1e12, 21_600),
        (float("nan"), 300),
        (float("inf"), 300),
        (-1, 300),
        ("long", 300),
    ],
)
def test_a_cell_gets_more_than_the_usual_time_if_it_took_more_but_not_whatever_a_file_says(
    took: Any, limit_s: float
) -> None:
    document = Document.new()
    document.apply(CellAdded("c", "code", "x = 1", 0, {"cellwright": {"seconds": took}}))
    cell = document.cell("c")
    assert time_for(cell, 300) == limit_s

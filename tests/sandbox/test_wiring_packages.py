"""Packages reach a live session: real kernels, real uv, wheels that the test makes, and one from the registry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import Require
from tests.engine.conftest import end_host, open_at
from tests.sandbox.conftest import let_others_in
from tests.sandbox.test_packages import make_wheel
from tests.waiting import UNHURRIED, scaled

from cellwright import Engine, Session
from cellwright.errors import PackageRefused

pytestmark = pytest.mark.anyio

APPROVED = ("small-tool", "other-tool")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only source of packages for uv in this test."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    make_wheel(directory, "small-tool", "1.0", "unlisted-part")
    make_wheel(directory, "unlisted-part", "0.3")
    make_wheel(directory, "other-tool", "2.0")
    monkeypatch.setenv("UV_FIND_LINKS", str(directory))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return directory


@pytest.fixture(params=["boxed", "watched", "unconfined"])
async def engine(
    open_root: Path, request: pytest.FixtureRequest, wheels: Path, require: Require
) -> AsyncIterator[Engine]:
    """An engine for each way of confining kernels, since each shows layers in its own way."""
    assert wheels.is_dir()
    if request.param == "watched":
        let_others_in(open_root, require)
    ways = {
        "boxed": {},
        "watched": {"sandbox_namespaces": False},
        "unconfined": {"unsafe_no_sandbox": True},
    }
    async with open_at(open_root, approved_packages=APPROVED, **UNHURRIED, **ways[request.param]) as engine:
        yield engine
    end_host(open_root / "state")


async def said(session: Session, code: str) -> str:
    execution = await (await session.execute_code(code)).wait()
    return execution.text.strip()


async def test_a_package_can_be_imported_at_once_in_the_live_kernel_and_after_a_restart(
    engine: Engine,
) -> None:
    session = await engine.create("packages", mode="private")
    assert "ModuleNotFoundError" in await said(session, "kept = 1\nimport small_tool")

    result = await session.install(["small-tool"])

    assert [str(pin) for pin in result.installed] == ["small-tool==1.0", "unlisted-part==0.3"]
    assert result.not_listed == ("unlisted-part",)
    assert await said(session, "import small_tool; print(kept, small_tool.version)") == "1 1.0"
    await session.restart()
    assert await said(session, "import small_tool; print(small_tool.version)") == "1.0"


async def test_code_can_read_a_layer_and_not_change_it(engine: Engine) -> None:
    if engine.settings.unsafe_no_sandbox:
        pytest.skip("nothing protects anything there, and every reply says so")
    session = await engine.create("packages", mode="private")
    await session.install(["small-tool"])
    code = "import small_tool, os\nopen(small_tool.__file__, 'w')"
    text = await said(session, code)
    assert "PermissionError" in text or "Read-only" in text, text


async def test_a_package_comes_while_a_cell_runs(engine: Engine) -> None:
    session = await engine.create("packages", mode="private")
    code = (
        "import importlib.util, time\n"
        "while importlib.util.find_spec('other_tool') is None: time.sleep(0.01)\n"
        "import other_tool; print(other_tool.version)"
    )
    running = await session.execute_code(code, timeout_s=scaled(60))
    await session.install(["other-tool"])
    await running.wait()
    assert running.text.strip() == "2.0"


async def test_an_unlisted_name_is_refused_with_the_nearest_one(engine: Engine) -> None:
    session = await engine.create("packages", mode="private")
    with pytest.raises(PackageRefused, match="smal-tool") as refused:
        await session.install(["smal-tool"])
    assert refused.value.suggestion == "small-tool"
    assert session.record.layers == ()


async def test_the_standard_library_is_already_there_and_no_other_session_gets_what_one_asked_for(
    engine: Engine,
) -> None:
    session, other = [await engine.create(name, mode="private") for name in ("one", "another")]
    assert (await session.install(["json"])).already_there == ("json",)
    await session.install(["small-tool"])
    again = await session.install(["small-tool", "other-tool"])
    assert [str(pin) for pin in again.installed] == ["other-tool==2.0"]
    assert again.already_there == ("small-tool",)
    assert "ModuleNotFoundError" in await said(other, "import small_tool")


async def test_a_session_keeps_its_packages_when_the_engine_and_the_host_are_new(
    wheels: Path, open_root: Path
) -> None:
    assert wheels.is_dir()
    async with open_at(open_root, approved_packages=APPROVED, **UNHURRIED) as engine:
        session = await engine.create("packages", mode="private")
        await session.install(["small-tool"])
        session_id = session.id
    end_host(open_root / "state")
    async with open_at(open_root, approved_packages=APPROVED, **UNHURRIED) as engine:
        session = engine.session(session_id)
        assert session.record.packages == ("small-tool==1.0", "unlisted-part==0.3")
        assert await said(session, "import small_tool; print(small_tool.version)") == "1.0"
    end_host(open_root / "state")


async def test_a_session_in_another_language_gets_no_packages(open_root: Path) -> None:
    notebook = open_root / "shell.ipynb"
    notebook.write_text(
        '{"cells": [], "metadata": {"language_info": {"name": "bash"}}, "nbformat": 4, "nbformat_minor": 5}'
    )
    async with open_at(open_root, approved_packages=APPROVED, **UNHURRIED) as engine:
        session = await engine.open(notebook)
        with pytest.raises(PackageRefused, match="Python, TypeScript and JavaScript"):
            await session.install(["small-tool"])
    end_host(open_root / "state")


async def test_a_real_package_comes_from_the_registry(open_root: Path) -> None:
    async with open_at(open_root, approved_packages=("toolz",), **UNHURRIED) as engine:
        session = await engine.create("packages", mode="private")
        result = await session.install(["toolz"])
        assert [pin.name for pin in result.installed] == ["toolz"]
        assert await said(session, "import toolz; print(list(toolz.take(2, 'abc')))") == "['a', 'b']"
    end_host(open_root / "state")

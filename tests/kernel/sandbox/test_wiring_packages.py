"""Packages reach a live session: real kernels, real uv, wheels that the test makes, and one from the registry."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cellwright import Engine, Session
from cellwright.audit import read_lines
from cellwright.errors import PackageRefused
from tests.conftest import Require
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.sandbox.conftest import let_others_in, opened_root
from tests.kernel.sandbox.test_packages import make_wheel
from tests.matrix import first_of
from tests.waiting import UNHURRIED, scaled

pytestmark = pytest.mark.anyio

APPROVED = ("small-tool", "other-tool")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The only source of packages for uv here, but for the test that asks the registry."""
    directory = tmp_path_factory.mktemp("wheels")
    make_wheel(directory, "small-tool", "1.0", "unlisted-part")
    make_wheel(directory, "unlisted-part", "0.3")
    make_wheel(directory, "other-tool", "2.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_FIND_LINKS", str(directory))
        patch.setenv("UV_OFFLINE", "1")
        yield directory


SETTINGS: dict[str, dict[str, bool]] = {
    "boxed": {},
    "watched": {"sandbox_namespaces": False},
    "unconfined": {"unsafe_no_sandbox": True},
}


@pytest.fixture(scope="module")
async def engine(request: pytest.FixtureRequest, wheels: Path, require: Require) -> AsyncIterator[Engine]:
    """An engine for each way of confining kernels, since each shows layers in its own way."""
    assert wheels.is_dir()
    with opened_root() as root:
        if request.param == "watched":
            let_others_in(root, require)
        confined = SETTINGS[request.param]
        async with open_at(root, approved_packages=APPROVED, **UNHURRIED, **confined) as engine:
            yield engine
        end_host(root / "state")


async def said(session: Session, code: str) -> str:
    execution = await (await session.execute_code(code)).wait()
    return execution.text.strip()


@pytest.mark.parametrize("engine", first_of(["boxed", "watched", "unconfined"], 2), indirect=True)
async def test_a_package_can_be_imported_at_once_in_the_live_kernel_and_after_a_restart(
    engine: Engine,
) -> None:
    session = await engine.create("packages", mode="private")
    missing = await said(session, "kept = 1\nimport small_tool")
    assert "ModuleNotFoundError" in missing
    if not engine.settings.unsafe_no_sandbox:
        # What Jupyter users type leads to the same call, and to nothing else.
        told = [missing, *[await said(session, f"{way}pip install small-tool") for way in ("!", "%")]]
        assert all('package_install(["small-tool"])' in each for each in told), told

    result = await session.install(["small-tool"])

    assert [str(pin) for pin in result.installed] == ["small-tool==1.0", "unlisted-part==0.3"]
    assert result.not_listed == ("unlisted-part",)
    audited = [json.loads(line) for line in read_lines(engine.settings.storage)]
    (installed,) = [line["about"] for line in audited if line["kind"] == "install"]
    assert installed == {"asked": ["small-tool"], "installed": ["small-tool==1.0", "unlisted-part==0.3"]}
    assert await said(session, "import small_tool; print(kept, small_tool.version)") == "1 1.0"
    await session.restart()
    assert await said(session, "import small_tool; print(small_tool.version)") == "1.0"


@pytest.mark.parametrize("engine", ["boxed", "watched"], indirect=True)
async def test_code_can_read_a_layer_and_not_change_it(engine: Engine) -> None:
    session = await engine.create("packages", mode="private")
    await session.install(["small-tool"])
    code = "import small_tool, os\nopen(small_tool.__file__, 'w')"
    text = await said(session, code)
    assert "PermissionError" in text or "Read-only" in text, text


@pytest.mark.parametrize(
    "engine",
    [
        "boxed",
        pytest.param("watched", marks=pytest.mark.matrix),
        pytest.param("unconfined", marks=pytest.mark.matrix),
    ],
    indirect=True,
)
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


@pytest.mark.parametrize("engine", ["boxed"], indirect=True)
async def test_an_unlisted_name_is_refused_with_the_nearest_one(engine: Engine) -> None:
    session = await engine.create("packages", mode="private")
    with pytest.raises(PackageRefused, match="smal-tool") as refused:
        await session.install(["smal-tool"])
    assert refused.value.suggestion == "small-tool"
    assert session.record.layers == ()


@pytest.mark.parametrize(
    "engine",
    [
        "boxed",
        pytest.param("watched", marks=pytest.mark.matrix),
        pytest.param("unconfined", marks=pytest.mark.matrix),
    ],
    indirect=True,
)
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


@pytest.mark.matrix  # the others install a wheel by the same uv
async def test_a_real_package_comes_from_the_registry(
    open_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.delenv("UV_OFFLINE", raising=False)
    async with open_at(open_root, approved_packages=("toolz",), **UNHURRIED) as engine:
        session = await engine.create("packages", mode="private")
        result = await session.install(["toolz"])
        assert [pin.name for pin in result.installed] == ["toolz"]
        assert await said(session, "import toolz; print(list(toolz.take(2, 'abc')))") == "['a', 'b']"
    end_host(open_root / "state")

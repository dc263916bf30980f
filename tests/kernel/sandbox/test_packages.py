"""Only approved packages, only wheels, only as resolved, into layers that nobody writes. Fetches nothing.

The packages here are made by the tests: they have well-known names and hold one line each.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from cellwright.errors import LimitReached, PackageFailed, PackageRefused
from cellwright.sandbox.approved_packages import DEFAULT_APPROVED, ApprovedList
from cellwright.sandbox.packages import (
    InstallLimits,
    InstallResult,
    Lock,
    PackageSource,
    Pin,
    PythonTarget,
    find_uv,
    install,
    installed_in,
)

pytestmark = pytest.mark.anyio

TARGET = PythonTarget("3.12")


def make_wheel(directory: Path, name: str, version: str, *needs: str, filling: bytes = b"") -> Path:
    module, path = name.replace("-", "_"), directory / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {one}" for one in needs),
    ]
    files = {
        f"{module}/__init__.py": f"version = {version!r}\n".encode(),
        f"{module}/filling": filling,
        f"{info}/METADATA": "\n".join([*metadata, ""]).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, content in files.items():
            wheel.writestr(inside, content)
        wheel.writestr(f"{info}/RECORD", "".join(f"{inside},,\n" for inside in [*files, f"{info}/RECORD"]))
    return path


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    directory = tmp_path / "wheels"
    directory.mkdir()
    make_wheel(directory, "pandas", "2.1", "numpy>=1", "tiny-helper")
    make_wheel(directory, "pandas", "3.0", "numpy>=2", "tiny-helper")
    make_wheel(directory, "numpy", "1.26")
    make_wheel(directory, "numpy", "2.4")
    make_wheel(directory, "scikit-learn", "1.7", "numpy")
    make_wheel(directory, "tiny-helper", "0.1")
    return directory


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def get(
    wheels: Path,
    store: Path,
    *requests: str,
    approved: Sequence[str] = DEFAULT_APPROVED,
    installed: dict[str, str] | None = None,
    limits: InstallLimits | None = None,
) -> InstallResult:
    source = PackageSource(find_links=(str(wheels),), only_links=True, cache=wheels.parent / "cache")
    return await install(
        requests,
        target=TARGET,
        store=store,
        approved=ApprovedList(approved),
        installed=installed,
        source=source,
        limits=limits,
    )


def versions(result: InstallResult) -> list[str]:
    return [str(pin) for pin in result.installed]


async def test_approved_package_and_what_it_needs_can_be_imported_from_the_layer(
    wheels: Path, store: Path
) -> None:
    result = await get(wheels, store, "pandas")
    assert versions(result) == ["numpy==2.4", "pandas==3.0", "tiny-helper==0.1"]
    assert result.not_listed == ("tiny-helper",)
    assert not result.reused
    script = (
        "import sys; sys.path.append(sys.argv[1]); import numpy, pandas; print(pandas.version, numpy.version)"
    )
    told = subprocess.run(
        [sys.executable, "-S", "-c", script, str(result.layer)], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["3.0", "2.4"]


async def test_layer_is_read_only_shares_no_file_and_holds_its_lock(wheels: Path, store: Path) -> None:
    result = await get(wheels, store, "pandas")
    assert result.layer is not None
    everything = [result.layer, *result.layer.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in everything} == {0o555, 0o444}
    assert {path.stat().st_nlink for path in everything if path.is_file()} == {1}
    lock = Lock.parse((result.layer / ".cellwright-lock.txt").read_text())
    digest = hashlib.sha256((wheels / "numpy-2.4-py3-none-any.whl").read_bytes()).hexdigest()
    assert lock.pins[0].hashes == (f"sha256:{digest}",)
    assert [path.name for path in store.iterdir()] == [result.layer.name]
    assert stat.S_IMODE(store.stat().st_mode) == 0o711


async def test_same_packages_are_unpacked_once_however_they_are_asked_for(wheels: Path, store: Path) -> None:
    first = await get(wheels, store, "pandas", "scikit_learn")
    second = await get(wheels, store, "Scikit.Learn", "pandas>=2", "numpy")
    assert second.layer == first.layer
    assert second.reused
    assert second.installed == first.installed


async def test_two_sessions_at_once_get_the_same_layer(wheels: Path, store: Path) -> None:
    found = []

    async def one() -> None:
        found.append((await get(wheels, store, "pandas")).layer)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert len(set(found)) == 1
    assert list(store.iterdir()) == [found[0]]


async def test_what_is_there_is_not_installed_again_and_keeps_its_version(wheels: Path, store: Path) -> None:
    there = await get(wheels, store, "numpy", "csv", "json", installed={"numpy": "1.26"})
    assert (there.already_there, there.layer) == (("csv", "json", "numpy"), None)
    beside = await get(wheels, store, "pandas", "numpy>=1", installed={"numpy": "1.26"})
    assert versions(beside) == ["pandas==2.1", "tiny-helper==0.1"]
    assert beside.already_there == ("numpy>=1",)


async def test_version_that_does_not_go_with_what_is_there_is_told(wheels: Path, store: Path) -> None:
    with pytest.raises(PackageFailed, match=r"numpy==1\.26") as failure:
        await get(
            wheels, store, "pandas==3.0", installed={"numpy": "1.26", "odd": "0.1ubuntu1", "a\n-r x": "1"}
        )
    assert "keeps its version" in str(failure.value.hint)
    assert list(store.iterdir()) == []


async def test_installed_packages_are_told_by_their_metadata_without_running_anything(
    wheels: Path, store: Path, tmp_path: Path
) -> None:
    result = await get(wheels, store, "scikit-learn")
    assert result.layer is not None
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "numpy-1.0-py3.12.egg-info").touch()
    (tmp_path / "old" / "PyYAML-6.0.egg-info").mkdir()
    (tmp_path / "old" / "notes.txt").touch()
    found = installed_in([result.layer, tmp_path / "old", tmp_path / "missing"])
    assert found == {"scikit-learn": "1.7", "numpy": "2.4", "pyyaml": "6.0"}


async def test_standard_library_is_there_already_without_uv_or_a_store(store: Path) -> None:
    result = await install(["csv", "json", "datetime"], target=TARGET, store=store, approved=ApprovedList())
    assert result.already_there == ("csv", "json", "datetime")
    assert result.layer is None
    assert not store.exists()


async def test_refused_request_reaches_neither_uv_nor_a_store(wheels: Path, store: Path) -> None:
    with pytest.raises(PackageRefused):
        await get(wheels, store, "pandas @ https://evil.example/pandas.whl")
    assert not store.exists()


async def test_versions_and_extras_of_the_list_bind_requests(wheels: Path, store: Path) -> None:
    bound = await get(wheels, store, "pandas", approved=["pandas<3"])
    assert "pandas==2.1" in versions(bound)
    with pytest.raises(PackageFailed):
        await get(wheels, store, "pandas==3.0", approved=["pandas<3"])
    assert ApprovedList(["pandas[excel]"]).judge(["pandas[Excel]"]).approved
    with pytest.raises(PackageRefused, match="approved packages"):
        ApprovedList(["https://evil.example/list"])


async def test_source_is_never_built(wheels: Path, store: Path, tmp_path: Path) -> None:
    setup = tmp_path / "setup.py"
    setup.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with tarfile.open(wheels / "lxml-5.0.tar.gz", "w:gz") as archive:
        archive.add(setup, "lxml-5.0/setup.py")
    with pytest.raises(PackageFailed) as failure:
        await get(wheels, store, "lxml")
    assert "wheels" in str(failure.value)
    assert not (tmp_path / "ran").exists()


async def test_file_that_is_not_the_resolved_one_is_refused(wheels: Path, store: Path) -> None:
    from cellwright.sandbox.packages import _Job

    source = PackageSource(find_links=(str(wheels),), only_links=True, cache=wheels.parent / "cache")
    job = _Job(TARGET, store, ApprovedList(), {}, source, InstallLimits())
    swapped = Lock((Pin("numpy", "2.4", (f"sha256:{'0' * 64}",)),))
    with pytest.raises(PackageFailed, match=r"(?i)hash"):
        await job.layer_of(swapped)
    assert list(store.iterdir()) == []


async def test_layer_beyond_its_size_is_refused_and_nothing_is_left(wheels: Path, store: Path) -> None:
    make_wheel(wheels, "polars", "1.0", filling=os.urandom(200_000))
    with pytest.raises(LimitReached) as reached:
        await get(wheels, store, "polars", limits=InstallLimits(max_bytes=100_000))
    assert reached.value.setting == "max_install_bytes"
    assert list(store.iterdir()) == []


async def test_installation_beyond_its_time_is_stopped_and_nothing_is_left(wheels: Path, store: Path) -> None:
    with pytest.raises(LimitReached) as reached:
        await get(wheels, store, "pandas", limits=InstallLimits(timeout_s=0.001))
    assert reached.value.setting == "install_timeout_s"
    assert not store.exists() or list(store.iterdir()) == []


async def test_neither_environment_nor_project_leads_uv_astray(
    wheels: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (planted / "uv.toml").write_text('[pip]\nno-index = false\nindex-url = "http://127.0.0.1:1/simple"\n')
    (planted / "pin.txt").write_text("pandas==2.1\n")
    monkeypatch.chdir(planted)
    for name, value in {
        "PYTHONPATH": planted,
        "UV_CONSTRAINT": planted / "pin.txt",
        "VIRTUAL_ENV": planted,
    }.items():
        monkeypatch.setenv(name, str(value))
    result = await get(wheels, store, "pandas")
    assert "pandas==3.0" in versions(result)
    assert not (tmp_path / "ran").exists()


def test_uv_is_found_beside_us() -> None:
    assert find_uv() is not None

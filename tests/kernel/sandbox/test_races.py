"""Code that swaps names at full speed while the host lists, compares, applies and reads never leads it outside."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from cellwright import Engine, Session, Settings, open_engine
from cellwright.errors import SandboxError
from cellwright.sandbox.files import Workdir
from tests.matrix import first_of
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

SECRET = "a secret that no session may see"  # noqa: S105  # it guards nothing
ROUNDS = 60
# Each turn a name is a file, then a link to the secret (or to the directory that holds it), then a file again.
SWAP_FILE = """
import os, threading
open('steady', 'w').write('harmless')
open('plain', 'w').write('harmless'); os.symlink({secret!r}, 'bad')
def swap():
    while True:
        os.replace('plain', 'swapped'); os.replace('swapped', 'plain')
        os.replace('bad', 'swapped'); os.replace('swapped', 'bad')
threading.Thread(target=swap, daemon=True).start()
"""
SWAP_DIRECTORY = """
import os, threading
open('steady', 'w').write('harmless')
os.makedirs('plain'); open('plain/secret', 'w').write('harmless'); os.symlink({folder!r}, 'bad')
def swap():
    while True:
        os.rename('plain', 'swapped'); os.rename('swapped', 'plain')
        os.rename('bad', 'swapped'); os.rename('swapped', 'bad')
threading.Thread(target=swap, daemon=True).start()
"""


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("races")
    (root / "pyproject.toml").touch()
    async with open_engine(Settings(root=root, storage=root / "state", **UNHURRIED)) as engine:
        yield engine
        await engine.close(stop_host=True)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path / "secret"


@pytest.mark.parametrize(
    ("mode", "swap"),
    first_of(
        [
            pytest.param("overlay", SWAP_DIRECTORY, id="overlay-directory"),
            pytest.param("private", SWAP_FILE, id="private-file"),
            pytest.param("direct", SWAP_DIRECTORY, id="direct-directory"),
            pytest.param("overlay", SWAP_FILE, id="overlay-file"),
            pytest.param("private", SWAP_DIRECTORY, id="private-directory"),
            pytest.param("direct", SWAP_FILE, id="direct-file"),
        ],
        1,
    ),
)
async def test_the_host_reads_nothing_but_what_lies_inside(
    engine: Engine, secret: Path, mode: str, swap: str, request: pytest.FixtureRequest
) -> None:
    session = await engine.create(
        "races", mode=mode, directory=engine.settings.root / request.node.callspec.id
    )
    values = {"secret": str(secret), "folder": str(secret.parent)}
    assert (await (await session.execute_code(swap.format(**values))).wait()).ok
    seen = await _look(session)
    assert not any(SECRET in text for text in seen)
    assert secret.read_text() == SECRET, "nor was it written to"
    await engine.delete(session.id)


@pytest.mark.parametrize("mode", first_of(["private", "direct"], 1))
async def test_the_host_reads_no_file_that_has_another_name_outside(
    engine: Engine, secret: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    """Code in a box cannot make such a link; here it is made for it, as if it could."""
    session = await engine.create("races", mode=mode, directory=engine.settings.root / request.node.name)
    directory = Path((await session.files()).directory)
    # One name changes hands between a plain file and a second name of the secret.
    over = threading.Event()
    swapper = threading.Thread(target=_swap_links, args=(directory, secret, over))
    swapper.start()
    try:
        seen = await _look(session)
    finally:
        over.set()
        swapper.join()
    assert not any(SECRET in text for text in seen)
    # Whether a look met the plain file is chance; by itself it is read.
    (directory / "plain").write_text("harmless")
    (directory / "plain").replace(directory / "swapped")
    assert "harmless" in _read_all(str(directory), session.path.parent.name)
    await engine.delete(session.id)


def _swap_links(directory: Path, secret: Path, over: threading.Event) -> None:
    while not over.is_set():
        (directory / "plain").write_text("harmless")
        (directory / "plain").replace(directory / "swapped")
        (directory / "linked").hardlink_to(secret)
        (directory / "linked").replace(directory / "swapped")


async def _look(session: Session) -> list[str]:
    """Everything that the engine does with a working directory, over and over, and all that it got from there."""
    seen: list[str] = []
    directory = (await session.files()).directory
    folder = session.path.parent.name
    for _ in range(ROUNDS):
        # What code writes in memory is saved at the end of each cell, while its thread goes on swapping.
        await (await session.execute_code("pass")).wait()
        seen.append(str(await session.files()))
        if session.mode == "overlay":
            try:
                seen.append(await session.file_diff())
                seen.append(str(await session.apply_files()))
            except SandboxError as error:
                seen.append(str(error))
        seen += await anyio.to_thread.run_sync(_read_all, directory, folder)
    project = session.place.project if session.mode == "overlay" else None
    if project is not None:
        # What was brought over by then is as harmless as what was read.
        brought = [path for path in Path(project, folder).rglob("*") if path.suffix != ".ipynb"]
        assert brought, "something was brought over"
        assert not any(path.is_symlink() for path in brought)
        seen += [path.read_text() for path in brought if path.is_file()]
    return seen


def _read_all(directory: str, folder: str) -> list[str]:
    seen: list[str] = []
    with Workdir.open(Path(directory)) as files:
        for name in ("swapped", "swapped/secret", f"{folder}/swapped", f"{folder}/swapped/secret"):
            try:
                seen.append(files.read(name).decode())
                seen.append(files.read_part(name).data.decode())
            except SandboxError as error:
                seen.append(str(error))
    return seen

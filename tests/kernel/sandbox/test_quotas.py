"""What a session writes is limited hard, saved after each cell, and there again in its next kernel."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cellwright import Engine, Execution, Session, Settings, open_engine
from cellwright.errors import KernelStartError
from tests.waiting import UNHURRIED, fail_after, look_again

pytestmark = pytest.mark.anyio

QUOTA = 4 << 20
FILES = 200


def settings(root: Path, **changes: object) -> Settings:
    values = {
        "root": root / "project",
        "storage": root / "state",
        "standby_kernels": 0,
        "max_session_disk": QUOTA,
        "max_session_files": FILES,
        **UNHURRIED,
    }
    return Settings.model_validate({**values, **changes})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a project, and the state of the engine that all tests share."""
    root = tmp_path_factory.mktemp("quotas")
    (root / "project" / ".git").mkdir(parents=True)
    (root / "project" / "data.csv").write_text("original\n")
    (root / "project" / "kept").mkdir()
    (root / "project" / "kept" / "old").write_text("old")
    return root


@pytest.fixture(scope="module")
async def shared_engine(root: Path) -> AsyncIterator[Engine]:
    async with open_engine(settings(root)) as opened:
        yield opened
        await opened.close(stop_host=True)


@pytest.fixture
async def engine(shared_engine: Engine) -> AsyncIterator[Engine]:
    """An engine without sessions, and without any file of one."""
    yield shared_engine
    for session in shared_engine.sessions():
        await shared_engine.delete(session.id)


async def run(session: Session, code: str) -> Execution:
    return await (await session.execute_code(code)).wait()


def stored_bytes(directory: Path) -> int:
    """What files take on the disk; those with several names once."""
    sizes: dict[int, int] = {}
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):  # what is about to be replaced by what is saved next
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


@pytest.mark.parametrize("mode", ["overlay", "private"])
async def test_a_full_quota_is_an_error_that_explains_itself_and_the_session_goes_on(
    engine: Engine, root: Path, mode: str
) -> None:
    session = await engine.create("full", mode=mode)
    full = await run(session, "for n in range(10): open(str(n), 'wb').write(b'x' * 1_000_000)")
    assert full.state == "error"
    assert "max_session_disk" in (full.reason or "")
    assert stored_bytes(root / "state" / "sessions") <= QUOTA
    after = await run(session, "import os; os.remove('0'); open('small', 'w').write('fits')")
    assert (after.state, after.generation) == ("ok", 1)


@pytest.mark.parametrize("mode", ["overlay", pytest.param("private", marks=pytest.mark.matrix)])
async def test_the_number_of_files_is_limited_too(engine: Engine, mode: str) -> None:
    session = await engine.create("many", mode=mode)
    many = await run(session, f"for n in range({2 * FILES}): open(f'f{{n}}', 'w').close()")
    assert many.state == "error"
    assert "max_session_files" in (many.reason or "")


async def test_holes_and_names_for_one_file_do_not_pass_the_quota(engine: Engine, root: Path) -> None:
    session = await engine.create("tricks", mode="private")
    await run(session, "open('one', 'wb').write(b'x' * 3_000_000)")
    tricks = "import os\nfor n in range(100): os.link('one', f'l{n}'); os.truncate('one', 4_000_000)"
    assert (await run(session, tricks)).state == "ok"
    assert stored_bytes(root / "state" / "sessions") <= QUOTA


@pytest.mark.parametrize("mode", ["overlay", "private"])
async def test_files_are_on_disk_when_their_cell_has_ended(engine: Engine, root: Path, mode: str) -> None:
    session = await engine.create("saved", mode=mode)
    await run(session, "open('result.txt', 'w').write('one')")
    [saved] = (root / "state" / "sessions").rglob("result.txt")
    assert saved.read_text() == "one"
    await run(session, "open('result.txt', 'a').write(' two')")
    assert saved.read_text() == "one two"
    await run(session, "import os; os.remove('result.txt')")
    assert not saved.exists()


@pytest.mark.parametrize("mode", ["overlay", "private"])
async def test_files_of_a_cell_whose_kernel_died_are_saved(engine: Engine, root: Path, mode: str) -> None:
    session = await engine.create("dies", mode=mode)
    died = await run(session, "import os; open('last', 'w').write('words'); os.kill(os.getpid(), 9)")
    assert died.state == "died"
    [saved] = (root / "state" / "sessions").rglob("last")
    assert saved.read_text() == "words"


async def test_the_next_kernel_finds_everything_also_what_was_deleted_or_hidden(
    engine: Engine, root: Path
) -> None:
    session = await engine.create("again", mode="overlay")
    changes = (
        f"import os, shutil; os.chdir({str(root / 'project')!r})\n"
        "os.remove('data.csv'); shutil.rmtree('kept'); os.mkdir('kept'); open('kept/new', 'w').write('new')\n"
        "open('run.sh', 'w').write('x'); os.chmod('run.sh', 0o755)"
    )
    assert (await run(session, changes)).state == "ok"
    await session.restart()
    look = (
        f"import os; os.chdir({str(root / 'project')!r})\n"
        "print(os.path.exists('data.csv'), os.listdir('kept'), oct(os.stat('run.sh').st_mode & 0o777))"
    )
    assert (await run(session, look)).text == "False ['new'] 0o755\n"
    assert (root / "project" / "data.csv").read_text() == "original\n"
    assert (root / "project" / "kept" / "old").read_text() == "old"


async def test_saved_files_that_no_longer_fit_are_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    async with open_engine(settings(tmp_path)) as engine:
        session = await engine.create("shrunk", mode="private")
        await run(session, "open('big', 'wb').write(b'x' * 3_000_000)")
        await engine.close(stop_host=True)
    async with open_engine(settings(tmp_path, max_session_disk=1 << 20)) as smaller:
        with pytest.raises(KernelStartError, match="max_session_disk"):
            await smaller.session(session.id).execute_code("1")
        await smaller.close(stop_host=True)
    [saved] = (tmp_path / "state" / "sessions").rglob("big")
    assert saved.stat().st_size == 3_000_000


async def test_a_file_that_somebody_puts_into_a_private_folder_is_seen_by_the_next_cell(
    engine: Engine,
) -> None:
    session = await engine.create("given", mode="private")
    (session.cwd / "given.txt").write_text("from outside")
    assert (await run(session, "print(open('given.txt').read())")).text == "from outside\n"
    (session.cwd / "given.txt").unlink()
    assert (await run(session, "import os; print(os.listdir())")).text == "[]\n"


async def test_files_are_exchanged_while_a_cell_runs(engine: Engine) -> None:
    session = await engine.create("long", mode="private")
    waits = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('gate'): time.sleep(0.01)"
    execution = await session.execute_code(waits)
    with fail_after():
        while not (session.cwd / "begun").exists():
            await look_again()
        (session.cwd / "gate").touch()
        assert (await execution.wait()).state == "ok"


async def test_a_file_with_a_name_elsewhere_is_not_brought_in(engine: Engine, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    session = await engine.create("linked", mode="private")
    (session.cwd / "given").write_text("given")
    (session.cwd / "linked").hardlink_to(secret)
    assert (await run(session, "import os; print(os.listdir())")).text == "['given']\n"
    with pytest.raises(KernelStartError, match="cannot be read"):
        await session.restart()


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[None]:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can make a small disk")
    options = f"size={size},mode=777"
    subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", options, "small", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["/usr/bin/umount", "--lazy", path], check=True)


async def test_files_that_a_full_disk_does_not_take_are_told_until_they_are_saved(engine: Engine) -> None:
    session = await engine.create("full disk", mode="private")
    with small_disk(session.cwd, 1 << 20):
        await session.restart()  # its kernel may have begun on the disk below
        fits = await run(session, "open('little', 'w').write('fits')")
        assert (fits.state, fits.reason) == ("ok", None)
        full = await run(session, "for n in 'abc': open(n, 'wb').write(n.encode() * 900_000)")
        assert full.state == "ok"
        assert "2 files could not be saved" in (full.reason or "")
        assert "No space left on device" in (full.reason or "")
        assert "lost when the kernel ends" in (full.reason or "")
        again = await run(session, "1 / 0")
        assert again.state == "error"
        assert "2 files could not be saved" in (again.reason or ""), "as long as it is so"
        freed = await run(session, "import os; os.remove('b'); os.remove('c')")
        assert (freed.state, freed.reason) == ("ok", None)
        await session.suspend()


async def test_a_cell_that_kills_its_kernel_tells_which_files_are_lost(engine: Engine) -> None:
    session = await engine.create("full disk", mode="private")
    with small_disk(session.cwd, 1 << 20):
        await session.restart()  # its kernel may have begun on the disk below
        died = await run(
            session, "import os; open('x', 'wb').write(bytes([1]) * 2_000_000); os.kill(os.getpid(), 9)"
        )
        assert died.state == "died"
        assert "1 file could not be saved" in (died.reason or "")
        assert (died.reason or "").endswith("they are lost")

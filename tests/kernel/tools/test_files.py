"""Files of the data directory and of sessions: what is written is there, as a whole, and seen by the session's code."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from cellwright import Engine
from cellwright.errors import FileRefused, FileTooLarge, KernelBusy, NoSuchFile
from cellwright.tools.files.file_system import Files
from tests.kernel.engine.conftest import end_host, open_at

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("files")
    (root / "project").mkdir()
    (root / "project" / "pyproject.toml").touch()
    options = {"storage": root / "state", "max_session_disk": 2 << 20, "max_sessions": 50}
    async with open_at(root / "project", **options) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
def files(engine: Engine) -> Files:
    return Files(engine)


@pytest.fixture
def data(engine: Engine) -> Path:
    return engine.settings.storage / "data"


async def test_what_is_written_is_a_plain_file_in_the_data_directory(files: Files, data: Path) -> None:
    written = await files.write("prices/may.txt", "one\ntwo\n")
    assert (written.path, written.type, written.size) == ("prices/may.txt", "file", 8)
    assert (data / "prices" / "may.txt").read_bytes() == b"one\ntwo\n"
    assert (await files.read("prices/may.txt")).text == "text, 2 lines\n     1\tone\n     2\ttwo"
    assert await files.read_bytes("prices/may.txt") == b"one\ntwo\n"


async def test_appending_adds_to_the_end_and_begins_a_file_that_is_not_there(
    files: Files, data: Path
) -> None:
    await files.write("log.txt", "a\n", append=True)
    await files.write("log.txt", "b\n", append=True)
    assert (data / "log.txt").read_text() == "a\nb\n"


async def test_moving_keeps_what_already_has_the_new_name(files: Files, data: Path) -> None:
    await files.write("move/a", "1")
    await files.write("move/b", "2")
    with pytest.raises(FileRefused, match="there already"):
        await files.move("move/a", "move/b")
    moved = await files.move("move/a", "move/deep/c")
    assert moved.path == "move/deep/c"
    assert sorted(path.name for path in (data / "move").iterdir()) == ["b", "deep"]


async def test_deleting_takes_files_links_and_empty_directories_only(files: Files, data: Path) -> None:
    await files.write("gone/a", "1")
    with pytest.raises(Exception, match="not empty"):
        await files.delete("gone")
    (data / "gone" / "link").symlink_to(data / "gone" / "a")
    assert (await files.delete("gone/link")).type == "link"
    assert (data / "gone" / "a").exists()
    await files.delete("gone/a")
    await files.delete("gone")
    assert not await files.exists("gone")
    with pytest.raises(NoSuchFile):
        await files.delete("gone")


async def test_info_tells_type_size_time_and_hash(files: Files, data: Path) -> None:
    await files.write("info/a", "content")
    info = await files.info("info/a")
    assert info.sha256 == hashlib.sha256(b"content").hexdigest()
    assert info.modified == pytest.approx((data / "info" / "a").stat().st_mtime)
    assert (await files.info("info")).type == "directory"
    with pytest.raises(NoSuchFile):
        await files.info("info/b")


async def test_listing_shows_names_with_what_they_are(files: Files) -> None:
    await files.write("listed/a.csv", "x\n")
    await files.make_directory("listed/sub/deeper")
    found, complete = await files.list("listed")
    assert [(one.path, one.type) for one in found] == [("listed/a.csv", "file"), ("listed/sub", "directory")]
    assert complete
    with pytest.raises(NoSuchFile):
        await files.list("not there")


async def test_a_directory_holds_no_more_than_the_setting_says(files: Files, data: Path) -> None:
    await files.write("full/a", b"x" * 1_500_000)
    with pytest.raises(FileTooLarge, match="max_session_disk"):
        await files.write("full/b", b"x" * 700_000)
    assert not (data / "full" / "b").exists()
    await files.write("full/a", b"x" * 2_000_000)  # in its own place
    await files.write("other/b", b"x" * 700_000)
    with pytest.raises(FileTooLarge, match="max_session_disk"):
        await files.write("./full/b", b"x" * 700_000)


async def test_all_of_a_private_session_counts_against_its_room(engine: Engine, files: Files) -> None:
    session = await engine.create("room", mode="private")
    await files.write("one/a", b"x" * 1_500_000, session=session)
    with pytest.raises(FileTooLarge, match="max_session_disk"):
        await files.write("two/b", b"x" * 700_000, session=session)
    await engine.delete(session.id)


async def test_appending_from_several_sides_loses_nothing(files: Files) -> None:
    async with anyio.create_task_group() as writers:
        for number in range(40):
            writers.start_soon(partial(files.write, "together.txt", f"{number}\n", append=True))
    lines = (await files.read_bytes("together.txt")).decode().split()
    assert sorted(map(int, lines)) == list(range(40))


async def test_a_reader_never_sees_half_of_a_file(files: Files, data: Path) -> None:
    """Another process reads as fast as it can while two contents take turns."""
    whole = {letter: letter * 500_000 for letter in "ab"}
    await files.write("turns", whole["a"])
    program = (
        "import sys\nseen = set()\nprint('ready', flush=True)\n"
        "while len(seen) < 2 or len(sys.argv) < 2:\n"
        "    text = open(sys.argv[1]).read()\n"
        "    assert len(text) == 500_000 and len(set(text)) == 1, len(text)\n    seen.add(text[0])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(data / "turns")], stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        while reader.poll() is None:
            for letter in "ab":
                await files.write("turns", whole[letter])
        assert reader.returncode == 0


async def test_a_write_that_is_killed_half_way_leaves_the_old_file(data: Path, files: Files) -> None:
    await files.write("killed/file", "old")
    program = (
        "import os, sys, signal\nfrom pathlib import Path\nfrom cellwright.sandbox import files\n"
        "def die(descriptor):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.fsync = die\n"
        "files.Workdir.open(Path(sys.argv[1])).write('killed/file', b'new' * 1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(data)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (data / "killed" / "file").read_text() == "old"
    assert [one.path for one in (await files.list("killed"))[0]] == ["killed/file"]


@pytest.mark.parametrize("mode", ["private", "direct", "overlay"])
async def test_what_is_written_for_a_session_its_code_sees_and_the_other_way_round(
    engine: Engine, files: Files, mode: str
) -> None:
    session = await engine.create(f"sees {mode}", mode=mode, directory=engine.settings.root / mode)  # type: ignore[arg-type]
    await files.write("sub/given.txt", "from outside", session=session)
    run = await (await session.execute_code("print(open('sub/given.txt').read())")).wait()
    assert run.text == "from outside\n"
    run = await (await session.execute_code("open('sub/made.txt', 'w').write('from inside\\n')")).wait()
    assert run.ok, run.text
    assert "from inside" in (await files.read("sub/made.txt", session=session)).text
    await files.write("sub/made.txt", "more\n", session=session, append=True)
    await files.move("sub/given.txt", "moved.txt", session=session)
    assert [one.path for one in (await files.list("sub", session=session))[0]] == ["sub/made.txt"]
    await files.delete("moved.txt", session=session)
    assert not await files.exists("moved.txt", session=session)
    run = await (
        await session.execute_code(
            "import os; print(os.path.exists('moved.txt'), open('sub/made.txt').read())"
        )
    ).wait()
    assert run.text == "False from inside\nmore\n\n"
    await engine.delete(session.id)


async def test_over_a_project_its_files_are_seen_and_keep_their_bytes(engine: Engine, files: Files) -> None:
    folder = engine.settings.root / "over"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine\n")
    (folder / "other.txt").write_text("other\n")
    session = await engine.create("over", mode="overlay", directory=folder)
    assert "mine" in (await files.read("mine.txt", session=session)).text
    await files.write("mine.txt", "theirs\n", session=session)
    assert "theirs" in (await files.read("mine.txt", session=session)).text
    assert (folder / "mine.txt").read_text() == "mine\n"
    await files.delete("other.txt", session=session)
    assert not await files.exists("other.txt", session=session)
    with pytest.raises(NoSuchFile):
        await files.read("other.txt", session=session)
    assert (folder / "other.txt").exists()
    names = [one.path for one in (await files.list("", session=session))[0]]
    assert "mine.txt" in names
    assert "other.txt" not in names


async def test_over_a_project_a_change_does_not_wait_behind_a_cell(engine: Engine, files: Files) -> None:
    session = await engine.create("busy", mode="overlay", directory=engine.settings.root / "busy")
    execution = await session.execute_code("while True: pass")
    with pytest.raises(KernelBusy):
        await files.write("a", "1", session=session)
    await session.interrupt()
    await execution.wait()
    await engine.delete(session.id)


@pytest.mark.parametrize("mode", ["private", "overlay"])
async def test_what_is_put_there_is_not_what_the_next_cell_leaves(
    engine: Engine, files: Files, mode: Any
) -> None:
    session = await engine.create(f"put {mode}", mode=mode, directory=engine.settings.root / f"put-{mode}")
    await session.resume()
    for number in range(5):
        await files.write(f"given{number}.txt", "given", session=session)
        run = await (await session.execute_code("1")).wait()
        await run.wait_for_files(60)
        assert run.files == ()
    await engine.delete(session.id)

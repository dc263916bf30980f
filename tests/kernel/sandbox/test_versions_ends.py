"""Restoring that ends badly: whoever dies half-way leaves whole files, and a full disk changes nothing."""

from __future__ import annotations

import errno
import fcntl
import inspect
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cellwright.errors import FileFailed
from tests.conftest import Require
from tests.support.sandbox.directories import tree
from tests.support.sandbox.programs import require_other_python, run_as_nobody
from tests.unit.sandbox.test_versions import MB, Work, names_of, settle, working

OLD = {
    "a": "old a",
    "d/b": "old b",
    "d/e/c": "old c",
    "kind/inside": "old",
    "same": "same",
    "swap": "old swap",
}
NEW = {"a": "new a", "d/b": "new b", "kind": "a file", "same": "same", "more/x": "new", "swap/y": "new"}
# Dies at the n-th rename of a restore, told by the interpreter's own audit events.
DIES = """
import os, shutil, sys
from pathlib import Path
from cellwright.sandbox.snapshots import Versions
work, nth, old, new = Path(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3]), eval(sys.argv[4])
def write(files):
    for path in work.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
write(old)
versions = Versions(work.parent / "store", capacity=1 << 30)
directory = os.open(work, os.O_RDONLY)
taken = versions.take(directory)
write(new)
seen = 0
def watch(event, arguments):
    global seen
    seen += event == "os.rename"
    if event == "os.rename" and seen == nth:
        os._exit(9)
sys.addaudithook(watch)
assert not versions.restore(taken, directory).failed
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with working(tmp_path) as opened:
        yield opened


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and ".cellwright-" not in str(path)
    }


def test_dying_at_any_rename_leaves_files_that_are_old_or_new_and_whole(tmp_path: Path) -> None:
    program = [sys.executable, "-c", DIES]
    (tmp_path / "work").mkdir()
    for nth in range(1, 100):
        arguments = [str(tmp_path / "work"), str(nth), repr(OLD), repr(NEW)]
        done = subprocess.run([*program, *arguments], check=False)
        found = files(tmp_path / "work")
        if not done.returncode:
            break
        assert done.returncode == 9
        assert {
            name: text for name, text in found.items() if text not in (OLD.get(name), NEW.get(name))
        } == {}
        assert found["same"] == "same"
        assert found["a"] in {OLD["a"], NEW["a"]}, "what both have is never missing"
    assert found == OLD
    assert nth > len(OLD)


def test_what_somebody_who_died_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    arguments = [str(tmp_path / "work"), "3", repr(OLD), repr(NEW)]
    subprocess.run([sys.executable, "-c", DIES, *arguments], check=False)
    assert any(path.name.startswith(".cellwright-") for path in (tmp_path / "work").iterdir())
    with working(tmp_path) as work:
        assert len(work.stored()) == 0, "nor are there contents that nobody knows"
        work.restore(work.take())
        assert not any(path.name.startswith(".cellwright-") for path in work.path.iterdir())


# A full disk -------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(root: Path, size: int) -> Iterator[Path]:
    root.mkdir()
    subprocess.run(
        ["/usr/bin/mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "small", root], check=True
    )
    try:
        yield root
    finally:
        subprocess.run(["/usr/bin/umount", root], check=True)


@pytest.fixture
def small(tmp_path: Path, work: Work) -> Iterator[Work]:
    """A directory on a disk of 2 MB, its versions on another."""
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can make a small disk")
    with small_disk(tmp_path / "small", 2 * MB) as path:
        before, work.path = work.descriptor, path
        work.descriptor = os.open(path, os.O_RDONLY)
        yield work
        os.close(work.descriptor)
        work.descriptor = before


def test_a_full_disk_fails_before_anything_changed(small: Work) -> None:
    (small.path / "big").write_bytes(b"1" * MB)
    (small.path / "little").write_text("little")
    taken = small.take()
    (small.path / "big").write_bytes(b"2" * MB)
    (small.path / "little").write_text("changed")
    (small.path / "new").write_bytes(b"3" * (MB // 2))
    before = tree(small.path)
    with pytest.raises(FileFailed, match="No space left") as failed:
        small.restore(taken)
    assert "Nothing was changed" in (failed.value.hint or "")
    assert tree(small.path) == before


def test_where_both_do_not_fit_what_goes_can_make_room(small: Work) -> None:
    (small.path / "big").write_bytes(b"1" * (MB + MB // 2))
    (small.path / "d").mkdir()
    taken, was = small.take(), tree(small.path)
    (small.path / "big").write_bytes(b"2" * (MB + MB // 2))
    (small.path / "new").write_bytes(b"3" * (MB // 4))
    restored = small.restore(taken, make_space=True)
    assert (names_of(restored.changed), names_of(restored.removed)) == ({"big"}, {"new"})
    assert tree(small.path) == was


def test_a_full_disk_under_the_contents_is_named(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can make a small disk")
    with small_disk(tmp_path / "store", MB), working(tmp_path) as work:
        (work.path / "big").write_bytes(b"1" * 2 * MB)
        (work.path / "little").write_text("little")
        assert names_of(work.take().left_out) == {"big"}
        assert len(work.stored()) == 1


# While others write ------------------------------------------------------------------------------------------------


def test_a_file_that_never_holds_still_is_left_out_or_whole(work: Work) -> None:
    path, over = work.path / "restless", threading.Event()
    path.write_bytes(b"0" * MB)

    def write() -> None:
        with path.open("r+b", buffering=0) as file:
            turn = 0
            while not over.is_set():
                turn += 1
                file.seek(0)
                file.write(bytes([turn % 256]) * MB)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reasons = {reason for _ in range(30) for reason in work.take().left_out.values()}
    finally:
        over.set()
        writer.join()
    assert reasons <= {"it changed while it was copied"}
    taken = work.take()
    assert not taken.left_out
    (content,) = {kept.content for names, kept in taken.entries.items() if names}
    assert content is not None


@pytest.mark.parametrize("times", [1, 2, 100])
def test_a_file_that_changes_while_it_is_copied_is_copied_again_a_few_times(
    work: Work, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path, send, left = work.path / "restless", os.sendfile, [times]
    path.write_text("before")

    def send_and_change(*arguments: Any) -> int:
        sent = send(*arguments)
        if left[0]:
            left[0] -= 1
            path.write_text(f"changed, {left[0]} left")
        return sent

    monkeypatch.setattr(os, "sendfile", send_and_change)
    taken = work.take()
    monkeypatch.undo()
    if times > 2:
        assert names_of(taken.left_out) == {"restless"}
        assert work.stored() == []
    else:
        path.unlink()
        work.restore(taken)
        assert path.read_text() == "changed, 0 left"


def test_a_change_in_the_same_tick_of_the_clock_is_seen() -> None:
    """A page that is mapped and dirty takes further writes without a stamp, as a clock that ticks slowly would."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared, working(Path(shared)) as memory:
        path, new_bytes = memory.path / "mapped", 0
        for turn in range(100):  # until the machine was quick enough once
            path.write_bytes(bytes(4096))
            with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
                mapped[0] = 1
                memory.take()
                mapped[0] = 2 + turn
                new_bytes = memory.take().new_bytes
            if new_bytes:
                break
        assert new_bytes


@pytest.mark.parametrize("what", ["file", "directory"])
def test_names_swapped_with_links_at_full_speed_lead_nowhere(work: Work, tmp_path: Path, what: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x").write_text("SECRET")
    over = threading.Event()
    (work.path / "bad").symlink_to(secret / "x" if what == "file" else secret)
    if what == "file":
        (work.path / "good").write_text("harmless")
    else:
        (work.path / "good").mkdir()
        (work.path / "good" / "x").write_text("harmless")

    def swap() -> None:
        while not over.is_set():
            for name in ("good", "bad"):
                try:
                    (work.path / name).rename(work.path / "swapped")
                    (work.path / "swapped").rename(work.path / name)
                except OSError:
                    continue

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(100):
            taken = work.take()
            assert all(b"SECRET" not in path.read_bytes() for path in work.stored())
            work.restore(taken)
            work.versions.drop(taken)
    finally:
        over.set()
        swapper.join()
    assert (secret / "x").read_text() == "SECRET"
    assert len(list(secret.iterdir())) == 1


def test_a_change_through_memory_is_seen_where_one_is_told_to_doubt() -> None:
    """In a file system in memory, as sessions have it, no stamp tells of every such write."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared, working(Path(shared)) as memory:
        (memory.path / "mapped").write_bytes(bytes(4096))
        with (memory.path / "mapped").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as mapped:
            mapped[0] = 1  # the first write to a page still shows
            old = settle(memory)
            mapped[0] = 2
            assert memory.take().entries is old.entries, "what looks the same is not read"
            inode = os.fstat(file.fileno()).st_ino
            new = memory.take(doubted=frozenset({inode}))
            assert new.new_bytes
            memory.restore(old)
            memory.restore(new)
        assert (memory.path / "mapped").read_bytes()[0] == 2


# Shared blocks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.EPERM])
def test_where_blocks_cannot_be_shared_they_are_copied(
    work: Work, monkeypatch: pytest.MonkeyPatch, word: int
) -> None:
    def refuse(*_arguments: object) -> int:
        raise OSError(word, os.strerror(word))

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    (work.path / "a").write_text("a")
    taken = work.take()
    (work.path / "a").write_text("b")
    work.restore(taken)
    assert (work.path / "a").read_text() == "a"


def test_blocks_are_shared_where_the_file_system_can(tmp_path: Path, require: Require) -> None:
    makers = [maker for maker in ("mkfs.btrfs", "mkfs.xfs") if shutil.which(maker)]
    require(
        "a file system that shares blocks",
        bool(makers) and os.getuid() == 0,
        "apt install btrfs-progs, as root",
    )
    image, root = tmp_path / "image", tmp_path / "mounted"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(512 * MB)
    subprocess.run([makers[0], "-q", image], check=True)
    subprocess.run(["/usr/bin/mount", "-o", "loop", image, root], check=True)
    try:
        with working(root) as work:
            (work.path / "big").write_bytes(os.urandom(32 * MB))
            os.sync()
            free = os.statvfs(root).f_bfree * os.statvfs(root).f_frsize
            taken = work.take()
            os.sync()
            assert free - os.statvfs(root).f_bfree * os.statvfs(root).f_frsize < 16 * MB
            (work.path / "big").write_bytes(b"other")
            work.restore(taken)
            assert (work.path / "big").stat().st_size == 32 * MB
    finally:
        subprocess.run(["/usr/bin/umount", root], check=True)


# Directories that are closed ---------------------------------------------------------------------------------------


def test_directories_closed_to_their_owner_are_opened_to_restore_what_was_in_them(work: Work) -> None:
    for name in ("opens", "closes", "closed"):
        (work.path / name).mkdir()
        (work.path / name / "file").write_text(name)
    (work.path / "closed").chmod(0o500)
    taken, was = work.take(), tree(work.path)
    (work.path / "closed").chmod(0o700)
    for name in ("opens", "closes", "closed"):
        (work.path / name / "file").write_text("changed")
    (work.path / "new" / "inner").mkdir(parents=True)
    (work.path / "new" / "inner").chmod(0)
    (work.path / "readable" / "inner").mkdir(parents=True)
    (work.path / "readable").chmod(0o500)
    (work.path / "new").chmod(0)
    (work.path / "closes").chmod(0)
    work.path.chmod(0o500)
    restored = work.restore(taken)
    assert not restored.failed
    assert tree(work.path) == was
    # The second time there is nothing to do, and nobody is let in for it.
    assert not work.restore(taken).changed


def test_directories_that_were_opened_for_nothing_are_closed_again(work: Work) -> None:
    (work.path / "closes").mkdir()
    (work.path / "closes" / "file").write_text("old")
    taken = work.take()
    (work.path / "closes" / "file").unlink()
    (work.path / "closes").chmod(0)
    work.stored()[0].unlink()
    with pytest.raises(FileFailed):
        work.restore(taken)
    assert stat.S_IMODE((work.path / "closes").stat().st_mode) == 0
    (work.path / "closes").chmod(0o700)


def test_a_directory_that_could_not_be_read_is_named_and_left_as_it_is(work: Work) -> None:
    if os.getuid() == 0:
        pytest.skip("nothing is closed to root; run for nobody below")
    (work.path / "closed").mkdir()
    (work.path / "closed" / "file").write_text("kept")
    (work.path / "closed").chmod(0)
    taken = work.take()
    assert "cannot be read" in taken.left_out["closed",]
    assert "not kept" in work.restore(taken).failed["closed",]
    (work.path / "closed").chmod(0o700)
    assert (work.path / "closed" / "file").read_text() == "kept"


# Permissions bind nobody as they do not bind root.
@pytest.mark.parametrize(
    "tests",
    [
        "directories or directory or modes or group or links",
        pytest.param("not nobody", marks=pytest.mark.matrix),
    ],
)
def test_all_of_this_holds_for_nobody_too(require: Require, tests: str) -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can become nobody")
    require_other_python("nobody", "C", require)
    run_as_nobody(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests, __file__, inspect.getfile(Work)]
    )

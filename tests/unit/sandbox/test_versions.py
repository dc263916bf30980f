"""Checkpoints of files: what was taken comes back as it was, whatever happened since; nothing else is touched."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import FileFailed
from cellwright.sandbox.snapshots import Restored, Taken, Versions
from tests.support.sandbox.directories import change, paths, tree

MB = 1 << 20
BLOCK = 4096


class Work:
    """A directory with its versions."""

    def __init__(self, root: Path, *, capacity: int = 64 * MB) -> None:
        self.path, self.store = root / "work", root / "store"
        self.path.mkdir(exist_ok=True)
        self.versions = Versions(self.store, capacity=capacity)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def take(self, **options: Any) -> Taken:
        return self.versions.take(self.descriptor, **options)

    def restore(self, taken: Taken, **options: Any) -> Restored:
        return self.versions.restore(taken, self.descriptor, **options)

    def stored(self) -> list[Path]:
        return list(self.store.iterdir())

    def close(self) -> None:
        self.versions.close()
        os.close(self.descriptor)


@contextmanager
def working(root: Path, **options: Any) -> Iterator[Work]:
    work = Work(root, **options)
    try:
        yield work
    finally:
        work.close()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with working(tmp_path) as opened:
        yield opened


def names_of(found: Any) -> set[str]:
    return {"/".join(names) for names in found}


def settle(work: Work) -> Taken:
    """Take until nothing is read again: what changed a moment ago is, until the file system's clock has moved on."""
    last = work.take()
    while (taken := work.take()).entries is not last.entries:
        work.versions.drop(last)
        last = taken
    work.versions.drop(last)
    return taken


# Any order of anything ---------------------------------------------------------------------------------------------

edits = st.tuples(st.sampled_from(["write", "mkdir", "remove", "link", "symlink", "chmod"]), paths, paths)
steps = st.lists(
    st.one_of(
        edits,
        edits,
        st.just(("take",)),
        st.tuples(st.just("restore"), st.integers(0, 7)),
        st.tuples(st.just("drop"), st.integers(0, 7)),
    ),
    max_size=30,
)


@given(steps=steps)
@settings(max_examples=50, database=None)  # nobody may not write here
def test_taking_restoring_and_dropping_in_any_order_is_what_the_model_says(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory, working(Path(directory)) as work:
        model: list[tuple[Taken, dict[str, Any]]] = []
        for step in steps:
            if step[0] == "take":
                model.append((work.take(), tree(work.path)))
            elif step[0] in {"restore", "drop"}:
                if not model:
                    continue
                at = step[1] % len(model)
                if step[0] == "restore":
                    assert not work.restore(model[at][0]).failed
                    assert tree(work.path) == model[at][1]
                else:
                    work.versions.drop(model.pop(at)[0])
            else:
                change(work.path, *step)
        for taken, was in model:
            assert not taken.left_out
            assert not work.restore(taken).failed
            assert tree(work.path) == was
            work.versions.drop(taken)
        assert work.stored() == []
        assert work.versions.used_bytes == 0


def test_room_is_respected_and_what_does_not_fit_is_named_and_left_alone(tmp_path: Path) -> None:
    with working(tmp_path, capacity=10 * BLOCK) as work:
        (work.path / "large").write_bytes(b"l" * 9 * BLOCK)
        for number in range(8):
            (work.path / f"small{number}").write_bytes(b"s" * (BLOCK - number))
        taken = work.take()
        assert names_of(taken.left_out) == {"large"}
        assert "no room" in taken.left_out["large",]
        assert taken.total_bytes == taken.new_bytes == work.versions.used_bytes == 8 * BLOCK
        assert not work.restore(taken).failed, "it did not change"
        (work.path / "large").write_bytes(b"other")
        (work.path / "small1").write_bytes(b"other")
        restored = work.restore(taken)
        assert "no room" in restored.failed["large",]
        assert names_of(restored.changed) == {"small1"}
        assert (work.path / "large").read_bytes() == b"other"


def test_dropping_makes_room(tmp_path: Path) -> None:
    with working(tmp_path, capacity=4 * BLOCK) as work:
        (work.path / "a").write_bytes(b"1" * 3 * BLOCK)
        first = work.take()
        (work.path / "a").write_bytes(b"2" * 3 * BLOCK)
        assert names_of(work.take().left_out) == {"a"}
        work.versions.drop(first)
        assert not work.take().left_out


def test_a_checkpoint_costs_nothing_where_nothing_changed(work: Work) -> None:
    for number in range(20):
        (work.path / str(number)).write_text(str(number))
    first = settle(work)
    second = work.take()
    assert second.new_bytes == 0
    assert second.entries is first.entries
    assert len(work.stored()) == 20
    work.versions.drop(first)
    assert len(work.stored()) == 20
    (work.path / "3").write_text("changed")
    assert not work.restore(second).failed
    assert (work.path / "3").read_text() == "3"


def test_a_file_that_was_written_again_as_it_was_is_stored_once(work: Work) -> None:
    (work.path / "a").write_text("same")
    work.take()
    (work.path / "a").unlink()
    (work.path / "a").write_text("same")
    assert work.take().new_bytes == 0
    assert len(work.stored()) == 1


def test_what_did_not_change_keeps_its_inode_and_what_has_its_content_again_does_too(work: Work) -> None:
    for name in ("same", "touched", "changed"):
        (work.path / name).write_text(name)
        os.utime(work.path / name, (1, 1))
    before = {path.name: path.stat() for path in work.path.iterdir()}
    taken = work.take()
    os.utime(work.path / "touched", (2, 2))
    (work.path / "touched").chmod(0o600)
    (work.path / "changed").write_text("other")
    assert names_of(work.restore(taken).changed) == {"touched", "changed"}
    after = {path.name: path.stat() for path in work.path.iterdir()}
    assert after["same"].st_ctime_ns == before["same"].st_ctime_ns
    assert after["touched"].st_ino == before["touched"].st_ino
    for name, status in after.items():
        assert (status.st_mode, status.st_mtime_ns) == (before[name].st_mode, before[name].st_mtime_ns)


def test_times_and_modes_of_directories_come_back(work: Work) -> None:
    inside = work.path / "d" / "e"
    inside.mkdir(parents=True)
    (inside / "f").write_text("f")
    for path in (inside, inside.parent, work.path):
        path.chmod(0o750)
        os.utime(path, (5, 5))
    taken = work.take()
    (inside / "f").write_text("other")
    (inside / "g").write_text("new")
    inside.parent.chmod(0o700)
    assert not work.restore(taken).failed
    for path in (inside, inside.parent, work.path):
        assert (path.stat().st_mtime, stat.S_IMODE(path.stat().st_mode)) == (5, 0o750)
    # What was not different then is not touched the second time.
    assert work.restore(taken) == Restored((), (), {})


def test_a_group_that_a_directory_hands_down_stays(work: Work) -> None:
    (work.path / "d").mkdir()
    (work.path / "d").chmod(0o2775)
    taken = work.take()
    (work.path / "d").chmod(0o2700)
    assert not work.restore(taken).failed
    assert stat.S_IMODE((work.path / "d").stat().st_mode) == 0o2775


def test_files_that_became_one_are_two_again(work: Work) -> None:
    for name in ("a", "b"):
        (work.path / name).write_text("the same")
        os.utime(work.path / name, (1, 1))
    taken = work.take()
    (work.path / "b").unlink()
    (work.path / "b").hardlink_to(work.path / "a")
    assert not work.restore(taken).failed
    (work.path / "a").write_text("changed")
    assert (work.path / "b").read_text() == "the same"


def test_skipped_directories_and_our_own_temporaries_are_neither_kept_nor_removed(work: Work) -> None:
    (work.path / ".git").mkdir()
    (work.path / ".git" / "HEAD").write_text("main")
    (work.path / ".cellwright-abc.tmp").write_text("half")
    taken = work.take()
    assert set(taken.entries) == {()}
    (work.path / ".git" / "HEAD").write_text("other")
    (work.path / "new" / ".venv").mkdir(parents=True)
    (work.path / "new" / "file").write_text("new")
    restored = work.restore(taken)
    assert (work.path / ".git" / "HEAD").read_text() == "other"
    assert (work.path / ".cellwright-abc.tmp").exists()
    assert (work.path / "new" / ".venv").is_dir()
    assert not (work.path / "new" / "file").exists()
    assert "left alone" in restored.failed["new",]


def test_a_file_where_a_directory_that_is_left_alone_stands_now_is_named(work: Work) -> None:
    (work.path / "a").write_text("a file")
    (work.path / "b").write_text("b")
    taken = work.take()
    (work.path / "a").unlink()
    (work.path / "a" / ".venv").mkdir(parents=True)
    (work.path / "b").write_text("changed")
    restored = work.restore(taken)
    assert names_of(restored.failed) == {"a"}
    assert (work.path / "a" / ".venv").is_dir()
    assert (work.path / "b").read_text() == "b"


# What code may have planted ----------------------------------------------------------------------------------------


def test_pipes_sockets_and_names_elsewhere_are_named(work: Work, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (work.path / "linked").hardlink_to(tmp_path / "secret")
    os.mkfifo(work.path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work.path / "socket"))
        taken = work.take()
        assert names_of(taken.left_out) == {"linked", "pipe", "socket"}
        assert "elsewhere" in taken.left_out["linked",]
        assert work.stored() == []
        assert not work.restore(taken).failed
    assert (work.path / "pipe").is_fifo()


def test_a_file_that_got_a_name_elsewhere_is_replaced_and_what_is_elsewhere_stays(
    work: Work, tmp_path: Path
) -> None:
    (work.path / "a").write_text("secret")
    os.utime(work.path / "a", (1, 1))
    taken = work.take()
    (tmp_path / "elsewhere").write_text("secret")
    (work.path / "a").unlink()
    (work.path / "a").hardlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").stat()
    assert not work.restore(taken).failed
    after = (tmp_path / "elsewhere").stat()
    assert (after.st_mtime_ns, after.st_nlink) == (before.st_mtime_ns, 1)
    assert (work.path / "a").stat().st_mtime == 1


def test_links_that_replaced_directories_are_not_followed(work: Work, tmp_path: Path) -> None:
    (work.path / "d").mkdir()
    (work.path / "d" / "file").write_text("inside")
    taken = work.take()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (outside / "more").write_text("outside")
    (work.path / "d" / "file").unlink()
    (work.path / "d").rmdir()
    (work.path / "d").symlink_to(outside)
    assert not work.restore(taken).failed
    assert (outside / "file").read_text() == (outside / "more").read_text() == "outside"
    assert not (work.path / "d").is_symlink()
    assert (work.path / "d" / "file").read_text() == "inside"


def test_a_tree_too_deep_to_walk_is_named_left_alone_and_removed_if_it_is_new(work: Work) -> None:
    old = settle(work)
    here = os.open(work.path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=here)
        inside = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inside
    os.close(here)
    taken = work.take()
    [(deep, reason)] = taken.left_out.items()
    assert "deep" in reason
    assert len(deep) > 100
    assert names_of(work.restore(taken).failed) == names_of([deep])
    assert len(list(work.path.rglob("*"))) == 400
    assert not work.restore(old).failed
    assert list(work.path.iterdir()) == []


def test_a_huge_file_of_holes_takes_no_room_and_no_time(work: Work) -> None:
    with (work.path / "holes").open("wb") as file:
        file.truncate(1 << 42)
        file.seek(1 << 41)
        file.write(b"here")
    taken = work.take()
    assert taken.total_bytes <= 2 * BLOCK
    os.utime(work.path / "holes", (1, 1))
    work.take()
    with (work.path / "holes").open("r+b") as file:
        file.seek(1 << 41)
        file.write(b"gone")
    assert not work.restore(taken).failed
    with (work.path / "holes").open("rb") as file:
        file.seek(1 << 41)
        assert file.read(4) == b"here"
    assert (work.path / "holes").stat().st_size == 1 << 42


def test_what_an_overlay_notes_comes_back(work: Work) -> None:
    mark = "trusted.overlay.opaque" if os.getuid() == 0 else "user.overlay.opaque"
    for name in ("hides", "shows"):
        (work.path / name).mkdir()
    os.setxattr(work.path / "hides", mark, b"y")
    os.mknod(work.path / "gone", stat.S_IFCHR, 0)
    taken = settle(work)
    os.removexattr(work.path / "hides", mark)
    os.setxattr(work.path / "shows", mark, b"y")
    (work.path / "gone").unlink()
    (work.path / "gone").write_text("there again")
    assert not work.restore(taken).failed
    assert os.getxattr(work.path / "hides", mark) == b"y"
    assert os.listxattr(work.path / "shows") == []
    assert stat.S_ISCHR((work.path / "gone").stat().st_mode)


def test_missing_content_fails_before_anything_changed(work: Work) -> None:
    for name in ("a", "b"):
        (work.path / name).write_text(name)
    taken = work.take()
    for path in work.path.iterdir():
        path.write_text("changed")
    (work.path / "new").write_text("new")
    work.stored()[0].unlink()
    before = tree(work.path)
    with pytest.raises(FileFailed, match="could not be brought back"):
        work.restore(taken)
    assert tree(work.path) == before


def test_what_was_dropped_cannot_be_restored(work: Work) -> None:
    taken = work.take()
    work.versions.drop(taken)
    work.versions.drop(taken)
    with pytest.raises(ValueError, match="dropped"):
        work.restore(taken)


def test_closing_removes_the_directory(tmp_path: Path) -> None:
    work = Work(tmp_path)
    assert stat.S_IMODE(work.store.stat().st_mode) == 0o700
    (work.path / "a").write_text("a")
    work.take()
    work.close()
    work.versions.close()
    assert not work.store.exists()


def test_closing_may_find_its_contents_deleted_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def be_too_late(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    with working(tmp_path) as work:
        (work.path / "data").write_text("x")
        work.take()
        assert work.stored()
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", be_too_late)
            work.versions.close()
    assert not work.store.exists()

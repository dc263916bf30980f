"""A mirror ends up as its source is, copies only what changed, and follows nobody outside."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.sandbox.quotas import Mirror
from tests.support.sandbox.directories import change, steps, tree

MB = 1 << 20
NOBODY = 65534


@contextmanager
def mirrored(source: Path, target: Path, *, capacity: int = 10 * MB) -> Iterator[Mirror]:
    descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target)]
    try:
        yield Mirror(descriptors[0], descriptors[1], capacity=capacity)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.fixture
def ends(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    return source, target


@given(rounds=st.lists(steps, max_size=4))
def test_after_any_changes_the_target_is_what_the_source_is(rounds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "source"), Path(directory, "target")
        source.mkdir()
        target.mkdir()
        with mirrored(source, target) as mirror:
            for round_of_changes in rounds:
                for step in round_of_changes:
                    change(source, *step)
                assert mirror.update().left_out == 0
                assert tree(target) == tree(source)


def test_what_did_not_change_is_not_copied_again(ends: tuple[Path, Path]) -> None:
    source, target = ends
    (source / "old").write_text("old")
    os.utime(source / "old", (1, 1))
    with mirrored(source, target) as mirror:
        while True:  # what changed a moment ago is copied until the file system's clock has moved on
            inode = (target / "old").stat().st_ino if (target / "old").exists() else 0
            mirror.update()
            if (target / "old").stat().st_ino == inode:
                break
        (source / "new").write_text("new")
        mirror.update()
        assert (target / "old").stat().st_ino == inode
        assert (target / "new").read_text() == "new"


def test_an_edit_that_restores_size_and_time_is_copied(ends: tuple[Path, Path]) -> None:
    source, target = ends
    (source / "a").write_text("one")
    before = (source / "a").stat()
    with mirrored(source, target) as mirror:
        mirror.update()
        (source / "a").write_text("two")
        os.utime(source / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        mirror.update()
    assert (target / "a").read_text() == "two"


def test_holes_stay_holes_so_that_a_large_empty_file_takes_no_room(ends: tuple[Path, Path]) -> None:
    source, target = ends
    with (source / "sparse").open("wb") as file:
        file.seek(500 * MB)
        file.write(b"end")
    with mirrored(source, target, capacity=MB) as mirror:
        assert mirror.update().left_out == 0
    copy = (target / "sparse").stat()
    assert copy.st_size == 500 * MB + 3
    assert copy.st_blocks * 512 < MB


def test_no_more_is_copied_than_there_is_room_for(ends: tuple[Path, Path]) -> None:
    source, target = ends
    for number in range(5):
        (source / str(number)).write_bytes(b"x" * MB)
    with mirrored(source, target, capacity=2 * MB) as mirror:
        assert mirror.update().left_out == 3
    assert sum(path.stat().st_size for path in target.iterdir()) == 2 * MB


def test_links_and_pipes_lead_nowhere(ends: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = ends
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("key")
    (source / "out").symlink_to(secret)
    os.mkfifo(source / "pipe")
    with mirrored(source, target) as mirror:
        assert mirror.update().left_out == 1, "the pipe is counted as left out"
        assert [path.name for path in target.iterdir()] == ["out"]
        assert (target / "out").is_symlink()
        (source / "out").unlink()
        (source / "out").mkdir()
        mirror.update()
    assert (secret / "key").read_text() == "key"
    assert (target / "out").is_dir()
    assert not (target / "out").is_symlink()


def test_what_stands_for_a_deleted_file_is_copied(ends: tuple[Path, Path]) -> None:
    source, target = ends
    os.mknod(source / "gone", stat.S_IFCHR, 0)
    with mirrored(source, target) as mirror:
        assert mirror.update().left_out == 0
    status = (target / "gone").lstat()
    assert (stat.S_ISCHR(status.st_mode), status.st_rdev) == (True, 0)


def test_what_is_closed_to_us_is_kept_as_it_was(ends: tuple[Path, Path]) -> None:
    source, target = ends
    (source / "d").mkdir()
    (source / "d" / "a").write_text("a")
    with mirrored(source, target) as mirror, as_ordinary_user(source, target):
        mirror.update()
        os.chmod("d", 0, dir_fd=mirror.source)
        assert mirror.update().left_out > 0
        os.chmod("d", 0o700, dir_fd=mirror.source)
    assert (target / "d" / "a").read_text() == "a"


@contextmanager
def as_ordinary_user(*roots: Path) -> Iterator[None]:
    """Root is refused nothing, and so becomes nobody for a while."""
    if os.getuid() != 0:
        yield
        return
    for path in [*roots, *(inside for root in roots for inside in root.rglob("*"))]:
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@given(rounds=st.lists(st.tuples(steps, steps), max_size=3))
def test_two_that_mirror_each_other_agree_whatever_both_sides_did(rounds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = Path(directory, "ours"), Path(directory, "theirs")
        ours.mkdir()
        theirs.mkdir()
        with mirrored(ours, theirs) as outward, mirrored(theirs, ours) as inward:
            inward.spared = outward.differs
            for our_steps, their_steps in rounds:
                for root, changes in ((ours, our_steps), (theirs, their_steps)):
                    for step in changes:
                        change(root, *step)
                outward.trust(inward.update().changed)
                inward.trust(outward.update().changed)
                assert tree(theirs) == tree(ours)


def test_a_file_that_only_the_other_side_wrote_arrives_and_one_that_both_wrote_is_the_sources(
    ends: tuple[Path, Path],
) -> None:
    ours, theirs = ends
    (ours / "both").write_text("ours, first")
    with mirrored(ours, theirs) as outward, mirrored(theirs, ours) as inward:
        inward.spared = outward.differs
        inward.trust(outward.update().changed)
        (theirs / "new").write_text("theirs")
        (theirs / "both").write_text("theirs too")
        (ours / "both").write_text("ours, second")
        outward.trust(inward.update().changed)
        inward.trust(outward.update().changed)
    for side in ends:
        assert (side / "new").read_text() == "theirs"
        assert (side / "both").read_text() == "ours, second"


def test_a_directory_that_the_other_side_removed_goes_with_all_that_was_in_it(
    ends: tuple[Path, Path],
) -> None:
    ours, theirs = ends
    (ours / "d" / "e").mkdir(parents=True)
    (ours / "d" / "e" / "f").write_text("f")
    with mirrored(ours, theirs) as outward, mirrored(theirs, ours) as inward:
        inward.spared = outward.differs
        inward.trust(outward.update().changed)
        shutil.rmtree(theirs / "d")
        outward.trust(inward.update().changed)
        inward.trust(outward.update().changed)
    assert [list(side.iterdir()) for side in ends] == [[], []]


def test_a_file_that_one_side_changed_outlives_the_directory_that_the_other_removed(
    ends: tuple[Path, Path],
) -> None:
    ours, theirs = ends
    (ours / "d").mkdir()
    (ours / "d" / "kept").write_text("first")
    (ours / "d" / "gone").write_text("first")
    with mirrored(ours, theirs) as outward, mirrored(theirs, ours) as inward:
        inward.spared = outward.differs
        inward.trust(outward.update().changed)
        shutil.rmtree(theirs / "d")
        (ours / "d" / "kept").write_text("second, and longer")
        outward.trust(inward.update().changed)
        inward.trust(outward.update().changed)
    for side in ends:
        assert [path.name for path in (side / "d").iterdir()] == ["kept"]

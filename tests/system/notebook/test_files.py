"""Saving is all or nothing, and what others do to the file is noticed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cellwright.errors import NotebookError, NotebookFormatError, SaveFailed
from cellwright.notebook import (
    Document,
    changed_since,
    file_state,
    read_notebook,
    remove_leftovers,
    write_atomically,
)
from cellwright.notebook.files import create_exclusively

# As root, permissions bind nobody: the tests then act as the user nobody.
UNPRIVILEGED = 65534 if os.getuid() == 0 else os.getuid()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_is_written_is_read_again_in_the_same_state(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    written = write_atomically(path, Document.new().to_bytes())
    document, state = read_notebook(path)
    assert document.to_bytes() == Document.new().to_bytes()
    assert state == written == file_state(path)
    assert not changed_since(path, written)
    assert names(tmp_path) == ["a.ipynb"]


def test_change_of_content_is_noticed_and_a_mere_touch_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    state = write_atomically(path, b"one")
    os.utime(path, ns=(1, 1))
    assert not changed_since(path, state)
    path.write_bytes(b"two")
    assert changed_since(path, state)


def test_rewritten_and_vanished_files_are_told_apart_from_unchanged_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    state = write_atomically(path, b"one")
    write_atomically(path, b"one")
    assert not changed_since(path, state)
    path.unlink()
    assert changed_since(path, state)
    assert file_state(path) is None


def test_mode_is_kept_and_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    mask = os.umask(0o027)
    try:
        write_atomically(path, b"one")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o604)
    write_atomically(path, b"two")
    assert path.stat().st_mode & 0o777 == 0o604


def test_link_to_a_notebook_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a.ipynb"
    target.write_bytes(b"one")
    link = tmp_path / "link.ipynb"
    link.symlink_to(target)
    write_atomically(link, b"two")
    assert link.is_symlink()
    assert target.read_bytes() == b"two"
    assert names(tmp_path / "real") == ["a.ipynb"]


def test_link_that_code_put_in_a_notebooks_place_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside.ipynb"
    outside.write_bytes(b"not yours")
    path = tmp_path / "a.ipynb"
    path.symlink_to(outside)
    assert file_state(path) is None
    write_atomically(path, b"mine", follow=False)
    assert not path.is_symlink()
    assert (path.read_bytes(), outside.read_bytes()) == (b"mine", b"not yours")


def test_pipe_in_a_notebooks_place_makes_nobody_wait(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    os.mkfifo(path)
    assert file_state(path) is None
    write_atomically(path, b"mine", follow=False)
    assert path.read_bytes() == b"mine"


def test_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "a.ipynb"
    link.symlink_to(link)
    with pytest.raises(SaveFailed):
        write_atomically(link, b"x")
    assert link.is_symlink()


def test_missing_directory_is_told_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(SaveFailed, match=r"none.a\.ipynb.*Create the directory"):
        write_atomically(tmp_path / "none" / "a.ipynb", b"x")


@pytest.mark.parametrize("read_only", ["file", "directory"])
def test_read_only_places_are_told_with_the_next_step(read_only: str) -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path cannot be entered by another user
        directory = Path(name)
        path = directory / "a.ipynb"
        path.write_bytes(b"old")
        for owned in (directory, path):
            os.chown(owned, UNPRIVILEGED, -1)
        path.chmod(0o444 if read_only == "file" else 0o644)
        directory.chmod(0o555 if read_only == "directory" else 0o755)
        assert (
            _save_unprivileged(path)
            == "Make the file and its directory writable, or save the notebook somewhere else"
        )
        assert path.read_bytes() == b"old"
        assert names(directory) == ["a.ipynb"]
        directory.chmod(0o755)
        path.chmod(0o644)
        assert _save_unprivileged(path) == "saved"


def test_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(SaveFailed, match=r"a\.ipynb"):
            write_atomically(path, b"x" * 2_000)
        with pytest.raises(SaveFailed, match=r"b\.ipynb"):
            create_exclusively(tmp_path / "b.ipynb", b"x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.ipynb"]


# The system ends the process inside the write that passes the limit: a kill that cannot miss.
DIES_WRITING = """
import resource, signal, sys
from pathlib import Path
from cellwright.notebook import write_atomically

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
write_atomically(Path(sys.argv[1]), b"x" * 2_000)
"""


def test_a_kill_in_the_middle_of_a_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(b"old")
    killed = subprocess.run([sys.executable, "-c", DIES_WRITING, str(path)], check=False)
    assert killed.returncode == -signal.SIGXFSZ
    assert path.read_bytes() == b"old"
    [leftover] = [name for name in names(tmp_path) if name != "a.ipynb"]
    assert (tmp_path / leftover).stat().st_size == 1_000, "it died half-way"


def test_reading_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match="There is no notebook"):
        read_notebook(tmp_path / "none.ipynb")
    with pytest.raises(NotebookError, match="Cannot read"):
        read_notebook(tmp_path)
    (tmp_path / "bad.ipynb").write_bytes(b"")
    with pytest.raises(NotebookFormatError, match=r"bad\.ipynb is empty"):
        read_notebook(tmp_path / "bad.ipynb")


def test_leftovers_of_killed_saves_are_removed_once_they_are_old(tmp_path: Path) -> None:
    for name in (".cellwright-old.tmp", ".cellwright-new.tmp", "other.tmp"):
        (tmp_path / name).write_bytes(b"")
    os.utime(tmp_path / ".cellwright-old.tmp", (0, 0))
    os.utime(tmp_path / "other.tmp", (0, 0))
    assert remove_leftovers(tmp_path) == 1
    assert names(tmp_path) == [".cellwright-new.tmp", "other.tmp"]


def _save_unprivileged(path: Path) -> str:
    """Save as a user whom permissions bind, in a child process; its answer is what it was told to do next."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(UNPRIVILEGED)
        try:
            write_atomically(path, b"new")
            answer = "saved"
        except SaveFailed as error:
            answer = str(error.hint)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()

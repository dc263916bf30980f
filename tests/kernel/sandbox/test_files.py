"""Whatever code does in its working directory, we read and write there and nowhere else. For code that swaps names meanwhile, and
for kernels without ``openat2``, see ``test_files_races``.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.errors import FileFailed, FileRefused, FileTooLarge, NoSuchFile
from cellwright.sandbox.files import Workdir

SECRET = b"the host's secret"
# As root, permissions bind nobody: the tests that need them act as the user nobody.
UNPRIVILEGED = 65534 if os.getuid() == 0 else os.getuid()


@pytest.fixture
def box(tmp_path: Path) -> Path:
    (tmp_path / "box").mkdir()
    return tmp_path / "box"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_bytes(SECRET)
    return directory


@pytest.fixture
def workdir(box: Path) -> Iterator[Workdir]:
    with Workdir.open(box) as opened:
        yield opened


def test_what_is_written_is_read_again(workdir: Workdir, box: Path) -> None:
    entry = workdir.write("result.csv", b"a,b\n")
    assert workdir.read("result.csv") == b"a,b\n"
    assert entry == workdir.entry("result.csv")
    assert (entry.type, entry.size) == ("file", 4)
    assert [path.name for path in box.iterdir()] == ["result.csv"]


def test_parents_are_made_only_where_asked_for(workdir: Workdir, box: Path) -> None:
    with pytest.raises(NoSuchFile):
        workdir.write("data/deep/a.txt", b"x")
    workdir.write("data/deep/a.txt", b"x", parents=True)
    workdir.write("data/deep/b.txt", b"y", parents=True)
    assert (box / "data" / "deep" / "b.txt").read_bytes() == b"y"


def test_replaced_file_keeps_its_mode_but_no_set_uid(workdir: Workdir, box: Path) -> None:
    (box / "run.sh").write_bytes(b"old")
    (box / "run.sh").chmod(0o4750)
    workdir.write("run.sh", b"new")
    assert stat.S_IMODE((box / "run.sh").stat().st_mode) == 0o750


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_file_written_by_root_belongs_to_the_session(workdir: Workdir, box: Path) -> None:
    os.chown(box, UNPRIVILEGED, UNPRIVILEGED)
    workdir.write("data/a.txt", b"x", parents=True)
    assert {(box / name).stat().st_uid for name in ("data", "data/a.txt")} == {UNPRIVILEGED}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../outside/secret", "a/../../outside/secret", "a\0b", "..", ""]
)
def test_path_that_leads_elsewhere_is_refused_with_what_to_name_instead(
    workdir: Workdir, outside: Path, path: str
) -> None:
    for use in (lambda: workdir.read(path), lambda: workdir.write(path, b"x"), lambda: workdir.remove(path)):
        with pytest.raises(FileRefused) as refusal:
            use()
        assert refusal.value.hint
    assert (outside / "secret").read_bytes() == SECRET


def test_links_are_neither_followed_nor_hidden(workdir: Workdir, box: Path, outside: Path) -> None:
    (box / "file").symlink_to(outside / "secret")
    (box / "directory").symlink_to(outside)
    (box / "magic").symlink_to("/proc/self/root")
    for path in ("file", "directory/secret", "magic/etc/passwd"):
        with pytest.raises(FileRefused, match="symbolic link"):
            workdir.read(path)
    with pytest.raises(FileRefused):
        workdir.list("directory")
    with pytest.raises(FileRefused):
        workdir.write("directory/planted", b"x")
    assert {entry.type for entry in workdir.list().entries} == {"link"}
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_writing_or_removing_a_link_touches_the_link_alone(
    workdir: Workdir, box: Path, outside: Path
) -> None:
    for name in ("one", "two"):
        (box / name).symlink_to(outside / "secret")
    workdir.write("one", b"mine")
    workdir.remove("two")
    assert (outside / "secret").read_bytes() == SECRET
    assert workdir.read("one") == b"mine"
    assert not workdir.exists("two")


def test_second_hard_link_is_refused(workdir: Workdir, box: Path, outside: Path) -> None:
    os.link(outside / "secret", box / "innocent")
    with pytest.raises(FileRefused, match="2 hard links"):
        workdir.read("innocent")
    with pytest.raises(FileRefused):
        workdir.copy_out("innocent", outside / "copy")


def test_pipes_sockets_and_directories_are_refused_without_waiting(workdir: Workdir, box: Path) -> None:
    os.mkfifo(box / "pipe")
    (box / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(box / "socket"))
        for name in ("pipe", "socket", "directory"):
            with pytest.raises(FileRefused, match="not a file"):
                workdir.read(name)
    assert {entry.path: entry.type for entry in workdir.list().entries} == {
        "pipe": "other",
        "socket": "other",
        "directory": "directory",
    }


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes device nodes")
def test_devices_are_refused_and_a_whiteout_is_told(workdir: Workdir, box: Path) -> None:
    os.mknod(box / "kmsg", stat.S_IFCHR | 0o666, os.makedev(1, 11))
    os.mknod(box / "gone", stat.S_IFCHR, os.makedev(0, 0))
    for name in ("kmsg", "gone"):
        with pytest.raises(FileRefused):
            workdir.read(name)
    assert {entry.path: entry.type for entry in workdir.list().entries} == {
        "kmsg": "other",
        "gone": "whiteout",
    }


def test_leased_file_does_not_make_us_wait(workdir: Workdir, box: Path) -> None:
    (box / "leased").write_bytes(b"x")
    # A lease holder is asked by signal to let go, and may take 45 s: the test process ignores being asked.
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with (box / "leased").open("r+b") as held:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            with pytest.raises(FileFailed) as failure:
                workdir.read("leased")
    finally:
        signal.signal(signal.SIGIO, before)
    assert "holds the file" in str(failure.value)


def test_too_large_a_file_is_refused_and_read_in_parts(workdir: Workdir, box: Path, tmp_path: Path) -> None:
    (box / "large").write_bytes(b"0123456789")
    with pytest.raises(FileTooLarge):
        workdir.read("large", 9)
    with pytest.raises(FileTooLarge):
        workdir.copy_out("large", tmp_path / "copy", 9)
    assert workdir.read("large", 10) == b"0123456789"
    part = workdir.read_part("large", offset=4, max_bytes=3)
    assert (part.data, part.size) == (b"456", 10)
    with Workdir.open(box, max_bytes=9) as narrow, pytest.raises(FileTooLarge):
        narrow.write("larger", b"0123456789")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box"]


def test_file_that_claims_no_size_is_still_bounded() -> None:
    with Workdir.open(Path(f"/proc/{os.getpid()}")) as process, pytest.raises(FileTooLarge):
        process.read("smaps", 100)


def test_copy_out_replaces_its_destination_whole(workdir: Workdir, tmp_path: Path) -> None:
    workdir.write("report.html", b"new")
    (tmp_path / "report.html").write_bytes(b"something longer")
    assert workdir.copy_out("report.html", tmp_path / "report.html") == 3
    assert (tmp_path / "report.html").read_bytes() == b"new"


def test_listing_is_bounded_and_says_so(workdir: Workdir, box: Path) -> None:
    for number in range(5):
        (box / str(number)).touch()
    assert len(workdir.list("", 3).entries) == 3
    assert not workdir.list("", 3).complete
    assert workdir.list("", 5).complete
    assert not workdir.snapshot(max_entries=3).complete


def test_name_in_another_mount_is_refused_unless_mounts_may_be_crossed() -> None:
    with Workdir.open(Path("/")) as root, pytest.raises(FileRefused, match="another mount"):
        root.read("proc/version")
    with Workdir.open(Path("/"), cross_mounts=True) as root:
        assert root.read("proc/version").startswith(b"Linux")


def test_snapshot_tells_what_came_changed_and_went(workdir: Workdir, box: Path) -> None:
    for name in ("kept", "edited", "restored", "dropped"):
        (box / name).write_bytes(b"old")
    before = workdir.snapshot()
    status = (box / "restored").stat()
    (box / "edited").write_bytes(b"newer")
    (box / "restored").write_bytes(b"new")
    os.utime(box / "restored", ns=(status.st_atime_ns, status.st_mtime_ns))
    (box / "dropped").unlink()
    (box / "plots").mkdir()
    (box / "plots" / "one.png").write_bytes(b"png")
    (box / ".git").mkdir()
    (box / ".git" / "index").touch()
    changes, after = workdir.changed_since(before)
    assert [entry.path for entry in changes.created] == [".git", "plots", "plots/one.png"]
    assert [entry.path for entry in changes.changed] == ["edited", "restored"]
    assert [entry.path for entry in changes.deleted] == ["dropped"]
    assert changes.complete
    nothing, _ = workdir.changed_since(after)
    assert not nothing


def test_what_was_not_looked_at_is_not_called_deleted(workdir: Workdir, box: Path) -> None:
    for name in ("a", "b", "c"):
        (box / name).touch()
    changes, _ = workdir.changed_since(workdir.snapshot(), max_entries=1)
    assert not changes.deleted
    assert not changes.complete


def test_our_own_write_is_not_taken_for_somebody_elses(workdir: Workdir) -> None:
    entry = workdir.write("a", b"x")
    assert workdir.snapshot().entries["a"] == entry


def test_tree_too_deep_to_walk_is_looked_at_in_part_and_cleared_whole(workdir: Workdir, box: Path) -> None:
    script = "import os, sys; os.chdir(sys.argv[1])\nfor _ in range(1100):\n os.mkdir('d' * 200); os.chdir('d' * 200)"
    subprocess.run([sys.executable, "-S", "-c", script, str(box)], check=True)
    complete = workdir.snapshot().complete
    assert workdir.clear() == 0
    assert not complete
    assert list(box.iterdir()) == []


def test_directories_closed_to_their_owner_are_cleared_and_links_out_of_them_are_not_followed(
    box: Path, outside: Path
) -> None:
    (box / "a" / "b" / "c").mkdir(parents=True)
    (box / "a" / "link").symlink_to(outside)
    (box / "a" / "b" / "c" / "file").touch()
    for closed in ("a/b/c", "a/b", "a"):
        (box / closed).chmod(0)
    if os.getuid() == 0:
        for path in [box, *box.rglob("*")]:
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
    for parent in (box, *box.parents):
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(0o711)
    child = os.fork()
    if child == 0:
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
        with Workdir.open(box) as workdir:
            os._exit(workdir.clear())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(box.iterdir()) == []
    assert (outside / "secret").read_bytes() == SECRET


def test_directory_that_is_renamed_and_replaced_is_still_the_one_that_was_opened(
    box: Path, outside: Path
) -> None:
    (box / "mine").write_bytes(b"mine")
    with Workdir.open(box) as workdir:
        box.rename(box.parent / "moved")
        box.symlink_to(outside)
        assert workdir.read("mine") == b"mine"
        with pytest.raises(NoSuchFile):
            workdir.read("secret")


def test_full_disk_is_told_with_the_next_step_and_the_old_file_stays(workdir: Workdir, box: Path) -> None:
    (box / "a").write_bytes(b"old")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        try:
            workdir.write("a", b"x" * 100)
        except FileFailed as failure:
            os._exit(0 if failure.hint else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [path.name for path in box.iterdir()] == ["a"]
    assert (box / "a").read_bytes() == b"old"

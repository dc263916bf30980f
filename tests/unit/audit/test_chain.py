"""The audit log as a file: its chain, what breaks it, what mends it, and how it stays small."""

from __future__ import annotations

import json
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cellwright.audit import AuditLog, acting, check, read_lines
from cellwright.errors import FileRefused

SMALL = 64 * 1024


@contextmanager
def opened(storage: Path, **options: int) -> Iterator[AuditLog]:
    log = AuditLog(storage, **options)
    yield log
    log.close()


def told(storage: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in read_lines(storage)]


def five_lines(storage: Path) -> list[bytes]:
    with opened(storage) as log:
        for number in range(5):
            log.note("run", session="s-1", cell=f"c-{number}")
    return list(read_lines(storage))


def test_a_line_says_who_did_what_and_carries_the_hash_of_the_one_before(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        with acting("page:ann"):
            log.note("take_over", session="s-1", person="ann", instead_of=None)
        with pytest.raises(FileRefused), log.outcome("apply", session="s-1", asked=["a.txt"]):
            raise FileRefused("a.txt is no plain file")
    first, second = told(tmp_path)
    assert {name: first[name] for name in ("seq", "kind", "by", "session", "about")} == {
        "seq": 1, "kind": "take_over", "by": "page:ann", "session": "s-1", "about": {"person": "ann"},
    }  # fmt: skip
    assert second["before"] == first["hash"]
    assert (second["by"], second["about"]) == ("cellwright", {"asked": ["a.txt"]})
    assert str(second["refused"]).startswith("file_refused: ")
    assert check(read_lines(tmp_path)).problem is None


def test_only_its_user_can_look_at_it(tmp_path: Path) -> None:
    five_lines(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "audit").iterdir()}
    assert modes == {"audit.jsonl": 0o600, "lock": 0o600}
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o700


@given(at=st.integers(0, 4), place=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
@example(at=4, place=0.9921875, flipped=1)  # what closes the line, which no hash covers
def test_the_first_line_that_is_not_as_it_was_written_is_found(
    tmp_path_factory: pytest.TempPathFactory, at: int, place: float, flipped: int
) -> None:
    lines = five_lines(tmp_path_factory.mktemp("chain"))
    changed = bytearray(lines[at])
    changed[int(place * len(changed))] ^= flipped
    lines[at] = bytes(changed)
    found = check(lines)
    assert found.problem is not None
    assert found.problem.startswith(f"line {at + 1} ")


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_line_that_was_taken_out_or_moved_is_found(tmp_path: Path, at: int) -> None:
    lines = five_lines(tmp_path)
    assert str(check(lines[:at] + lines[at + 1 :]).problem).startswith(f"line {at + 1} ")
    moved = check([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    assert moved.problem is not None
    assert "does not follow" in moved.problem


def test_lines_of_another_log_do_not_fit_in(tmp_path: Path) -> None:
    lines, others = five_lines(tmp_path / "one"), five_lines(tmp_path / "other")
    found = check(lines[:2] + others[2:])
    assert found.problem == "line 3 (number 3) does not follow number 2, which is before it"


def test_an_end_that_was_cut_off_or_written_anew_is_found_by_a_hash_that_was_noted(tmp_path: Path) -> None:
    lines = five_lines(tmp_path / "real")
    known = check(lines).last_hash
    assert check(lines, known=known).problem is None
    assert check(lines[:4]).problem is None, "the file alone does not tell"
    assert "were removed" in str(check(lines[:4], known=known).problem)
    assert "were removed" in str(check(five_lines(tmp_path / "forged"), known=known).problem)


@pytest.mark.parametrize("left", [1, 20, 200, -1])
def test_a_line_that_a_killed_process_left_half_is_mended_and_the_log_says_so(
    tmp_path: Path, left: int
) -> None:
    lines = five_lines(tmp_path)
    file = tmp_path / "audit" / "audit.jsonl"
    file.write_bytes(b"".join(lines[:4]) + lines[4][:left])
    assert "line 5 has no end" in str(check(read_lines(tmp_path)).problem)
    with opened(tmp_path) as log:
        log.note("start")
    mended, started = told(tmp_path)[4:]
    assert mended["about"] == {"mended": lines[4][:left].decode(), "bytes": len(lines[4][:left])}
    assert (mended["kind"], started["kind"], started["seq"]) == ("audit", "start", 6)
    assert check(read_lines(tmp_path)).problem is None


def test_a_last_line_that_somebody_changed_is_not_mended(tmp_path: Path) -> None:
    lines = five_lines(tmp_path)
    file = tmp_path / "audit" / "audit.jsonl"
    file.write_bytes(b"".join(lines[:4]) + lines[4].replace(b"c-4", b"c-7"))
    with opened(tmp_path) as log:
        log.note("start")
    assert str(check(read_lines(tmp_path)).problem).startswith("line 5 ")


def test_the_oldest_lines_are_let_go_and_the_chain_holds(tmp_path: Path) -> None:
    with opened(tmp_path, max_bytes=SMALL) as log:
        for number in range(600):
            log.note("run", session="s-1", cell=f"c-{number}")
    files = sorted((tmp_path / "audit").glob("audit*.jsonl"))
    assert sum(file.stat().st_size for file in files) <= SMALL
    found = check(read_lines(tmp_path))
    assert found.problem is None
    assert found.first_seq is not None
    assert found.first_seq > 100
    files[0].unlink()
    assert "nothing says that the lines before it were let go" in str(check(read_lines(tmp_path)).problem)


def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    with opened(tmp_path, max_bytes=SMALL) as one, opened(tmp_path) as other:
        for number in range(150):
            (one if number % 3 else other).note("run", cell=f"c-{number}")
    seen = [line["about"] for line in told(tmp_path)]
    assert seen == [{"cell": f"c-{number}"} for number in range(150)]
    assert check(read_lines(tmp_path)).problem is None
    assert len(list((tmp_path / "audit").glob("audit-*"))) >= 2, "over several files"


def test_what_a_full_disk_did_not_take_is_written_with_the_next_line(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.note("run", cell="before")
        size = (tmp_path / "audit" / "audit.jsonl").stat().st_size
        with file_size_limit(size + 10):
            log.note("run", cell="meanwhile")
        log.note("run", cell="after")
    assert [line["about"] for line in told(tmp_path)] == [
        {"cell": one} for one in ("before", "meanwhile", "after")
    ]
    assert check(read_lines(tmp_path)).problem is None


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_strangers_cannot_fill_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        for _ in range(1_000):
            log.note_stranger("sign_in", refused="a wrong token", address="192.0.2.1")
    assert len(told(tmp_path)) == 1


def test_whatever_names_programs_and_files_have_a_line_is_one_line_and_short(tmp_path: Path) -> None:
    with opened(tmp_path) as log, acting("mcp:\n\x1b[2J\ud800"):
        log.note("apply", applied=["\udcff\n", *["x" * 10_000] * 1_000], skipped={"y" * 10_000: "\ud800"})
    (raw,) = read_lines(tmp_path)
    assert len(raw) < 100_000
    assert check([raw]).problem is None
    assert raw.isascii() or raw.decode()

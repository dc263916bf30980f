"""What a directory holds that code left, told apart by when it came."""

from __future__ import annotations

import time
from pathlib import Path

from cellwright.engine.leavings import leavings_of


def test_what_came_after_the_end_is_left_for_the_next_look(tmp_path: Path) -> None:
    began = time.time()
    write_after(tmp_path / "both", began)
    write_after(tmp_path / "own", began)
    ended = time.time()
    write_after(tmp_path / "both", ended)
    write_after(tmp_path / "later", ended)

    own = leavings_of(str(tmp_path), since=began, until=ended)
    assert [file.path for file in own.files] == ["own"]
    later = leavings_of(str(tmp_path), since=ended, before=own.seen)
    assert sorted(file.path for file in later.files) == ["both", "later"]


def test_what_another_changed_meanwhile_is_still_known_as_it_was(tmp_path: Path) -> None:
    write_after(tmp_path / "kept", 0)
    first = leavings_of(str(tmp_path))
    ended = time.time()
    write_after(tmp_path / "kept", ended)
    second = leavings_of(str(tmp_path), until=ended, before=first.seen)
    assert second.seen == first.seen
    (tmp_path / "kept").unlink()
    assert leavings_of(str(tmp_path), until=ended, before=first.seen).seen == {}


def write_after(path: Path, moment: float) -> None:
    """Write a file until its own time, which is told in ticks, is after a moment."""
    path.write_text("x")
    while path.stat().st_ctime_ns <= int(moment * 1e9):
        path.write_text("x")

"""The same request is resolved once, for a while."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cellwright.sandbox.packages import LASTS_S, Lock, Pin, Resolutions

LOCK = Lock((Pin("pandas", "2.0", (f"sha256:{'0' * 64}",)),))


def test_an_answer_is_found_by_the_same_request_only(tmp_path: Path) -> None:
    Resolutions(tmp_path / "store", "one").remember(LOCK, ["numpy"])
    assert Resolutions(tmp_path / "store", "one").recall() == (LOCK, ["numpy"])
    assert Resolutions(tmp_path / "store", "two").recall() is None
    assert not (tmp_path / "store").exists()


def test_an_old_or_broken_answer_is_none(tmp_path: Path) -> None:
    memory = Resolutions(tmp_path / "store", "one")
    memory.remember(LOCK, [])
    [file] = (tmp_path / "store-resolved").iterdir()
    then = time.time() - LASTS_S - 10
    os.utime(file, (then, then))
    assert memory.recall() is None
    file.write_text('{"lock": "pandas @ https://elsewhere.example"}')
    assert memory.recall() is None

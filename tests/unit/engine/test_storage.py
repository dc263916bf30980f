"""Who can look into what is kept."""

from __future__ import annotations

import stat
from pathlib import Path

from cellwright.settings.paths import make_storage


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_looks_into_the_storage_directory_or_finds_a_session_in_it(tmp_path: Path) -> None:
    storage = tmp_path / "above" / "state"
    make_storage(str(storage))
    assert (mode(storage), mode(storage / "sessions")) == (0o711, 0o711)


def test_one_that_an_earlier_version_left_open_is_closed_and_none_is_opened(tmp_path: Path) -> None:
    for name, before, after in (("open", 0o755, 0o711), ("closed", 0o700, 0o700)):
        storage = tmp_path / name
        (storage / "sessions").mkdir(parents=True)
        (storage / "journal.db").touch()
        for directory in (storage, storage / "sessions"):
            directory.chmod(before)
        make_storage(str(storage))
        assert (mode(storage), mode(storage / "sessions")) == (after, after)


def test_a_directory_that_is_more_than_storage_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_storage(str(tmp_path))
    assert mode(tmp_path) == 0o755

"""A layer over a folder that changed since makes it look as it did."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.sandbox.snapshots import Restored, Taken, Versions
from tests.support.sandbox.directories import change, paths, tree
from tests.unit.sandbox.test_versions import names_of, working


@pytest.fixture(autouse=True)
def only_root() -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can mount an overlay here")


def fill(versions: Versions, taken: Taken, lower: Path, upper: Path, **options: Any) -> Restored:
    upper.mkdir()
    descriptors = [os.open(path, os.O_RDONLY) for path in (lower, upper)]
    try:
        return versions.fill_layer(taken, *descriptors, **options)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def overlaid(root: Path, lower: Path, upper: Path) -> Iterator[Path]:
    merged, workdir = root / "merged", root / "workdir"
    merged.mkdir()
    workdir.mkdir()
    # Else unmounting waits until the whole disk has what others have written.
    options = f"lowerdir={lower},upperdir={upper},workdir={workdir},volatile"
    subprocess.run(["/usr/bin/mount", "-t", "overlay", "-o", options, "overlay", merged], check=True)
    try:
        yield merged
    finally:
        subprocess.run(["/usr/bin/umount", merged], check=True)


def seen(root: Path) -> dict[str, Any]:
    """All that matters but which names are one file: an overlay tells them apart once one is its own."""
    return {name: what[:4] for name, what in tree(root).items()}


edits = st.lists(
    st.tuples(st.sampled_from(["write", "mkdir", "remove", "symlink", "chmod"]), paths, paths), max_size=12
)


@given(before=edits, after=edits)
@settings(max_examples=30, database=None)
def test_the_folder_looks_as_it_did_whatever_was_done_to_it(before: Any, after: Any) -> None:
    with tempfile.TemporaryDirectory() as directory, working(Path(directory)) as work:
        for step in before:
            change(work.path, *step)
        taken, was = work.take(), seen(work.path)
        for step in after:
            change(work.path, *step)
        now, upper = tree(work.path), Path(directory, "upper")
        assert not fill(work.versions, taken, work.path, upper).failed
        with overlaid(Path(directory), work.path, upper) as merged:
            assert seen(merged) == was
        assert tree(work.path) == now, "the folder itself is not touched"


def test_only_what_is_different_goes_into_the_layer_and_belongs_to_whom_it_should(tmp_path: Path) -> None:
    with working(tmp_path) as work:
        (work.path / "d").mkdir()
        for name in ("same", "d/same", "d/changed", "deleted"):
            (work.path / name).write_text(name)
        taken = work.take()
        (work.path / "deleted").unlink()
        (work.path / "new" / "inside").mkdir(parents=True)
        changed = work.path / "d" / "changed"
        changed.write_text("other")
        restored = fill(work.versions, taken, work.path, tmp_path / "upper", owner=(65534, 65534))
        assert names_of(restored.changed) == {"d", "d/changed", "deleted"}
        assert names_of(restored.removed) == {"new"}
        upper = tmp_path / "upper"
        assert names_of(path.relative_to(upper).parts for path in upper.rglob("*")) == {
            "d",
            "d/changed",
            "deleted",
            "new",
        }
        assert stat.S_ISCHR((upper / "new").stat().st_mode)
        assert (upper / "d").stat().st_uid == (upper / "d" / "changed").stat().st_uid == 65534

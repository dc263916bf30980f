"""What tests of whole sessions in their boxes share."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Require


@pytest.fixture
def open_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that every user can get to: without namespaces root's sessions, which run as others, must."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        Path(directory, "state").mkdir(mode=0o711)
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


def require_watched(require: Require) -> None:
    """Without namespaces root's kernels run as another user, who must get to the interpreter."""
    above = [*Path(sys.base_prefix).parents, *Path(sys.prefix).parents]
    reachable = os.getuid() != 0 or all(directory.stat().st_mode & 0o001 for directory in above)
    require("a way to the interpreter for every user", reachable, "run the tests as an ordinary user")

"""The machine's tier is found wherever temporary files are kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from cellwright.sandbox.probe import try_isolation


def test_a_long_way_to_temporary_files_does_not_keep_the_tier_from_being_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = try_isolation(namespaces=False).tier
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert try_isolation(namespaces=False).tier == usual

"""A kernel's side of libraries' caches: links to what was prepared, in the kernel's own home."""

from __future__ import annotations

from pathlib import Path

import jedi.settings
import parso.cache
import pytest

from cellwright_kernel._librarycaches import link_caches, look_anew


def test_libraries_that_were_loaded_before_look_in_the_kernels_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a fork server leaves them, which runs in the user's home.
    monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path / "users" / "jedi"))
    monkeypatch.setattr(parso.cache, "_default_cache_path", tmp_path / "users" / "parso")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    look_anew()

    assert jedi.settings.cache_directory == str(tmp_path / ".cache" / "jedi")
    assert parso.cache._default_cache_path == tmp_path / ".cache" / "parso"


def test_prepared_caches_are_links_beside_which_a_library_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    prepared = tmp_path / "prepared" / "tool" / "deep" / "kept.json"
    prepared.parent.mkdir(parents=True)
    prepared.write_text("once")
    own = tmp_path / "home" / ".cache" / "tool" / "deep"
    for _ in range(2):
        link_caches([str(tmp_path / "prepared"), str(tmp_path / "nowhere")])
    assert (own / "kept.json").readlink() == prepared
    (own / "more.json").write_text("own")
    assert [path.name for path in prepared.parent.iterdir()] == ["kept.json"]

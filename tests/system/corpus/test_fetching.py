"""A notebook of the corpus is the one that the manifest names, or it is refused."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from tests.support.corpus.fetching import (
    MANIFEST,
    CorpusChangedError,
    CorpusNotebook,
    CorpusUnavailableError,
    Source,
    fetch_sources,
    lay_out,
    read_manifest,
)
from tests.support.corpus.normalising import RULES

NOTEBOOK = b'{"cells": []}'


def _source(cache: Path) -> Source:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in {"docs/a.ipynb": NOTEBOOK, "docs/a.csv": b"1,2", "docs/b.csv": b"3"}.items():
            member = tarfile.TarInfo(f"some_books-1.0/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    source = Source("some-books", "1.0", hashlib.sha256(content.getvalue()).hexdigest())
    (cache / source.filename).write_bytes(content.getvalue())
    return source


def _notebook(source: Source, *, content: bytes = NOTEBOOK) -> CorpusNotebook:
    return CorpusNotebook(
        source=source,
        path=PurePosixPath("docs/a.ipynb"),
        sha256=hashlib.sha256(content).hexdigest(),
        volatile=(),
        beside=(PurePosixPath("docs/a.csv"),),
        raises=False,
        kernel="python3",
    )


def test_copy_has_the_notebook_and_the_files_beside_it_and_no_more(tmp_path: Path) -> None:
    source = _source(tmp_path)
    fetch_sources([source], tmp_path)
    path = lay_out(_notebook(source), tmp_path / "copy", tmp_path)
    assert path.read_bytes() == NOTEBOOK
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.csv", "a.ipynb"]


def test_changed_notebook_is_refused(tmp_path: Path) -> None:
    source = _source(tmp_path)
    with pytest.raises(CorpusChangedError, match=r"docs/a\.ipynb has the sha256"):
        lay_out(_notebook(source, content=b"other"), tmp_path / "copy", tmp_path)


def test_changed_distribution_is_refused(tmp_path: Path) -> None:
    source = _source(tmp_path)
    (tmp_path / source.filename).write_bytes(b"other")
    with pytest.raises(CorpusChangedError, match=r"some_books-1\.0\.tar\.gz has the sha256"):
        fetch_sources([source], tmp_path)


def test_failed_download_leaves_nothing_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(
        CorpusUnavailableError,
        match=r"The download failed for some-books:\n.*No some_books-1\.0\.tar\.gz was found",
    ):
        fetch_sources([Source("some-books", "1.0", "0" * 64)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_manifest_is_sound() -> None:
    notebooks = read_manifest()
    assert len(notebooks) >= 20
    names = [notebook.name for notebook in notebooks]
    assert len(set(names)) == len(names)
    assert {rule for notebook in notebooks for rule in notebook.volatile} <= set(RULES)


def test_nothing_is_left_out_of_the_corpus_without_a_reason() -> None:
    left_out = tomllib.loads(MANIFEST.read_text())["left_out"]
    assert all(entry["reason"] for entry in left_out)
    taken = {(notebook.source.distribution, str(notebook.path)) for notebook in read_manifest()}
    assert not taken & {(entry["distribution"], path) for entry in left_out for path in entry["paths"]}

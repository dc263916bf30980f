"""Gets the notebooks that manifest.toml names, by pip (see sdists) and by hash, and lays copies where a test wants them.

Nothing of them is in git. Source distributions are kept in ``.cache/corpus``; only the files the manifest names are
read from them. Runs no notebook (see test_same_outputs_as_nbclient) and compares none (see normalising).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "corpus"
MANIFEST = Path(__file__).with_name("manifest.toml")
DOWNLOAD_LIMIT_S = 300


class CorpusUnavailableError(Exception):
    """The package index could not be reached, or does not have what the manifest names."""


class CorpusChangedError(Exception):
    """A file is not the one that was written into the manifest."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source distribution that holds notebooks."""

    distribution: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.distribution.replace('-', '_')}-{self.version}.tar.gz"


@dataclass(frozen=True, slots=True)
class CorpusNotebook:
    """One notebook, and what must be known to compare two runs of it."""

    source: Source
    path: PurePosixPath
    sha256: str
    volatile: tuple[str, ...]
    """What differs from run to run: names of rules in normalising."""
    beside: tuple[PurePosixPath, ...]
    """Files that it reads, as paths within the distribution."""
    raises: bool
    """Whether a cell of it raises on purpose."""
    kernel: str
    """The kernelspec that it runs on."""

    @property
    def name(self) -> str:
        return f"{self.source.distribution}/{self.path.stem}"


def read_manifest(manifest: Path = MANIFEST) -> list[CorpusNotebook]:
    """Every notebook of the corpus, in the manifest's order."""
    notebooks = []
    for entry in tomllib.loads(manifest.read_text())["source"]:
        source = Source(entry["distribution"], entry["version"], entry["sha256"])
        notebooks += [
            CorpusNotebook(
                source=source,
                path=PurePosixPath(notebook["path"]),
                sha256=notebook["sha256"],
                volatile=tuple(notebook.get("volatile", ())),
                beside=tuple(map(PurePosixPath, notebook.get("beside", ()))),
                raises=notebook.get("raises", False),
                kernel=notebook.get("kernel", "python3"),
            )
            for notebook in entry["notebook"]
        ]
    return notebooks


def fetch_sources(sources: Sequence[Source], cache: Path = CACHE) -> None:
    """Make sure that every source distribution is in the cache, whole and unchanged.

    Raises:
        CorpusUnavailableError: one could not be downloaded.
        CorpusChangedError: one in the cache has another hash than the manifest says.
    """
    cache.mkdir(parents=True, exist_ok=True)
    missing = [source for source in sources if not (cache / source.filename).is_file()]
    if missing:
        # Beside the cache, so that a download cut short leaves nothing there, and a rename moves it in whole.
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _download(missing, Path(scratch))
            for source in missing:
                (Path(scratch) / source.filename).replace(cache / source.filename)
    for source in sources:
        _verify((cache / source.filename).read_bytes(), source.sha256, source.filename)


def _download(sources: Sequence[Source], scratch: Path) -> None:
    names = ", ".join(source.distribution for source in sources)
    wanted = [f"{source.distribution}={source.filename}" for source in sources]
    try:
        done = subprocess.run(
            [
                sys.executable,
                Path(__file__).with_name("sdists.py"),
                "--no-input",
                "--quiet",
                scratch,
                *wanted,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CorpusUnavailableError(
            f"The download took more than {DOWNLOAD_LIMIT_S} s for {names}"
        ) from error
    if done.returncode != 0:
        raise CorpusUnavailableError(f"The download failed for {names}:\n{done.stderr}")


def lay_out(notebook: CorpusNotebook, directory: Path, cache: Path = CACHE) -> Path:
    """Put a fresh copy of a notebook, and of the files beside it, under a directory; the path of the notebook.

    Raises:
        CorpusChangedError: the notebook has another hash than the manifest says.
    """
    with tarfile.open(cache / notebook.source.filename) as archive:
        top = archive.getnames()[0].split("/")[0]
        for path in (notebook.path, *notebook.beside):
            member = archive.extractfile(f"{top}/{path}")
            if member is None:
                raise CorpusChangedError(f"{path} in {notebook.source.filename} is not a file")
            content = member.read()
            if path == notebook.path:
                _verify(content, notebook.sha256, f"{notebook.source.filename}:{path}")
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return directory / notebook.path


def _verify(content: bytes, sha256: str, what: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CorpusChangedError(f"{what} has the sha256 {found}, not {sha256} as the manifest says")

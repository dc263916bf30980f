"""Compares the version in every file that holds it with the one of ``src/cellwright/__init__.py``, and sets the next.

``python -m scripts.versions`` lists them; ``python -m scripts.versions 0.2.0`` writes 0.2.0 everywhere and turns the
changelog's ``[Unreleased]`` into that release's section. Builds nothing (see release).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "src/cellwright/__init__.py"
_JSON = r'(?<="version": ")[^"]+'
_IMAGE = r"(?<=ghcr\.io/cellwright/cellwright:)[\w.-]+"
PLACES = {
    SOURCE: r'(?<=^__version__ = ")[^"]+',
    "server.json": _JSON,
    "plugin/.claude-plugin/plugin.json": _JSON,
    "plugin/.codex-plugin/plugin.json": _JSON,
    "plugin/gemini-extension.json": _JSON,
    "packaging/mcpb/manifest.json": f"{_JSON}|{_IMAGE}",
    "compose.yaml": _IMAGE,
    "packaging/mcpb/pyproject.toml": r'(?<=^version = ")[^"]+|(?<=cellwright\[data\]==)[\w.]+',
}
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_UNRELEASED = "## [Unreleased]\n"


class NotReleasable(Exception):
    """The repository is not ready for this; the message says what to do."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="the next one; none lists what there is")
    version: str | None = parser.parse_args().version
    try:
        if version is None:
            for file, found in versions():
                print(f"{found:12} {file}")
        else:
            set_version(version, datetime.now(UTC).date())
            print(
                f"{version} is everywhere. Run: python -m cellwright.daemon.greeting_recorder; then commit."
            )
    except NotReleasable as error:
        sys.exit(f"error: {error}")


def versions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Every place with its version."""
    for file, pattern in PLACES.items():
        found = re.findall(pattern, (root / file).read_text(), re.MULTILINE)
        if not found:
            raise NotReleasable(f"{file} names no version: write one, or take it out of scripts/versions.py")
        yield from ((file, version) for version in found)


def agreed_version(root: Path = ROOT) -> str:
    """The one version of all places.

    Raises:
        NotReleasable: two places differ.
    """
    found = list(versions(root))
    expected = found[0][1]
    others = [f"{file} has {version}" for file, version in found if version != expected]
    if others:
        raise NotReleasable(
            f"{SOURCE} has {expected}, but {', '.join(others)}: run python -m scripts.versions {expected}"
        )
    return expected


def set_version(version: str, today: date, root: Path = ROOT) -> None:
    """Write a version everywhere, and give the changelog its section unless it has one."""
    if not _VERSION.fullmatch(version):
        raise NotReleasable(f"{version!r} is no version of a release: write it as 1.2.3 or 1.2.3rc1")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    if f"## [{version}]" not in text:
        changelog.write_text(released(text, version, today))
    for file, pattern in PLACES.items():
        path = root / file
        path.write_text(re.sub(pattern, version, path.read_text(), flags=re.MULTILINE))


def released(changelog: str, version: str, today: date) -> str:
    """The changelog with its unreleased entries in a section of their own."""
    before, heading, after = changelog.partition(_UNRELEASED)
    entries = after.split("\n## [", 1)[0].strip()
    if not heading or not entries:
        raise NotReleasable("CHANGELOG.md has nothing under [Unreleased]: say there what the release changes")
    return f"{before}{heading}\n## [{version}] - {today}\n{after}"


def section(changelog: str, version: str) -> tuple[date, str]:
    """The day of a release, and what the changelog says of it."""
    found = re.search(
        rf"^## \[{re.escape(version)}\] - (\d{{4}}-\d\d-\d\d)\n(.*?)(?=^## \[|\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise NotReleasable(
            f"CHANGELOG.md has no section [{version}]: run python -m scripts.versions {version}"
        )
    return date.fromisoformat(found[1]), found[2].strip() + "\n"


if __name__ == "__main__":
    main()

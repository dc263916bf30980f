"""Writes a package with one plugin of each kind: the one of ``examples/plugin``, which is in the wheel too, under a new name."""

from __future__ import annotations

import re
from pathlib import Path

from cellwright.errors import CellwrightError

__all__ = ["SkeletonRefused", "write_package"]

_EXAMPLE = "cellwright-example"
_MODULE = "cellwright_example"
# A link to where readers look for it; a wheel has the files.
_FILES = Path(__file__).parent / "example"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


class SkeletonRefused(CellwrightError):
    """A package cannot be written there, or not under this name."""

    code = "skeleton_refused"


def write_package(name: str, below: Path) -> tuple[Path, tuple[Path, ...]]:
    """Write the package ``name`` into a new directory of that name; the directory, and the files in it.

    Raises:
        SkeletonRefused: it is no name of a package, or there is something already.
    """
    if not _NAME.fullmatch(name) or name.replace("_", "-") == "cellwright":
        raise SkeletonRefused(
            f"{name!r} is no name for a package", hint="Use lower case, such as `acme-dice`"
        )
    target, module = below / name, name.replace("-", "_")
    try:
        target.mkdir()
    except OSError as error:
        raise SkeletonRefused(
            f"{target} cannot be made: {error.strerror}", hint="Choose another name"
        ) from None
    written = []
    for source in _sources():
        copy = target / str(source.relative_to(_FILES)).replace(_MODULE, module)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8").replace(_MODULE, module)
        copy.write_text(text.replace(_EXAMPLE, name), encoding="utf-8")
        written.append(copy)
    return target, tuple(written)


def _sources() -> list[Path]:
    if not (_FILES / "pyproject.toml").is_file():
        raise SkeletonRefused("The example is not installed", hint="Install Cellwright again")
    return sorted(path for path in _FILES.rglob("*") if path.is_file() and path.suffix != ".pyc")

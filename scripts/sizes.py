"""Measures what the base install and each extra bring: distributions and bytes, before bytecode. Writes the table of sizes.

``make sizes`` writes ``docs/reference/sizes.md``. Each is installed into an empty environment, as locked in
``requirements/all.txt`` for this platform, and counted there. Nothing is estimated.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "sizes.md"
MEGABYTE = 1_000_000
LARGE = 5 * MEGABYTE
HEAD = """\
# Sizes

What an install takes on x86-64 with Python {python}, before bytecode, as locked in `requirements/`. `make sizes` measures
it: each row in an empty environment. An extra's row is what it adds to the base; two extras that share something
take less together.

| install | distributions | MB | the largest of them, in MB |
|---|---|---|---|
"""
TAIL = """
The base runs Python notebooks with checkpoints, MCP and the command line. Whatever needs an extra says which, before it
does anything: `hint: pip install 'cellwright[web]'`.

`local` is llama.cpp without weights, which come apart ([local models](../guides/local-models.md)).
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cellwright-sizes-") as scratch:
        base = _installed("", Path(scratch))
        lines = [_line("`cellwright`", base)]
        for extra in _extras():
            more = _installed(extra, Path(scratch))
            added = {name: size for name, size in more.items() if name not in base}
            lines.append(_line(f"`cellwright[{extra}]`", added, plus="+"))
    PAGE.write_text(
        HEAD.format(python=f"{sys.version_info[0]}.{sys.version_info[1]}") + "".join(lines) + TAIL
    )
    print(PAGE.relative_to(ROOT))


def _extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(project["optional-dependencies"])


def _installed(extra: str, scratch: Path) -> dict[str, int]:
    """Every distribution of an environment with its bytes."""
    target = scratch / (extra or "base")
    uv = str(Path(sys.executable).with_name("uv"))
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    options = ["--quiet", "--link-mode=copy", "--no-compile-bytecode", "--no-build-isolation"]
    locked = ["--constraint", str(ROOT / "requirements" / "all.txt")]
    environment = {**os.environ, "VIRTUAL_ENV": str(Path(sys.executable).parents[1])}
    subprocess.run(
        [uv, "pip", "install", *options, *locked, "--target", str(target), wanted],
        env=environment,
        check=True,
    )
    return {
        distribution.metadata["Name"].lower(): sum(
            file.stat().st_size
            for entry in distribution.files or ()
            if (file := Path(str(distribution.locate_file(entry)))).is_file() and file.suffix != ".pyc"
        )
        for distribution in importlib.metadata.distributions(path=[str(target)])
    }


def _line(name: str, sizes: dict[str, int], plus: str = "") -> str:
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:4]
    named = ", ".join(f"{one} {size / MEGABYTE:.0f}" for one, size in largest if size >= LARGE)
    return f"| {name} | {plus}{len(sizes)} | {plus}{sum(sizes.values()) / MEGABYTE:.0f} | {named or '–'} |\n"


if __name__ == "__main__":
    main()

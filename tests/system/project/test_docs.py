"""What the documents show is true: examples run.

Every ```python block of README.md, the start page, tutorials, guides, concepts, "coming from" pages and the reference is
a script of its own; ```python no-run opts out. `make docs` runs them all; the first of each page stands for it in the
default run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.daemon.connect import stop
from cellwright.daemon.paths import DaemonPaths
from cellwright.settings.modelkeys import MODEL_VARIABLES
from tests.forks import forked
from tests.matrix import one_of_each
from tests.support.project import scripts
from tests.waiting import UNHURRIED_VARIABLES

ROOT = Path(__file__).parents[3]
FOLDERS = ("tutorials", "guides", "concepts", "coming-from", "reference")
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *(page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))),
]
BLOCK = re.compile(r"^```python[ \t]*\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    name: str
    code: str


def _examples() -> list[Example]:
    return [
        Example(f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}", match["code"])
        for page in PAGES
        if page.is_file()
        for text in [page.read_text()]
        for match in BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def shared_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Examples of the pages come to one host, one after another, as a reader's do."""
    storage = tmp_path_factory.mktemp("docs") / "state"
    yield storage
    stop(DaemonPaths(str(storage)), kernels=True)


@pytest.mark.parametrize(
    "example", one_of_each(_examples(), lambda one: one.name.partition(":")[0], lambda one: one.name)
)
def test_example_runs(example: Example, tmp_path: Path, shared_storage: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = tmp_path / "example.py"
    # One host for all of them costs a third of a host each; the README shows that an engine of its own works.
    shared = example.code.replace("ephemeral=True", "ephemeral=False")
    script.write_text(example.code if example.name.startswith("README") else shared)
    # No example may ask a model, whoever runs it.
    kept = {name: value for name, value in os.environ.items() if name not in MODEL_VARIABLES}
    environment = {
        **kept,
        **UNHURRIED_VARIABLES,
        "CELLWRIGHT_STORAGE": str(shared_storage),
        "CELLWRIGHT_HOST_IDLE_S": "60",
        "CELLWRIGHT_MAX_SESSIONS": "200",
        "CELLWRIGHT_STANDBY_KERNELS": "0",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }
    with forked(scripts.run, script, work, environment) as fork:
        said = fork.out.read()
        assert fork.end() == 0, f"{example.name} failed\n{said}\n{fork.said_wrong()}"

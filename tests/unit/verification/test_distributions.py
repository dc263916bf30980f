"""Which distributions modules are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright_kernel._inputs import _owners

FILES = {
    "declared-1.dist-info/METADATA": "Name: Declared\nVersion: 1\n",
    "declared-1.dist-info/top_level.txt": "declared\n_declared\n",
    "package-2.dist-info/METADATA": "Name: package\nVersion: 2\n",
    "package-2.dist-info/RECORD": 'package/__init__.py,sha256=a,1\n"package/a,b.txt",,\npackage-2.dist-info/METADATA,,\n',
    "single-3.dist-info/METADATA": "Name: single\nVersion: 3\n",
    "single-3.dist-info/RECORD": "alone.py,sha256=a,1\n_alone.abi3.so,sha256=b,1\n../../bin/single,,\n",
    "old.egg-info/PKG-INFO": "Name: old\nVersion: 4\n",
    "old.egg-info/SOURCES.txt": "setup.py\noldest/__init__.py\n",
    "oldest/__init__.py": "",
}


@pytest.mark.parametrize(
    ("modules", "owners"),
    [
        ({"_declared"}, {"Declared": "1"}),
        ({"package"}, {"package": "2"}),
        ({"alone"}, {"single": "3"}),
        ({"_alone", "declared"}, {"single": "3", "Declared": "1"}),
        ({"oldest"}, {"old": "4"}),
        ({"single", "bin"}, {}),
    ],
)
def test_distributions_of_modules_are_found_by_what_they_declare_or_by_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: set[str], owners: dict[str, str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert _owners(modules) == owners

"""What of a project's files tools run by themselves, by name."""

from __future__ import annotations

import pytest

from cellwright.sandbox.overlay import is_trusted, why_autorun


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", "deep/er/.git", ".GIT/config", ".venv/bin/python", "a.pth", "lib/sitecustomize.py",
        ".envrc", ".vscode/tasks.json", ".idea/workspace.xml", "Makefile", "sub/GNUmakefile", "rules.mk", "conftest.py",
        "package.json", "node_modules/left-pad/index.js", ".github/workflows/ci.yml", "cellwright.toml", ".ssh/config",
        "__pycache__/table.cpython-311.pyc", "vite.config.ts", "docs/HEAD", "mirror.git/config", "app.csproj", "Directory.Build.props", "mix.exs",
        "build.zig", "WORKSPACE", "Gruntfile.js", "mypy.ini", "x.desktop",
    ],
)  # fmt: skip
def test_what_tools_run_is_told_with_the_reason(path: str) -> None:
    assert why_autorun(path)


@pytest.mark.parametrize(
    "path",
    [
        "table.csv",
        "build/table.csv",
        "workspace/head/x.csv",
        "analysis.py",
        "gitlog.txt",
        "make.py",
        "report/.hidden",
        "notes.md",
        "a.git.txt",
    ],
)
def test_what_people_work_with_is_nobodys_to_run(path: str) -> None:
    assert why_autorun(path) is None


def test_a_path_is_trusted_by_its_name_or_by_a_directory_of_its_kind() -> None:
    assert is_trusted(".git/config", [".git/config"])
    assert is_trusted(".git/config", ["./.git/"])
    assert not is_trusted("sub/Makefile", ["sub"])
    assert not is_trusted(".git/config", ["", "."])
    assert not is_trusted(".gitmodules", [".git"])

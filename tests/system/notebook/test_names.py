"""Names of new notebooks are readable, safe on any file system, and never taken twice."""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import SaveFailed
from cellwright.notebook import create_notebook_file, slug
from tests.waiting import LIMIT_S

NOW = datetime(2026, 11, 5, 9, 8, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ("Which cities grew fastest?", "which_cities_grew_fastest"),
        ("Analyse des ventes — été 2026", "analyse_des_ventes_été_2026"),
        ("为什么销售额下降。", "为什么销售额下降"),
        ("हिन्दी में", "हिन्दी_में"),
        ("ما هو؟", "ما_هو"),
        ("../../etc/passwd", "etc_passwd"),
        ("a\x00b\nc\\d:e", "a_b_c_d_e"),
        ("🎉🎉", "notebook"),
        ("", "notebook"),
        ("CON", "con_notebook"),
        ("\ud800x", "x"),
    ],
)
def test_slug_keeps_the_words_of_any_language(problem: str, expected: str) -> None:
    assert slug(problem) == expected


def test_a_name_that_has_a_time_already_gets_no_second_one(tmp_path: Path) -> None:
    for problem, expected in (
        ("20251001_120000_sales", "sales"),
        ("20251001_120000_20251002_130000_sales", "sales"),
        ("20251001 sales", "20251001_sales"),
    ):
        made = create_notebook_file(tmp_path / problem, problem, now=NOW, content=b"{}")
        assert made.name == f"20261105_090807_{expected}.ipynb"


def test_both_ways_of_writing_an_accent_give_one_name() -> None:
    assert slug("e\u0301te\u0301") == slug("\u00e9t\u00e9")


def test_letters_of_four_bytes_do_not_make_the_name_too_long() -> None:
    assert slug("\U00020000" * 100) == "\U00020000" * 50


@given(st.text(st.characters(), max_size=300))
def test_slug_is_always_a_safe_file_name(text: str) -> None:
    name = slug(text)
    assert name
    assert len(name) <= 60 + len("_notebook")
    assert len(f"20261105_090807_{name}_99999.ipynb".encode()) < 255
    assert not set(name) & set('/\\:*?"<>|.\0')
    assert all(char == "_" or unicodedata.category(char)[0] in "LMN" for char in name)
    assert unicodedata.is_normalized("NFC", name)
    assert name == name.strip("_ ")


def test_file_is_named_by_time_and_problem(tmp_path: Path) -> None:
    path = create_notebook_file(tmp_path / "deep" / "notebooks", "Why?", now=NOW, content=b"{}")
    assert path == tmp_path / "deep" / "notebooks" / "20261105_090807_why.ipynb"
    assert path.read_bytes() == b"{}"


def test_taken_name_gets_a_number(tmp_path: Path) -> None:
    paths = [create_notebook_file(tmp_path, "x", now=NOW, content=b"%d" % index) for index in range(3)]
    assert [path.name[16:] for path in paths] == ["x.ipynb", "x_2.ipynb", "x_3.ipynb"]
    assert [path.read_bytes() for path in paths] == [b"0", b"1", b"2"]


def test_threads_never_share_a_name(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(
            lambda index: create_notebook_file(tmp_path, "x", now=NOW, content=b"%d" % index), range(40)
        )
        paths = list(made)
    assert len(set(paths)) == 40
    assert [int(path.read_bytes()) for path in paths] == list(range(40))
    assert set(tmp_path.iterdir()) == set(paths)


def test_processes_never_share_a_name(tmp_path: Path) -> None:
    program = (
        "import sys; from datetime import datetime, UTC; from pathlib import Path\n"
        "from cellwright.notebook import create_notebook_file\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "for _ in range(10):\n"
        "    print(create_notebook_file(Path(sys.argv[1]), 'x', now=datetime(2026, 1, 1, tzinfo=UTC), content=b'x'))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(3)]  # type: ignore[call-overload]  # pipes are a dict
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    made = [line for worker in workers for line in worker.communicate("go", timeout=LIMIT_S)[0].splitlines()]
    assert len(set(made)) == len(made) == 30
    assert {Path(line) for line in made} == set(tmp_path.iterdir())


def test_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SaveFailed, match="Cannot create the directory"):
        create_notebook_file(tmp_path / "file" / "notebooks", "x", now=NOW, content=b"")

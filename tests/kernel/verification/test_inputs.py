"""Which files a kernel says its code has read."""

from __future__ import annotations

import hashlib
import os
import py_compile
from pathlib import Path

import pytest

from cellwright import Engine, Session

pytestmark = pytest.mark.anyio


async def watched(engine: Engine, name: str, **files: str) -> Session:
    session = await engine.create(name, directory=engine.settings.root / name.replace(" ", "-"))
    for stem, content in files.items():
        (session.cwd / f"{stem}.csv").write_text(content)
    await session.watch_inputs()
    return session


async def read_by(session: Session, source: str) -> dict[str, str]:
    execution = await (await session.execute_code(source)).wait()
    assert execution.ok, execution.text
    return {file.path: file.digest for file in (await session.inputs(source)).files}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_files_that_python_opens_are_told_once_with_their_hash(engine: Engine) -> None:
    session = await watched(engine, "opened", a="x\n1\n", b="y\n")
    assert await read_by(session, "import pandas as pd\nname = 'a' + '.csv'\npd.read_csv(name)") == {
        "a.csv": sha256("x\n1\n")
    }
    assert await read_by(session, "1") == {}
    assert await read_by(session, "import pathlib\npathlib.Path('b.csv').read_bytes()") == {
        "b.csv": sha256("y\n")
    }


async def test_files_that_a_library_opens_without_python_are_found_by_their_names(engine: Engine) -> None:
    session = await watched(engine, "native", a="x\n1\n", b="x\n2\n")
    polars = "import polars as pl\npl.read_csv('a.csv')"
    assert await read_by(session, polars) == {"a.csv": sha256("x\n1\n")}
    duckdb = "import duckdb\nduckdb.sql(\"select * from '*.csv'\").fetchall()"
    assert set(await read_by(session, duckdb)) == {"a.csv", "b.csv"}


async def test_what_the_kernel_wrote_itself_is_no_input(engine: Engine) -> None:
    session = await watched(engine, "written")
    source = """
open('own.csv', 'w').write('x')
open('own.csv').read()
import os, polars as pl
open('part', 'w').write('x')
os.rename('part', 'renamed.csv')
open('renamed.csv').read()
pl.DataFrame({'x': [1]}).write_csv('native.csv')
pl.read_csv('native.csv')
"""
    assert await read_by(session, source) == {}
    assert await read_by(session, "open('own.csv').read(), open('native.csv').read()") == {}


async def test_what_was_read_and_then_written_has_no_hash(engine: Engine) -> None:
    session = await watched(engine, "both", a="x\n")
    found = await read_by(session, "text = open('a.csv').read()\nopen('a.csv', 'w').write(text + '1')")
    assert found == {"a.csv": "unknown: written after it was read"}


async def test_a_module_of_the_project_is_an_input_and_an_installed_one_is_not(engine: Engine) -> None:
    session = await watched(engine, "modules")
    (session.cwd / "mine.py").write_text("VALUE = 1\n")
    os.utime(session.cwd / "mine.py", (1, 1))
    py_compile.compile(str(session.cwd / "mine.py"))  # then Python opens only what was compiled
    assert await read_by(session, "import mine, colorsys") == {"mine.py": sha256("VALUE = 1\n")}


async def test_files_elsewhere_and_directories_do_not_count(engine: Engine) -> None:
    session = await watched(engine, "elsewhere")
    (session.cwd / "sub").mkdir()
    assert await read_by(session, "import os\nopen(os.__file__).read(), 'sub', '.'") == {}


async def test_only_so_many_files_are_told_and_the_rest_is_counted(engine: Engine) -> None:
    session = await watched(engine, "many")
    for number in range(230):
        (session.cwd / f"{number}.txt").write_text(str(number))
        os.utime(session.cwd / f"{number}.txt", (1, 1))
    source = "import pathlib\nfor p in pathlib.Path().glob('*.txt'): p.read_text()"
    execution = await (await session.execute_code(source)).wait()
    assert execution.ok
    told = await session.inputs(source)
    assert (len(told.files), told.omitted) == (200, 30)


async def test_nothing_is_known_before_somebody_watches_and_packages_are_those_imported(
    engine: Engine, tmp_path: Path
) -> None:
    session = await engine.create("unwatched", directory=tmp_path)
    (tmp_path / "a.csv").write_text("x\n")
    await (await session.execute_code("open('a.csv').read()")).wait()
    assert not (await session.inputs("")).watching
    await session.watch_inputs()
    await (await session.execute_code("import pandas as pd, nbformat")).wait()
    told = await session.inputs("import pandas as pd, nbformat", packages=True)
    assert {"pandas", "nbformat"} <= set(told.packages)
    assert "duckdb" not in told.packages
    assert told.python.startswith("3.")

"""What sessions in overlay mode wrote: real kernels, real overlays, and a person who works in the project beside them."""

from __future__ import annotations

import os
import time
from ast import literal_eval
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright import Engine, Execution, Session
from cellwright.errors import FileConflict, FileRefused, NoSuchFile
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("overlays")
    (root / "project").mkdir()
    (root / "project" / "pyproject.toml").touch()
    async with open_at(root / "project", storage=root / "state", max_sessions=100) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
def folder(engine: Engine, request: pytest.FixtureRequest) -> Path:
    """A folder in the project for one test, which has all that the tests start from."""
    folder = engine.settings.root / request.node.originalname
    for path, content in {"kept.txt": "kept\n", "deep/er/old.txt": "old\n", "deep/two.txt": "two\n"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    script = folder / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return folder


async def work(engine: Engine, folder: Path, code: str = "") -> Session:
    session = await engine.create("overlay", directory=folder, mode="overlay")
    assert session.mode == "overlay"
    if code:
        await run(session, code)
    return session


async def run(session: Session, code: str) -> Execution:
    execution = await (await session.execute_code(code)).wait()
    assert execution.ok, execution.text
    await execution.wait_for_files(60)
    return execution


async def changes(session: Session) -> dict[str, tuple[str, str]]:
    """Change and type by the path from the session's folder."""
    top = f"{session.cwd.name}/"
    return {
        change.path.removeprefix(top): (change.change, change.type) for change in await session.file_changes()
    }


def tree(folder: Path) -> dict[str, Any]:
    """Everything in a folder but notebooks: contents, the right to run, and what is no file."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode("latin-1")
        if path.suffix == ".ipynb":
            continue
        if path.is_symlink():
            found[name] = ("link", path.readlink())
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


async def test_each_kind_of_change_is_told_with_its_type_size_time_and_real_path(
    engine: Engine, folder: Path
) -> None:
    session = await work(
        engine,
        folder,
        "import os, shutil\n"
        "open('added.txt', 'w').write('twelve bytes')\n"
        "open('kept.txt', 'a').write('more\\n')\n"
        "os.rename('deep/two.txt', 'renamed.txt')\n"
        "shutil.rmtree('deep/er')\n"
        "os.mkdir('new'); open('new/nested.bin', 'wb').write(bytes(range(256)))\n"
        "os.symlink('/etc/passwd', 'planted')\n",
    )
    assert await changes(session) == {
        "added.txt": ("added", "file"),
        "kept.txt": ("changed", "file"),
        "renamed.txt": ("added", "file"),
        "deep/two.txt": ("deleted", "file"),
        "deep/er": ("deleted", "directory"),
        "deep/er/old.txt": ("deleted", "file"),
        "new": ("added", "directory"),
        "new/nested.bin": ("added", "file"),
        "planted": ("added", "link"),
    }
    told = {change.path: change for change in await session.file_changes()}[f"{folder.name}/added.txt"]
    assert Path(told.real).read_bytes() == b"twelve bytes"
    assert told.size == 12
    assert told.time == pytest.approx(Path(told.real).stat().st_mtime)


async def test_originals_keep_their_bytes_and_times_until_something_is_applied(
    engine: Engine, folder: Path
) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    before = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files]
    session = await work(
        engine,
        folder,
        "import os, pathlib, shutil\n"
        "for path in list(pathlib.Path().rglob('*.txt')): path.write_text('overwritten')\n"
        "os.utime('run.sh', (0, 0)); os.chmod('run.sh', 0o644)\n"
        "shutil.rmtree('deep')\n",
    )
    await session.file_diff()
    assert [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files] == before


async def test_applying_everything_gives_the_project_what_the_session_sees(
    engine: Engine, folder: Path
) -> None:
    session = await work(
        engine,
        folder,
        "import os, shutil\n"
        "shutil.rmtree('deep'); open('deep', 'w').write('a file now')\n"
        "os.remove('kept.txt'); os.mkdir('kept.txt'); open('kept.txt/inside', 'w').write('x')\n"
        "os.chmod('run.sh', 0o644)\n"
        "open('tool', 'w').write('#!/bin/sh\\n'); os.chmod('tool', 0o755)\n",
    )
    await session.apply_files(trusted=[f"{folder.name}/tool"])
    assert tree(folder) == {
        "deep": (b"a file now", False),
        "kept.txt": "directory",
        "kept.txt/inside": (b"x", False),
        "run.sh": (b"#!/bin/sh\n", False),
        "tool": (b"#!/bin/sh\n", True),
    }
    assert await session.file_changes() == [], "what was applied is no change any more"
    assert (await session.apply_files()).changes == ()


PLANTED = """
import os, pathlib
planted = {
    ".git/config": "[core] fsmonitor = touch /tmp/owned",
    ".git/hooks/pre-commit": "#!/bin/sh",
    ".venv/lib/python3.11/site-packages/x.pth": "import os",
    "sub/Makefile": "all:",
    "sub/.VSCode/tasks.json": "{}",
    "__pycache__/table.cpython-311.pyc": "code",
    "new.sh": "#!/bin/sh",
    "table.csv": "a,b",
}
for path, text in planted.items():
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text)
os.chmod("new.sh", 0o755)
"""


async def test_what_tools_run_by_themselves_is_applied_only_where_a_person_named_it(
    engine: Engine, folder: Path
) -> None:
    session = await work(engine, folder, PLANTED)
    before = tree(folder)
    applied = await session.apply_files()
    top = f"{folder.name}/"
    brought = {change.path.removeprefix(top) for change in applied.changes if change.type == "file"}
    assert brought == {"table.csv"}
    assert {path.removeprefix(top) for path in applied.skipped} >= {
        ".git/config", ".git/hooks/pre-commit", ".venv/lib/python3.11/site-packages/x.pth", "sub/Makefile",
        "sub/.VSCode/tasks.json", "__pycache__/table.cpython-311.pyc", "new.sh",
    }  # fmt: skip
    assert set(tree(folder)) - set(before) == {"sub", "table.csv"}
    for path in (".git", ".git/config", "new.sh"):
        with pytest.raises(FileRefused, match="for a person to bring over"):
            await session.apply_files([top + path])
    await session.apply_files([f"{top}.git/config"], trusted=[f"{top}.git"])
    await session.apply_files([f"{top}new.sh"], trusted=[f"{top}new.sh"])
    assert (folder / ".git" / "config").is_file()
    assert (folder / "new.sh").stat().st_mode & 0o100
    with pytest.raises(FileRefused):
        await session.apply_files([f"{top}sub/Makefile"], trusted=[folder.name, "."])


async def test_a_directory_that_was_replaced_whole_loses_what_it_held(engine: Engine, folder: Path) -> None:
    session = await work(
        engine,
        folder,
        "import os, shutil\nshutil.rmtree('deep'); os.mkdir('deep'); open('deep/fresh', 'w').write('f')",
    )
    assert (await changes(session))["deep/two.txt"] == ("deleted", "file")
    await session.apply_files([f"{folder.name}/deep"])
    assert sorted(path.name for path in (folder / "deep").rglob("*")) == ["fresh"]


async def test_only_the_named_files_and_directories_are_applied(engine: Engine, folder: Path) -> None:
    session = await work(
        engine,
        folder,
        "import os\nos.mkdir('out')\n"
        "for name in ('out/a', 'out/b', 'outside', 'deep/new'): open(name, 'w').write(name)",
    )
    await session.apply_files([f"{folder.name}/out/", f"{folder.name}/deep/new"])
    assert {"out/a", "out/b", "deep/new"} <= set(tree(folder))
    assert "outside" not in tree(folder)
    with pytest.raises(NoSuchFile, match="kept"):
        await session.apply_files([f"{folder.name}/kept.txt"])


async def test_a_file_that_a_person_changed_meanwhile_is_not_overwritten_unless_forced(
    engine: Engine, folder: Path
) -> None:
    session = await work(
        engine,
        folder,
        "import os\nopen('kept.txt', 'w').write('ours'); os.remove('run.sh'); open('both', 'w').write('ours')",
    )
    (folder / "kept.txt").write_text("theirs")
    (folder / "run.sh").write_text("theirs")
    (folder / "both").write_text("theirs")
    with pytest.raises(FileConflict, match="force=true") as refused:
        await session.apply_files()
    assert {Path(path).name for path in refused.value.paths} == {"kept.txt", "run.sh", "both"}
    assert {(folder / name).read_text() for name in ("kept.txt", "run.sh", "both")} == {"theirs"}
    assert "changed in the project meanwhile" in await session.file_diff()
    await session.apply_files(force=True)
    assert ((folder / "kept.txt").read_text(), (folder / "both").read_text()) == ("ours", "ours")
    assert not (folder / "run.sh").exists()


async def test_a_file_that_a_person_made_in_a_deleted_directory_is_not_deleted(
    engine: Engine, folder: Path
) -> None:
    session = await work(engine, folder, "import shutil\nshutil.rmtree('deep')")
    mine = folder / "deep" / "mine.txt"
    mine.write_text("mine")
    # So that the next cell begins clearly later.
    await until(lambda: time.time() >= mine.stat().st_ctime + 0.1)
    await run(session, "1")  # a look that finds the file there
    with pytest.raises(FileConflict, match=r"mine\.txt"):
        await session.apply_files()
    assert (folder / "deep" / "mine.txt").read_text() == "mine"


async def test_what_a_person_does_after_an_apply_is_no_change_of_the_session(
    engine: Engine, folder: Path
) -> None:
    session = await work(
        engine, folder, "import os\nopen('kept.txt', 'w').write('ours'); os.remove('run.sh')"
    )
    await session.apply_files()
    (folder / "kept.txt").write_text("edited afterwards")
    (folder / "run.sh").write_text("made again")
    await run(session, "open('another', 'w').write('a')")
    assert set(await changes(session)) == {"another"}
    await session.apply_files()
    assert (folder / "kept.txt").read_text() == "edited afterwards"
    await run(session, "open('kept.txt', 'a').write('!')")
    with pytest.raises(FileConflict, match="kept"):
        await session.apply_files()


async def test_planted_links_are_listed_never_followed_and_never_applied(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("confidential")
    session = await work(
        engine,
        folder,
        f"import os\nos.symlink({str(secret)!r}, 'planted'); os.symlink('/', 'root')\n"
        "os.remove('kept.txt'); os.symlink('/etc/passwd', 'kept.txt'); open('fine', 'w').write('fine')",
    )
    diff = await session.file_diff()
    assert "confidential" not in diff
    assert "root:" not in diff
    applied = await session.apply_files()
    assert {Path(path).name for path in applied.skipped} == {"planted", "root", "kept.txt"}
    assert [change.path for change in applied.changes] == [f"{folder.name}/fine"]
    assert (folder / "kept.txt").read_text() == "kept\n"
    with pytest.raises(FileRefused, match="link"):
        await session.apply_files([f"{folder.name}/planted"])


async def test_odd_names_are_told_as_text_and_applied_as_they_are(engine: Engine, folder: Path) -> None:
    session = await work(engine, folder)
    execution = await run(
        session,
        "import os\nfor name in (b'new\\nline', b'-rf', b'bytes\\xff', b'\\x1b[31m', 'gr\\u00fc\\u00df'.encode()):\n"
        "    open(name, 'w').write('odd')",
    )
    names = {file.path.rpartition("/")[2] for file in execution.files}
    assert names == {"new\nline", "-rf", "bytes\\xff", "\x1b[31m", "grüß"}
    diff = await session.file_diff()
    assert '"b/' in diff
    assert "\x1b" not in diff
    await session.apply_files([f"{folder.name}/bytes\\xff"])
    assert (folder / os.fsdecode(b"bytes\xff")).read_text() == "odd"
    await session.apply_files()
    assert {"new\nline", "-rf", "bytes\xff", "\x1b[31m"} <= set(tree(folder))
    assert (await run(session, "print('alive')")).text == "alive\n"


async def test_no_session_sees_anothers_layer(engine: Engine, folder: Path) -> None:
    one = await work(engine, folder, "open('kept.txt', 'w').write('ours'); open('mine', 'w').write('mine')")
    other = await work(engine, folder)
    seen = await run(other, "import os\nprint(open('kept.txt').read(), os.path.exists('mine'))")
    assert seen.text == "kept\n False\n"
    tried = await run(other, f"import os\nprint(os.path.exists({one.place.written!r}))")
    assert tried.text == "False\n"
    assert await other.file_changes() == []


async def test_a_layer_and_its_originals_outlive_kernel_host_and_engine(
    open_here: OpenEngine, tmp_path: Path
) -> None:
    project = tmp_path / "outliving"
    project.mkdir()
    (project / "pyproject.toml").touch()
    for name in ("kept.txt", "theirs.txt"):
        (project / name).write_text("before")
    async with open_here() as engine:
        session = await work(engine, project)
        await run(session, "for n in ('kept.txt', 'theirs.txt'): open(n, 'w').write('ours')")
        await session.restart()
        assert (await run(session, "print(open('kept.txt').read())")).text == "ours\n"
    end_host(tmp_path / "state")
    (project / "theirs.txt").write_text("a person's")
    async with open_here() as engine:
        session = engine.session(session.id)
        assert (await run(session, "print(open('kept.txt').read())")).text == "ours\n"
        with pytest.raises(FileConflict, match=r"theirs\.txt"):
            await session.apply_files()
        await session.apply_files(["kept.txt"])
    assert ((project / "kept.txt").read_text(), (project / "theirs.txt").read_text()) == (
        "ours",
        "a person's",
    )


async def test_a_session_without_a_layer_has_nothing_to_apply(engine: Engine, folder: Path) -> None:
    session = await engine.create("direct", directory=folder, mode="direct")
    with pytest.raises(FileRefused, match="no layer"):
        await session.apply_files()


_PATHS = st.lists(st.sampled_from(["a", "b", "-c", "d\n"]), min_size=1, max_size=3).map("/".join)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _PATHS, st.binary(max_size=20)),
        st.tuples(st.just("remove"), _PATHS),
        st.tuples(st.just("mkdir"), _PATHS),
        st.tuples(st.just("rename"), _PATHS, _PATHS),
        st.tuples(st.just("run"), _PATHS),
    ),
    max_size=12,
)
_NUMBERS = count()
_DO = """
import os, pathlib, shutil
def do(top, steps):
    for kind, path, *rest in steps:
        path = top / path
        try:
            if kind == 'write':
                path.parent.mkdir(parents=True, exist_ok=True); path.write_bytes(rest[0])
            elif kind == 'remove':
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif kind == 'mkdir':
                path.mkdir(parents=True)
            elif kind == 'rename':
                shutil.move(path, top / rest[0])
            elif path.is_file():
                path.chmod(0o755)
        except (OSError, shutil.Error):
            pass
def seen(top):
    return {str(p.relative_to(top)): 'directory' if p.is_dir() else (p.read_bytes(), bool(p.stat().st_mode & 0o100))
            for p in sorted(top.rglob('*'))}
"""


@pytest.fixture(scope="module")
async def acting(engine: Engine) -> Session:
    folder = engine.settings.root / "acting"
    folder.mkdir()
    return await work(engine, folder, _DO)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=_STEPS, steps=_STEPS)
async def test_after_an_apply_the_project_is_what_the_session_saw(
    acting: Session, before: list[Any], steps: list[Any]
) -> None:
    number = next(_NUMBERS)
    top = acting.folder / str(number)
    top.mkdir()
    here: dict[str, Any] = {}
    exec(_DO, here)  # noqa: S102  # the same steps, by the same code
    here["do"](top, before)
    execution = await run(
        acting, f"top = pathlib.Path({str(number)!r})\ndo(top, {steps!r})\nprint(seen(top))"
    )
    # Forced: what was made a moment before counts as changed meanwhile.
    trusted = [change.path for change in await acting.file_changes()]
    await acting.apply_files(force=True, trusted=trusted)
    assert here["seen"](top) == literal_eval(execution.text)
    assert await acting.file_changes() == []

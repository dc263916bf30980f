"""Code sees a folder that a person works in as it sees a project, but for what holds keys; a home is asked about first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from cellwright import Engine, Session
from cellwright.errors import FileRefused, KernelStartError
from cellwright.sandbox.chosen_folders import judge_folder, remember_answer
from cellwright.sandbox.workspace import Workspace, without_secrets
from cellwright.tools import Files
from tests.kernel.engine.conftest import end_host, open_at

pytestmark = pytest.mark.anyio

LOOK = """
import os, pathlib
for path in map(pathlib.Path, ("data.csv", ".ssh/id", "sub/deep.txt", "sub/.aws/credentials", ".netrc", ".envrc")):
    try:
        print(path, path.read_text().strip())
    except OSError as error:
        print(path, type(error).__name__)
"""


def plain_folder(path: Path) -> Path:
    for name in ("data.csv", ".ssh/id", "sub/deep.txt", "sub/.aws/credentials", ".netrc", ".envrc"):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"in {name}\n")
    return path


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    home = plain_folder(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        async with open_at(home, storage=home / ".local" / "state", max_sessions=20) as engine:
            yield engine
    end_host(home / ".local" / "state")


async def looked(session: Session) -> dict[str, str]:
    execution = await (await session.execute_code(LOOK)).wait()
    assert execution.ok, execution.text
    return dict(line.split(" ", 1) for line in execution.text.splitlines())


async def test_a_chosen_folder_is_seen_under_a_layer_but_for_what_holds_keys(
    engine: Engine, tmp_path: Path
) -> None:
    folder = plain_folder(tmp_path / "plain")
    session = await engine.create("plain", directory=folder, mode="overlay", chosen=folder)
    assert (session.mode, session.record.project) == ("overlay", str(folder))
    assert await looked(session) == {
        "data.csv": "in data.csv",
        "sub/deep.txt": "in sub/deep.txt",
        ".envrc": "in .envrc",
        ".ssh/id": "FileNotFoundError",
        "sub/.aws/credentials": "FileNotFoundError",
        ".netrc": "PermissionError",
    }
    for path in (".ssh/id", "sub/.aws/credentials", ".netrc"):
        with pytest.raises(FileRefused):
            await Files(engine).read(path, session=session)
    wrote = await (await session.execute_code("open('data.csv', 'w').write('mine')")).wait()
    assert wrote.ok
    assert (folder / "data.csv").read_text() == "in data.csv\n"
    assert [change.path for change in await session.file_changes()] == ["data.csv"]
    # What came since the kernel was started is not seen by the next one.
    (folder / "sub" / ".gnupg").mkdir()
    (folder / "sub" / ".gnupg" / "key").write_text("key")
    await session.restart()
    again = await (await session.execute_code("import os; print(os.listdir('sub/.gnupg'))")).wait()
    assert again.text.strip() == "[]"


async def test_no_argument_opens_more_than_the_folder_that_was_chosen(engine: Engine, tmp_path: Path) -> None:
    folder, other = plain_folder(tmp_path / "plain"), plain_folder(tmp_path / "other")
    (folder / "notebooks").symlink_to(other)
    for directory in (other, tmp_path, folder / "notebooks"):
        session = await engine.create("beside", directory=directory, mode="overlay", chosen=folder)
        assert (session.mode, session.record.project) == ("private", None), directory
    assert set((await looked(session)).values()) == {"FileNotFoundError"}
    link = tmp_path / "link"
    link.symlink_to(engine.options.home)
    for chosen in (
        Path("/"),
        Path("/etc"),
        Path("/home"),
        engine.options.home / ".ssh",
        link,
        engine.options.storage,
    ):
        session = await engine.create("asked", directory=folder, mode="overlay", chosen=chosen)
        assert session.record.project is None, chosen


async def test_a_home_is_seen_once_a_person_allowed_it_and_no_longer_than_that(engine: Engine) -> None:
    home, storage = engine.options.home, engine.options.storage
    judged = judge_folder(home, home=home, storage=storage)
    assert f"`cellwright folders allow {home}`" in (judged.unseen or "")
    remember_answer(storage, judged, allow=True)
    session = await engine.create("home", directory=home / "notebooks", mode="overlay", chosen=home)
    seen = await (await session.execute_code("import os; os.chdir('..'); print(sorted(os.listdir()))")).wait()
    assert "data.csv" in seen.text
    assert (await looked(session))[".ssh/id"] == "FileNotFoundError"
    hidden = await (await session.execute_code(f"print(os.listdir({str(storage)!r}))")).wait()
    assert hidden.text.strip() == "[]", "what is Cellwright's own stays unseen"
    remember_answer(storage, judged, allow=False)
    with pytest.raises(KernelStartError, match="The user said no"):
        await session.restart()


def test_where_nothing_can_be_hidden_a_folder_with_keys_in_it_is_not_shown() -> None:
    keys, own = ("/data/plain/sub/.aws", "/data/plain/.netrc"), "/state"
    place = Workspace("overlay", "/data/plain", "/data/plain", "/state/s-1", hidden=(own, *keys))
    bare = without_secrets(place)
    assert (bare.project, bare.hidden) == (None, (own,))
    without = replace(place, hidden=(own,))
    assert without_secrets(without) == without

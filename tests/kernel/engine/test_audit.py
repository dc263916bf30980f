"""What the audit log says of real sessions, and that their code can neither read nor change it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine, Session
from cellwright.audit import acting, check, read_lines
from cellwright.errors import FileRefused, PackageRefused, SessionTaken
from tests.kernel.engine.conftest import end_host, open_at

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One whose sessions have a project, and whose storage lies in it: as near to their code as it may."""
    root = tmp_path_factory.mktemp("audited")
    (root / "pyproject.toml").touch()
    async with open_at(root, max_sessions=20) as engine:
        yield engine
    end_host(root / "state")


def lines_of(engine: Engine, session: Session, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in read_lines(engine.settings.storage)]
    return [one for one in lines if one.get("session") == session.id and one["kind"] == kind]


async def test_a_run_is_written_down_by_its_hash_and_by_whom(engine: Engine) -> None:
    session = await engine.create("audited")
    source = "password = 'correct horse battery staple'"
    cell = await session.add_cell(source)
    with acting("page:ann"):
        execution = await (await session.execute(cell.id)).wait()
    (line,) = lines_of(engine, session, "run")
    assert line["by"] == "page:ann"
    assert line["about"] == {
        "kernel": f"{session.id}.1",
        "cell": cell.id,
        "execution": execution.id,
        "source": sha256(source.encode()).hexdigest(),
    }
    assert b"correct horse" not in b"".join(read_lines(engine.settings.storage))
    assert check(read_lines(engine.settings.storage)).problem is None


async def test_what_was_applied_skipped_and_refused_is_written_down(engine: Engine) -> None:
    session = await engine.create("applied", mode="overlay", directory=engine.settings.root)
    code = (
        "import pathlib; pathlib.Path('new.txt').write_text('1'); pathlib.Path('Makefile').write_text('all:')"
    )
    assert (await (await session.execute_code(code)).wait()).ok
    await session.apply_files()
    with pytest.raises(FileRefused):
        await session.apply_files(["Makefile"])
    await session.apply_files(["Makefile"], trusted=["Makefile"])
    all_of_it, refused, named = lines_of(engine, session, "apply")
    assert all_of_it["about"]["applied"] == ["added new.txt"]
    assert list(all_of_it["about"]["skipped"]) == ["Makefile"]
    assert all_of_it["about"]["project"] == str(engine.settings.root)
    assert refused["refused"].startswith("file_refused: ")
    assert refused["about"]["asked"] == ["Makefile"]
    assert named["about"]["named_by_a_person"] == ["Makefile"]
    assert named["about"]["applied"] == ["added Makefile"]


async def test_who_took_a_session_over_and_who_was_refused_meanwhile_is_written_down(engine: Engine) -> None:
    session = await engine.create("taken")
    await session.take_over("ann")
    with acting("mcp:agent"), pytest.raises(SessionTaken):
        session.refuse_if_taken()
    await session.give_back("ann")
    taken, refused, given_back = lines_of(engine, session, "take_over")
    assert taken["about"] == {"person": "ann"}
    assert (refused["by"], refused["about"]) == ("mcp:agent", {"held_by": "ann"})
    assert "session_taken" in refused["refused"]
    assert given_back["about"] == {"person": "ann", "given_back_by": "ann"}


async def test_packages_that_were_refused_are_written_down(engine: Engine) -> None:
    session = await engine.create("installed")
    with pytest.raises(PackageRefused):
        await session.install(["no-such-package-is-approved"])
    (line,) = lines_of(engine, session, "install")
    assert line["about"] == {"asked": ["no-such-package-is-approved"]}
    assert line["refused"].startswith("package_refused: ")


REACHING = """
import os, pathlib
log = pathlib.Path(%r)
reached = []
for name, attempt in {
    "look": lambda: os.listdir(log.parent) or 1 / 0,
    "read": lambda: log.read_bytes(),
    "append": lambda: open(log, "ab").write(b"x"),
    "replace": lambda: (log.parent / "new").write_bytes(b"") and os.replace(log.parent / "new", log),
    "remove": lambda: log.unlink(),
    "move": lambda: log.parent.rename(log.parent.with_name("elsewhere")),
    "lock": lambda: open(log.parent / "lock", "r+b"),
}.items():
    try:
        attempt()
    except (OSError, ZeroDivisionError):
        continue
    reached.append(name)
print(reached)
"""


@pytest.mark.parametrize("mode", ["direct", "overlay", "private"])
async def test_a_cell_can_neither_read_nor_change_it(engine: Engine, mode: Any) -> None:
    log = engine.settings.storage / "audit" / "audit.jsonl"
    session = await engine.create(mode, mode=mode, directory=engine.settings.root)
    assert session.mode == mode
    execution = await (await session.execute_code(REACHING % str(log))).wait()
    assert execution.text == "[]\n"
    (mine,) = lines_of(engine, session, "run")
    assert mine["about"]["execution"] == execution.id
    assert check(read_lines(engine.settings.storage)).problem is None
    assert Path(log).is_file()

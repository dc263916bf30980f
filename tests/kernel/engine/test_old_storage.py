"""A storage directory that an earlier version left opens, shows what ran, and goes on."""

from __future__ import annotations

import secrets
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright import Settings, open_engine
from tests.kernel.engine.conftest import end_host
from tests.waiting import UNHURRIED

pytestmark = pytest.mark.anyio

LEFT = sorted((Path(__file__).parents[2] / "support" / "storage").glob("*.tar.xz"))
MADE_AT = "/tmp/cw-old-storage-0123456789abcdef"
"""Where each of them was made; another place with as long a name can stand for it in every file."""


@pytest.fixture(params=LEFT, ids=lambda path: path.name)
def left(request: pytest.FixtureRequest) -> Iterator[Path]:
    directory = Path(MADE_AT[:-16] + secrets.token_hex(8))
    directory.mkdir(mode=0o700)
    with tarfile.open(request.param) as archive:
        # The first releases of Python 3.11 know no filters.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(directory)  # noqa: S202  # made by us
    for path in directory.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(MADE_AT.encode(), str(directory).encode()))
    yield directory
    end_host(directory / "storage")
    shutil.rmtree(directory)


async def test_sessions_of_an_earlier_version_are_there_with_what_ran_and_go_on(left: Path) -> None:
    settings = Settings.model_validate({"root": left / "project", "storage": left / "storage", **UNHURRIED})
    async with open_engine(settings) as engine:
        other, sales = sorted(engine.sessions(), key=lambda session: len(session.cells))
        assert [cell.source for cell in sales.cells[1:]] == ["x = 41\nprint('begun')", "x + 1", "# Notes"]
        history = await engine.history(sales.id)
        assert [execution.state for execution in history] == ["ok", "ok", "error"]
        assert history[0].text == "begun\n"
        for cell in sales.cells[1:3]:
            done = await (await sales.run(cell.id)).wait()
        assert done.text == "42\n"
        kept = await (await other.execute_code("open('left.txt').read()")).wait()
        assert kept.text == "'kept'\n"

"""Scripts that want more of the host than a run has: its disk, its files, the result of their own run."""

from __future__ import annotations

import pytest

from cellwright import Engine
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.scripts import run_script
from tests.kernel.engine.conftest import OpenEngine

pytestmark = pytest.mark.anyio

HOLES = """
for number in range(12):
    with open(f"hole{number:02}.bin", "wb") as file:
        file.truncate(4_000_000)
"""
SWAPPED = {
    "a link as long as itself": """
import os
size = os.path.getsize("script.py")
os.unlink("script.py")
os.symlink("x" * size, "script.py")
print("done")
""",
    "a second name, and no kernel to remove it": """
import os, signal
os.link("script.py", "second.py")
print("done")
os.kill(os.getppid(), signal.SIGKILL)
signal.pause()
""",
}


async def test_files_that_are_all_holes_fill_no_more_of_the_shelf_than_a_run_may_write(
    open_here: OpenEngine,
) -> None:
    async with open_here(max_run_disk=10_000_000) as engine:
        result = await run_script(engine, HOLES)
        assert result.success
        assert [file.filename for file in result.files] == ["hole00.bin", "hole01.bin"]
        assert len(result.not_kept) == 10
        assert "max_run_disk" in result.not_kept[0]


async def test_what_lies_in_a_lasting_directory_counts_with_what_a_run_adds(open_here: OpenEngine) -> None:
    async with open_here(max_run_disk=10_000_000) as engine:
        await run_script(engine, "open('a.bin', 'wb').truncate(8_000_000)", working_dir="d")
        result = await run_script(engine, "open('b.bin', 'wb').truncate(8_000_000)", working_dir="d")
        assert result.files == ()
        assert "max_run_disk" in result.not_kept[0]
        assert (await run_script(engine, "print(1)", working_dir="d")).success


@pytest.mark.parametrize("source", SWAPPED.values(), ids=SWAPPED)
async def test_a_script_that_swaps_itself_for_a_link_still_has_a_result(engine: Engine, source: str) -> None:
    result = await run_script(engine, source)
    assert "done" in result.stdout or result.state == "died"
    assert any("script.py" in told for told in result.not_kept)


async def test_a_file_of_the_shelf_with_two_names_is_left_out_and_stops_no_run(engine: Engine) -> None:
    with DataDirectory.of(engine).open("twice") as shelf:
        shelf.write("plain.txt", b"1")
        shelf.write("one.txt", b"2")
    directory = DataDirectory.of(engine).root / "twice"
    (directory / "two.txt").hardlink_to(directory / "one.txt")
    result = await run_script(engine, "import os; print(sorted(os.listdir()))", working_dir="twice")
    assert result.stdout == "['plain.txt', 'script.py']\n"
    assert (directory / "two.txt").exists()

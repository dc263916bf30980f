"""Deno kernels as the host runs them: with the driver of ours, in every mode, up to every end."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from cellwright.hosts import _cell_queue
from cellwright.kernels.deno import INSTALL
from cellwright.sandbox.policy import Mode, Policy
from tests.conftest import Require
from tests.matrix import first_of
from tests.support.kernels.denohouse import OPTIONS, House, open_house
from tests.waiting import fail_after, look_again

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _deno(require: Require) -> None:
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, INSTALL)


@pytest.fixture
async def house(short_path: Path, tmp_path: Path) -> AsyncIterator[House]:
    root = short_path / tmp_path.name
    root.mkdir()
    async with open_house(root) as house:
        yield house


@pytest.fixture
def project() -> Iterator[Path]:
    """Not below /tmp, which a session may write to."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


async def test_state_stays_from_cell_to_cell_in_both_languages(house: House) -> None:
    kernel = await house.start()
    await house.run(kernel, "const x: number = 20", language="typescript")
    assert await house.value(kernel, "x + 1") == "21"
    assert (await house.run(kernel, "let y = x * 2; y", language="javascript")).result == "40"
    assert (await house.run(kernel, "let y: number = 'two', z", language="javascript")).end.state == "error"


@pytest.mark.parametrize(
    "forever", first_of(["for (;;) {}", "await new Promise(() => {})"], 1), ids=["loop", "await"]
)
async def test_an_interrupt_ends_the_cell_and_keeps_the_state(forever: str, house: House) -> None:
    kernel = await house.start()
    await house.run(kernel, "let kept = 7")
    for _ in range(3):
        running = house.begin(kernel, f"console.log('begun'); {forever}")
        with fail_after():
            await running.began.wait()
            house.kernels.runner(kernel).handle(_cell_queue.Interrupted())
            await running.over.wait()
        assert running.end.state == "interrupted"
        assert await house.value(kernel, "kept") == "7"
    assert kernel not in house.ends


@pytest.mark.parametrize(
    "forever", first_of(["for (;;) {}", "await new Promise(() => {})"], 1), ids=["loop", "await"]
)
async def test_a_time_out_ends_the_cell_and_keeps_the_state(forever: str, house: House) -> None:
    kernel = await house.start()
    await house.run(kernel, "let kept = 7")
    ran = await house.run(kernel, forever, timeout_s=0.3)
    assert ran.end.state == "timeout"
    assert await house.value(kernel, "kept") == "7"


async def test_output_is_cut_and_what_is_missing_is_counted(house: House) -> None:
    kernel = await house.start()
    ran = await house.run(kernel, "for (let n = 0; n < 100000; n++) console.log('line', n)")
    assert ran.end.state == "ok"
    assert ran.end.dropped_bytes > 500_000
    assert ran.text().startswith("line 0\nline 1\n")
    assert ran.text().endswith("line 99999\n")
    assert sum(len(content.get("text", "")) for _, content in ran.outputs) < 2 * OPTIONS.max_output_bytes
    assert await house.value(kernel, "1 + 1") == "2"


async def test_a_flood_past_the_driver_is_cut_by_the_host(house: House) -> None:
    kernel = await house.start()
    code = (
        "const bytes = new TextEncoder().encode('x'.repeat(1000) + '\\n');"
        "const { writeSync } = await import('node:fs'); for (let n = 0; n < 5000; n++) writeSync(1, bytes)"
    )
    ran = await house.run(kernel, code)
    assert sum(len(content.get("text", "")) for _, content in ran.outputs) < 4 * OPTIONS.max_output_bytes
    assert await house.value(kernel, "1 + 1") == "2"


async def test_a_kernel_that_dies_ends_its_cell_and_another_starts_in_its_place(house: House) -> None:
    kernel = await house.start(name="session")
    await house.run(kernel, "await Deno.writeTextFile('kept.txt', 'kept')")
    running = house.begin(kernel, "console.log('begun'); await new Promise(() => {})")
    with fail_after():
        await running.began.wait()
        process = house.kernels.runner(kernel).kernel.process
        below = [psutil.Process(pid) for pid in (process.pid, *process.descendants())]
        next(one for one in below if one.name().startswith("deno")).kill()
        await running.over.wait()
    assert running.end.state == "died"
    assert (await house.ended(kernel)).signal == signal.SIGKILL
    again = await house.start(name="session")
    assert await house.value(again, "await Deno.readTextFile('kept.txt')") == '"kept"'


async def test_an_own_exit_is_explained_in_the_cell(house: House) -> None:
    kernel = await house.start()
    ran = await house.run(kernel, "Deno.exit(3)")
    assert ran.end.state == "died"
    ended = await house.ended(kernel)
    assert (ended.cause, ended.code) == ("exit", 3)
    assert "Deno.exit" in ended.next_step


@pytest.mark.matrix  # `test_deno` and `sandbox/test_ends` have the limit
async def test_a_full_heap_names_the_limit_and_what_to_do(house: House) -> None:
    kernel = await house.start(policy=Policy(memory_bytes=160 << 20))
    ran = await house.run(kernel, "const all: object[] = []; for (;;) all.push({ n: all.length })")
    assert ran.end.state == "died"
    assert "max_session_memory" in (ran.end.reason or "")
    assert (await house.ended(kernel)).cause == "limit"


@pytest.mark.parametrize("mode", ["private", "overlay", "direct"])
async def test_files_are_where_the_mode_says(mode: Mode, house: House, project: Path) -> None:
    (project / "work").mkdir(parents=True)
    (project / "beside.txt").write_text("beside")
    (project / "work" / "own.txt").write_text("own")
    kernel = await house.start(mode, name="session", project=project if mode != "private" else None)
    if mode != "private":
        assert await house.value(kernel, "Deno.readTextFileSync('own.txt')") == '"own"'
        assert await house.value(kernel, "Deno.readTextFileSync('../beside.txt')") == '"beside"'
        assert "NotCapable" in (await house.run(kernel, "Deno.writeTextFileSync('../beside.txt', 'x')")).error
    ran = await house.run(kernel, "Deno.writeTextFileSync('new.txt', 'new')")
    assert ran.end.state == "ok", ran.end
    await house.kernels.stop(kernel)
    assert (project / "work" / "new.txt").exists() is (mode == "direct")
    assert (project / "beside.txt").read_text() == "beside"
    again = await house.start(mode, name="session", project=project if mode != "private" else None)
    assert await house.value(again, "Deno.readTextFileSync('new.txt')") == '"new"'


async def test_what_is_refused_is_explained_by_the_setting_behind_it(house: House) -> None:
    kernel = await house.start()
    for code, setting in {
        "Deno.readTextFileSync('/etc/hostname')": "read_paths",
        "await fetch('http://example.com/')": "network",
        "new Deno.Command('ls').outputSync()": "unsafe_no_sandbox",
        "await import('https://deno.land/x/y.ts')": "network",
    }.items():
        ran = await house.run(kernel, code)
        assert ran.end.state == "error", code
        assert setting in (ran.end.reason or ""), (code, ran.error)


async def test_code_does_not_reach_the_inspector(house: House) -> None:
    """Whoever had it could end the driver, or speak in its name."""
    kernel = await house.start()
    code = "await fetch('http://127.0.0.1:9229/json').then((answer) => answer.status)"
    assert "NotCapable" in (await house.run(kernel, code)).error
    code = "await new Promise((ok, no) => { const s = new WebSocket('ws://127.0.0.1:9229/'); s.onopen = ok; s.onerror = no })"
    assert (await house.run(kernel, code)).end.state == "error"


async def test_the_driver_is_compiled_once_and_every_kernel_gets_a_copy_of_its_own(house: House) -> None:
    first = await house.start()
    assert await house.value(first, "1 + 1") == "2"
    with fail_after():
        while not (made := list((house.root / "cache").glob("deno-*"))):
            await look_again()
    (made[0] / "mark").write_text("whole")
    kernel = await house.start()
    own = "Deno.env.get('DENO_DIR') + '/mark'"
    assert await house.value(kernel, f"Deno.readTextFileSync({own})") == '"whole"'
    await house.run(kernel, f"Deno.writeTextFileSync({own}, 'spoilt')")
    assert (
        await house.run(kernel, f"Deno.writeTextFileSync('{made[0]}/mark', 'spoilt')")
    ).end.state == "error"
    assert (made[0] / "mark").read_text() == "whole"


async def test_compiled_code_that_is_broken_is_no_harm(house: House) -> None:
    await house.start()
    with fail_after():
        while not (made := list((house.root / "cache").glob("deno-*"))):
            await look_again()
    for file in made[0].iterdir():
        file.write_bytes(b"\xff" * 5000)
    assert await house.value(await house.start(), "1 + 1") == "2"

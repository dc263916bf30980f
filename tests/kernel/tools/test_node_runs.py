"""Scripts in TypeScript and JavaScript, run once on Deno: whole programs, in a directory of their own and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from cellwright import Engine
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.scripts import RunResult, run_script
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.tools.test_runs import run_to_limit
from tests.matrix import first_of
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

WORKER = """
const code = 'Deno.readTextFileSync("/etc/passwd")';
const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
await new Promise((_, no) => new Worker(address, { type: "module" }).onerror = no)"""


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One engine for all tests here, with a Deno that stands by."""
    root = tmp_path_factory.mktemp("node")
    async with open_at(root, standby_kernels=1, run_mode="local", run_timeout_s=scaled(60)) as engine:
        yield engine
    end_host(root / "state")


async def run(engine: Engine, code: str, **more: object) -> RunResult:
    return await run_script(engine, code, **{"language": "typescript", **more})  # type: ignore[arg-type]


async def test_program_says_what_it_says_and_ends_well(engine: Engine) -> None:
    result = await run(engine, "const a: number = 1;\nconsole.log(a);\nconsole.error('b');\na + a")
    assert (result.stdout, result.stderr, result.return_code) == ("1\n", "b\n", 0)
    assert result.success


@pytest.mark.parametrize("language", ["typescript", "javascript"])
async def test_files_are_kept_by_their_type(engine: Engine, language: str) -> None:
    result = await run(
        engine,
        "import fs from 'fs';\n"
        "fs.mkdirSync('out');\n"
        "fs.writeFileSync('out/table.csv', 'a,b\\n1,2\\n');\n"
        "await Deno.writeTextFile('told.json', JSON.stringify({ a: 1 }));\n",
        language=language,
    )
    assert {(file.filename, file.type) for file in result.files} == {
        ("table.csv", "csv"),
        ("told.json", "json"),
    }
    with DataDirectory.of(engine).open() as shelf:
        assert shelf.read(f"{result.directory}/out/table.csv") == b"a,b\n1,2\n"


async def test_named_directory_lasts(engine: Engine) -> None:
    await run(engine, "Deno.writeTextFileSync('count.txt', '1')", working_dir="counting")
    result = await run(
        engine, "import { readFileSync } from 'node:fs'; console.log(readFileSync('count.txt', 'utf8'))",
        working_dir="counting",
    )  # fmt: skip
    assert result.stdout == "1\n", result.stderr


async def test_modules_of_the_directory_are_found(engine: Engine) -> None:
    await run(
        engine, "Deno.writeTextFileSync('told.ts', 'export const told: string = \"yes\";')", working_dir="lib"
    )
    result = await run(engine, "import { told } from './told.ts'; console.log(told)", working_dir="lib")
    assert result.stdout == "yes\n", result.stderr


async def test_arguments_are_the_programs(engine: Engine) -> None:
    result = await run(engine, "console.log(Deno.args.join('+'), process.argv[2])", argv=["a", "b c"])
    assert result.stdout == "a+b c a\n"


@pytest.mark.parametrize(
    ("code", "expected"), [("Deno.exit(3)", 3), ("process.exit(4)", 4), ("process.exitCode = 5", 5)]
)
async def test_exit_code_is_told_with_what_came_before(engine: Engine, code: str, expected: int) -> None:
    result = await run(engine, f"Deno.writeTextFileSync('a.txt', 'a'); console.log('said'); {code}")
    assert (result.return_code, result.success, result.stdout) == (expected, False, "said\n")
    assert [file.filename for file in result.files] == ["a.txt"]


async def test_uncaught_error_is_told_with_its_line(engine: Engine) -> None:
    result = await run(
        engine, "interface Told { a: number }\nconst told = null as unknown as Told;\ntold.a;\n"
    )
    assert result.return_code == 1
    assert "TypeError: Cannot read properties of null" in result.stderr
    assert "/script.ts:3:6" in result.stderr


async def test_what_is_under_way_is_waited_for(engine: Engine) -> None:
    result = await run(engine, "setTimeout(() => console.log('late'), 30); console.log('early')")
    assert result.stdout == "early\nlate\n"


async def test_questions_are_refused(engine: Engine) -> None:
    result = await run(engine, "console.log(prompt('who?'))")
    assert result.return_code == 1
    assert "nobody can be asked here" in result.stderr


@pytest.mark.parametrize(
    "code",
    first_of(
        [
            "await fetch('http://127.0.0.1:1')",
            "Deno.readTextFileSync('/etc/passwd')",
            "Deno.writeTextFileSync('/out.txt', '')",
            "Deno.symlinkSync('/etc/passwd', 'link'); Deno.readTextFileSync('link')",
            "new Deno.Command('ls').outputSync()",
            "Deno.dlopen('libc.so.6', {})",
            "await import('https://example.com/mod.ts')",
            WORKER,
            "await Deno.connect({ hostname: '127.0.0.1', port: 9229 })",
            "Deno.listen({ port: 8000 })",
            "await new Promise((_, no) => require('net').connect(9229, '127.0.0.1').on('error', no))",
            "Deno.readTextFileSync('../../../journal.db')",
            "require('fs').readFileSync('/etc/hostname')",
            "Deno.writeTextFileSync('../out.txt', '')",
            "Deno.mkdirSync('../other')",
            "require('child_process').execSync('ls')",
            "await import('file:///etc/passwd')",
        ],
        8,
    ),
)
async def test_nothing_beyond_the_directory_is_allowed(engine: Engine, code: str) -> None:
    result = await run(engine, f"{code};\nconsole.log('reached')")
    assert result.stdout == "", result.stdout
    assert result.return_code == 1, result.stderr
    assert not (Path(engine.settings.storage) / "sessions" / "other").exists()


async def test_environment_holds_nothing_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "sesame")
    async with open_at(tmp_path, run_mode="local") as engine:
        result = await run(engine, "console.log(Deno.env.get('OUR_SECRET'), Object.keys(process.env).join())")
    end_host(tmp_path / "state")
    assert result.stdout.startswith("undefined ")
    assert "SECRET" not in result.stdout


@pytest.mark.parametrize(
    "loop", first_of(["while (true);", "setInterval(() => {}, 5)", "await new Promise(() => {})"], 1)
)
async def test_run_killed_at_its_limit_returns_what_it_had(engine: Engine, loop: str) -> None:
    code = f"Deno.writeTextFileSync('part.csv', 'a');\nconsole.log('half');\n{loop};\n"
    result, limit_s = await run_to_limit(engine, code, language="typescript")
    assert (result.state, result.return_code, result.stdout) == ("timeout", -9, "half\n"), result
    assert f"Stopped after {limit_s} s" in result.stderr
    assert [file.filename for file in result.files] == ["part.csv"]
    await engine.one_shots.settled()
    assert _nothing_left(engine)


async def test_run_killed_at_its_memory_limit_says_so(tmp_path: Path) -> None:
    code = "console.log('begun'); const held = []; for (;;) held.push(new Array(1e6).fill(held.length))"
    async with open_at(
        tmp_path, run_mode="local", run_timeout_s=scaled(60), max_session_memory="300MB"
    ) as engine:
        result = await run(engine, code)
        await engine.one_shots.settled()
        assert _nothing_left(engine)
    end_host(tmp_path / "state")
    assert (result.success, result.stdout) == (False, "begun\n")
    assert "max_session_memory" in result.stderr


async def test_released_session_is_removed(engine: Engine) -> None:
    await run(engine, "console.log(1)")
    await engine.one_shots.settled()
    assert _nothing_left(engine)


async def test_script_that_stood_by_sees_no_other_session(engine: Engine) -> None:
    code = "for (const { name } of Deno.readDirSync('../..')) console.log(name)"
    first, second = [await run(engine, code) for _ in range(2)]
    names = [result.stdout.split() for result in (first, second)]
    assert [len(found) for found in names] == [1, 1]
    assert names[0] != names[1]


@pytest.mark.matrix  # `test_runs` has more of them than there is room for
async def test_twenty_at_once_all_answer(engine: Engine) -> None:
    told: list[str] = []

    async def one(number: int) -> None:
        told.append(
            (await run(engine, f"Deno.writeTextFileSync('n', '{number}'); console.log({number})")).stdout
        )

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one, number)
    assert sorted(told) == sorted(f"{number}\n" for number in range(20))
    await engine.one_shots.settled()
    assert _nothing_left(engine)


def _nothing_left(engine: Engine) -> bool:
    """No session, no storage of one."""
    storage: Path = engine.settings.storage / "sessions"
    return not engine._sessions and not (list(storage.iterdir()) if storage.exists() else [])

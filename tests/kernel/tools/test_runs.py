"""A script runs once as ``python script.py`` would: its streams, its exit, its files; and nothing else stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from cellwright import Engine
from cellwright.errors import FileRefused, FileTooLarge, LimitReached, PackageRefused
from cellwright.hosts import protocol
from cellwright.tools.data_directory import DataDirectory
from cellwright.tools.scripts import RunResult, run_script
from tests.kernel.engine.conftest import OpenEngine
from tests.matrix import first_of
from tests.support.sandbox.programs import run_as_nobody
from tests.waiting import UNHURRIED, fail_after

pytestmark = pytest.mark.anyio

# Found by its arguments, whoever looks: processes of a session have numbers of their own. Others may run this as well.
MARK = f"7654321.{os.getpid()}"
# The first of these that a script has begun in: how long that takes depends on what else the machine does.
MOST_S = UNHURRIED["run_timeout_s"]
LIMITS_S = (1, 5, 25, MOST_S)
MANIFEST = """
import json
open('sales.csv', 'w').write('month,sum\\nJan,1\\nFeb,3\\n')
output = {'id': 'sales', 'type': 'bar_chart', 'dataFile': 'sales.csv', 'config': {'xColumn': 'month', 'yColumn': 'sum'}}
json.dump({'version': '1.0', 'outputs': [output]}, open('visualization_manifest.json', 'w'))
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    first_of(
        [
            ("pass", 0),
            ("import sys; sys.exit(7)", 7),
            ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
            ("import sys; sys.exit('no such thing')", 1),
            ("import os; os._exit(9)", 9),
            ("raise ValueError('x')", 1),
            ("def f(:", 1),
            ("import os; os.abort()", -signal.SIGABRT),
            ("raise KeyboardInterrupt", -signal.SIGINT),
            ("import atexit, os; atexit.register(os._exit, 5)", 5),
        ],
        4,
    ),
)
async def test_the_return_code_is_that_of_the_process(engine: Engine, code: str, expected: int) -> None:
    result = await run_script(engine, code)
    assert (result.return_code, result.success) == (expected, expected == 0)


async def test_a_script_is_the_main_module_in_its_own_directory(engine: Engine) -> None:
    code = (
        "import os, sys, __main__\n"
        "print(__name__, __main__.__file__ == __file__ == os.path.abspath('script.py'), sys.argv, os.listdir())\n"
        "print(sys.path[0] == os.getcwd(), 'get_ipython' in dir(__builtins__), hasattr(sys, 'ps1'))"
    )
    result = await run_script(engine, code, argv=["--fast", "x y"])
    assert result.stdout == (
        "__main__ True ['script.py', '--fast', 'x y'] ['script.py']\nTrue False False\n"
    ), result.stderr
    assert result.files == ()


async def test_what_is_not_caught_is_printed_as_python_prints_it(engine: Engine) -> None:
    result = await run_script(engine, "def inner():\n    return {}['gone']\n\ninner()\n")
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.strip() for line in lines if "File" not in line and "^" not in line][1:] == [
        "inner()",
        "return {}['gone']",
        "KeyError: 'gone'",
    ]
    assert "cellwright_kernel" not in result.stderr


async def test_input_is_refused_with_the_reason(engine: Engine) -> None:
    result = await run_script(engine, "name = input('who? ')")
    assert (result.stdout, result.return_code) == ("who? ", 1)
    assert "no standard input" in result.stderr.splitlines()[-1]
    assert "scripts.py" not in result.stderr


async def test_output_of_other_programs_and_of_c_is_captured(engine: Engine) -> None:
    code = (
        "import ctypes, subprocess, sys\n"
        "subprocess.run(['sh', '-c', 'echo from sh; echo bad >&2'])\n"
        "ctypes.CDLL(None).puts(b'from c'); ctypes.CDLL(None).fflush(None)\n"
        "sys.stderr.write('é')"
    )
    result = await run_script(engine, code)
    assert sorted(result.stdout.splitlines()) == ["from c", "from sh"]
    assert result.stderr == "bad\né"


async def test_a_script_ends_as_the_interpreter_does(engine: Engine) -> None:
    code = (
        "import atexit, threading, time, asyncio\n"
        "atexit.register(print, 'at exit')\n"
        "async def first(): print('loop')\n"
        "asyncio.run(first())\n"
        "def last(): threading.main_thread().join(); print('thread')\n"
        "threading.Thread(target=last).start()\n"
        "never_closed = open('kept.txt', 'w'); never_closed.write('all of it')\n"
        "print('main')"
    )
    result = await run_script(engine, code)
    assert (result.stdout, result.stderr) == ("loop\nmain\nthread\nat exit\n", "")
    assert _text(engine, result.files[0].path) == "all of it"


async def test_pools_of_processes_find_the_script(engine: Engine) -> None:
    code = (
        "import multiprocessing\n"
        "def double(x): return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(double, [1, 2]))"
    )
    result = await run_script(engine, code)
    assert result.stdout == "[2, 4]\n", result.stderr


async def test_figures_go_to_files(engine: Engine) -> None:
    code = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('plot.png'); print(plt.get_backend())"
    )
    result = await run_script(engine, code)
    assert result.stdout.lower() == "agg\n", result.stderr
    assert [(file.filename, file.type) for file in result.files] == [("plot.png", "image")]


async def test_files_outlive_the_run_with_their_types(engine: Engine) -> None:
    code = "import os; os.mkdir('out'); open('out/a.csv', 'w').write('x\\n1\\n'); open('b.json', 'w').write('{}')"
    result = await run_script(engine, code)
    assert [(file.filename, file.type, file.size) for file in result.files] == [
        ("b.json", "json", 2),
        ("a.csv", "csv", 4),
    ]
    assert result.files[1].path == f"runs/{result.id}/out/a.csv"
    assert _text(engine, result.files[1].path) == "x\n1\n"


async def test_a_working_directory_lasts_and_takes_back_changes(engine: Engine) -> None:
    first = await run_script(
        engine,
        "open('n.txt', 'w').write('1'); open('old.txt', 'w').write('o')",
        working_dir="lasting/here",
    )
    assert {file.path for file in first.files} == {"lasting/here/n.txt", "lasting/here/old.txt"}
    code = "import os; os.unlink('old.txt'); print(open('n.txt').read()); open('m.txt', 'w').write('2')"
    second = await run_script(engine, code, working_dir="./lasting/here/")
    assert second.stdout == "1\n", second.stderr
    assert [file.path for file in second.files] == ["lasting/here/m.txt"]
    with DataDirectory.of(engine).open("lasting/here") as shelf:
        assert {entry.path for entry in shelf.list().entries} == {"n.txt", "m.txt"}


async def test_a_script_of_the_directory_is_left_alone(engine: Engine) -> None:
    with DataDirectory.of(engine).open("scripted") as shelf:
        shelf.write("script.py", b"value = 3")
    result = await run_script(engine, "import script; print(script.value)", working_dir="scripted")
    assert (result.stdout, result.files) == ("3\n", ())
    assert _text(engine, "scripted/script.py") == "value = 3"


async def test_runs_in_one_directory_take_turns(engine: Engine) -> None:
    code = "import os\nn = len(os.listdir('.')); open(f'{n}.txt', 'w').write('x')"
    async with anyio.create_task_group() as tasks:
        for place in ("turns", "turns", "turns/", "turns"):
            tasks.start_soon(_run_well, engine, code, place)
    with DataDirectory.of(engine).open("turns") as shelf:
        # Each found what the ones before it left, and its own script.
        assert {entry.path for entry in shelf.list().entries} == {"1.txt", "2.txt", "3.txt", "4.txt"}


async def test_a_directory_holds_no_more_than_its_quota(open_here: OpenEngine) -> None:
    async with open_here(max_run_disk="2MB") as engine:
        result = await run_script(engine, "open('big', 'wb').write(bytes(3 << 20))", working_dir="small")
        assert result.return_code == 1
        assert "max_session_disk" in (result.reason or "")
        with DataDirectory.of(engine).open("small") as shelf:
            assert sum(entry.size for entry in shelf.list().entries) <= 2 << 20
            shelf.write("much", bytes(3 << 20))
        with pytest.raises(FileTooLarge, match="'small'"):
            await run_script(engine, "pass", working_dir="small")


async def test_more_runs_than_there_is_room_for_wait(open_here: OpenEngine) -> None:
    async with open_here(max_runs=2, max_sessions=1) as engine:
        await engine.create("beside")
        told: list[str] = []
        async with anyio.create_task_group() as tasks:
            for number in range(7):
                tasks.start_soon(_collect, engine, f"print({number})", told)
        assert sorted(told) == [f"{number}\n" for number in range(7)]


async def test_a_manifest_is_drawn(engine: Engine) -> None:
    result = await run_script(engine, MANIFEST)
    assert [chart.id for chart in result.visualizations] == ["sales"], result.stderr
    assert "highest 3 (Feb)" in result.visualizations[0].digest
    assert result.visualizations[0].data["image/png"]
    assert result.manifest is not None
    assert result.manifest["outputs"][0]["dataFile"] == "sales.csv"


async def test_a_manifest_is_found_behind_more_files_than_are_listed(engine: Engine) -> None:
    result = await run_script(engine, f"{MANIFEST}\nfor n in range(60): open(f'a{{n}}', 'w').close()")
    assert result.more_files
    assert result.manifest is not None


async def test_what_is_wrong_with_a_manifest_is_told(engine: Engine) -> None:
    result = await run_script(engine, "open('visualization_manifest.json', 'w').write('{')")
    assert result.success
    assert "visualization_manifest.json" in result.stderr
    assert result.visualizations == ()


async def test_output_comes_while_the_script_runs(engine: Engine) -> None:
    """The script waits for a file that only whoever hears it puts there."""
    heard: list[tuple[str, str]] = []
    go_on = anyio.Event()

    async def hear(name: str, text: str) -> None:
        heard.append((name, text))
        if "".join(piece for _, piece in heard) == "begun\n":
            go_on.set()

    async def stop_when_heard() -> None:
        await go_on.wait()
        tasks.cancel_scope.cancel()

    with fail_after():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_when_heard)
            await run_script(engine, "print('begun')\nimport time; time.sleep(1000)", on_output=hear)
    assert {name for name, _ in heard} == {"stdout"}
    assert _nothing_left(engine)


async def test_all_output_is_told_in_order_before_the_result(engine: Engine) -> None:
    heard: list[str] = []

    async def hear(name: str, text: str) -> None:
        assert name == "stdout"
        heard.append(text)

    result = await run_script(engine, "for n in range(2000): print(n)", on_output=hear)
    assert "".join(heard) == result.stdout == "".join(f"{n}\n" for n in range(2000))


async def test_a_run_killed_at_its_time_limit_returns_what_it_had(engine: Engine) -> None:
    code = (
        "import subprocess, os\n"
        f"subprocess.Popen(['sleep', '{MARK}'], start_new_session=True)\n"
        f"if os.fork() == 0:\n    os.setsid(); os.execvp('sleep', ['sleep', '{MARK}'])\n"
        "open('part.csv', 'w').write('a')\n"
        "print('half', end='')\n"
        "while True: pass"
    )
    result, limit_s = await run_to_limit(engine, code)
    assert (result.state, result.return_code, result.stdout) == ("timeout", -9, "half")
    assert f"Stopped after {limit_s} s" in result.stderr
    assert [file.filename for file in result.files] == ["part.csv"]
    assert _nothing_left(engine)


async def test_a_script_that_ignores_signals_ends_at_its_limit_too(engine: Engine) -> None:
    code = "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
    result = await run_script(engine, code, timeout_s=1)
    assert (result.state, result.return_code) == ("timeout", -9)
    assert _nothing_left(engine)


async def test_what_a_script_leaves_running_ends_with_it(engine: Engine) -> None:
    code = f"import subprocess; subprocess.Popen(['sleep', '{MARK}'], start_new_session=True); print('done')"
    result = await run_script(engine, code)
    assert (result.stdout, result.success) == ("done\n", True)
    assert _nothing_left(engine)


async def test_a_run_killed_at_its_memory_limit_says_so_and_leaves_nothing(engine: Engine) -> None:
    code = (
        "import os, time\n"
        "print('begun', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "os.fork(); os.fork()\n"
        "held = bytearray(300 << 20)\n"
        "for place in range(0, len(held), 4096): held[place] = 1\n"
        f"os.execvp('sleep', ['sleep', '{MARK}']) if not held else time.sleep(1000)"
    )

    async def let_go(_name: str, _text: str) -> None:
        # What it said is here now, whatever ends with it.
        [session] = engine._sessions.values()
        Path(session.place.written, "go").touch()

    result = await run_script(engine, code, on_output=let_go)
    assert (result.state, result.success) == ("died", False)
    assert result.return_code < 0
    assert result.stdout.startswith("begun")
    assert "max_session_memory" in result.stderr
    assert _nothing_left(engine)


async def test_a_process_without_enough_memory_says_which_limit(engine: Engine) -> None:
    result = await run_script(engine, "x = bytearray(1 << 40)")
    assert result.return_code == 1
    assert "MemoryError" in result.stderr
    assert "max_session_memory" in result.stderr


async def test_nobody_sees_the_session_of_a_run(engine: Engine) -> None:
    with engine.subscribe() as events:
        await run_script(engine, "print(1)")
        events.close()
        assert [event async for event in events] == []
    assert engine.sessions() == []
    assert engine.events(since=0) == []


async def test_packages_must_be_approved(engine: Engine) -> None:
    with pytest.raises(PackageRefused, match="leftpad"):
        await run_script(engine, "pass", packages=["leftpad"])
    assert _nothing_left(engine)


@pytest.mark.parametrize("working_dir", ["../out", "/etc", "a/../../b", "a\0b"])
async def test_a_working_directory_leads_nowhere_else(engine: Engine, working_dir: str) -> None:
    with pytest.raises(FileRefused):
        await run_script(engine, "pass", working_dir=working_dir)


@pytest.mark.parametrize("timeout_s", [0, -1, MOST_S + 1])
async def test_time_is_at_most_what_the_settings_allow(engine: Engine, timeout_s: float) -> None:
    with pytest.raises(LimitReached, match=f"{MOST_S:g} s"):
        await run_script(engine, "pass", timeout_s=timeout_s)


async def test_links_lead_nothing_out_of_the_run(engine: Engine) -> None:
    code = "import os; os.symlink('/etc/passwd', 'a.txt'); open('b.txt', 'w').write('b')"
    result = await run_script(engine, code)
    assert [file.filename for file in result.files] == ["b.txt"]
    assert result.not_kept == ("a.txt (link)",)


async def test_no_kernel_of_a_run_is_left_on_the_host(engine: Engine) -> None:
    await run_script(engine, "print(1)")
    status = await engine.hosts.local.call(protocol.Status(), protocol.Attached)
    assert status.kernels == ()


@pytest.mark.matrix  # `sandbox/test_nesting` is run by one
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    "which",
    [
        "main_module or working_directory_lasts or time_limit",
        pytest.param("not ordinary", marks=pytest.mark.matrix),
    ],
    ids=["few", "all"],
)
def test_an_ordinary_users_runs_are_the_same(which: str) -> None:
    run_as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which, __file__])


async def run_to_limit(engine: Engine, code: str, **options: Any) -> tuple[RunResult, float]:
    """What came of a script that says something and never ends, at the first limit before which it has said it."""
    for limit_s in LIMITS_S:
        result = await run_script(engine, code, timeout_s=limit_s, **options)
        assert result.state == "timeout"
        if result.stdout:
            break
    return result, limit_s


def _text(engine: Engine, path: str) -> str:
    with DataDirectory.of(engine).open() as shelf:
        return shelf.read(path).decode()


async def _run_well(engine: Engine, code: str, place: str) -> None:
    result: RunResult = await run_script(engine, code, working_dir=place)
    assert result.success, result.stderr


async def _collect(engine: Engine, code: str, told: list[str]) -> None:
    told.append((await run_script(engine, code)).stdout)


def _nothing_left(engine: Engine) -> bool:
    """No session, no storage of one, no process."""
    storage: Path = engine.settings.storage / "sessions"
    stored = list(storage.iterdir()) if storage.exists() else []
    running = [one for one in psutil.process_iter(["cmdline"]) if MARK in (one.info["cmdline"] or [])]
    return not engine._sessions and not stored and not running


@pytest.mark.parametrize(
    ("code", "working_dir", "said"),
    first_of(
        [
            ("import sklearn_is_not_here", None, "is in no approved package; these are: beautifulsoup4"),
            (
                "raise ModuleNotFoundError(\"No module named 'bs4.element'\")",
                None,
                'packages=["beautifulsoup4"]',
            ),
            ("open('prices.csv')", None, "began in an empty directory: name one by workingDir, `.` for"),
            ("open('prices.csv')", "advised", "Paths are relative to workingDir"),
            ("import os; os.kill(os.getpid(), 11)", None, "Ended by signal 11 (SIGSEGV)"),
        ],
        3,
    ),
)
async def test_a_failure_is_told_with_the_next_step(
    engine: Engine, code: str, working_dir: str | None, said: str
) -> None:
    result = await run_script(engine, code, working_dir=working_dir)
    assert said in (result.reason or "")
    assert result.stderr.endswith(f"[cellwright: {result.reason}]\n")


async def test_a_run_that_took_too_long_is_told_how_long_it_may_take(engine: Engine) -> None:
    result = await run_script(engine, "import time; time.sleep(1000)", timeout_s=1)
    assert f"(timeout, at most {MOST_S:g} s)" in (result.reason or "")
    assert result.stderr.endswith(f"[cellwright: {result.reason}]\n")


async def test_a_failure_that_speaks_for_itself_is_left_alone(engine: Engine) -> None:
    for code in ("raise ValueError('x')", "import sys; sys.exit(3)", "open('/nowhere/at/all')"):
        assert (await run_script(engine, code)).reason is None

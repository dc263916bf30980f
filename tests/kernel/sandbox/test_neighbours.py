"""What one session does costs no other; what it started and left goes with it, however it ends."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from cellwright import Engine, Session, Settings, open_engine
from cellwright.sandbox.policy import Mode
from tests.conftest import Require
from tests.support.sandbox.programs import require_other_python, run_as_nobody
from tests.waiting import LIMIT_S, UNHURRIED, fail_after, look_again, scaled, until

pytestmark = pytest.mark.anyio

MODES: tuple[Mode, ...] = ("private", "overlay", "direct")
HOG = "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = b'x' * (180 << 20); time.sleep(600)\ntime.sleep(600)"
# Half of it at first: it goes on when the others have been seen to run beside it.
GATED_HOG = """
import os, time
def take():
    if os.fork() == 0:
        x = b'x' * (180 << 20); time.sleep(600)
take()
open('begun', 'w').close()
while not os.path.exists('gate'): time.sleep(0.01)
for _ in range(5): take()
time.sleep(600)
"""
# It is over once the program runs: that closes the pipe's last end that can be written to.
ORPHAN = """
import os, signal, time
begun, begin = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        os.execvp('sleep', ['sleep', {marker!r}])
    os._exit(0)
os.close(begin); os.read(begun, 1); os.wait()
"""
LEAVES = """
import contextlib, os, socket, subprocess, tempfile
open('file', 'w').close(); os.symlink('/', 'link'); os.makedirs('a/b/c')
kept = [open('file'), socket.socketpair(), tempfile.NamedTemporaryFile(), subprocess.Popen(['sleep', '300'])]
listener = socket.socket(socket.AF_UNIX)
with contextlib.suppress(PermissionError):  # without namespaces nobody may
    listener.bind('own.sock'); listener.listen()
os.chmod('a/b', 0)
"""

NEIGHBOURS = 8
ENDS = ("delete", "restart", "crash", "limit")

# So often the same, one look after another, is settled.
STEADY_LOOKS = 20


@pytest.fixture(scope="module", params=[True, False], ids=["namespaces", "none"])
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("neighbours")
    settings = Settings(
        root=root,
        storage=root / "state",
        max_sessions=200,
        standby_kernels=2,
        sandbox_namespaces=request.param,
        **UNHURRIED,
    )
    if not request.param and os.getuid() == 0:
        pytest.skip("run as an ordinary user by the last test of this file")
    (root / "tmp").mkdir(mode=0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(root / "tmp"))
        async with open_engine(settings) as engine:
            yield engine
            await engine.close(stop_host=True)


async def test_a_session_at_its_memory_limit_ends_alone(engine: Engine) -> None:
    greedy = await engine.create("greedy", mode="private")
    neighbours = [await engine.create("neighbour", mode="private") for _ in range(NEIGHBOURS)]
    await _all_run(neighbours, "n = 0")
    ended = await greedy.execute_code(GATED_HOG, timeout_s=scaled(60))
    await until((greedy.cwd / "begun").exists)
    rounds = 0
    while not ended.done:
        await _all_run(neighbours, "n += 1")
        rounds += 1
        (greedy.cwd / "gate").touch()
    assert ended.state == "died"
    assert "max_session_memory" in (ended.reason or "")
    await _all_run(neighbours, f"assert n == {rounds}")
    assert [session.generation for session in neighbours] == [1] * NEIGHBOURS
    assert (await (await greedy.execute_code("1 + 1")).wait()).ok, "and it gets a new kernel"
    for session in (greedy, *neighbours):
        await engine.delete(session.id)


async def _all_run(sessions: list[Session], code: str) -> None:
    runs = [await session.execute_code(code) for session in sessions]
    for run in runs:
        assert (await run.wait()).ok, (run.state, run.reason, run.error)


@pytest.mark.parametrize("end", ENDS)
async def test_a_daemon_goes_with_the_kernel_that_started_it(engine: Engine, end: str) -> None:
    session = await engine.create("daemon", mode="private")
    marker = f"7{os.getpid()}{ENDS.index(end)}"
    assert (await (await session.execute_code(ORPHAN.format(marker=marker))).wait()).ok
    assert _sleepers(marker), "it lives while its kernel does"
    match end:
        case "delete":
            await engine.delete(session.id)
        case "restart":
            await session.restart()
        case "crash":
            assert (await (await session.execute_code("os.kill(os.getpid(), 9)")).wait()).state == "died"
        case "limit":
            assert (await (await session.execute_code(HOG)).wait()).state == "died"
    await until(lambda: not _sleepers(marker))
    if end != "delete":
        await engine.delete(session.id)


async def test_everything_goes_with_a_host_that_is_killed(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, storage=tmp_path / "state", standby_kernels=1, **UNHURRIED)
    async with open_engine(settings) as engine:
        session = await engine.create("host", mode="private")
        marker = f"8{os.getpid()}"
        assert (await (await session.execute_code(ORPHAN.format(marker=marker))).wait()).ok
        host = _host(engine)
        below = host.children(recursive=True)
        host.send_signal(signal.SIGKILL)
        with anyio.move_on_after(LIMIT_S):
            # What is sent before the engine has heard of it goes with the host, too.
            while _sleepers(marker) or _living(below) or session.record.kernel_id is not None:
                await look_again()
        assert (_sleepers(marker), _living(below), session.record.kernel_id) == ([], [], None)
        assert (await (await session.execute_code("1 + 1")).wait()).ok, "with a new host it goes on"
        await engine.close(stop_host=True)


# What one session leaves is seen after a few; what builds up slowly, after many.
@pytest.mark.parametrize("sessions", [9, pytest.param(100, marks=pytest.mark.matrix)])
async def test_sessions_leave_nothing_behind(engine: Engine, sessions: int) -> None:
    # Every way of working once before: what is loaded on first need is not left by a session.
    await _come_and_go(engine, 6)
    before = await _settled(engine)
    await _come_and_go(engine, sessions)
    after: dict[str, object] = {}
    with anyio.move_on_after(LIMIT_S):
        while after != before:
            await look_again()
            # A process that ends while it is looked at is no reason to stop looking.
            with suppress(psutil.Error, FileNotFoundError):
                after = await _settled(engine)
    for what, there in before.items():
        assert after[what] == there, what


async def _come_and_go(engine: Engine, count: int) -> None:
    for first in range(0, count, 6):
        modes: list[Mode] = [MODES[n % 3] for n in range(min(6, count - first))]
        async with anyio.create_task_group() as tasks:
            for number, mode in enumerate(modes):
                tasks.start_soon(_live, engine, number, mode)
        _clear(engine.settings.root / "notebooks")


async def _live(engine: Engine, number: int, mode: Mode) -> None:
    session = await engine.create("many", mode=mode)
    own = f"import os; os.mkdir('{session.id}'); os.chdir('{session.id}')\n"
    ended = await (await session.execute_code(own + LEAVES)).wait()
    assert ended.ok, (ended.error, ended.reason)
    if number == 0:
        await session.execute_code("while True: pass")
    if number == 1:
        assert (await (await session.execute_code("os._exit(3)")).wait()).state == "died"
    await engine.delete(session.id, remove_file=True)


def _clear(notebooks: Path) -> None:
    """What ``direct`` sessions made in the person's folder is theirs to keep; here it is taken away."""
    for folder in (path for path in notebooks.iterdir() if path.is_dir()):
        (folder / "a" / "b").chmod(0o700)
        for directory, directories, files in os.walk(folder, topdown=False):
            for name in files:
                Path(directory, name).unlink()
            for name in directories:
                Path(directory, name).rmdir() if not Path(directory, name).is_symlink() else Path(
                    directory, name
                ).unlink()
        folder.rmdir()


async def _settled(engine: Engine) -> dict[str, object]:
    """What there is of processes, descriptors, mounts and files, once the pool of standby kernels is full again."""
    host = _host(engine)
    standby = engine.settings.standby_kernels if engine.settings.sandbox_namespaces else 0
    seen, same = None, 0
    with fail_after():
        # A kernel that stands by has a monitor and a reaper beside it, and takes a moment until it is ready.
        while same < STEADY_LOOKS:
            await look_again()
            with suppress(psutil.Error, FileNotFoundError):
                now = _look_at(engine, host)
                # Caches of libraries are made beside all that, once.
                making = [child for child in host.children() if "--channel" not in child.cmdline()]
                full = not making and len(_below_fork_servers(host)) == 3 * standby
                seen, same = now, same + 1 if full and now == seen else 0
    assert seen is not None
    return seen


def _look_at(engine: Engine, host: psutil.Process) -> dict[str, object]:
    runtime = next(
        Path(c.laddr).parent for c in host.net_connections("unix") if str(c.laddr).endswith("host.sock")
    )
    storage = engine.settings.storage
    return {
        "processes": Counter(" ".join(process.cmdline()[1:3]) for process in host.children(recursive=True)),
        "zombies": [
            p.pid
            for p in psutil.process_iter(["status"])
            if p.info["status"] == "zombie" and p.ppid() == host.pid
        ],
        "host's descriptors": _descriptors(host.pid),
        "engine's descriptors": _descriptors(os.getpid()),
        "fork server's descriptors": [_descriptors(child.pid) for child in host.children()],
        "mounts": [
            Path(f"/proc/{pid}/mounts").read_text()
            for pid in ("self", host.pid, *(c.pid for c in host.children()))
        ],
        "runtime": sorted(len(path.relative_to(runtime).parts) for path in runtime.rglob("*")),
        "sessions' files": sorted(str(path) for path in (storage / "sessions").rglob("*")),
        "storage": sorted(path.name for path in storage.iterdir()),
        "notebooks": sorted((engine.settings.root / "notebooks").rglob("*")),
        # The host's own directory may be among them, and was looked at above.
        "temporary files": sorted(
            path for path in (engine.settings.root / "tmp").rglob("*") if not path.is_relative_to(runtime)
        ),
        "cgroup": Path(f"/proc/{host.pid}/cgroup").read_text(),
    }


def _below_fork_servers(host: psutil.Process) -> list[psutil.Process]:
    return [process for process in host.children(recursive=True) if process.ppid() != host.pid]


def _descriptors(pid: int) -> Counter[str]:
    """Open descriptors by kind: numbers of pipes and sockets differ from moment to moment."""
    kinds: Counter[str] = Counter()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = str(descriptor.readlink())
            kinds[target if target.startswith("/") else target.partition(":")[0]] += 1
    return kinds


def _host(engine: Engine) -> psutil.Process:
    current = json.loads((engine.settings.storage / "host" / "current.json").read_text())
    return psutil.Process(current["pid"])


def _living(processes: list[psutil.Process]) -> list[str]:
    """Those that run; one that has ended and that nobody has taken note of yet does not."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())}")
    return found


def _sleepers(marker: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == ["sleep", marker] and process.info["status"] != "zombie"
    ]


@pytest.mark.matrix  # the escapes of tier C are made by one, too
@pytest.mark.parametrize(
    "tests",
    ["none and (limit or crash)", pytest.param("none and not (limit or crash)", marks=pytest.mark.matrix)],
)
def test_without_namespaces_all_of_it_holds_for_an_ordinary_user(require: Require, tests: str) -> None:
    if os.getuid() != 0:
        pytest.skip("the tests above ran as an ordinary user already")
    require_other_python("nobody", "C", require)
    run_as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests, __file__])

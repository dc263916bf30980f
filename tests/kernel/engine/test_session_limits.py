"""A session may have less than the operator allows, never more, and keeps it: real kernels in real boxes."""

from __future__ import annotations

import http.server
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright import Engine, Execution, Session
from cellwright.engine import Event
from cellwright.errors import LimitReached
from cellwright.kernels._confinement import OWN_PROCESSES
from cellwright.sandbox.policy import Narrowing, Policy, narrowed
from tests.kernel.engine.conftest import OpenEngine, end_host, open_at
from tests.matrix import first_of
from tests.waiting import UNHURRIED, fail_after

pytestmark = pytest.mark.anyio

MB = 1 << 20
# Not 127.0.0.1: what is there is the box's own, and reached without the proxy.
ADDRESS = "127.0.0.2"


class Sender(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the standard library's name
        size = int(self.path.rpartition("/")[2])
        self.send_response(200)
        if not self.path.startswith("/unknown"):
            self.send_header("Content-Length", str(size))
        self.end_headers()
        for start in range(0, size, MB):
            try:
                self.wfile.write(bytes(min(MB, size - start)))
            except OSError:
                return

    def log_message(self, format: str, *args: object) -> None:  # the standard library's name
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer((ADDRESS, 0), Sender) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"{ADDRESS}:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, server: str) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("limits")
    for name in ("one", "two"):
        (root / name).mkdir()
        (root / name / "data.txt").write_text(name)
    (root / "work").mkdir()
    changes: dict[str, Any] = {
        "network": "allow",
        "network_allow": [server],
        "read_paths": [root / "one", root / "two"],
        "storage": root / "state",
        "max_sessions": 50,
    }
    async with open_at(root / "work", **changes) as engine:
        yield engine
    end_host(root / "state")


async def run(session: Session, code: str, **options: Any) -> Execution:
    return await (await session.execute_code(code, **options)).wait()


async def narrow(engine: Engine, **limits: Any) -> Session:
    return await engine.create("narrow", mode="private", limits=Narrowing(**limits))


@pytest.mark.parametrize(
    ("limits", "setting", "value"),
    [
        ({"memory_bytes": 513 * MB}, "max_session_memory", "512MB"),
        ({"processes": 129}, "max_session_processes", "128"),
        ({"cpu_seconds": 3_601}, "max_session_cpu_s", "3600 s"),
        ({"disk_bytes": 101 * MB}, "max_session_disk", "100MB"),
        (
            {"cell_seconds": UNHURRIED["cell_timeout_s"] + 1},
            "cell_timeout_s",
            f"{UNHURRIED['cell_timeout_s']:g} s",
        ),
        ({"read": ("/etc",)}, "read_paths", "/one"),
        ({"write": ("/etc",)}, "write_paths", "nothing"),
    ],
)
async def test_asking_for_more_than_the_operator_allows_is_refused_with_the_setting_and_its_value(
    engine: Engine, limits: dict[str, Any], setting: str, value: str
) -> None:
    before = len(engine.sessions())
    with pytest.raises(LimitReached) as refused:
        await narrow(engine, **limits)
    assert refused.value.setting == setting
    assert setting in str(refused.value)
    assert value in refused.value.message
    assert len(engine.sessions()) == before


async def test_less_than_a_kernel_needs_is_refused_before_anything_starts(engine: Engine) -> None:
    with pytest.raises(LimitReached, match="64MB"):
        await narrow(engine, memory_bytes=MB)


async def test_a_narrowed_memory_limit_is_kept_and_says_whose_it_is(engine: Engine) -> None:
    session = await narrow(engine, memory_bytes=100 * MB)
    assert (await run(session, "x = bytearray(20 << 20)")).ok
    over = await run(session, "y = bytearray(400 << 20)")
    assert (over.state, over.error and over.error["ename"]) == ("error", "MemoryError")
    assert "100 MB (max_session_memory)" in (over.reason or "")
    assert "The session itself asked for this limit (memory)" in (over.reason or "")
    everybody = await engine.create("everybody", mode="private")
    assert (await run(everybody, "y = bytearray(400 << 20)")).ok


async def test_a_narrowed_tree_is_watched_by_its_own_limit(engine: Engine) -> None:
    session = await narrow(engine, memory_bytes=100 * MB)
    code = "import os, time\nfor _ in range(4):\n    if not os.fork():\n        x = os.urandom(60 << 20)\n        time.sleep(60)\ntime.sleep(60)"
    with fail_after():
        over = await run(session, code)
    assert over.state == "died"
    assert "100 MB" in (over.reason or "")


async def test_what_code_writes_anew_while_checkpoints_keep_what_was_there_counts(engine: Engine) -> None:
    session = await narrow(engine, memory_bytes=400 * MB)
    assert (await run(session, f"pages = bytearray(b'x') * {200 * MB}")).ok
    for _ in range(2):
        await session.checkpoint()
    # No process gets more than it had: they only no longer share it.
    code = "import time\npages[::4096] = bytes(len(pages) // 4096)\ntime.sleep(60)"
    with fail_after():
        over = await run(session, code)
    assert over.state == "died"
    assert "400 MB" in (over.reason or "")


def counted(processes: int, session: Session) -> int:
    """So many processes, and those that stay beside a kernel where its group has a limit that counts them too."""
    return processes + (OWN_PROCESSES if session.record.tier == "A" else 0)


async def test_narrowed_processes_processor_time_and_disk_are_what_the_kernel_keeps(engine: Engine) -> None:
    session = await narrow(engine, processes=40, cpu_seconds=60, disk_bytes=5 * MB)
    found = await run(
        session,
        "import resource as r\nprint([r.getrlimit(n)[0] for n in (r.RLIMIT_NPROC, r.RLIMIT_CPU, r.RLIMIT_FSIZE)])",
    )
    assert found.text == f"[{counted(40, session)}, 60, {5 * MB}]\n"
    full = await run(session, "open('big', 'wb').write(bytes(6 << 20))")
    assert "5 MB (max_session_disk)" in (full.reason or "")
    temporary = await run(session, "import os\ns = os.statvfs('/tmp')\nprint(s.f_frsize * s.f_blocks)")
    assert temporary.text == f"{5 * MB}\n"


async def test_no_cell_of_a_narrowed_session_runs_longer_than_it_asked_for(engine: Engine) -> None:
    session = await narrow(engine, cell_seconds=0.5)
    with fail_after():
        over = await run(session, "import time\ntime.sleep(60)", timeout_s=50)
    assert over.state == "timeout"
    assert "over its limit of 0.5 s" in (over.reason or "")
    assert "cell_s" in (over.reason or "")


async def test_a_cell_that_names_no_time_gets_the_settings_and_is_told_so(tmp_path: Path) -> None:
    async with open_at(tmp_path, cell_timeout_s=0.3) as engine:
        session = await engine.create("time", mode="private")
        with fail_after():
            over = await run(session, "import time\ntime.sleep(60)")
        assert over.state == "timeout"
        assert "over its limit of 0.3 s; raise `cell_timeout_s`" in (over.reason or "")
    end_host(tmp_path / "state")


async def test_a_session_can_do_without_the_network_and_without_paths_that_others_have(
    engine: Engine, server: str
) -> None:
    one, two = engine.settings.read_paths
    session = await narrow(engine, network="off", read=(str(two),))
    assert session.network == "off"
    seen = await run(
        session, f"import os\nprint(os.path.exists('{one}/data.txt'), open('{two}/data.txt').read())"
    )
    assert seen.text == "False two\n"
    asked = f"import urllib.request as r\nprint(len(r.urlopen('http://{server}/5', timeout=60).read()))"
    assert "Error" in (await run(session, asked)).text
    everybody = await engine.create("everybody", mode="private")
    assert (await run(everybody, asked)).text == "5\n"
    assert (await run(everybody, f"print(open('{one}/data.txt').read())")).text == "one\n"


async def test_limits_outlive_kernel_host_and_engine(open_here: OpenEngine, tmp_path: Path) -> None:
    code = "import resource as r\nprint(r.getrlimit(r.RLIMIT_NPROC)[0])"
    async with open_here() as engine:
        session = await narrow(engine, processes=40)
        await session.restart()
        assert (await run(session, code)).text == f"{counted(40, session)}\n"
    end_host(tmp_path / "state")
    async with open_here() as engine:
        session = engine.session(session.id)
        assert session.limits == {"processes": 40}
        assert (await run(session, code)).text == f"{counted(40, session)}\n"
    end_host(tmp_path / "state")
    async with open_here(max_session_processes=35) as engine:
        session = engine.session(session.id)
        found = await run(session, code)
        assert found.text == f"{counted(35, session)}\n", "an operator who allows less has the last word"


async def test_a_notebook_that_is_open_is_not_opened_again_with_other_limits(engine: Engine) -> None:
    session = await narrow(engine, processes=40)
    assert await engine.open(session.path) is session
    assert await engine.open(session.path, limits=Narrowing(processes=40)) is session
    with pytest.raises(LimitReached, match="delete the session"):
        await engine.open(session.path, limits=Narrowing(processes=50))


async def test_without_a_sandbox_limits_are_refused_and_not_ignored(tmp_path: Path) -> None:
    async with open_at(tmp_path, unsafe_no_sandbox=True) as engine:
        with pytest.raises(LimitReached) as refused:
            await narrow(engine, processes=40)
        assert refused.value.setting == "unsafe_no_sandbox"
    end_host(tmp_path / "state")


async def test_only_a_narrowed_session_gives_up_the_kernel_that_stands_by(open_here: OpenEngine) -> None:
    async with open_here(standby_kernels=1) as engine:
        everybody = await engine.create("everybody", mode="private")
        narrow = await engine.create("narrow", mode="private", limits=Narrowing(processes=40))
        with fail_after():
            while await started_by(engine, everybody) != "standby":  # the pool fills meanwhile
                await narrow.restart()
                assert await started_by(engine, narrow) == "fork"
                await everybody.restart()


async def started_by(engine: Engine, session: Session) -> str:
    events = engine.events(since=0, session_id=session.id)
    return str([event.data["started_by"] for event in events if "started_by" in event.data][-1])


@pytest.mark.parametrize(
    ("path", "size"),
    first_of(
        [
            ("known", 51),
            ("known", 49),
            ("unknown", 51),
        ],
        1,
    ),
)
async def test_a_download_stops_at_fifty_megabytes_and_log_and_error_say_why(
    engine: Engine, server: str, path: str, size: int
) -> None:
    session = await engine.create("download", mode="private")
    # Read in pieces, as downloads are: then the standard library takes a stream that was cut for a whole one.
    code = (
        f"import urllib.request as r\nresponse = r.urlopen('http://{server}/{path}/{size * MB}', timeout=60)\n"
        "n = 0\nwhile block := response.read(1 << 20): n += len(block)\nprint(n)"
    )
    with engine.subscribe(session.id) as events, fail_after():
        execution = await run(session, code)
        async for event in events:
            if isinstance(event, Event) and event.kind == "notebook.network.request":
                break
    if size < 50:
        assert (execution.text, execution.reason) == (f"{size * MB}\n", None)
        assert event.data["verdict"] == "allowed"
        return
    assert (event.data["verdict"], event.data["setting"]) == ("cut", "max_download_bytes")
    assert "52,428,800" in event.data["reason"]
    told = execution.text + (execution.reason or "")
    assert "52,428,800 bytes received" in told
    assert "max_download_bytes" in told
    assert execution.ok == (path == "unknown"), "an answer that announces too much never begins"


def test_a_narrowed_policy_is_nowhere_wider() -> None:
    operator = Policy(memory_bytes=None, network="proxy", read=("/a", "/b"), write=("/w",))
    own = narrowed(
        operator, Narrowing(memory_bytes=5, disk_bytes=1 << 40, network="off", read=("/b", "/c"), write=())
    )
    assert (own.memory_bytes, own.disk_bytes, own.network) == (5, operator.disk_bytes, "off")
    assert (own.read, own.write) == (("/b",), ())
    assert narrowed(operator, Narrowing()) == operator

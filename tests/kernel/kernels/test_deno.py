"""Deno kernels in the real sandbox, as far as the host makes them what they are."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from cellwright.errors import KernelStartError
from cellwright.kernels import DenoLauncher, Isolation, Kernel, KernelLaunch, OutputLimits
from cellwright.kernels.deno import INSTALL, DenoAccess
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.probe import try_isolation
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.workspace import PRIVATE, Workspace, prepare_storage
from tests.conftest import Require
from tests.matrix import first_of
from tests.support.kernels.denohouse import TINY
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio
LIMITS = OutputLimits(max_bytes=100_000, max_messages=1_000)
TIERS = ["boxed", "unsafe"]


@pytest.fixture(autouse=True)
def _deno(require: Require) -> None:
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, INSTALL)


def allow_all(_policy: Policy | None, access: DenoAccess) -> list[str]:
    """No wall of Deno's own, so that the sandbox's is met."""
    return ["--allow-all", "--no-prompt", "--inspect-publish-uid=stderr", f"--inspect={access.inspector}"]


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that every user can get to."""
    directory = tmp_path_factory.mktemp("deno")
    for above in (directory, *directory.parents):
        if above.stat().st_uid == os.getuid() and above != Path("/tmp"):
            above.chmod(0o755)
    return directory


@asynccontextmanager
async def tiny(
    root: Path,
    tier: str = "boxed",
    *,
    policy: Policy | None = None,
    opening: Opening | None = None,
    **options: Any,
) -> AsyncIterator[Kernel]:
    """A kernel of the smallest driver."""
    isolation = None
    storage = root / "session"
    place = Workspace("private", str(storage / PRIVATE), None, str(storage))
    storage.mkdir(mode=0o755)
    prepare_storage(place)
    if tier != "unsafe":
        found = try_isolation(namespaces=tier == "boxed")
        isolation = Isolation(found.tier, policy or Policy(), groups=found.groups, opening=opening)
    defaults: dict[str, Any] = {
        "environment": {"PATH": os.environ["PATH"]},
        "start_timeout_s": 60,
        "driver": TINY,
    }
    launcher = DenoLauncher(**{**defaults, "isolation": isolation, **options})
    async with anyio.create_task_group() as tasks:
        await tasks.start(launcher.run)
        kernel = await launcher.launch(
            KernelLaunch(
                "k",
                root / "k",
                Path(place.cwd),
                {"LANG": "C.UTF-8", "A_SECRET": "s"},
                LIMITS,
                workspace=place if isolation is not None else None,
            )
        )
        yield kernel
        await kernel.stop(grace_s=5)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("tier", TIERS)
async def test_a_kernel_starts_keeps_its_state_and_ends(tier: str, root: Path, run_cell: Any) -> None:
    async with tiny(root, tier) as kernel:
        assert kernel.started_by == "spawn"
        assert kernel.language["name"] == "typescript"
        await run_cell(kernel, "globalThis.x = 20")
        assert (await run_cell(kernel, "x + 1")).result == "21"
        assert kernel.process.exit_output.text == ""
        directory = kernel.directory
        ended = await kernel.stop(grace_s=LIMIT_S)
    assert ended.code == 0
    assert not directory.exists()


@pytest.mark.parametrize("tier", TIERS)
async def test_the_driver_is_told_what_it_must_know(tier: str, root: Path, run_cell: Any) -> None:
    async with tiny(root, tier) as kernel:
        told = json.loads((await run_cell(kernel, "JSON.stringify(greeting())")).result)
        seen = json.loads(
            (await run_cell(kernel, "JSON.stringify([Deno.cwd(), Deno.env.toObject(), Deno.args])")).result
        )
        pids = [kernel.process.pid, *kernel.process.descendants()]
        commands = " ".join(part for pid in pids for part in psutil.Process(pid).cmdline())
    assert (told["max_bytes"], told["max_messages"]) == (100_000, 1_000)
    assert told["cwd"] == seen[0] == str(root / "session" / PRIVATE)
    assert told["inspector"].startswith("ws://127.0.0.1:")
    # What would let code speak as its driver stands nowhere that others can look.
    assert told["token"] not in json.dumps(seen) + commands


async def test_the_environment_is_what_the_sandbox_shows(root: Path, run_cell: Any) -> None:
    async with tiny(root) as kernel:
        seen = json.loads((await run_cell(kernel, "JSON.stringify(Deno.env.toObject())")).result)
    assert "A_SECRET" not in seen
    assert seen["LANG"] == "C.UTF-8"
    assert seen["DENO_DIR"].startswith(seen["TMPDIR"])


async def test_the_sandbox_holds_where_deno_holds_nothing(root: Path, run_cell: Any) -> None:
    """With ``--allow-all``: what stops code is the second wall."""
    secret = root / "secret.txt"
    secret.write_text("secret")
    tries = {
        f"Deno.readTextFileSync({str(secret)!r})": "secret",
        f"Deno.symlinkSync({str(secret)!r}, 'link'); Deno.readTextFileSync('link')": "secret",
        f"Deno.writeTextFileSync({str(root / 'planted')!r}, 'x'); 'written'": "written",
        "Deno.readTextFileSync('/etc/shadow')": "root",
        f"new TextDecoder().decode(new Deno.Command('cat', {{args: [{str(secret)!r}]}}).outputSync().stdout) || 'nothing'": "secret",
        "fetch('http://192.0.2.1/').then(() => 'fetched')": "fetched",
        f"Deno.readTextFileSync('/proc/{os.getpid()}/environ')": "PATH",
    }
    async with tiny(root, flags=allow_all) as kernel:
        for code, reached in tries.items():
            ran = await run_cell(kernel, code)
            told = "".join(content["data"]["text/plain"] for content in ran.of("execute_result"))
            assert reached not in told, code
        assert (await run_cell(kernel, "Deno.writeTextFileSync('own', 'x'); 'done'")).result == "done"
    assert not (root / "planted").exists()


async def test_a_raw_write_is_output_of_the_cell(root: Path, run_cell: Any) -> None:
    async with tiny(root) as kernel:
        ran = await run_cell(
            kernel, "Deno.stdout.writeSync(new TextEncoder().encode('raw é')); print('told'); 1"
        )
    assert ran.text() == "raw étold"
    assert ran.result == "1"


async def test_an_own_exit_is_told_with_its_code(root: Path) -> None:
    async with tiny(root) as kernel:
        kernel.client.execute("Deno.exit(3)", message_id="m")
        with fail_after():
            ended = await kernel.wait()
    assert (ended.cause, ended.code) == ("exit", 3)
    assert "Deno.exit" in ended.next_step


@pytest.mark.parametrize("tier", first_of(TIERS, 1))
async def test_a_full_heap_is_told_as_the_limit_that_it_is(tier: str, root: Path) -> None:
    policy = Policy(memory_bytes=160 << 20)
    small = (
        {}
        if tier != "unsafe"
        else {"flags": lambda _, access: [*allow_all(None, access), "--v8-flags=--max-old-space-size=64"]}
    )
    async with tiny(root, tier, policy=policy, **small) as kernel:
        if tier != "unsafe":
            kernel.process.policy = policy
        kernel.client.execute("const all = []; for (;;) all.push({ n: all.length })", message_id="m")
        with fail_after():
            ended = await kernel.wait()
    if tier == "unsafe":
        assert (ended.cause, ended.signal) == ("out_of_memory", signal.SIGTRAP)
    else:
        assert ended.cause == "limit"
        assert "160 MB of memory (max_session_memory)" in ended.message


async def test_memory_beside_the_heap_is_limited_too(root: Path, run_cell: Any) -> None:
    async with tiny(root, policy=Policy(memory_bytes=64 << 20)) as kernel:
        ran = await run_cell(
            kernel, "const all = []; for (let n = 0; n < 400; n++) all.push(new Uint8Array(8 << 20).fill(1))"
        )
    assert ran.reply["ename"] == "RangeError"
    assert "allocation failed" in ran.reply["evalue"]


@pytest.mark.parametrize("tier", TIERS)
async def test_a_kernel_that_is_killed_is_explained(tier: str, root: Path) -> None:
    async with tiny(root, tier) as kernel:
        below = [psutil.Process(pid) for pid in (kernel.process.pid, *kernel.process.descendants())]
        next(one for one in below if "deno" in one.name()).kill()
        with fail_after():
            ended = await kernel.wait()
    assert ended.signal == signal.SIGKILL
    assert not any(map(_runs, below))


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


async def test_a_driver_that_cannot_start_is_told_with_its_words(root: Path) -> None:
    broken = root / "broken.mjs"
    broken.write_text("throw new Error('I will not')")
    with pytest.RaisesGroup(pytest.RaisesExc(KernelStartError, match="I will not")):
        async with tiny(root, driver=broken):
            pass


async def test_without_a_network_of_its_own_a_kernel_says_why_it_does_not_start(root: Path) -> None:
    told = pytest.RaisesExc(KernelStartError, match="needs a network of its own")
    with pytest.RaisesGroup(told):
        async with tiny(root, "plain"):
            pass


async def test_a_driver_that_never_answers_is_ended_in_time(root: Path) -> None:
    mute = root / "mute.mjs"
    mute.write_text("console.error('I am mute'); setInterval(() => {}, 1000)")
    # Where it did not even get to speak in so little time, it has more.
    for start_s in (2, 30):
        own = root / str(start_s)
        own.mkdir(mode=0o755)
        in_time = pytest.RaisesExc(KernelStartError, match=f"within {start_s} s")
        with pytest.RaisesGroup(in_time) as told:
            async with tiny(own, driver=mute, start_timeout_s=start_s):
                pass
        if spoken := "I am mute" in str(told.value.exceptions[0]):
            break
    assert spoken


@pytest.mark.parametrize("kernels", [8, pytest.param(38, marks=pytest.mark.matrix)])
async def test_many_kernels_leave_nothing_behind(root: Path, kernels: int) -> None:
    """Half are stopped, and half are not even awaited when they die."""
    found = try_isolation()
    launcher = DenoLauncher(
        environment={},
        start_timeout_s=LIMIT_S,
        driver=TINY,
        isolation=Isolation(found.tier, Policy(), groups=found.groups),
    )
    me = psutil.Process()

    async def one(number: int) -> None:
        storage = root / f"s{number}"
        place = Workspace("private", str(storage / PRIVATE), None, str(storage))
        storage.mkdir()
        prepare_storage(place)
        kernel = await launcher.launch(
            KernelLaunch(f"k{number}", root / f"k{number}", Path(place.cwd), {}, LIMITS, workspace=place)
        )
        if number % 2:
            kernel.client.execute("Deno.exit(1)", message_id="m")
            await kernel.wait()
        else:
            await kernel.stop(grace_s=LIMIT_S)  # one that is killed is not buried by its box

    async def of_one_launcher(numbers: range) -> None:
        """Until it ends, and with it the process that stands by for the next kernel."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(launcher.run)
            with fail_after(150):
                for number in numbers:
                    await one(number)
            assert len(launcher.pids) <= 1
            tasks.cancel_scope.cancel()

    await of_one_launcher(range(2))  # what is made once for all
    descriptors, children = me.num_fds(), len(me.children())
    await of_one_launcher(range(2, 2 + kernels))

    assert me.num_fds() <= descriptors
    assert len(me.children()) <= children
    assert not launcher.pids


@pytest.fixture
def server() -> Iterator[str]:
    class Greeter(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(b"good day")

        def log_message(self, format: str, *args: object) -> None:  # the standard library's name
            """Say nothing."""

    # Not 127.0.0.1: what is there is the box's own, and reached without the proxy.
    with http.server.ThreadingHTTPServer(("127.0.0.2", 0), Greeter) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.2:{server.server_port}"
        server.shutdown()


async def test_an_open_network_is_reached_through_the_proxy_and_only_as_far_as_it_goes(
    root: Path, run_cell: Any, server: str
) -> None:
    opening = Opening("allow", (server,))
    told: list[tuple[str, str]] = []
    by_node = (
        f"import('node:http').then(({{get}}) => new Promise((ok, no) => get('http://{server}/', (answer) => "
        "{ let text = ''; answer.on('data', (part) => text += part); answer.on('end', () => ok(text)) }).on('error', no)))"
    )
    async with tiny(root, policy=Policy(network="proxy"), opening=opening) as kernel:
        assert kernel.proxy_socket is not None
        kernel.proxy_socket.told = lambda entry: told.append((f"{entry.host}:{entry.port}", entry.verdict))
        assert (
            await run_cell(kernel, f"fetch('http://{server}/').then((answer) => answer.text())")
        ).result == "good day"
        assert (await run_cell(kernel, by_node)).result == "good day"
        refused = await run_cell(kernel, "fetch('http://192.0.2.1/').then((answer) => answer.status)")
        assert "good" not in str(refused.outputs)
    assert told == [(server, "allowed"), (server, "allowed"), ("192.0.2.1:80", "refused")]

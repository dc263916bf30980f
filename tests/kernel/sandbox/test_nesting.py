"""Boxes below boxes: a fork of a confined process goes into one, finds there what is its own, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from cellwright.errors import KernelStartError
from cellwright.kernels._confinement import Isolation
from cellwright.kernels._monitor import MonitorChannel, NestedSandbox
from cellwright.sandbox.policy import Mode, Policy
from cellwright.sandbox.proxy import PROXY_PORT
from cellwright.sandbox.workspace import Workspace, prepare_storage
from cellwright_kernel import descendants, landlock
from tests.conftest import Require
from tests.support.sandbox.programs import require_other_python, run_as_nobody
from tests.waiting import LIMIT_S, fail_after, until

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("nested.py")
PACKET_BYTES = 1 << 16
SCOPE_ABI = 6
SET_APART = "from cellwright_kernel import _checkpoints as checkpoints, landlock; result = landlock.set_apart(checkpoints.ROOTS)"
POWERS = "result = {line.split()[0]: line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')}"
PIDS = "import os; result = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())"


class Inside:
    """One process in a box, which runs what it is told."""

    def __init__(self) -> None:
        self.mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.mine.settimeout(LIMIT_S)
        self._spawned: list[Inside] = []

    def close(self) -> None:
        self.mine.close()
        self.theirs.close()
        for other in self._spawned:
            other.close()

    async def run(self, code: str) -> Any:
        self.mine.send(json.dumps({"run": code}).encode())
        return await self._answer()

    async def spawn(self, nested: NestedSandbox) -> Inside:
        """A fork of it, in a box below."""
        other = Inside()
        self._spawned.append(other)
        assert await self.send_into(nested, other) == 0
        other.theirs.close()
        return other

    async def send_into(
        self, nested: NestedSandbox, other: Inside, how: str = "join", *, watched: bool = True
    ) -> int:
        """How a fork of it ended that went into a box below."""
        request = json.dumps({"spawn": how}).encode()
        socket.send_fds(self.mine, [request], [other.theirs.fileno(), *nested.namespaces])
        joining = json.loads(await anyio.to_thread.run_sync(self.mine.recv, PACKET_BYTES))["joining"]
        if watched:
            await nested.line.admit(joining)
        self.mine.send(b"{}")
        return int(await self._answer())

    async def fails(self, code: str) -> str:
        with pytest.raises(AssertionError) as caught:
            await self.run(code)
        return str(caught.value)

    async def _answer(self) -> Any:
        data = await anyio.to_thread.run_sync(self.mine.recv, PACKET_BYTES)
        assert data, "it has ended"
        answer = json.loads(data)
        assert "error" not in answer, answer["error"]
        return answer["result"]


@dataclass
class Below:
    """A box below the first one."""

    nested: NestedSandbox
    ends: list[tuple[int, int]] = field(default_factory=list)

    async def close(self) -> None:
        await self.nested.line.close()
        for fd in (self.nested.pidfd, *self.nested.namespaces):
            os.close(fd)


@dataclass
class Base:
    """The first box, and what is needed to make more."""

    directory: Path
    place: Workspace
    isolation: Isolation
    line: MonitorChannel
    tasks: anyio.abc.TaskGroup
    lifeline: tuple[int, int]
    process: subprocess.Popen[bytes]
    first: Inside = field(default_factory=Inside)
    below: list[Below] = field(default_factory=list)

    async def grow(self, name: str, line: MonitorChannel | None = None) -> Below:
        saved = self.directory / f"saved-{name}"
        saved.mkdir()
        (saved / "name").write_text(name)
        mounts = self.isolation.mounts(self.place, READABLE)
        with fail_after():
            nested = await (line or self.line).grow(mounts, saved=saved, lifeline_fd=self.lifeline[0])
        below = Below(nested)
        self.below.append(below)
        nested.line.on_end = lambda pid, code: below.ends.append((pid, code))
        self.tasks.start_soon(nested.line.run)
        return below


READABLE = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[3]), *filter(os.path.isabs, sys.path)]


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not below /tmp, which is the box's own."""
    with tempfile.TemporaryDirectory(prefix="cwn-", dir="/var/tmp") as directory:
        yield Path(directory)


def placed(directory: Path, mode: Mode) -> Workspace:
    cwd = directory / "project" / "work"
    cwd.mkdir(parents=True)
    project = str(directory / "project") if mode == "overlay" else None
    place = Workspace(mode=mode, cwd=str(cwd), project=project, storage=str(directory / "storage"))
    prepare_storage(place)
    return place


@asynccontextmanager
async def boxed(
    directory: Path, mode: Mode = "private", proxy: dict[str, Any] | None = None
) -> AsyncIterator[Base]:
    place = placed(directory, mode)
    isolation = Isolation("B", Policy())
    readable = isolation.readable(READABLE)
    line, first, lifeline = MonitorChannel(Path(place.written)), Inside(), os.pipe()
    grown: list[Below] = []
    sockets = directory / "s"
    sockets.mkdir(exist_ok=True)
    fds = [line.fd, lifeline[0], first.theirs.fileno()]
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, fds)], pass_fds=fds, stdin=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdin is not None
        plan = isolation.plan(readable, os.environ, sockets, None)
        plan["proxy"] = proxy
        process.stdin.write(json.dumps({"plan": plan, "directory": str(sockets)}).encode())
        process.stdin.close()
        first.theirs.close()
        line.handed_over()
        try:
            async with anyio.create_task_group() as tasks:
                base = Base(directory, place, isolation, line, tasks, lifeline, process, first, grown)
                tasks.start_soon(line.run)
                with fail_after():
                    await line.settle(isolation.mounts(place, readable), saved=Path(place.written))
                    await line.hold()
                await first.run(f"import os; os.chdir({place.cwd!r})")
                yield base
                tasks.cancel_scope.cancel()
        finally:
            for below in grown:
                await below.close()
            os.close(lifeline[1])
            process.wait(LIMIT_S)
            os.close(lifeline[0])
            first.close()
            await line.close()


async def inside(base: Base, below: Below, of: Inside | None = None) -> Inside:
    process = await (of or base.first).spawn(below.nested)
    await process.run(f"import os; os.chdir({base.place.cwd!r})")
    return process


async def until_ended(pidfd: int) -> None:
    with fail_after():
        await anyio.wait_readable(pidfd)


async def test_a_view_over_a_folder_in_which_the_box_above_works_shows_it_and_keeps_it(
    directory: Path,
) -> None:
    async with boxed(directory, "direct") as base:
        await base.first.run("open('above', 'w').write('x')")
        storage = directory / "other"
        place = Workspace(mode="overlay", cwd=base.place.cwd, project=base.place.cwd, storage=str(storage))
        prepare_storage(place)
        mounts = base.isolation.mounts(place, READABLE)
        nested = await base.line.grow(mounts, saved=Path(place.written), lifeline_fd=base.lifeline[0])
        base.below.append(below := Below(nested))
        base.tasks.start_soon(nested.line.run)
        process = await inside(base, below)
        await process.run("open('own', 'w').write('y'); open('above', 'a').write('z')")
        assert await process.run("result = open('above').read()") == "xz"
        assert await base.first.run("result = os.listdir(), open('above').read()") == [["above"], "x"]
        assert Path(base.place.cwd, "above").read_text() == "x"
        await nested.line.save()
        assert Path(place.written, "own").read_text() == "y"


@pytest.mark.parametrize("mode", ["private", "overlay"])
async def test_each_box_has_files_of_its_own_at_the_same_path(directory: Path, mode: Mode) -> None:
    async with boxed(directory, mode) as base:
        await base.first.run("open('above', 'w').write('x')")
        one, two = await base.grow("one"), await base.grow("two")
        first, second = await inside(base, one), await inside(base, two)
        top = Path(base.place.top)
        for process, name in ((first, "one"), (second, "two")):
            await process.run(f"open('own', 'w').write({name!r})")
            assert await process.run(f"result = open({str(top / 'name')!r}).read()") == name
            assert await process.run("import os; result = os.getcwd()") == base.place.cwd
        assert sorted(await base.first.run("import os; result = os.listdir()")) == ["above"]
        assert await first.run("result = open('own').read()") == "one"
        assert "above" not in await second.run("import os; result = os.listdir()")
        await one.nested.line.save()
        own = Path(base.place.cwd).relative_to(top) / "own"
        assert (directory / "saved-one" / own).read_text() == "one"


async def test_a_place_among_temporary_files_is_found_by_its_path_in_a_box_below() -> None:
    with tempfile.TemporaryDirectory(prefix="cwn-", dir="/tmp") as directory:  # what this is about
        async with boxed(Path(directory)) as base:
            await base.first.run("open('above', 'w').close()")
            process = await inside(base, await base.grow("one"))
            await process.run("open('own', 'w').close()")
            assert sorted(await process.run(f"result = os.listdir({base.place.cwd!r})")) == ["name", "own"]
            # The system tells the directory by where it really is.
            assert await process.run("result = os.getcwd()") == f"/.w{base.place.cwd}"
            assert await base.first.run("result = os.getcwd(), os.listdir()") == [base.place.cwd, ["above"]]


async def test_a_box_below_has_temporary_files_and_shared_memory_of_its_own(directory: Path) -> None:
    async with boxed(directory) as base:
        process = await inside(base, await base.grow("one"))
        await base.first.run("open('/tmp/a', 'w').close(); open('/dev/shm/a', 'w').close()")
        for path in ("/tmp", "/dev/shm"):  # which are the box's own
            await process.run(f"open({path + '/b'!r}, 'w').write('x' * 1000)")
            assert "a" not in await process.run(f"import os; result = os.listdir({path!r})")
            assert "b" not in await base.first.run(f"import os; result = os.listdir({path!r})")
        assert "No space left" in await process.fails(
            "f = open('/tmp/c', 'wb')\nfor _ in range(100): f.write(bytes(1 << 20))"
        )
        await base.first.run("open('/tmp/d', 'wb').write(bytes(1 << 20))")


async def test_a_box_below_sees_only_its_own_processes(directory: Path) -> None:
    async with boxed(directory) as base:
        one, two = await base.grow("one"), await base.grow("two")
        first, second = await inside(base, one), await inside(base, two)
        pid = await first.run("import os; result = os.getpid()")
        assert await first.run(PIDS) == [pid], "not even the one that buries"
        assert await first.run("import os; result = os.getppid()") == 1
        assert await second.run(PIDS) == [await second.run("import os; result = os.getpid()")]


async def test_a_box_below_has_a_loopback_and_a_name_of_its_own(directory: Path) -> None:
    listen = "import socket; s = socket.create_server(('127.0.0.1', 4711)); result = 1"
    async with boxed(directory) as base:
        await base.first.run(listen)
        process = await inside(base, await base.grow("one"))
        refused = await process.fails("import socket; socket.create_connection(('127.0.0.1', 4711))")
        assert "ConnectionRefusedError" in refused
        await process.run(listen)
        await process.run("socket.create_connection(('127.0.0.1', 4711)).close()")
        assert await process.run("import socket; result = socket.gethostname()") == "cellwright"


async def test_a_box_below_reaches_its_own_proxy_at_the_port_of_the_one_above(directory: Path) -> None:
    (directory / "s").mkdir()
    doors = {"above": directory / "s" / "door", "below": directory / "door"}
    connect = f"import socket; s = socket.create_connection(('127.0.0.1', {PROXY_PORT}))"
    with ExitStack() as stack:
        listeners = {name: stack.enter_context(socket.socket(socket.AF_UNIX)) for name in doors}
        for name, listener in listeners.items():
            listener.bind(str(doors[name]))
            listener.listen()
            listener.settimeout(LIMIT_S)
        async with boxed(directory, proxy={"port": PROXY_PORT, "socket": "/ipc/door"}) as base:
            mounts = base.isolation.mounts(base.place, READABLE)
            nested = await base.line.grow(
                mounts,
                saved=Path(base.place.written),
                lifeline_fd=base.lifeline[0],
                proxy_socket=doors["below"],
            )
            base.below.append(below := Below(nested))
            base.tasks.start_soon(nested.line.run)
            for name, process in (("above", base.first), ("below", await inside(base, below))):
                await process.run(connect)
                with (await anyio.to_thread.run_sync(listeners[name].accept))[0] as connection:
                    connection.send(name.encode())
                    assert await process.run("result = s.recv(10).decode()") == name
            assert len(await process.run(PIDS)) == 1, "the relay is not seen"


async def test_a_process_in_a_box_below_has_no_powers_and_writes_nowhere_else(directory: Path) -> None:
    async with boxed(directory) as base:
        process = await inside(base, await base.grow("one"))
        powers = await process.run(POWERS)
        assert {value.strip("0") for value in powers.values()} == {""}, powers
        for path in (
            "/x",
            "/usr/x",
            "/etc/x",
            "/dev/x",
            "/.w/x",
            "/proc/sys/kernel/hostname",
            sys.prefix + "/x",
        ):
            await process.fails(f"open({path!r}, 'w')")
        seen = set(await process.run("import os; result = os.listdir('/')"))
        assert not seen & {".below", ".gate", ".stage", "ipc"}
        assert seen >= {"usr", "etc", "dev", "proc", "tmp"}


async def test_a_process_that_keeps_its_powers_when_it_joins_is_ended(directory: Path) -> None:
    async with boxed(directory) as base:
        below = await base.grow("one")
        with ExitStack() as stack:
            stack.callback((other := Inside()).close)
            ended = await base.first.send_into(below.nested, other, "powerful")
            other.theirs.close()
            assert ended == -signal.SIGKILL
            assert await anyio.to_thread.run_sync(other.mine.recv, PACKET_BYTES) == b"", "nobody is there"
        assert await base.first.run("result = 1") == 1
        await inside(base, below)


async def test_a_process_that_nobody_watches_enters_no_namespace(directory: Path) -> None:
    async with boxed(directory) as base:
        below = await base.grow("one")
        with ExitStack() as stack:
            stack.callback((other := Inside()).close)
            assert await base.first.send_into(below.nested, other, watched=False) == 1
        process = await inside(base, below)
        pid = await process.run("import os; result = os.getpid()")
        of_branch = (
            f"[f'/proc/{{p}}/ns/user' for p in os.listdir('/proc') if p.isdigit() and int(p) != {pid}]"
        )
        code = f"import ctypes, os; libc = ctypes.CDLL(None)\nresult = [libc.setns(os.open(p, 0), 0) for p in {of_branch}]"
        assert set(await base.first.run(code)) == {-1}, "not even that of a branch that it sees"


async def test_processes_that_set_themselves_apart_neither_see_nor_signal_each_other(directory: Path) -> None:
    if landlock.abi() < SCOPE_ABI:
        pytest.skip("this kernel's Landlock knows no signals")
    async with boxed(directory) as base:
        process = await inside(base, await base.grow("one"))
        before = await base.first.run(PIDS)
        own = await base.first.run("result = os.getpid()")
        (seen_as,) = set(before) - {own}
        assert await process.run(SET_APART) is True
        assert await base.first.run(SET_APART) is True
        assert await base.first.run(PIDS) == [own]
        assert "PermissionError" in await base.first.fails(f"os.kill({seen_as}, 0)")
        await process.run("import os; os.kill(os.getpid(), 0)")


async def test_setting_oneself_apart_too_often_is_refused_without_harm(directory: Path) -> None:
    async with boxed(directory) as base:
        code = "from cellwright_kernel import _checkpoints as checkpoints, landlock\n"
        code += "result = [landlock.set_apart(checkpoints.ROOTS) for _ in range(20)]"
        assert (await base.first.run(code))[-1] is False
        await base.first.run("open('still', 'w').close()")


async def test_every_end_in_a_box_below_is_told_on_its_own_line(directory: Path) -> None:
    async with boxed(directory) as base:
        below = await base.grow("one")
        process = await inside(base, below)
        pid = await process.run("import os; result = os.getpid()")
        process.mine.send(b'{"run": "import os; os._exit(7)"}')
        await until(lambda: below.ends)
        assert below.ends == [(pid, 7)]
        again = await inside(base, below)
        assert await again.run("result = open('name').read()") == "one", "and it can be entered again"


async def test_a_box_below_ends_alone_and_leaves_nothing(directory: Path) -> None:
    async with boxed(directory) as base:
        one, two = await base.grow("one"), await base.grow("two")
        await inside(base, one)
        second = await inside(base, two)
        one.nested.line.end()
        await until_ended(one.nested.pidfd)
        await until(lambda: not Path(f"/proc/{one.nested.pid}").exists())  # until it is buried
        assert await second.run("result = open('name').read()") == "two"
        assert await base.first.run("result = 1") == 1
        assert base.process.poll() is None


@pytest.mark.parametrize("mode", ["private", "overlay"])
async def test_many_boxes_grow_at_once(directory: Path, mode: Mode) -> None:
    async with boxed(directory, mode) as base:
        grown: dict[str, Below] = {}

        async def grow(name: str) -> None:
            grown[name] = await base.grow(name)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(grow, str(number))
        name = str(Path(base.place.top, "name"))
        for number, below in grown.items():
            process = await inside(base, below)
            assert await process.run(f"result = open({name!r}).read()") == number


async def test_a_box_below_ends_with_the_one_above(directory: Path) -> None:
    async with boxed(directory) as base:
        below = await base.grow("one")
        await inside(base, below)
        base.line.end()
        await until_ended(below.nested.pidfd)
        assert base.process.wait(LIMIT_S) == 0


async def test_a_box_ends_when_its_monitor_is_killed(directory: Path) -> None:
    async with boxed(directory) as base:
        first = os.pidfd_open(descendants.children_of(base.process.pid)[0])
        base.process.kill()
        await until_ended(first)
        os.close(first)


async def test_a_box_below_ends_when_its_monitor_is_killed(directory: Path) -> None:
    async with boxed(directory) as base:
        below = await base.grow("one")
        process = await inside(base, below)
        signal.pidfd_send_signal(below.nested.pidfd, signal.SIGKILL)
        with fail_after():
            assert await anyio.to_thread.run_sync(process.mine.recv, PACKET_BYTES) == b""


async def test_a_box_grows_below_one_that_is_below_another(directory: Path) -> None:
    async with boxed(directory) as base:
        one = await base.grow("one")
        first = await inside(base, one)
        two = await base.grow("two", one.nested.line)
        second = await inside(base, two, first)
        await second.run("open('own', 'w').close(); open('/tmp/x', 'w').close()")
        assert await second.run("result = open('name').read()") == "two"
        assert await first.run("import os; result = sorted(os.listdir())") == ["name"]
        powers = await second.run(POWERS)
        assert {value.strip("0") for value in powers.values()} == {""}, powers


async def test_a_place_directly_below_the_root_is_refused(directory: Path) -> None:
    async with boxed(directory) as base:
        mounts = [{"kind": "bind", "from": "/srv", "at": "/srv", "write": True}]
        with pytest.raises(KernelStartError, match="directly below the root"):
            await base.line.grow(mounts, saved=None, lifeline_fd=base.lifeline[0])


async def test_a_box_whose_files_do_not_fit_is_refused_and_ends(directory: Path) -> None:
    async with boxed(directory) as base:
        saved = directory / "large"
        saved.mkdir()
        (saved / "file").write_bytes(bytes(101 << 20))
        before = set(descendants.tree_of(base.process.pid))
        with pytest.raises(KernelStartError, match="fit"):
            await base.line.grow(
                base.isolation.mounts(base.place, READABLE), saved=saved, lifeline_fd=base.lifeline[0]
            )
        await until(lambda: set(descendants.tree_of(base.process.pid)) == before)


async def test_a_box_that_cannot_be_furnished_says_why_and_leaves_the_one_above(directory: Path) -> None:
    async with boxed(directory) as base:
        mounts = [{"kind": "bind", "from": "/no/such", "at": "/tmp/x", "write": True}]
        with pytest.raises(KernelStartError, match="No such file"):
            await base.line.grow(mounts, saved=None, lifeline_fd=base.lifeline[0])
        assert await base.first.run("result = 1") == 1
        await inside(base, await base.grow("one"))


@pytest.mark.skipif(os.getuid() != 0, reason="this is the ordinary user")
@pytest.mark.parametrize(
    "tests",
    [
        "powers or nobody_watches or shows_it_and_keeps_it or only_its_own_processes",
        pytest.param("not ordinary_user", marks=pytest.mark.matrix),
    ],
)
def test_the_same_as_an_ordinary_user(require: Require, tests: str) -> None:
    require_other_python("nobody", "C", require)
    run_as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", tests, __file__])

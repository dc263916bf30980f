"""Branches keep to themselves: files, processes, networks and limits of one are nobody else's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cellwright.engine import Engine, Session
from tests.support.sandbox.programs import run_as_nobody

pytestmark = pytest.mark.anyio

SEEN = """
import os
def commands():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append(open(f"/proc/{name}/cmdline").read().replace("\\0", " "))
            except OSError:
                pass
    return found
print(any("3600" in command for command in commands()))
"""

OPEN_FILES = 1024
SENDING = """
import os, socket
null, pairs, sent = os.open('/dev/null', os.O_RDONLY), [], 0
try:
    while sent < 2000:
        pairs.append(socket.socketpair())
        for _ in range(5):
            socket.send_fds(pairs[-1][0], [b'x'], [null] * 250)
            sent += 250
except OSError as error:
    print(error)
"""


async def run(session: Session, code: str, **options: Any) -> str:
    cell = await session.add_cell(code)
    execution = await session.run(cell.id, **options)
    return execution.text


async def test_branches_and_their_origin_see_neither_processes_nor_files_of_each_other(
    engine: Engine, tmp_path: Path
) -> None:
    origin = await engine.create("walls", directory=tmp_path, mode="private")
    await run(origin, "x = 1")
    one, two = (branch.session for branch in await engine.branch(origin.id, count=2))
    await run(
        one, "import subprocess; p = subprocess.Popen(['sleep', '3600']); open('/tmp/mine', 'w').write('1')"
    )
    await run(one, "import socket; s = socket.create_server(('127.0.0.1', 4999))")
    assert await run(one, SEEN) == "True\n"
    for other in (two, origin):
        assert await run(other, SEEN) == "False\n"
        assert await run(other, "print(os.path.exists('/tmp/mine'))") == "False\n"
        reach = "import socket; print(socket.socket().connect_ex(('127.0.0.1', 4999)) != 0)"
        assert await run(other, reach) == "True\n"
    assert await run(one, "print(p.poll())") == "None\n"
    await run(one, "p.kill(); p.wait()")


async def test_a_branch_of_a_kernel_that_keeps_its_copies_from_dropping_powers_has_none(
    engine: Engine, tmp_path: Path
) -> None:
    origin = await engine.create("powers", directory=tmp_path, mode="private")
    await run(
        origin,
        "from cellwright_kernel import _namespaces as namespaces; namespaces.drop_powers = lambda *_: None",
    )
    (branch,) = await engine.branch(origin.id)
    powers = (
        "print(*{line.split()[1].strip('0') for line in open('/proc/self/status') if line.startswith('Cap')})"
    )
    for session in (origin, branch.session):
        assert await run(session, powers) == "\n"
    assert branch.by != "checkpoint"


async def test_descriptors_that_a_session_leaves_on_their_way_do_not_keep_others_from_checkpoints(
    engine: Engine, tmp_path: Path
) -> None:
    one, two = [await engine.create(name, directory=tmp_path, mode="private") for name in ("one", "two")]
    await run(one, SENDING)
    assert int(await run(one, "print(sent)")) > OPEN_FILES
    await run(two, "x = 1")
    kept = await two.checkpoint()
    await run(two, "x = 2")
    (branch,) = await engine.branch(two.id)
    assert branch.by == "checkpoint", branch.reason
    await two.roll_back(kept.id)
    assert await run(two, "print(x)") == "1\n"


async def test_a_branch_that_passes_its_limit_ends_alone(engine: Engine, tmp_path: Path) -> None:
    origin = await engine.create("limits", directory=tmp_path, mode="private")
    await run(origin, "x = 1")
    one, two = (branch.session for branch in await engine.branch(origin.id, count=2))
    full = await run(one, "open('big', 'wb').write(bytes(200 << 20))")
    assert "OSError" in full or "No space" in full
    assert await run(two, "print(open('small', 'wb').write(bytes(50 << 20)))") == f"{50 << 20}\n"
    cell = await one.add_cell("import os; os.kill(os.getpid(), 9)")
    assert (await one.run(cell.id)).state == "died"
    for session in (origin, two):
        assert await run(session, "print(x)") == "1\n"


async def test_a_branch_outlives_its_origin(engine: Engine, tmp_path: Path) -> None:
    origin = await engine.create("outlive", directory=tmp_path, mode="overlay")
    await run(origin, "x = [1]")
    (branch,) = await engine.branch(origin.id)
    await engine.delete(origin.id, remove_file=True)
    assert await run(branch.session, "x.append(2); print(x)") == "[1, 2]\n"
    (grandchild,) = await engine.branch(branch.session.id)
    assert grandchild.by == "checkpoint", grandchild.reason
    assert await run(grandchild.session, "print(x)") == "[1, 2]\n"
    kept = await branch.session.checkpoint()
    await run(branch.session, "x.append(3)")
    await branch.session.roll_back(kept.id)
    assert await run(branch.session, "print(x)") == "[1, 2]\n"


@pytest.mark.matrix  # `sandbox/test_nesting` is run by one
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_users_branches_have_the_same_walls() -> None:
    run_as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not ordinary", __file__])

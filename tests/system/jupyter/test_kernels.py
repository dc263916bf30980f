"""Kernels on real servers and gateways, as a host has them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cellwright.errors import KernelGone, KernelStartError
from cellwright.hosts.protocol import JupyterServer, KernelReady
from tests.kernel.engine.conftest import host_process
from tests.matrix import first_of
from tests.support.jupyter.desk import Desk, Wire, desk_at
from tests.support.servers import kinds
from tests.support.servers.server import Server
from tests.system.jupyter.conftest import address
from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.anyio


async def test_state_stays_from_cell_to_cell_and_is_told_to_be_elsewhere(
    desk: Desk, other_server: JupyterServer
) -> None:
    ready = await desk.start(other_server)
    assert ready.tier == "remote"
    assert ready.remote is not None
    assert ready.language["name"] == "python"
    assert any("no sandbox" in loss for loss in ready.losses)
    assert (await desk.run("x = 41")).state == "ok"
    ran = await desk.run("print('so'); x + 1")
    assert (ran.state, ran.text) == ("ok", "so\n42")
    assert ran.end.execution_count == 2


@pytest.mark.matrix  # `test_contract` has the error
async def test_an_error_is_told_with_its_traceback_and_the_kernel_goes_on(
    desk: Desk, server: JupyterServer
) -> None:
    await desk.start(server)
    ran = await desk.run("1 / 0")
    assert ran.state == "error"
    assert ran.end.error is not None
    assert ran.end.error["ename"] == "ZeroDivisionError"
    assert (await desk.run("6 * 7")).text == "42"


@pytest.mark.matrix  # `test_contract` has the time
async def test_a_cell_that_takes_too_long_is_interrupted_by_the_server(
    desk: Desk, server: JupyterServer
) -> None:
    await desk.start(server)
    await desk.run("kept = 7")
    ran = await desk.run("import time\nwhile True: time.sleep(0.1)", timeout_s=1)
    assert ran.state == "timeout"
    assert (await desk.run("kept")).text == "7"


async def test_a_cell_that_does_not_stop_costs_its_kernel(storage: Path, plain: JupyterServer) -> None:
    async with desk_at(storage, interrupt_grace_s=1) as desk:
        await desk.start(plain)
        deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)"
        execution_id = await desk.begin(f"{deaf}\ntime.sleep(600)", timeout_s=600)
        await desk.printed(execution_id, "deaf")
        await desk.interrupt()
        assert (await desk.finished(execution_id)).state in ("interrupted", "died")
        died = await desk.died()
        assert not died.expected


@pytest.mark.matrix  # `test_contract` has the flood
async def test_a_flood_of_output_is_cut_and_counted_at_the_host(storage: Path, plain: JupyterServer) -> None:
    async with desk_at(storage, max_output_bytes=20_000) as desk:
        await desk.start(plain)
        ran = await desk.run("for i in range(3000): print('x' * 100, flush=i % 50 == 0)")
        assert ran.state == "ok"
        assert ran.end.dropped_bytes > 100_000
        assert len(ran.text) < 100_000
        assert "dropped here" in ran.text


@pytest.mark.matrix  # `test_contract` has the end of a kernel
@pytest.mark.parametrize(
    "last", first_of(["import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], 1)
)
async def test_the_death_of_a_kernel_is_told_and_the_next_one_is_empty(
    desk: Desk, server: JupyterServer, last: str
) -> None:
    await desk.start(server)
    await desk.run("x = 1")
    ran = await desk.run(last)
    assert ran.state == "died"
    died = await desk.died()
    assert "died" in died.message
    assert died.next_step
    await desk.start(server, "k2")
    assert (await desk.run("'x' in globals()", "k2")).text == "False"


@pytest.mark.matrix  # `test_contract` has the end of a kernel
async def test_a_notebooks_kernel_that_died_is_ended_there_and_not_found_again(
    desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    ready = await desk.start(plain, path="dying.ipynb")
    assert (await desk.run("import os; os._exit(3)")).state == "died"
    await desk.died()
    assert ready.remote is not None
    await _ended(jupyter_server, ready.remote[0])
    again = await desk.start(plain, "k2", path="dying.ipynb")
    assert again.remote is not None
    assert (again.remote[0] != ready.remote[0], again.remote_ours) == (True, True)


# A server culls as it does; but not before a test has the kernel that is to be culled.
GATED = """
from pathlib import Path
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

class Gated(AsyncMappingKernelManager):
    async def cull_kernel_if_idle(self, kernel_id):
        if Path({gate!r}).exists():
            await super().cull_kernel_if_idle(kernel_id)

c.ServerApp.kernel_manager_class = Gated
"""


async def test_a_kernel_that_was_culled_is_told_as_such(
    desk: Desk, served: Callable[[Server], Server], server_home: Callable[[str], Path]
) -> None:
    culling = {"MappingKernelManager": {"cull_idle_timeout": 1, "cull_interval": 1, "cull_connected": True}}
    home = server_home("culling")
    server, gate = kinds.plain_server(home, culling), home / "gate"
    (home / "config" / "jupyter_server_config.py").write_text(GATED.format(gate=str(gate)))
    await desk.start(address(served(server)))
    gate.touch()
    died = await desk.died()
    assert died.cause == "culled"
    assert "cull_idle_timeout" in died.next_step


async def test_a_stopped_kernel_is_ended_on_its_server(
    desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    ready = await desk.start(plain)
    assert ready.remote is not None
    await desk.stop()
    assert (await desk.died()).expected
    await _ended(jupyter_server, ready.remote[0])


async def test_somebody_elses_kernel_is_attached_to_and_left_alone_at_the_end(
    desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    theirs = jupyter_server.request("POST", "/api/kernels", {"name": "python3"})["id"]
    ready = await desk.start(plain, existing=theirs)
    assert ready.started_by == "attached"
    assert (await desk.run("40 + 2")).text == "42"
    await desk.stop()
    assert theirs in _kernels(jupyter_server)


async def test_a_notebook_that_is_open_there_brings_its_kernel(
    desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    ready = await desk.start(plain, path="shared.ipynb")
    sessions = jupyter_server.request("GET", "/api/sessions")
    assert ready.remote is not None
    assert [one["path"] for one in sessions if one["kernel"]["id"] == ready.remote[0]] == ["shared.ipynb"]
    again = await desk.start(plain, "k2", path="shared.ipynb")
    assert again.remote is not None
    assert again.remote[0] == ready.remote[0]
    await desk.stop("k2")
    assert (await desk.run("'alive'")).text == "'alive'"


async def test_a_fresh_kernel_is_wanted_of_a_notebook_that_is_open_there_and_its_own_is_restarted(
    desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    notebook = {"path": "afresh.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    theirs = jupyter_server.request("POST", "/api/sessions", notebook)["kernel"]["id"]
    await desk.start(plain, path="afresh.ipynb")
    await desk.run("x = 1")
    await desk.stop()
    again = await desk.start(plain, "k2", path="afresh.ipynb", fresh=True)
    assert again.remote is not None
    assert again.remote[0] == theirs
    assert (await desk.run("'x' in globals()", "k2")).text == "False"


async def test_a_server_without_the_subprotocol_is_spoken_with_in_json(
    desk: Desk, served: Callable[[Server], Server], server_home: Callable[[str], Path]
) -> None:
    old = {"ZMQChannelsWebsocketConnection": {"kernel_ws_protocol": ""}}
    await desk.start(address(served(kinds.plain_server(server_home("old"), old))))
    ran = await desk.run("print('so'); 6 * 7")
    assert (ran.state, ran.text) == ("ok", "so\n42")


async def test_an_unknown_kernel_is_gone_and_an_unknown_kernelspec_refused_with_what_there_is(
    desk: Desk, plain: JupyterServer
) -> None:
    with pytest.raises(KernelGone, match="culled"):
        await desk.start(plain, existing="no-such-kernel")
    with pytest.raises(KernelStartError, match=r"no kernel named 'nope'; it has: .*python3 \(python\)"):
        await desk.start(plain, name="nope")
    with pytest.raises(KernelStartError, match="no kernel for julia"):
        await desk.start(plain, language="julia")


LINES = """
import pathlib, time
for i in range(60):
    print(i, flush=True)
    while i == 20 and not pathlib.Path({go_on!r}).exists():
        time.sleep(0.01)
    if i == 40:
        pathlib.Path({unheard!r}).touch()
"""


async def test_sixty_of_sixty_lines_come_through_a_cut_connection(
    desk: Desk, jupyter_server: Server, wire_to: Callable[[int], Wire], tmp_path: Path
) -> None:
    wire = await wire_to(jupyter_server.port)
    ready = await desk.start(wire.address_of(jupyter_server))
    go_on, unheard = tmp_path / "go-on", tmp_path / "unheard"
    execution_id = await desk.begin(LINES.format(go_on=str(go_on), unheard=str(unheard)), timeout_s=600)
    await desk.printed(execution_id, "20\n")
    await wire.cut(closed=True)
    # What the server sends before it has noticed is lost on the way, as the wire is.
    await until(lambda: _kernel(jupyter_server, ready)["connections"] == 0)
    go_on.touch()
    await until(unheard.exists)
    await wire.turned_away.wait()
    wire.open()
    ran = await desk.finished(execution_id)
    assert ran.state == "ok"
    assert ran.text == "".join(f"{i}\n" for i in range(60))


@pytest.mark.parametrize("last", first_of(["1", "import time; print('on', flush=True); time.sleep(600)"], 1))
async def test_a_kernel_that_died_while_the_connection_was_cut_is_told_and_not_taken_for_the_same(
    desk: Desk, jupyter_server: Server, wire_to: Callable[[int], Wire], last: str
) -> None:
    wire = await wire_to(jupyter_server.port)
    await desk.start(wire.address_of(jupyter_server))
    pid = int((await desk.run("import os; os.getpid()")).text)
    execution_id = await desk.begin(last)
    await desk.wait_for(lambda _: bool(desk.outputs(execution_id)))
    await wire.cut(closed=True)
    restarts = jupyter_server.log.count("restarting kernel")
    os.kill(pid, signal.SIGKILL)
    await until(lambda: jupyter_server.log.count("restarting kernel") > restarts)
    wire.open()
    died = await desk.died()
    assert "restarted" in died.message


ENDS_UNHEARD = """
import pathlib, time
print('begun', flush=True)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.01)
pathlib.Path({done!r}).touch()
"""


async def test_an_end_that_nobody_heard_is_settled_when_the_connection_is_back(
    desk: Desk,
    served: Callable[[Server], Server],
    server_home: Callable[[str], Path],
    wire_to: Callable[[int], Wire],
) -> None:
    own = served(
        kinds.plain_server(
            server_home("forgetful"), {"MappingKernelManager": {"buffer_offline_messages": False}}
        )
    )
    wire = await wire_to(own.port)
    ready = await desk.start(wire.address_of(own))
    gate, done = own.home / "gate", own.home / "done"
    execution_id = await desk.begin(ENDS_UNHEARD.format(gate=str(gate), done=str(done)), timeout_s=600)
    await desk.printed(execution_id, "begun")
    await wire.cut(closed=True)
    await until(lambda: _kernel(own, ready)["connections"] == 0)
    gate.touch()
    await until(done.exists)
    # Idle is the last that it says of an execution.
    await until(lambda: _kernel(own, ready)["execution_state"] == "idle")
    wire.open()
    ran = await desk.finished(execution_id)
    assert ran.end.error is not None
    assert ran.end.error["ename"] == "ConnectionCut"
    assert (await desk.run("1 + 1")).text == "2"


async def test_a_server_out_of_reach_is_given_up_after_its_time_and_its_kernel_found_again(
    desk: Desk, jupyter_server: Server, plain: JupyterServer, wire_to: Callable[[int], Wire]
) -> None:
    wire = await wire_to(jupyter_server.port)
    ready = await desk.start(wire.address_of(jupyter_server, unreachable_s=1))
    await desk.run("x = 'kept'")
    await wire.cut(closed=True)
    died = await desk.died()
    assert died.cause == "unreachable"
    assert "jupyter_unreachable_s" in died.next_step
    assert ready.remote is not None
    await desk.start(plain, "k2", existing=ready.remote[0], session_id=ready.remote[1], ours=True)
    assert (await desk.run("x", "k2")).text == "'kept'"


async def test_a_killed_hosts_kernel_is_attached_to_again_with_its_state(
    storage: Path, jupyter_server: Server, plain: JupyterServer
) -> None:
    async with desk_at(storage) as desk:
        ready = await desk.start(plain)
        await desk.run("x = 'kept'")
        host = host_process(storage)
        assert host is not None
        host.kill()
        host.wait(LIMIT_S)
    assert ready.remote is not None
    async with desk_at(storage) as desk:
        await desk.start(plain, existing=ready.remote[0], session_id=ready.remote[1], ours=True)
        assert (await desk.run("x")).text == "'kept'"
        await desk.stop()
    await _ended(jupyter_server, ready.remote[0])


async def test_a_kernel_that_does_not_answer_who_comes_back_to_it_lives_on_with_its_state(
    storage: Path, desk: Desk, jupyter_server: Server, plain: JupyterServer
) -> None:
    busy = jupyter_server.request("POST", "/api/kernels", {"name": "python3"})["id"]
    await desk.start(plain, existing=busy)
    pid = int((await desk.run("import os; x = 'kept'; os.getpid()")).text)
    await desk.stop()
    os.kill(pid, signal.SIGSTOP)
    async with desk_at(storage, start_timeout_s=2) as impatient:
        with pytest.raises(KernelStartError, match="goes on there") as refused:
            await impatient.start(plain, existing=busy, ours=True)
    assert "restart" in (refused.value.hint or "")
    os.kill(pid, signal.SIGCONT)
    await desk.start(plain, "k2", existing=busy, ours=True)
    assert (await desk.run("x", "k2")).text == "'kept'"


async def test_a_wrong_token_is_refused_in_words_and_written_nowhere(
    shared_storage: Path, desk: Desk, jupyter_server: Server
) -> None:
    secret = "very-secret-token-of-nobody"  # noqa: S105  # it opens nothing
    with pytest.raises(KernelStartError, match="refuses the token") as refused:
        await desk.start(JupyterServer("lab", jupyter_server.url, secret))
    assert secret not in str(refused.value)
    right = address(jupyter_server)
    await desk.start(right)
    await desk.run("1 / 0")
    written = list(_contents(shared_storage))
    assert written
    for content in written:
        assert secret.encode() not in content
        assert right.token.encode() not in content
    assert right.token not in jupyter_server.log
    assert right.token not in repr(right)


async def test_nobody_at_an_address_is_told_with_the_next_step(desk: Desk) -> None:
    with pytest.raises(KernelStartError, match="cannot be reached") as refused:
        await desk.start(JupyterServer("lab", "http://127.0.0.1:9", "t"))
    assert refused.value.hint


def _contents(directory: Path) -> Iterator[bytes]:
    for path in directory.rglob("*"):
        # The host is at work: what it just had may be gone.
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.read_bytes()


def _kernels(server: Server) -> list[str]:
    return [kernel["id"] for kernel in server.request("GET", "/api/kernels")]


def _kernel(server: Server, ready: KernelReady) -> dict[str, Any]:
    """What a server itself says of a kernel."""
    assert ready.remote is not None
    told: dict[str, Any] = server.request("GET", f"/api/kernels/{ready.remote[0]}")
    return told


async def _ended(server: Server, kernel_id: str) -> None:
    """Wait until a server has ended a kernel: one that takes long over that is not waited for by the host."""
    await until(lambda: kernel_id not in _kernels(server))

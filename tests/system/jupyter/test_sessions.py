"""Sessions on Jupyter servers: the same calls as everywhere, or a refusal with the reason."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.errors import HostCannot, KernelGone, UnknownHost
from cellwright.mcp.tools.hosts import about_host
from tests.kernel.engine.conftest import OpenEngine, host_process, open_anew, open_here
from tests.matrix import first_of
from tests.support.servers.server import Server
from tests.waiting import LIMIT_S, until

__all__ = ["open_here"]

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def engine(jupyter_server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One for all tests that leave it usable; it knows the server twice, by itself and by a name."""
    async with open_anew(tmp_path_factory, **_told(jupyter_server)) as engine:
        yield engine


def _told(server: Server) -> dict[str, object]:
    there = {"url": server.url, "token": server.token}
    return {"jupyter_url": server.url, "jupyter_token": server.token, "jupyter_servers": {"lab": there}}


async def test_a_session_on_a_server_runs_cells_completes_and_shows_what_it_holds(
    engine: Engine, jupyter_server: Server
) -> None:
    session = await engine.create("There", host="jupyter")
    cell = await session.add_cell("answer = 42\nprint('there')\nanswer")
    ran = await session.run(cell.id)
    assert ran.state == "ok"
    assert session.tier == "remote"
    assert "answer" in (await session.complete("answ")).matches
    held = await session.inspect()
    assert [(one.name, one.type, one.digest) for one in held.variables] == [("answer", "int", "42")]
    assert held.cwd == str(jupyter_server.root)
    again = await session.execute_code(
        "'cellwright_kernel' in __import__('sys').modules, 'held' in globals()"
    )
    await again.wait()
    assert again.text.strip() == "(False, False)"


async def test_what_a_server_cannot_do_is_refused_with_the_reason(engine: Engine) -> None:
    session = await engine.create("There", host="jupyter")
    sql = await session.add_cell("select 1", metadata={"vscode": {"languageId": "sql"}})
    with pytest.raises(HostCannot, match="SQL cells need a kernel of ours"):
        await session.run(sql.id)
    with pytest.raises(HostCannot, match="checkpoints need a kernel of ours"):
        await session.checkpoint()
    with pytest.raises(HostCannot, match="packages are the server's own"):
        await session.install(["numpy"])
    with pytest.raises(HostCannot, match="files are the server's"):
        await session.files()
    with pytest.raises(HostCannot, match="values are read out"):
        await session.visualize(variable="x")


async def test_a_cell_of_a_language_that_the_server_lacks_says_what_it_has(engine: Engine) -> None:
    session = await engine.create("There", host="jupyter")
    julia = await session.add_cell("1 + 1", metadata={"vscode": {"languageId": "julia"}})
    with pytest.raises(HostCannot, match=r"no kernel for julia; it has kernels for .*python"):
        await session.run(julia.id)


async def test_a_cell_of_another_language_runs_on_a_second_kernel_of_the_same_server(
    engine: Engine, jupyter_server: Server, require: Callable[[str, bool, str], None]
) -> None:
    specs = jupyter_server.request("GET", "/api/kernelspecs")["kernelspecs"]
    require("the R kernel", "ir" in specs, "apt install r-cran-irkernel")
    session = await engine.create("There", host="jupyter")
    r_cell = await session.add_cell("cat(sum(1:4))", metadata={"vscode": {"languageId": "r"}})
    ran = await session.run(r_cell.id, timeout_s=LIMIT_S)
    assert (ran.state, ran.text.strip()) == ("ok", "10")


@pytest.mark.matrix  # `test_kernels` kills the host
async def test_the_death_of_the_host_costs_no_state_on_a_server(
    open_here: OpenEngine, jupyter_server: Server, tmp_path: Path
) -> None:
    async with open_here(**_told(jupyter_server)) as engine:
        session = await engine.create("There", host="jupyter")
        await (await session.execute_code("x = 'kept'")).wait()
        before = session.record.remote
        host = host_process(tmp_path / "state")
        assert host is not None
        host.kill()
        host.wait(LIMIT_S)
        cell = await session.add_cell("x")
        ran = await session.run(cell.id)
        assert ran.state == "ok"
        assert session.record.remote is not None
        assert before is not None
        assert session.record.remote[0] == before[0]
        await session.restart()
        assert (await session.run(cell.id)).state == "error"
        await until(
            lambda: before[0] not in [one["id"] for one in jupyter_server.request("GET", "/api/kernels")]
        )


async def test_somebody_elses_kernel_is_named_behind_the_server(
    engine: Engine, jupyter_server: Server
) -> None:
    theirs = jupyter_server.request("POST", "/api/kernels", {"name": "python3"})["id"]
    session = await engine.create("There", host=f"jupyter:lab/{theirs}")
    await (await session.execute_code("mine = 1")).wait()
    await session.suspend()
    await session.resume()
    assert [one.name for one in (await session.inspect()).variables] == ["mine"]
    await session.suspend()
    assert theirs in [one["id"] for one in jupyter_server.request("GET", "/api/kernels")]


async def test_a_named_kernel_that_is_gone_is_told_with_how_to_go_on_without_it(
    engine: Engine, jupyter_server: Server
) -> None:
    theirs = jupyter_server.request("POST", "/api/kernels", {"name": "python3"})["id"]
    session = await engine.create("There", host=f"jupyter:lab/{theirs}")
    await (await session.execute_code("mine = 1")).wait()
    await session.suspend()
    jupyter_server.request("DELETE", f"/api/kernels/{theirs}")
    with pytest.raises(KernelGone) as refused:
        await session.resume()
    assert "`host` without the kernel's id" in (refused.value.hint or "")
    replay = await (await session.start_replay(host="jupyter:lab")).wait()
    assert replay.state == "completed"


@pytest.mark.parametrize("lost", first_of([False, True], 1))
async def test_a_restart_of_somebody_elses_kernel_leaves_it_there_and_empty(
    open_here: OpenEngine,
    jupyter_server: Server,
    tmp_path: Path,
    lost: bool,
) -> None:
    theirs = jupyter_server.request("POST", "/api/kernels", {"name": "python3"})["id"]
    servers = {"lab": {"url": jupyter_server.url, "token": jupyter_server.token}}
    async with open_here(jupyter_servers=servers) as engine:
        session = await engine.create("There", host=f"jupyter:lab/{theirs}")
        await (await session.execute_code("mine = 1")).wait()
        lineage = session.record.lineage
        if lost:
            host = host_process(tmp_path / "state")
            assert host is not None
            host.kill()
            host.wait(LIMIT_S)
            await until(lambda: session.record.kernel_id is None)
        await session.restart()
        assert (await session.inspect()).variables == ()
        assert session.record.former == lineage
    assert theirs in [one["id"] for one in jupyter_server.request("GET", "/api/kernels")]


async def test_a_server_that_the_settings_do_not_tell_of_is_refused_with_what_to_set(
    open_here: OpenEngine,
) -> None:
    async with open_here() as engine:
        with pytest.raises(UnknownHost, match="no Jupyter server") as refused:
            await engine.create("There", host="jupyter")
        assert "jupyter_url" in str(refused.value)
        with pytest.raises(UnknownHost, match="no Jupyter server 'lab'"):
            await engine.create("There", host="jupyter:lab")


async def test_hosts_tell_how_servers_are_and_whether_they_take_the_token(
    open_here: OpenEngine, jupyter_server: Server
) -> None:
    servers = {
        "lab": {"url": jupyter_server.url, "token": jupyter_server.token},
        "locked": {"url": jupyter_server.url, "token": "wrong"},
    }
    async with open_here(jupyter_servers=servers) as engine:
        await engine.create("There", host="jupyter:lab")
        told = {one.name: one for one in await engine.hosts.list()}
        # A look is a short one, and one that found a server busy is not the last.
        while any("did not answer within" in one.detail for one in told.values()):
            told = {one.name: one for one in await engine.hosts.list()}
        assert (told["jupyter:lab"].state, told["jupyter:lab"].kernels) == ("ready", 1)
        assert "python3" in told["jupyter:lab"].detail
        assert told["jupyter:locked"].state == "away"
        assert "refuses the token" in told["jupyter:locked"].detail
        assert [about_host(told[name])["tier"] for name in ("jupyter:lab", "jupyter:locked")] == [
            "remote"
        ] * 2

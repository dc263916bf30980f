"""TCP with TLS: who has the key of this allocation gets through, and nobody else gets anything."""

from __future__ import annotations

import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from cellwright.errors import HostStartError, HostUnreachable
from cellwright.slurm import _tls
from cellwright.slurm._directories import HostAddress
from tests.support.slurm.lent import Lender
from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tls, "_CONNECT_S", LIMIT_S)


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    _tls.make_credentials(tmp_path / "tls")
    return tmp_path / "tls"


@asynccontextmanager
async def listening(credentials: Path) -> AsyncIterator[tuple[HostAddress, list[bytes]]]:
    """A host that repeats what it hears."""
    heard: list[bytes] = []
    listener, port = await _tls.listen(credentials)

    async def echo(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            heard.append(await stream.receive())
            await stream.send(heard[-1])

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, echo)
        yield HostAddress(1, "i", "", "n", 1, 0, addresses=("127.0.0.1",), port=port), heard
        tasks.cancel_scope.cancel()


def test_keys_are_for_their_user_alone(credentials: Path) -> None:
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o700
    assert {path.name for path in credentials.iterdir()} == {
        "host.key",
        "host.pem",
        "engine.key",
        "engine.pem",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in credentials.iterdir()} == {0o600}


def test_missing_library_is_told_with_the_command_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(HostStartError, match=r"pip install 'cellwright\[slurm\]'"):
        _tls.make_credentials(tmp_path / "tls")
    assert not (tmp_path / "tls").exists()


async def test_engine_with_the_key_is_heard(credentials: Path) -> None:
    async with listening(credentials) as (about, _), await _tls.connect(about, credentials) as stream:
        await stream.send(b"hello")
        assert await stream.receive() == b"hello"


async def test_next_address_is_tried_where_one_does_not_answer(credentials: Path) -> None:
    async with listening(credentials) as (about, _):
        both = HostAddress(
            1, "i", "", "n", 1, 0, addresses=("no.such.host.invalid", "127.0.0.1"), port=about.port
        )
        async with await _tls.connect(both, credentials) as stream:
            await stream.send(b"hello")
            assert await stream.receive() == b"hello"


async def test_engine_of_another_allocation_is_not_heard(credentials: Path, tmp_path: Path) -> None:
    _tls.make_credentials(tmp_path / "other")
    (tmp_path / "other" / "host.pem").write_bytes((credentials / "host.pem").read_bytes())
    async with listening(credentials) as (about, heard):
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream, HostUnreachable, ssl.SSLError)):
            await _ask(about, tmp_path / "other")
        assert heard == []


async def test_host_of_another_allocation_is_not_believed(credentials: Path, tmp_path: Path) -> None:
    _tls.make_credentials(tmp_path / "other")
    async with listening(tmp_path / "other") as (about, heard):
        with pytest.raises(HostUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await _tls.connect(about, credentials)
        assert heard == []


async def test_who_shows_no_certificate_gets_nothing(credentials: Path) -> None:
    async with listening(credentials) as (about, heard):
        answer = await anyio.to_thread.run_sync(_without_certificate, about.port or 0)
        assert answer == b""
        assert heard == []


async def test_who_does_not_speak_tls_gets_nothing(credentials: Path) -> None:
    async with listening(credentials) as (about, heard):
        async with await anyio.connect_tcp("127.0.0.1", about.port or 0) as stream:
            await stream.send(b"GET / HTTP/1.0\r\n\r\n")
            with fail_after(), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await _read_to_the_end(stream)
        assert heard == []


async def test_allocation_is_reached_by_tls_and_tells_no_secret(lend: Lender) -> None:
    lent = await lend(connecting="tls")
    async with lent.attached() as host:
        await host.start("k")
        assert await host.run("k", "print(6 * 7)") == "42\n"
        assert lent.steps() == ["kernel"]  # none was needed to get there
        key = (lent.way.paths.credentials / "host.key").read_text().splitlines()[1]
        job = lent.cluster.run("scontrol", "show", "job", lent.job_id).stdout
        environment = Path(f"/proc/{lent.about['pid']}/environ").read_text()
        command = Path(f"/proc/{lent.about['pid']}/cmdline").read_text()
        assert key not in job + environment + command + Path(lent.allocation.directory, "job.sh").read_text()


async def _ask(about: HostAddress, credentials: Path) -> bytes:
    async with await _tls.connect(about, credentials) as stream:
        await stream.send(b"hello")
        return await stream.receive()


async def _read_to_the_end(stream: anyio.abc.ByteReceiveStream) -> None:
    while await stream.receive():
        pass


def _without_certificate(port: int) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                secured.sendall(b"hello")
                return secured.recv(100)
        except OSError:
            return b""


def test_own_addresses_have_the_name_first_and_no_loopback() -> None:
    found = _tls.own_addresses()
    assert found[0] == socket.getfqdn()
    assert not any(address.startswith("127.") for address in found[1:])

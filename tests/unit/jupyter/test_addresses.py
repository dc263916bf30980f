"""Which server the settings mean, what opens it, and what is never sent where."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cellwright import Settings
from cellwright.engine.placement import server_and_kernel
from cellwright.errors import UnknownHost
from cellwright.jupyter._hubs import HubPath, hub_path
from cellwright.jupyter._rest import Api, ServerRefused
from cellwright.jupyter._servers import jupyter_server, jupyter_servers
from cellwright.settings import load_settings

SECRET = "a-token-that-nobody-may-see"  # noqa: S105  # it opens nothing


def test_a_server_is_found_with_its_tokens_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    lab = {"url": "https://lab.example/base/", "token_file": file, "username": "ada"}
    settings = Settings(jupyter_servers={"lab": lab}, jupyter_unreachable_s=7)
    server = jupyter_server(settings, "lab")
    assert (server.url, server.token, server.username) == ("https://lab.example/base", SECRET, "ada")
    assert server.unreachable_s == 7
    assert jupyter_servers(settings) == ("lab",)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "no Jupyter server"),
        ({"jupyter_url": "lab.example"}, "no address"),
        ({"jupyter_url": f"https://lab.example/?token={SECRET}"}, "without a token"),
        ({"jupyter_url": f"https://ada:{SECRET}@lab.example/"}, "without a token"),
        ({"jupyter_url": "http://lab.example/"}, "unencrypted"),
        ({"jupyter_url": "https://lab.example/", "jupyter_token_file": "/nowhere/at/all"}, "cannot be read"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_with_what_to_set(told: dict[str, str], words: str) -> None:
    with pytest.raises(UnknownHost, match=words) as refused:
        jupyter_server(Settings.model_validate(told))
    assert refused.value.hint
    assert SECRET not in str(refused.value)


def test_plain_http_goes_to_this_machine_or_where_it_is_asked_for() -> None:
    for url in ("http://127.0.0.1:8888", "http://localhost:8888", "http://[::1]:8888"):
        assert jupyter_server(Settings(jupyter_url=url)).url == url
    asked = Settings(jupyter_url="http://lab.example", jupyter_insecure_http=True)
    assert jupyter_server(asked).url == "http://lab.example"
    assert "jupyter_insecure_http" in asked.dangers


def test_a_project_cannot_say_where_tokens_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "cellwright").mkdir(parents=True)
    own = '[jupyter_servers.lab]\nurl = "https://lab.example"\ntoken_file = "lab.token"\n'
    (tmp_path / "config" / "cellwright" / "cellwright.toml").write_text(own)
    project = tmp_path / "project"
    project.mkdir()
    (project / "cellwright.toml").write_text('jupyter_url = "https://evil.example"\n')
    settings = load_settings(project)
    assert settings.jupyter_url is None
    assert settings.jupyter_servers["lab"].token_file == tmp_path / "config" / "cellwright" / "lab.token"


def test_tokens_are_in_no_text_that_is_made_of_them() -> None:
    settings = Settings(jupyter_url="https://lab.example", jupyter_token=SECRET)  # type: ignore[arg-type]
    server = jupyter_server(settings)
    assert server.token == SECRET
    for text in (repr(settings), str(settings), repr(server), repr(Api("lab", server.url, server.token))):
        assert SECRET not in text


def test_a_kernel_of_others_is_named_behind_its_server() -> None:
    assert server_and_kernel("lab/1-2") == ("lab", "1-2")
    assert server_and_kernel("/1-2") == (None, "1-2")
    assert server_and_kernel("lab") == ("lab", None)
    assert server_and_kernel(None) == (None, None)


def test_a_hub_is_known_by_its_addresses() -> None:
    assert hub_path("https://h.example/hub/home") == HubPath("https://h.example")
    assert hub_path("https://h.example/base/user/a%40b/") == HubPath("https://h.example/base", "a@b")
    assert hub_path("https://h.example/user/ada/gpu/lab") == HubPath("https://h.example", "ada", "gpu")
    assert hub_path("https://lab.example/base") is None


@pytest.mark.anyio
async def test_a_redirect_is_not_followed_and_says_so() -> None:
    said: list[bytes] = []

    async def send_elsewhere(stream: anyio.abc.ByteStream) -> None:
        said.append(await stream.receive())
        await stream.send(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")

    async with _serving(send_elsewhere) as port:
        api = Api("lab", f"http://127.0.0.1:{port}", SECRET)
        with pytest.raises(ServerRefused, match="sends elsewhere") as refused:
            await api.ask("GET", "api")
        await api.close()
    assert len(said) == 1
    assert SECRET not in said[0].decode().splitlines()[0]
    assert SECRET not in str(refused.value)


@pytest.mark.anyio
async def test_a_certificate_that_nobody_vouches_for_is_refused_before_the_token_is_sent(
    tmp_path: Path,
) -> None:
    said: list[bytes] = []

    async def hear(stream: anyio.abc.ByteStream) -> None:
        said.append(await stream.receive())

    async with _serving(hear, tls=_own_certificate(tmp_path)) as port:
        api = Api("lab", f"https://localhost:{port}", SECRET)
        with pytest.raises(ServerRefused, match="certificate is not trusted"):
            await api.ask("GET", "api")
        await api.close()
    assert said == []


@asynccontextmanager
async def _serving(handle: object, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def handled(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await handle(stream)  # type: ignore[operator]  # what the tests above hand in

    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port: int = plain.extra(anyio.abc.SocketAttribute.local_port)
    listener = plain if tls is None else TLSListener(plain, tls, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handled)
        yield port
        tasks.cancel_scope.cancel()


def _own_certificate(directory: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = directory / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context

"""A network of its own in which every address leads to one server; each case is tried there with a guard and without.

Run as a program in new user, network and mount namespaces: cases on standard input, what came of them on standard
output. Nothing of it can be reached from outside, and nothing outside from it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import ipaddress
import json
import re
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import anyio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cellwright import Settings
from cellwright.errors import CellwrightError
from cellwright.sandbox.network_rules import Address, parse_address
from cellwright.sandbox.relay import system_resolver
from cellwright.tools.web.fetch import Fetcher

CANARY = "the canary sings"
LIMIT = 1_000_000
PUBLIC = "93.184.216.34"
INSIDE = "10.9.9.9"
DRIPS = 30
MORE_REDIRECTS = 40
_ZSTD_HEAD = bytes.fromhex("28b52ffd0058")
_ZSTD_BLOCK = 128 * 1024


# The server ----------------------------------------------------------------------------------------------------------


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def __init__(self, family: socket.AddressFamily, port: int) -> None:
        self.address_family = family
        super().__init__(
            # Every address of a network that nobody else is in.
            ("::" if family == socket.AF_INET6 else "", port),
            Handler,
            bind_and_activate=False,
        )
        if family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.server_bind()
        self.server_activate()

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        return (
            self.context.wrap_socket(connection, server_side=True) if self.context else connection
        ), address

    def handle_error(self, *_: object) -> None:
        """A client that leaves is no error here."""


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (piece := self.request.recv(65_536)):
            head += piece
        target = head.split(b" ")[1].decode("latin-1") if b" " in head else "/"
        with contextlib.suppress(OSError):
            self._answer(target, head)

    def _answer(self, target: str, head: bytes) -> None:
        path, _, query = target.partition("?")
        if path == "/redirect":
            self._send(
                b"HTTP/1.1 302 Found\r\nLocation: "
                + unquote(query).encode()
                + b"\r\nContent-Length: 0\r\n\r\n"
            )
        elif path == "/loop":
            self._send(
                b"HTTP/1.1 302 Found\r\nLocation: /loop?%d\r\nContent-Length: 0\r\n\r\n" % (int(query) + 1)
            )
        elif path.startswith("/bomb/"):
            coding, body = bomb(path.removeprefix("/bomb/"))
            self._send(
                f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
        elif path in ENDLESS:
            for piece in ENDLESS[path]():
                self._send(piece)
        else:
            where = self.connection.getsockname()[0]
            injected = " injected" if b"njected" in head else ""
            body = f"{CANARY} at {where}{injected}".encode()
            self._send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body)
                + body
            )

    def _send(self, data: bytes) -> None:
        self.request.sendall(data)


def bomb(kind: str) -> tuple[str, bytes]:
    zeros = bytes(4 * LIMIT)
    match kind:
        case "gzip":
            return "gzip", gzip.compress(zeros)
        case "deflate":
            return "deflate", zlib.compress(zeros)
        case "members":
            return "gzip", gzip.compress(bytes(LIMIT // 8)) * 32
        case "empty-members":
            return "gzip", gzip.compress(b"x") * (2 * LIMIT // 1_000)
        case "nested":
            return "gzip, gzip", gzip.compress(gzip.compress(zeros))
    # Of zstd: blocks of three bytes that tell how often the fourth is repeated.
    block = (1 << 1 | _ZSTD_BLOCK << 3).to_bytes(3, "little") + b"x"
    return "zstd", _ZSTD_HEAD + block * 32 + (1).to_bytes(3, "little")


def _endless(head: bytes, piece: bytes) -> Iterator[bytes]:
    yield head
    # Far more than anybody may take, and no longer than the test may take.
    for _ in range(4 * LIMIT // len(piece)):
        yield piece


def _dripping(head: bytes, rest: bytes) -> Iterator[bytes]:
    yield head
    pause = threading.Event()
    for at in range(DRIPS):
        pause.wait(0.1)
        yield rest[at : at + 1]
    yield rest[DRIPS:]


_OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "/endless": lambda: _endless(_OK + b"\r\n", b"x" * 50_000),
    "/endless/chunks": lambda: _endless(_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"c350\r\n" + b"x" * 50_000 + b"\r\n"),
    "/endless/head": lambda: _endless(_OK + b"X-Long: ", b"x" * 50_000),
    "/endless/interim": lambda: _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    "/announced": lambda: _endless(_OK + b"Content-Length: 10000000000\r\n\r\n", b"x" * 50_000),
    "/headers": lambda: iter([_OK + b"X-More: 1\r\n" * 2_000 + b"Content-Length: 2\r\n\r\nok"]),
    "/lengths": lambda: iter([_OK + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\nok" + b"x" * 40]),
    "/slow/head": lambda: _dripping(_OK, b"X-Slow: " + b"x" * DRIPS + b"\r\nContent-Length: 2\r\n\r\nok"),
    "/slow/body": lambda: _dripping(_OK + b"Content-Length: 40\r\n\r\n", b"x" * 40),
}  # fmt: skip


# Clients without a guard ----------------------------------------------------------------------------------------------


def get(url: str, *, host: str | None = None, secure: bool = False) -> bytes:
    """As many a script does it: split the URL, look the host up, ask."""
    parts = urlsplit(url)
    address = host or parts.hostname or ""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    secure = secure or parts.scheme == "https"
    return ask(address, parts.port or (443 if secure else 80), target, secure=secure)


def ask(host: str, port: int, target: str, *, secure: bool = False, limit: int = 3 * LIMIT) -> bytes:
    with socket.create_connection((host, port), 120) as raw:
        connection = raw
        if secure:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = context.wrap_socket(raw, server_hostname=host)
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1", "replace"))
        said = b""
        while len(said) < limit and (piece := connection.recv(65_536)):
            said += piece
        return said


def raw(url: str) -> bytes:
    authority, _, target = url.removeprefix("http://").partition("/")
    return ask(authority, 80, "/" + target)


def as_browsers_do(url: str) -> bytes:
    return get(url.replace("\\", "/"))


def open_anything(url: str) -> bytes:
    with urllib.request.urlopen(url) as found:  # noqa: S310  # that is what it shows
        return CANARY.encode() + found.read(LIMIT)


def follow(url: str, most: int = 10) -> bytes:
    for _ in range(most):
        if not url.startswith("http"):
            return open_anything(url)
        said = get(url)
        location = re.search(rb"Location: (.*)\r\n", said)
        if location is None:
            return said
        url = urljoin(url, location[1].decode().replace("\\", "/"))
    return f"went on {most} times".encode()


def follow_on(url: str) -> bytes:
    return follow(url, MORE_REDIRECTS)


def take(url: str) -> bytes:
    return f"took {len(get(url))} bytes".encode()


def decode(url: str) -> bytes:
    head, _, body = get(url).partition(b"\r\n\r\n")
    decoders = {b"gzip": gzip.decompress, b"deflate": zlib.decompress, b"zstd": _repeated}
    for coding in reversed(re.findall(rb"gzip|deflate|zstd", head)):
        body = decoders[coding](body)
    return f"decoded {len(body)} bytes".encode()


def _repeated(body: bytes) -> bytes:
    """As much of zstd as the bomb is made of."""
    made, at = bytearray(), len(_ZSTD_HEAD)
    while not (head := int.from_bytes(body[at : at + 3], "little")) & 1:
        made += body[at + 3 : at + 4] * (head >> 3)
        at += 4
    return bytes(made)


def check_then_get(url: str) -> bytes:
    """Checks where the name leads, and then asks by the name, which leads elsewhere by now."""
    answers = iter([PUBLIC, INSIDE])
    checked = parse_address(next(answers))
    assert checked is not None
    assert checked.is_global
    return get(url, host=next(answers))


def unverified(url: str) -> bytes:
    return get(url, secure=True)


PLAIN: dict[str, Callable[[str], bytes]] = {
    one.__name__: one
    for one in (
        get, raw, as_browsers_do, open_anything, follow, follow_on, take, decode, check_then_get, unverified,
    )
}  # fmt: skip


# Ours -----------------------------------------------------------------------------------------------------------------


class Rebinding:
    """A name server that answers with a public address first, and with one inside ever after."""

    def __init__(self) -> None:
        self._asked = 0

    async def __call__(self, host: str, port: int) -> list[Address]:
        if host != "rebinding.example":
            return await system_resolver(host, port)
        self._asked += 1
        return [ipaddress.ip_address(PUBLIC if self._asked == 1 else INSIDE)]


def guarded(case: dict[str, Any], directory: Path, tls: ssl.SSLContext) -> dict[str, Any]:
    values = {"storage": directory, "network": "open", "fetch_interval_s": 0, "fetch_timeout_s": 120}
    values |= {"max_download_bytes": LIMIT, "network_idle_s": 120, **case["settings"]}
    fetcher = Fetcher(Settings.model_validate(values), resolve=Rebinding(), tls=lambda: tls)

    async def fetch() -> str:
        return (await fetcher.fetch(case["url"], type="text")).text

    try:
        return {"said": anyio.run(fetch)}
    except CellwrightError as error:
        entries = fetcher.log.read().entries
        verdict = entries[-1].verdict if entries else None
        return {"refused": str(error), "code": error.code, "hint": error.hint, "verdict": verdict}


# The world ------------------------------------------------------------------------------------------------------------


def make_world(hosts: dict[str, str], directory: Path) -> ssl.SSLContext:
    for command in ("link set lo up", "route add local default dev lo", "-6 route add local default dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    names = directory / "hosts"
    names.write_text(
        "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts.items())
    )
    subprocess.run(["mount", "--bind", str(names), "/etc/hosts"], check=True)
    servers = [Server(family, port) for family in (socket.AF_INET, socket.AF_INET6) for port in (80, 8080)]
    secure = Server(socket.AF_INET, 443)
    secure.context, trusted = certified(directory)
    for server in (*servers, secure):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return trusted


def certified(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context with a certificate for each name, and the context of whoever trusts our CA."""
    ca_key, ca = certificate("ca", None, None)
    contexts = {}
    for host, name, issuer in (
        ("secure.example", "secure.example", (ca_key, ca)),
        ("othername.example", "secure.example", (ca_key, ca)),
        ("expired.example", "expired.example", (ca_key, ca)),
        ("selfsigned.example", "selfsigned.example", (None, None)),
    ):
        key, made = certificate(name, *issuer, expired=host.startswith("expired"))
        path = directory / f"{host}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
        contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[host].load_cert_chain(path)
    server = contexts["secure.example"]

    def choose(connection: ssl.SSLObject, host: str | None, _: ssl.SSLContext) -> None:
        connection.context = contexts.get(host or "", server)

    server.sni_callback = choose
    trusted = ssl.create_default_context(cadata=ca.public_bytes(serialization.Encoding.PEM).decode())
    return server, trusted


def certificate(
    name: str, issuer_key: Any, issuer: Any, *, expired: bool = False
) -> tuple[Any, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    begins = now - dt.timedelta(days=30)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(now - dt.timedelta(days=1) if expired else now + dt.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer_key or key).public_key()),
            critical=False,
        )
    )
    return key, builder.sign(issuer_key or key, hashes.SHA256())


def main() -> None:
    order = json.load(sys.stdin)
    results = {}
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        tls = make_world(order["hosts"], directory)
        for number, case in enumerate(order["cases"]):
            try:
                plain = PLAIN[case["plain"]](case["url"]).decode("latin-1")[-500:]
            except Exception as error:  # noqa: BLE001  # told to whoever reads the results
                plain = f"did not fall for it: {error!r}"
            results[case["name"]] = {"plain": plain, **guarded(case, directory / str(number), tls)}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

"""TCP with TLS to a job's host, where a site forbids ``srun`` into a running job.

Both sides have a key of their own, made for one allocation and kept in its directory, which is private to the user. Each
accepts the other's certificate and no other. Nothing of it is in an argument, an environment or a job's record.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
import ssl
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener, TLSStream

from cellwright.errors import HostStartError, HostUnreachable
from cellwright.slurm._directories import HostAddress

__all__ = ["connect", "listen", "make_credentials", "own_addresses"]

_VALID = timedelta(days=400)
_CONNECT_S = 15.0
_SIOCGIFADDR = 0x8915
_SIDES = ("host", "engine")


def make_credentials(directory: Path) -> None:
    """Make both sides' keys and certificates, in a new directory that nobody else may enter.

    Raises:
        HostStartError: the library for it is not installed.
    """
    try:
        from cryptography import x509  # an extra
        from cryptography.hazmat.primitives import hashes, serialization  # an extra
        from cryptography.hazmat.primitives.asymmetric import ec  # an extra
    except ImportError as error:
        raise HostStartError(
            f"slurm_connection = 'tls' needs {error.name}, which is not installed",
            hint="pip install 'cellwright[slurm]'",
        ) from error
    directory.mkdir(mode=0o700)
    now = datetime.now(UTC)
    for side in _SIDES:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"cellwright {side}")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + _VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        plain = serialization.NoEncryption()
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        _write(directory / f"{side}.key", key.private_bytes(*form))
        _write(directory / f"{side}.pem", certificate.public_bytes(serialization.Encoding.PEM))


async def listen(credentials: Path) -> tuple[anyio.abc.Listener[TLSStream], int]:
    """A listener for the engine that has its key, and for nobody else; and its port."""
    listener = await anyio.create_tcp_listener(family=socket.AF_INET)
    port: int = listener.extra(anyio.abc.SocketAttribute.local_port)
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials, own="host", other="engine")
    return TLSListener(listener, context, standard_compatible=False, handshake_timeout=_CONNECT_S), port


async def connect(about: HostAddress, credentials: Path) -> TLSStream:
    """A connection to the host, at whichever of its addresses answers with its certificate.

    Raises:
        HostUnreachable: none does.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, credentials, own="engine", other="host")
    failures = []
    port = about.port or 0
    for address in about.addresses if port else ():
        try:
            with anyio.fail_after(_CONNECT_S):
                return await _secured(await anyio.connect_tcp(address, port), context)
        except (OSError, TimeoutError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            failures.append(f"{address}: {error!r}")
    raise HostUnreachable(
        f"No address of {about.node} answers by TLS at port {about.port}: {'; '.join(failures) or 'it told none'}",
        hint="Its kernels go on; if the network between login and compute nodes is closed, set slurm_connection to srun",
    )


async def _secured(plain: anyio.abc.ByteStream, context: ssl.SSLContext) -> TLSStream:
    try:
        return await TLSStream.wrap(plain, server_side=False, ssl_context=context, standard_compatible=False)
    except BaseException:
        await anyio.aclose_forcefully(plain)
        raise


def own_addresses() -> tuple[str, ...]:
    """Where others may reach this machine, best first: its name, then its networks."""
    found = [socket.getfqdn()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                address = ipaddress.ip_address(told[20:24])
                if not address.is_loopback:
                    found.append(str(address))
    return tuple(found)


def _context(purpose: int, credentials: Path, *, own: str, other: str) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The certificate itself is known; the name of the machine that shows it says nothing.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(credentials / f"{own}.pem", credentials / f"{own}.key")
    context.load_verify_locations(credentials / f"{other}.pem")
    return context


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)

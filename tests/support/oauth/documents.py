"""A host of documents about clients, over TLS, with a certificate that whoever reads its file trusts."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.tools.webserver import Reply, WebServer, serving


@dataclass
class DocumentHost:
    """Where programs have documents about themselves."""

    web: WebServer
    certificate: Path

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.web.port}"

    def put(self, path: str, **about: Any) -> str:
        """A document, right unless ``about`` says otherwise; its address."""
        address = f"https://{self.name}{path}"
        right = {
            "client_id": address,
            "client_name": "Described",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none",
        }
        body = json.dumps({**right, **about})
        self.web.routes[path] = Reply(body, headers={"Content-Type": "application/json"})
        return address


@contextmanager
def document_host(directory: Path) -> Iterator[DocumentHost]:
    both = directory / "both.pem"
    both.write_bytes(_certificate())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    with serving() as web:
        web.socket = context.wrap_socket(web.socket, server_side=True)
        yield DocumentHost(web, both)


def _certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "documents")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem)

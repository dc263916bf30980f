"""The certificate in a notebook's metadata, ``cellwright.certificate``: what was run, when, and what came of it. Pure.

It holds for the sources it names, in their order, and for nothing else: any edit of the code makes it stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from cellwright.notebook import Document, source_hash

__all__ = [
    "Certificate",
    "CertificateState",
    "CertifiedCell",
    "CertifiedFinding",
    "certificate_of",
    "certificate_state",
    "with_certificate",
]

CertificateState: TypeAlias = Literal["valid", "stale", "failed", "none"]


class CertifiedCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One code cell, and whether it put out again what it shows."""

    cell_id: str
    source_sha256: str
    state: str
    """As its execution ended; ``not_run`` where it was not its turn."""
    same: bool = False
    differences: tuple[str, ...] = ()
    """In a few words each."""


class CertifiedFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something doubtful (see ``findings``)."""

    kind: str
    cell_id: str
    message: str
    names: tuple[str, ...] = ()


class Certificate(msgspec.Struct, frozen=True):
    """What one verification found."""

    verified: bool
    at: str
    """When it ended, in ISO 8601."""
    seconds: float
    engine: str
    """The version of Cellwright."""
    cells: tuple[CertifiedCell, ...]
    reason: str | None = None
    """Why it did not come to its end."""
    language: str = "python"
    interpreter: str = ""
    python: str = ""
    platform: str = ""
    packages: dict[str, str] = {}
    """Distributions that the code imported, each with its version."""
    inputs: dict[str, str] = {}
    """Files that the code read, each with its SHA-256."""
    rules: dict[str, Any] = {}
    findings: tuple[CertifiedFinding, ...] = ()
    tier: str | None = None
    """How the run was confined."""
    version: int = 1


def certificate_of(document: Document) -> Certificate | None:
    """The certificate that a notebook carries; none where there is none, or none that this version reads."""
    ours = document.metadata.get("cellwright")
    found = ours.get("certificate") if isinstance(ours, Mapping) else None
    try:
        return msgspec.convert(found, Certificate) if found is not None else None
    except msgspec.ValidationError:
        return None


def certificate_state(document: Document) -> CertificateState:
    """Whether a notebook's certificate still holds."""
    certificate = certificate_of(document)
    if certificate is None:
        return "none"
    now = [(cell.id, source_hash(cell.source)) for cell in document.cells if cell.runs]
    then = [(cell.cell_id, cell.source_sha256) for cell in certificate.cells]
    if now != then:
        return "stale"
    return "valid" if certificate.verified else "failed"


def with_certificate(metadata: Mapping[str, Any], certificate: Certificate) -> dict[str, Any]:
    """The same metadata with this certificate."""
    ours = metadata.get("cellwright")
    kept = dict(ours) if isinstance(ours, Mapping) else {}
    return {**metadata, "cellwright": {**kept, "certificate": msgspec.to_builtins(certificate)}}

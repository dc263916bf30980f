"""Verification: whether a notebook, run from the top in a clean kernel, puts out what it shows.

Above are the faces; below is the engine. It knows nothing of plans: any notebook can be verified.
"""

from cellwright.verification._certificates import (
    Certificate,
    CertificateState,
    certificate_of,
    certificate_state,
)
from cellwright.verification._findings import Finding, find_problems
from cellwright.verification._rehearsal import CheckedCell, MaskPattern, Volatile, parse_mask
from cellwright.verification._verifier import Verification, Verifier, verify

__all__ = [
    "Certificate",
    "CertificateState",
    "CheckedCell",
    "Finding",
    "MaskPattern",
    "Verification",
    "Verifier",
    "Volatile",
    "certificate_of",
    "certificate_state",
    "find_problems",
    "parse_mask",
    "verify",
]

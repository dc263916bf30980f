"""Classes of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cellwright.plans.failures import Failure

__all__ = ["Verdict", "classify"]


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    kind: Literal["recoverable", "unrecoverable", "network"]
    suggestion: str


def classify(failure: Failure) -> Verdict:
    stop = failure.error_type in {"PermissionError", "SystemExit", "MemoryError"} or "STOP" in failure.message
    if failure.error_type == "ConnectionError":
        return Verdict("network", "network", "Look at the network")
    kind: Literal["recoverable", "unrecoverable"] = "unrecoverable" if stop else "recoverable"
    return Verdict(failure.error_type, kind, "Give other code for the step")

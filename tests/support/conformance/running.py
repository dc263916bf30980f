"""Runs the conformance suite against a served address, and reads its verdict."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.support.clients.installing import Installed
from tests.waiting import scaled

SUITE_LIMIT_S = scaled(120)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a server did; every scenario by name is in the report."""

    exit_code: int
    report: str

    @property
    def summary(self) -> str:
        """One line a scenario, and the totals."""
        return self.report.partition("=== SUMMARY ===")[2].strip()


async def run_suite(suite: Installed, url: str, requirements: str, results: Path) -> Verdict:
    """Run every scenario that one revision of the protocol requires.

    Raises:
        TimeoutError: the suite did not end in time.
    """
    options = ["--url", url, "--requirements", requirements, "--output-dir", str(results)]
    with anyio.fail_after(SUITE_LIMIT_S):
        done = await anyio.run_process(
            [str(suite.command), "server", *options],
            env={"PATH": suite.path, "HOME": os.fspath(results), "NO_COLOR": "1"},
            stderr=subprocess.STDOUT,
            check=False,
        )
    return Verdict(done.returncode, done.stdout.decode(errors="replace"))

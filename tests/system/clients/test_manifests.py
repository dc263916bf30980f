"""What the clients' own validators say of our plugin, marketplace, extension and bundle."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.matrix import first_of
from tests.support.clients.installing import CLAUDE_CODE, GEMINI, INSTALL_LIMIT_S, MCPB, ROOT, Program, obtain
from tests.waiting import LIMIT_S

Require = Callable[[str, bool, str], None]
CHECKS: list[tuple[Program, list[list[str]]]] = [
    (CLAUDE_CODE, [["plugin", "validate", "--strict", name] for name in (".", "plugin")]),
    (GEMINI, [["extensions", "validate", "plugin"]]),
    (MCPB, [["validate", "packaging/mcpb/manifest.json"]]),
]


@pytest.mark.timeout(INSTALL_LIMIT_S + 2 * LIMIT_S)
# The first is installed for the real clients anyway.
@pytest.mark.parametrize(("program", "commands"), first_of(CHECKS, 1))
def test_manifests_pass_their_clients_validator(
    program: Program, commands: list[list[str]], tmp_path: Path, require: Require
) -> None:
    installed = obtain(program, require)
    for command in commands:
        done = subprocess.run(
            [installed.command, *command],
            cwd=ROOT,
            env={"PATH": installed.path, "HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

"""Each way to start the container lifts the same parts of the engine's profile: without one of them sessions are in tier C."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.errors import NotLinux

ROOT = Path(__file__).parents[3]
LIFTED = ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined")
WAYS = {
    name: (ROOT / name).read_text()
    for name in (
        "compose.yaml",
        ".devcontainer/devcontainer.json",
        "docs/guides/containers.md",
        "packaging/mcpb/manifest.json",
    )
} | {command: str(NotLinux(command)) for command in ("list", "mcp", "ui", "install codex")}


@pytest.mark.parametrize("way", WAYS)
def test_a_container_is_started_with_the_options_that_give_tier_b(way: str) -> None:
    assert [option for option in LIFTED if option not in WAYS[way]] == []

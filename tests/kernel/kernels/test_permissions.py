"""Deno's own permissions follow the policy. For how a real Deno takes the flags see ``test_deno_flags``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cellwright.errors import KernelStartError
from cellwright.kernels.deno import DenoAccess, deno_flags, find_deno, heap_megabytes
from cellwright.sandbox.policy import Policy

ACCESS = DenoAccess(read=["/project"], write=["/project/cwd", "/tmp"])
HERE = "127.0.0.1:9229"


def test_without_a_policy_deno_confines_nothing() -> None:
    flags = deno_flags(None, replace(ACCESS, inspector="127.0.0.1:0"))
    assert "--allow-all" in flags
    assert "--inspect=127.0.0.1:0" in flags
    assert not any(flag.startswith(("--allow-read", "--allow-net", "--v8-flags")) for flag in flags)


@pytest.mark.parametrize(
    ("policy", "access", "expected", "missing"),
    [
        (Policy(), ACCESS, ["--allow-read=/project,/project/cwd,/tmp"], []),
        (Policy(), ACCESS, ["--allow-write=/project/cwd,/tmp"], []),
        (
            Policy(),
            ACCESS,
            ["--no-remote", "--cached-only", "--no-prompt"],
            ["--allow-net=", "--allow-import"],
        ),
        (Policy(), ACCESS, ["--allow-env", "--allow-sys"], ["--allow-run", "--allow-ffi", "--allow-all"]),
        (
            Policy(),
            replace(ACCESS, inspector=HERE),
            [f"--inspect={HERE}", f"--allow-net={HERE}", "--inspect-publish-uid=stderr"],
            ["--allow-import"],
        ),
        (
            Policy(),
            replace(ACCESS, network=True, inspector=HERE),
            ["--allow-net", "--allow-import"],
            ["--no-remote", "--cached-only", f"--allow-net={HERE}"],
        ),
        (Policy(memory_bytes=512 << 20), ACCESS, ["--v8-flags=--max-old-space-size=416"], []),
        (Policy(memory_bytes=64 << 20), ACCESS, ["--v8-flags=--max-old-space-size=32"], []),
        (Policy(), DenoAccess(write=["/a/b,c/d"]), ["--allow-write=/a"], []),
    ],
)
def test_the_flags_follow_the_policy(
    policy: Policy, access: DenoAccess, expected: list[str], missing: list[str]
) -> None:
    flags = deno_flags(policy, access)
    assert set(expected) <= set(flags)
    assert not any(flag == absent or flag.startswith(f"{absent}=") for flag in flags for absent in missing)


def test_memory_without_a_limit_leaves_the_heap_to_v8() -> None:
    assert heap_megabytes(Policy(memory_bytes=None)) is None
    assert not any(flag.startswith("--v8-flags") for flag in deno_flags(Policy(memory_bytes=None), ACCESS))


def test_a_deno_that_is_missing_or_old_is_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deno", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelStartError, match="not installed") as told:
        find_deno()
    assert "pip install 'cellwright[typescript]'" in (told.value.hint or "")
    old = tmp_path / "deno"
    old.write_text("#!/bin/sh\necho deno 1.46.3 and more\n")
    old.chmod(0o755)
    with pytest.raises(KernelStartError, match=r"1\.46\.3.* or newer is needed"):
        find_deno()

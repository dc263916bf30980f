"""``cellwright audit`` on logs that somebody damaged."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cellwright.audit import AuditLog
from cellwright.cli._commands import program_of

DAMAGED = [b"", b"5", b"{", b'{"time": "now"}', b"\xff\xfe", b'{"seq": 1, "time": 2, "kind": "run"}']


def test_what_is_left_of_a_damaged_log_is_shown_and_verifying_says_that_it_is_damaged(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.note("run", session="s-1")
    log.close()
    path = tmp_path / "audit" / "audit.jsonl"
    path.write_bytes(b"\n".join(DAMAGED) + b"\n" + path.read_bytes())
    environment = {"CELLWRIGHT_STORAGE": str(tmp_path)}
    shown = CliRunner().invoke(program_of("audit show"), ["--json"], env=environment)
    assert [line["session"] for line in json.loads(shown.stdout)["lines"]] == ["s-1"]
    verified = CliRunner().invoke(program_of("audit verify"), [], env=environment)
    assert (verified.exit_code, verified.stdout.startswith("broken: line 1 ")) == (1, True)

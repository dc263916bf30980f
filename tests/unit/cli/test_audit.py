"""``cellwright audit`` on logs that somebody damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.audit import AuditLog
from cellwright.cli._commands import run_command

DAMAGED = [b"", b"5", b"{", b'{"time": "now"}', b"\xff\xfe", b'{"seq": 1, "time": 2, "kind": "run"}']


def test_what_is_left_of_a_damaged_log_is_shown_and_verifying_says_that_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = AuditLog(tmp_path)
    log.note("run", session="s-1")
    log.close()
    path = tmp_path / "audit" / "audit.jsonl"
    path.write_bytes(b"\n".join(DAMAGED) + b"\n" + path.read_bytes())
    monkeypatch.setenv("CELLWRIGHT_STORAGE", str(tmp_path))
    with pytest.raises(SystemExit) as shown:
        run_command("audit show", ["--json"])
    assert shown.value.code == 0
    assert [line["session"] for line in json.loads(capsys.readouterr().out)["lines"]] == ["s-1"]
    with pytest.raises(SystemExit) as verified:
        run_command("audit verify", [])
    assert verified.value.code == 1
    assert capsys.readouterr().out.startswith("broken: line 1 ")

"""What the reference by hand names is what the code has, and the pages that the code writes are whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from cellwright.audit import AuditKind
from cellwright.charts.auto import RULES
from cellwright.cli._catalogue import COMMANDS
from cellwright.engine.event_kinds import EventKind
from cellwright.plans.error_classes import ERROR_CLASSES
from cellwright.plans.fixers import every_fixer
from cellwright.settings import Settings
from scripts.reference_pages import reference_pages

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return {place.rpartition("/")[2]: text for place, text in reference_pages().items()}


def _headings(text: str, level: str) -> list[str]:
    return re.findall(rf"^{level} `([^`]+)`$", text, re.MULTILINE)


def test_every_tool_is_made_those_of_dialects_too(made: dict[str, str]) -> None:
    assert {"notebook_create", "cell_add_and_run", "ask"} <= set(_headings(made["tools.md"], "###"))
    assert "| `session_id` (required) | `string` |" in made["tools.md"]
    assert "| `argv` (not listed) | `string[]` |" in made["tools.md"], "taken, and not shown to clients"
    assert "| `TodoArgument.description` (required) | `string` |" in made["tools.md"]
    record = json.loads((ROOT / "src/cellwright/daemon/greetings.json").read_text())
    offered = {name for dialect in record["tools"].values() for name in dialect["definitions"]}
    names = {name.removeprefix("core:") for name in offered}
    assert not [tool for tool in names if f"`{tool}`" not in made["tools.md"]]
    assert len(re.findall(r"^\| `move_cell` \|", made["tools.md"], re.MULTILINE)) == 1, (
        "in two sets, told once"
    )


def test_every_command_is_made(made: dict[str, str]) -> None:
    assert {f"cellwright {name}" for name in COMMANDS} == set(_headings(made["commands.md"], "###"))
    assert "| `--timeout" in made["commands.md"]


def test_every_rule_for_charts_is_made_in_its_order(made: dict[str, str]) -> None:
    rows = re.findall(r"^\| \d+ \| (.+?) \| `(\w+)` \|", made["chart-rules.md"], re.MULTILINE)
    assert rows == [(rule.when, rule.type) for rule in RULES]


def test_every_setting_is_made_with_its_meaning(made: dict[str, str]) -> None:
    rows = {row[1]: row[0] for row in re.finditer(r"^\| `(\w+)` \|.*$", made["settings.md"], re.MULTILINE)}
    assert set(rows) == set(Settings.model_fields)
    assert not [name for name, row in rows.items() if row.endswith("|  |")]
    assert "| `30.0` |" in rows["cell_timeout_s"] or "| `30` |" in rows["cell_timeout_s"]
    assert "Not in a project's file." in rows["read_paths"]
    assert "Not in a project's file." not in rows["max_cells"]
    assert "pandas" in rows["approved_packages"]


def test_calls_of_the_library_are_made_with_their_signatures(made: dict[str, str]) -> None:
    text = made["library.md"]
    assert {"Session.run", "Session.roll_back", "Engine.branch", "Files.read"} <= set(_headings(text, "####"))
    assert "| `return_code` | `int` | Negative where a signal ended it. |" in text
    assert "await run(" in text
    assert "- `UnknownCheckpoint`: " in text


def test_every_class_of_errors_and_message_of_a_host_is_made(made: dict[str, str]) -> None:
    classes = re.findall(r"^\| `(\w+)` \|", made["error-classes.md"], re.MULTILINE)
    assert classes == [row.name for row in ERROR_CLASSES]
    messages = made["host-messages.md"]
    assert {"attach", "execute", "roll_back", "finished"} <= set(
        re.findall(r"^## `\w+`: `(\w+)`$", messages, re.MULTILINE)
    )
    assert "| `allow_error` | `bool` |" in messages


def test_every_kind_of_event_is_made_with_when_it_is_sent(made: dict[str, str]) -> None:
    named = re.findall(r"^\| `(notebook\.[\w.]+)` \| [^|]+\S \|", made["events.md"], re.MULTILINE)
    assert set(named) == set(get_args(EventKind))


def test_every_kind_of_line_in_the_audit_log_is_made_with_what_it_is_for(made: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| \S.+ \|$", made["audit-log.md"], re.MULTILINE)
    assert set(rows) == set(get_args(AuditKind))


def test_every_fixer_is_made_with_what_it_knows(made: dict[str, str]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| \S.+ \|$", made["fixers.md"], re.MULTILINE)
    assert rows == [fixer.__name__ for fixer in every_fixer()]

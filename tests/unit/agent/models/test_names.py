"""How people name models, and what they say of them in their settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.agent.models.connect import defaults, find_row, rows_with
from cellwright.agent.models.providers import every_provider
from cellwright.agent.models.table import ROWS, Price
from cellwright.errors import NoModel
from cellwright.settings import Settings, load_settings


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("openai", "openai:gpt-6.1-terra"),
        ("Anthropic", "anthropic:claude-sonnet-5-5"),
        ("gemini", "google:gemini-3.8-flash"),
        ("grok", "xai:grok-4.7"),
        ("local", "local:smollm2-135m"),
        ("sampling", "sampling:client"),
        ("claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("openai:gpt-6-luna", "openai:gpt-6-luna"),
        ("grok-grpc", "grok-grpc:grok-4.7"),
        ("grok-grpc:grok-4.3", "grok-grpc:grok-4.3"),
        (" openai:gpt-9 ", "openai:gpt-9"),
        ("http://localhost:8000/v1#qwen3:8b", "compatible:qwen3:8b"),
    ],
)
def test_model_goes_by_many_names(name: str, full_name: str) -> None:
    assert find_row(name).full_name == full_name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("claude-sonet-5-5", "claude-sonnet-5-5"),
        ("gpt6.1-terra", "gpt-6.1-terra"),
        ("opnai", "openai"),
        ("something else", "Known are openai:gpt-6.1-terra"),
        ("local:llama", "local:smollm2-135m"),
        ("http://localhost:8000/v1", "as http://localhost:8000/v1#"),
        ("http://me:secret@localhost/v1#m", "CELLWRIGHT_MODEL_KEY"),
    ],
)
def test_unknown_name_is_answered_with_what_was_probably_meant(name: str, hint: str) -> None:
    with pytest.raises(NoModel) as caught:
        find_row(name)
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)


def test_little_is_assumed_of_a_model_that_is_not_in_the_table() -> None:
    row = find_row("openai:gpt-9")
    assert (row.output, row.pictures, row.thinking) == ("prompted", False, False)
    dearest = max(one.price.tokens_out for one in ROWS if one.provider == "openai")
    assert row.price.tokens_out == dearest


def test_every_row_has_a_provider_and_each_provider_one_default() -> None:
    assert {row.provider for row in ROWS} <= every_provider().keys()
    names = [row.full_name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.provider for row in defaults()] == [
        "openai",
        "anthropic",
        "google",
        "xai",
        "local",
        "sampling",
    ]


def test_long_prompt_is_paid_at_its_own_price() -> None:
    price = Price(1, 5, 0.5, 2, long_from=100, long=Price(10, 50, 5, 20))
    assert price.of(100, 10, cached=40, written=20) == pytest.approx((40 + 20 + 40 + 50) / 1_000_000)
    assert price.of(101, 10, cached=40, written=20) == pytest.approx((410 + 200 + 400 + 500) / 1_000_000)


def test_settings_add_rows_and_change_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "cellwright" / "cellwright.toml"
    file.parent.mkdir()
    file.write_text("""
models = ["lab"]
[model_rows."openai:gpt-7"]
context_tokens = 2_000_000
output = "native"
price_in = 3.0
price_out = 12.0
[model_rows."anthropic:claude-sonnet-5-5"]
price_out = 99
[model_rows."compatible:lab"]
url = "http://localhost:8000/v1"
tools = "none"
""")
    settings = load_settings(tmp_path)
    rows = rows_with(settings)
    added = find_row("gpt-7", rows)
    assert (added.context_tokens, added.output, added.price.tokens_in) == (2_000_000, "native", 3.0)
    changed = find_row("claude-sonnet-5-5", rows)
    assert changed.price.tokens_out == 99
    assert changed.thinking, "what is not said stays"
    served = find_row(settings.models[0], rows)
    assert (served.url, served.tools) == ("http://localhost:8000/v1", "none")
    assert defaults(rows)[0].full_name == "openai:gpt-6.1-terra"


def test_projects_settings_name_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's project would have questions, data and a key sent to its own server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / "cellwright.toml").write_text(
        'models = ["x"]\n[model_rows."openai:gpt-6.1-terra"]\nurl = "https://example.org"\n'
    )
    settings = load_settings(tmp_path)
    assert settings.models == ()
    assert settings.model_rows == {}


def test_row_of_a_server_needs_its_address() -> None:
    with pytest.raises(NoModel, match="url"):
        rows_with(Settings(model_rows={"compatible:lab": {"tools": "none"}}))

"""Anthropic, by its Messages API. Thinks as its models do by default; what stays the same of a prompt is cached.

Its newest models refuse a forced tool and a temperature: neither is sent unless a row says so.
"""

from __future__ import annotations

from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from cellwright.agent.models.provider_call import ModelSpeaker, http_client
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow

__all__ = ["connect"]


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for one of its models."""
    key = keys.of(row.provider)
    address = row.url or keys.address(row.provider)
    client = http_client(address, keys.timeout_s)
    provider = AnthropicProvider(base_url=address, api_key=key, http_client=client)
    settings = AnthropicModelSettings(
        max_retries=0,
        # Tools and instructions stay, and the history only grows: each turn reads what the one before it wrote.
        anthropic_cache_tool_definitions=True,
        anthropic_cache_instructions=True,
        anthropic_cache_messages=True,
    )
    if row.thinking:
        settings["anthropic_thinking"] = {"type": "adaptive"}
    model = AnthropicModel(row.name, provider=provider)
    return ModelSpeaker(row, model, settings, secrets=(key,), close=client.aclose)

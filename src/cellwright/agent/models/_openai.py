"""OpenAI, by its Responses API. Nothing is stored there: reasoning comes encrypted, and goes back with the history."""

from __future__ import annotations

from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from cellwright.agent.models.provider_call import ModelSpeaker, http_client
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow

__all__ = ["connect"]


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for one of its models."""
    key = keys.of(row.provider)
    address = row.url or keys.address(row.provider)
    client = http_client(address, keys.timeout_s)
    provider = OpenAIProvider(base_url=address, api_key=key, http_client=client)
    settings = OpenAIResponsesModelSettings(
        openai_store=False,
        # The chain counts tries; the library would do so behind its back.
        max_retries=0,
    )
    if row.thinking:
        settings["openai_reasoning_summary"] = "auto"
    model = OpenAIResponsesModel(row.name, provider=provider)
    return ModelSpeaker(row, model, settings, secrets=(key,), close=client.aclose)

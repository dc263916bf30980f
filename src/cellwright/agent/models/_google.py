"""Google, by the Gemini API. Thought signatures go back with the history, as its models require."""

from __future__ import annotations

from google.genai import Client
from google.genai.types import HttpOptions, HttpRetryOptions
from pydantic_ai.models.google import GoogleModel, GoogleModelSettings
from pydantic_ai.providers.google import GoogleProvider

from cellwright.agent.models.provider_call import ModelSpeaker, http_client, trust_for
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow

__all__ = ["connect"]

_MS = 1_000


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for one of its models."""
    key = keys.of(row.provider)
    address = row.url or keys.address(row.provider)
    client = http_client(address, keys.timeout_s)
    trust = {"verify": trust_for(address)}
    options = HttpOptions(
        base_url=address,
        httpx_async_client=client,
        client_args=trust,
        async_client_args=trust,
        timeout=int(keys.timeout_s * _MS),
        # The chain counts tries; the library would do so behind its back.
        retry_options=HttpRetryOptions(attempts=1),
    )
    provider = GoogleProvider(client=Client(vertexai=False, api_key=key, http_options=options))
    settings = GoogleModelSettings()
    if row.thinking:
        settings["google_thinking_config"] = {"include_thoughts": True}
    model = GoogleModel(row.name, provider=provider)
    return ModelSpeaker(row, model, settings, secrets=(key,), close=client.aclose)

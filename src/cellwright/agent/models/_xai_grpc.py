"""xAI, by its own protocol (gRPC). Needs the extra ``grok``; asked for as ``grok-grpc:grok-4.7``."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic_ai.models.xai import XaiModel, XaiModelSettings
from pydantic_ai.providers.xai import XaiProvider
from xai_sdk import AsyncClient  # type: ignore[import-untyped]  # it ships no types

from cellwright.agent.models.provider_call import ModelSpeaker
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow

__all__ = ["connect"]


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for one of its models. Call it where the event loop runs: its channel belongs to one."""
    key = keys.of(row.provider)
    address = urlsplit(row.url or keys.address(row.provider))
    client = AsyncClient(
        api_key=key,
        api_host=address.netloc,
        timeout=keys.timeout_s,
        # The key goes in the clear to this machine only.
        use_insecure_channel=address.scheme == "http"
        and address.hostname in ("localhost", "127.0.0.1", "::1"),
        # The chain counts tries; the channel would do so behind its back.
        channel_options=[("grpc.enable_retries", 0), ("grpc.service_config", "{}")],
    )
    settings = XaiModelSettings(xai_include_encrypted_content=True, xai_store_messages=False)
    model = XaiModel(row.name, provider=XaiProvider(xai_client=client))
    return ModelSpeaker(row, model, settings, secrets=(key,), close=client.close)

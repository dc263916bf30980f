"""xAI, by its REST interface, which speaks OpenAI's Responses format. For its own protocol see ``_xai_grpc``."""

from __future__ import annotations

from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.grok import grok_model_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from cellwright.agent.models.provider_call import ModelSpeaker, http_client
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow

__all__ = ["connect"]


class _XaiProvider(OpenAIProvider):
    """Goes by a name of its own: its encrypted reasoning must not be sent to OpenAI, nor OpenAI's to it."""

    @property
    def name(self) -> str:
        return "xai-rest"

    @staticmethod
    def model_profile(model_name: str) -> ModelProfile | None:
        return merge_profile(
            grok_model_profile(model_name),
            OpenAIModelProfile(
                json_schema_transformer=OpenAIJsonSchemaTransformer,
                openai_supports_encrypted_reasoning_content=True,
            ),
        )


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for one of its models."""
    key = keys.of(row.provider)
    address = row.url or keys.address(row.provider)
    client = http_client(address, keys.timeout_s)
    provider = _XaiProvider(base_url=address, api_key=key, http_client=client)
    settings = OpenAIResponsesModelSettings(openai_store=False, max_retries=0)
    model = OpenAIResponsesModel(row.name, provider=provider)
    return ModelSpeaker(row, model, settings, secrets=(key,), close=client.aclose)

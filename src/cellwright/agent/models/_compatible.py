"""Any server that speaks OpenAI's Chat Completions: one of your own, or a provider that this package has no adapter for."""

from __future__ import annotations

from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer, OpenAIModelProfile, openai_model_profile
from pydantic_ai.providers.openai import OpenAIProvider

from cellwright.agent.models.provider_call import ModelSpeaker, http_client
from cellwright.agent.models.providers import Keys
from cellwright.agent.models.table import ModelRow
from cellwright.errors import NoModel

__all__ = ["connect"]

# Servers without keys want to be sent one all the same.
_NO_KEY = "none"


class _ServerProvider(OpenAIProvider):
    """Goes by a name of its own: what OpenAI signed is not for it."""

    @property
    def name(self) -> str:
        return "compatible"

    @staticmethod
    def model_profile(model_name: str) -> ModelProfile | None:
        return merge_profile(
            openai_model_profile(model_name),
            OpenAIModelProfile(
                json_schema_transformer=OpenAIJsonSchemaTransformer,
                openai_supports_strict_tool_definition=False,
                # A stream that just ends may have been cut.
                openai_chat_streaming_requires_finish_reason=True,
            ),
        )


def connect(row: ModelRow, keys: Keys) -> ModelSpeaker:
    """A speaker for a model on a server."""
    if row.url is None:
        raise NoModel(f"No row says where {row.name!r} is served", hint="Add its url to its row")
    key = keys.of(row.provider) if keys.has(row.provider) else _NO_KEY
    client = http_client(row.url, keys.timeout_s)
    provider = _ServerProvider(base_url=row.url, api_key=key, http_client=client)
    settings = OpenAIChatModelSettings(max_retries=0)
    secrets = (key,) if key != _NO_KEY else ()
    model = OpenAIChatModel(row.name, provider=provider)
    return ModelSpeaker(row, model, settings, secrets=secrets, close=client.aclose)

"""Speaks to the model ``parrot:polly``, which is nowhere but here."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from cellwright.agent.models.requests import Delta, Heard, RequestParams
from cellwright.agent.models.table import ModelRow


class Parrot:
    """A connection to the model."""

    def __init__(self, row: ModelRow) -> None:
        self.row = row

    async def say(self, messages: Sequence[ModelMessage], want: RequestParams, heard: Heard) -> ModelResponse:
        """One request: the last words of the person, once more."""
        prompts = [
            part.content
            for one in messages
            if isinstance(one, ModelRequest)
            for part in one.parts
            if isinstance(part, UserPromptPart)
        ]
        text = f"You said: {prompts[-1]}"
        heard(Delta("text", text))
        return ModelResponse(
            [TextPart(text)], model_name=self.row.name, provider_name="parrot", finish_reason="stop"
        )


def connect(row: ModelRow, keys: object) -> Parrot:
    """A connection; nothing is sent yet."""
    return Parrot(row)

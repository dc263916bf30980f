"""The settings that are about models alone. Part of ``model``; what they mean is said in ``agent.models``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings

__all__ = ["ModelRowSettings", "ModelsSettings"]

Seconds = Annotated[float, Field(gt=0, le=24 * 3600)]
Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


class ModelRowSettings(BaseModel):
    """A model that the table lacks or has otherwise: ``[model_rows."provider:name"]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    context_tokens: int = Field(default=128_000, ge=1_000)
    output: Literal["native", "tool", "prompted"] = "prompted"
    tools: Literal["many", "one", "none"] = "many"
    context: Literal["json", "block"] = "block"
    pictures: bool = False
    thinking: bool = False
    temperature: float | None = Field(default=None, ge=0, le=2)
    price_in: Dollars = 0
    price_out: Dollars = 0
    price_cached: Dollars = 0


class ModelsSettings(BaseSettings):
    """Which models answer questions, and how they are asked."""

    models: tuple[str, ...] = ()
    """The models that are asked where a question names none, the first first; those that there are keys for by default."""

    model_rows: dict[str, ModelRowSettings] = {}
    """What the table of models lacks, or has otherwise, by ``provider:name``."""

    model_retries: int = Field(default=3, ge=0, le=10)
    """How often a model is asked again that does not answer, before the next one is."""

    model_timeout_s: Seconds = 300
    """How long a model may say nothing before it is asked again."""

"""The models there are: names, sizes, what each can do, and its price. One row a model; quirks are columns.

Anything that a row cannot say stands in the adapter of its provider, and nowhere else. How people name a
model, and how they and plugins add a row or change one, is in ``connect``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ROWS", "ModelRow", "Price"]

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0
    cached: float = 0.0
    written: float | None = None
    """Of tokens that are put into the provider's cache; as ``tokens_in`` where it is not said."""
    long_from: int | None = None
    """A prompt of more tokens is paid at the prices of ``long``, all of it."""
    long: Price | None = None

    def of(self, tokens_in: int, tokens_out: int, *, cached: int = 0, written: int = 0) -> float:
        """What a reply costs; ``cached`` and ``written`` tokens are among those of ``tokens_in``."""
        if self.long is not None and self.long_from is not None and tokens_in > self.long_from:
            return self.long.of(tokens_in, tokens_out, cached=cached, written=written)
        plain = max(0, tokens_in - cached - written)
        writing = self.tokens_in if self.written is None else self.written
        paid = (
            plain * self.tokens_in + cached * self.cached + written * writing + tokens_out * self.tokens_out
        )
        return paid / _MILLION


_WITH_STATUS = frozenset({"xai", "grok-grpc"})


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model."""

    name: str
    """As its provider has it."""
    provider: str
    """Which adapter speaks to it."""
    context_tokens: int
    output: Literal["native", "tool", "prompted"] = "native"
    """How a typed answer is asked for: as a JSON schema, as a tool to be called, or in words."""
    tools: Literal["many", "one", "none"] = "many"
    """How many calls it makes in a turn; ``none`` speaks the dialect of text actions."""
    context: Literal["json", "block"] = "block"
    """How it keeps hold of the notebook: in structured replies of its own, or in a block that it is told."""
    pictures: bool = True
    thinking: bool = False
    price: Price = Price()
    temperature: float | None = None
    """Sent where it is a number; the newest models refuse one."""
    url: str | None = None
    """Where it is served; None: where its provider serves all of its models."""

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def shows_status(self) -> bool:
        """Whether its answers end with the notebook's status in sight: it keeps to a notebook that it has read of."""
        return self.provider in _WITH_STATUS


def _openai(name: str, price: Price) -> ModelRow:
    return ModelRow(name, "openai", 1_050_000, context="json", thinking=True, price=price)


def _anthropic(name: str, price: Price) -> ModelRow:
    return ModelRow(name, "anthropic", 1_000_000, thinking=True, price=price)


def _google(name: str, price: Price) -> ModelRow:
    return ModelRow(name, "google", 1_000_000, context="json", thinking=True, price=price)


def _xai(name: str, context_tokens: int, price: Price) -> ModelRow:
    return ModelRow(name, "xai", context_tokens, context="json", thinking=True, price=price)


# As of November 2026, from the providers' price lists.
ROWS: tuple[ModelRow, ...] = (
    _openai("gpt-6.1-terra", Price(1, 5, 0.05, 1.25, 272_000, Price(2, 7.5, 0.1, 2.5))),
    _openai("gpt-6.1-sol", Price(2, 10, 0.1, 2.5, 272_000, Price(4, 15, 0.2, 5))),
    _openai("gpt-6-luna", Price(0.1, 0.5, 0.01, 0.125, 272_000, Price(0.2, 0.75, 0.02, 0.25))),
    _openai("gpt-6-astra", Price(10, 50, 1, 12.5, 272_000, Price(20, 75, 2, 25))),
    _anthropic("claude-sonnet-5-5", Price(2, 10, 0.1, 2.5)),
    _anthropic("claude-opus-5-5", Price(4, 20, 0.2, 5)),
    _anthropic("claude-haiku-5-5", Price(0.1, 0.5, 0.01, 0.125, 100_000, Price(0.5, 2.5, 0.05, 0.625))),
    # Twice this from January 2027 on.
    _google("gemini-3.8-flash", Price(0.75, 3.75, 0.075)),
    _google("gemini-3.1-pro-preview", Price(2, 12, 0.2, None, 200_000, Price(4, 18, 0.4))),
    _google("gemini-3.5-flash-lite", Price(0.3, 2.5, 0.03)),
    _xai("grok-4.7", 500_000, Price(2, 6, 0.5, None, 199_999, Price(4, 12, 1))),
    _xai("grok-4.3", 1_000_000, Price(1.25, 2.5, 0.2, None, 199_999, Price(2.5, 5, 0.4))),
    # A small model on this machine, in a process of its own: too small for tools.
    ModelRow("smollm2-135m", "local", 8_000, output="prompted", tools="none", pictures=False),
    # The model of the client that asks, through MCP: which one it is, it does not say.
    ModelRow("client", "sampling", 32_000, output="prompted", tools="none"),
)
"""The default of each provider first; the providers in the order in which they are asked."""

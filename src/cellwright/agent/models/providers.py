"""The providers: which adapter speaks to each, where it is, and what its key is called. One line each.

An adapter is imported when somebody speaks to its provider, and has ``connect(row, keys) -> Speaker``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PROVIDERS", "Provider"]

_HERE = "cellwright.agent.models"


@dataclass(frozen=True, slots=True)
class Provider:
    """Who serves models."""

    module: str
    keyring_user: str = ""
    key_variables: tuple[str, ...] = ()
    address: str = ""
    address_variable: str | None = None
    extra: str = "agent"
    """What is to be installed for it."""
    key_needed: bool = True


# fmt: off
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(f"{_HERE}.openai", "openai", ("OPENAI_API_KEY",), "https://api.openai.com/v1", "OPENAI_BASE_URL"),
    "anthropic": Provider(f"{_HERE}.anthropic", "anthropic", ("ANTHROPIC_API_KEY",), "https://api.anthropic.com", "ANTHROPIC_BASE_URL"),
    "google": Provider(f"{_HERE}.google", "google", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL"),
    "xai": Provider(f"{_HERE}.xai", "xai", ("XAI_API_KEY",), "https://api.x.ai/v1", "XAI_BASE_URL"),
    "grok-grpc": Provider(f"{_HERE}.xai_grpc", "xai", ("XAI_API_KEY",), "https://api.x.ai", "XAI_BASE_URL", extra="grok"),
    "compatible": Provider(f"{_HERE}.compatible", "compatible", ("CELLWRIGHT_MODEL_KEY",), key_needed=False),
    "local": Provider(f"{_HERE}.local", extra="local", key_needed=False),
    "sampling": Provider(f"{_HERE}.sampling", key_needed=False),
}
# fmt: on

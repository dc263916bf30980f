"""Our own providers of models, as ``pyproject.toml`` registers them. One line each."""

from __future__ import annotations

from cellwright.agent.models.providers import Provider

__all__ = ["ANTHROPIC", "COMPATIBLE", "GOOGLE", "GROK_GRPC", "LOCAL", "OPENAI", "SAMPLING", "XAI"]

CELLWRIGHT_API = 1

_HERE = "cellwright.agent.models"

# fmt: off
OPENAI = Provider(f"{_HERE}._openai", "openai", ("OPENAI_API_KEY",), "https://api.openai.com/v1", "OPENAI_BASE_URL")
ANTHROPIC = Provider(f"{_HERE}._anthropic", "anthropic", ("ANTHROPIC_API_KEY",), "https://api.anthropic.com", "ANTHROPIC_BASE_URL")
GOOGLE = Provider(f"{_HERE}._google", "google", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL")
XAI = Provider(f"{_HERE}._xai", "xai", ("XAI_API_KEY",), "https://api.x.ai/v1", "XAI_BASE_URL")
GROK_GRPC = Provider(f"{_HERE}._xai_grpc", "xai", ("XAI_API_KEY",), "https://api.x.ai", "XAI_BASE_URL", extra="grok")
COMPATIBLE = Provider(f"{_HERE}._compatible", "compatible", ("CELLWRIGHT_MODEL_KEY",), key_needed=False)
LOCAL = Provider(f"{_HERE}._local", extra="local", key_needed=False)
SAMPLING = Provider(f"{_HERE}.sampling", key_needed=False)
# fmt: on

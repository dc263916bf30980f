"""How people name a model, and which row they mean. Pure: whether there is a key for it is not asked here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from urllib.parse import urlsplit

from cellwright.agent.models.table import ROWS, ModelRow, Price
from cellwright.errors import NoModel

__all__ = ["GROK_GRPC", "defaults", "find_row"]

GROK_GRPC = "grok-grpc"
"""xAI's models by its own protocol; their rows are those of ``xai``."""

_ALIASES = {"claude": "anthropic", "gemini": "google", "grok": "xai", "gpt": "openai", "x-ai": "xai"}
# Nothing is known of a model that the table does not have: ask for what every model can do.
_UNKNOWN_CONTEXT = 128_000
_SERVED_CONTEXT = 32_000
_EXAMPLE = "http://localhost:8000/v1#llama-4"
_CLOSE = 3


def find_row(name: str, rows: Sequence[ModelRow] = ROWS) -> ModelRow:
    """The row of a model by its name, ``provider:name``, its provider's name, the address of a server, or
    ``local:`` and a file of weights.

    Raises:
        NoModel: nothing is called that; says what is called alike.
    """
    wanted = name.strip()
    if wanted.startswith(("http://", "https://")):
        return _served(wanted, rows)
    provider, _, model = wanted.partition(":")
    provider = _ALIASES.get(provider.lower(), provider.lower())
    if provider == GROK_GRPC:
        return replace(_of_provider("xai", model, rows), provider=GROK_GRPC)
    if any(row.provider == provider for row in rows) and (model or ":" not in wanted):
        return _of_provider(provider, model, rows)
    for row in rows:
        if row.name.lower() == wanted.lower():
            return row
    raise _nothing(wanted, rows)


def defaults(rows: Sequence[ModelRow] = ROWS) -> tuple[ModelRow, ...]:
    """The first row of every provider."""
    firsts: dict[str, ModelRow] = {}
    for row in rows:
        firsts.setdefault(row.provider, row)
    return tuple(firsts.values())


def _of_provider(provider: str, model: str, rows: Sequence[ModelRow]) -> ModelRow:
    its = [row for row in rows if row.provider == provider]
    if not model:
        return its[0]
    for row in its:
        if row.name.lower() == model.lower():
            return row
    if provider == "local" and model.endswith(".gguf"):
        return replace(its[0], name=PurePath(model).stem, url=model)
    if provider in ("local", "sampling"):
        raise _nothing(f"{provider}:{model}", rows)
    if provider == "compatible":
        raise NoModel(f"No row says where {model!r} is served", hint=f"Write its address, as {_EXAMPLE}")
    # A budget should stop early rather than late: the dearest price is assumed.
    dearest = max((row.price for row in its), key=lambda price: price.tokens_out, default=Price())
    return ModelRow(model, provider, _UNKNOWN_CONTEXT, output="prompted", pictures=False, price=dearest)


def _served(address: str, rows: Sequence[ModelRow]) -> ModelRow:
    url, _, model = address.partition("#")
    parts = urlsplit(url)
    if not parts.hostname or not model:
        raise NoModel(
            f"{url!r} names no model" if parts.hostname else f"{url!r} names no host",
            hint=f"Write the model behind the address, as {_EXAMPLE}",
        )
    if parts.username or parts.password:
        raise NoModel("A key does not belong into an address", hint="Set CELLWRIGHT_MODEL_KEY instead")
    for row in rows:
        if row.provider == "compatible" and row.name == model and row.url in (None, url):
            return replace(row, url=url)
    return ModelRow(model, "compatible", _SERVED_CONTEXT, output="prompted", pictures=False, url=url)


def _nothing(name: str, rows: Sequence[ModelRow]) -> NoModel:
    known = [spelling for row in rows for spelling in (row.name, row.full_name)]
    known += dict.fromkeys(row.provider for row in rows)
    close = list(dict.fromkeys(difflib.get_close_matches(name.lower(), known, n=_CLOSE, cutoff=0.6)))
    hint = (
        f"Did you mean {' or '.join(close)}?"
        if close
        else f"Known are {', '.join(row.full_name for row in defaults(rows))}, and any server, as {_EXAMPLE}"
    )
    return NoModel(f"There is no model {name!r}", hint=hint)

"""From names of models to a chain of them that can be asked: rows, keys, adapters. The one place that puts them together."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread

from cellwright.agent.models.chain import Chain
from cellwright.agent.models.providers import Keys, every_provider, find_keys, no_model
from cellwright.agent.models.requests import Speaker
from cellwright.agent.models.table import ROWS, ModelRow, Price
from cellwright.errors import NoModel
from cellwright.settings.model import ModelsSettings

__all__ = ["connect", "connect_models", "defaults", "find_row", "reachable", "rows_with"]


async def connect_models(
    names: Sequence[str],
    environment: Mapping[str, str],
    settings: ModelsSettings,
    *,
    speakers: Mapping[str, Speaker] | None = None,
) -> Chain:
    """A chain of these models; without names those of the settings, else the default of each provider with a key.

    ``environment`` is that of whoever asks. ``speakers`` are there already, by their provider: a client's own model.

    Raises:
        NoModel: a name is unknown, a key or a library is missing, or there is no model at all.
    """
    there = speakers or {}
    rows = rows_with(settings)
    wanted = [find_row(name, rows) for name in names or settings.models]
    candidates = wanted or [row for row in defaults(rows) if every_provider()[row.provider].key_needed]
    keys = await find_keys(
        environment, (row.provider for row in candidates), timeout_s=settings.model_timeout_s
    )
    if not wanted:
        wanted = [row for row in candidates if keys.has(row.provider)]
    if not wanted and not there:
        raise no_model()
    await anyio.to_thread.run_sync(_load, [row.provider for row in wanted if row.provider not in there])
    chosen = [there.get(row.provider) or connect(row, keys) for row in wanted]
    return Chain(chosen or list(there.values()), retries=settings.model_retries, secrets=keys.secrets())


def _load(providers: Sequence[str]) -> None:
    """Import their libraries, some of which take seconds, away from the event loop. One that is missing is told later."""
    for provider in providers:
        with suppress(ImportError):
            importlib.import_module(every_provider()[provider].module)


def connect(row: ModelRow, keys: Keys) -> Speaker:
    """A speaker for one model. Nothing is sent yet.

    Raises:
        NoModel: its key or its library is missing.
    """
    provider = every_provider()[row.provider]
    try:
        adapter = importlib.import_module(provider.module)
        speaker: Speaker = adapter.connect(row, keys)
    except ImportError as error:
        raise NoModel(
            f"{row.full_name} needs {error.name or 'a library'}, which is not installed",
            hint=f"pip install 'cellwright[{provider.extra}]'",
        ) from None
    return speaker


# Rows that people add to the table, or change in it, by their settings. Pure.

_PRICES = {"price_in": "tokens_in", "price_out": "tokens_out", "price_cached": "cached"}


def every_row() -> tuple[ModelRow, ...]:
    """The models of the table, and those that plugins bring with their providers."""
    return (*ROWS, *(row for provider in every_provider().values() for row in provider.rows))


def rows_with(settings: ModelsSettings, rows: Sequence[ModelRow] | None = None) -> tuple[ModelRow, ...]:
    """The table as the settings have it: ``[model_rows."provider:name"]``, each with what it says otherwise.

    Raises:
        NoModel: a row is of no provider.
    """
    table = list(every_row() if rows is None else rows)
    for name, said in settings.model_rows.items():
        before = _before(name, said.url, table)
        row = _changed(before, said.model_dump(exclude_unset=True))
        places = [at for at, one in enumerate(table) if one.full_name == row.full_name]
        if places:
            table[places[0]] = row
        else:
            table.append(row)
    return tuple(table)


def _before(name: str, url: str | None, rows: Sequence[ModelRow]) -> ModelRow:
    provider, _, model = name.partition(":")
    if provider == "compatible" and model:
        for row in rows:
            if row.full_name == name:
                return row
        if url is None:
            raise NoModel(f"[model_rows.{name!r}] does not say where it is served", hint="Add its url")
        return find_row(f"{url}#{model}", rows)
    return find_row(name, rows)


def _changed(row: ModelRow, said: Mapping[str, Any]) -> ModelRow:
    prices = {_PRICES[name]: value for name, value in said.items() if name in _PRICES}
    columns = {name: value for name, value in said.items() if name not in _PRICES}
    if prices:
        columns["price"] = replace(row.price, **prices, long_from=None, long=None, written=None)
    return replace(row, **columns)


# How people name a model, and which row they mean. Pure: whether there is a key for it is not asked here.

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


# Which models can be asked here and now, for whoever chooses from a list. Sends nothing to anybody.

_LOCAL = "local"


async def reachable(environment: Mapping[str, str], settings: ModelsSettings) -> list[str]:
    """Names of models: those of the settings, those that there are keys for or addresses of, and the one on this machine.

    Raises:
        NoModel: a row of the settings is of no provider.
    """
    rows = rows_with(settings)
    keys = await find_keys(environment, {row.provider for row in rows})
    with_keys = [row.full_name for row in rows if keys.has(row.provider) and row.provider != "compatible"]
    served = [f"{row.url}#{row.name}" for row in rows if row.provider == "compatible" and row.url is not None]
    here = [row.full_name for row in rows if row.provider == _LOCAL]
    if here and not await anyio.to_thread.run_sync(_is_installed, rows, keys):
        here = []
    return list(dict.fromkeys([*settings.models, *with_keys, *served, *here]))


def _is_installed(rows: tuple[ModelRow, ...], keys: Keys) -> bool:
    try:
        connect(next(row for row in rows if row.provider == _LOCAL), keys)
    except NoModel:
        return False
    return True

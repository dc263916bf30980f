"""From names of models to a chain of them that can be asked: rows, keys, adapters. The one place that puts them together."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio.to_thread

from cellwright.agent.models.additions import rows_with
from cellwright.agent.models.chain import Chain
from cellwright.agent.models.keys import Keys, find_keys, no_model
from cellwright.agent.models.naming import defaults, find_row
from cellwright.agent.models.providers import PROVIDERS
from cellwright.agent.models.table import ModelRow
from cellwright.agent.models.wants import Speaker
from cellwright.errors import NoModel
from cellwright.settings import Settings

__all__ = ["connect", "connect_models"]


async def connect_models(
    names: Sequence[str],
    environment: Mapping[str, str],
    settings: Settings,
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
    candidates = wanted or [row for row in defaults(rows) if PROVIDERS[row.provider].key_needed]
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
            importlib.import_module(PROVIDERS[provider].module)


def connect(row: ModelRow, keys: Keys) -> Speaker:
    """A speaker for one model. Nothing is sent yet.

    Raises:
        NoModel: its key or its library is missing.
    """
    provider = PROVIDERS[row.provider]
    try:
        adapter = importlib.import_module(provider.module)
        speaker: Speaker = adapter.connect(row, keys)
    except ImportError as error:
        raise NoModel(
            f"{row.full_name} needs {error.name or 'a library'}, which is not installed",
            hint=f"pip install 'cellwright[{provider.extra}]'",
        ) from None
    return speaker

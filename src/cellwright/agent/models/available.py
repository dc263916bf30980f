"""Which models can be asked here and now, for whoever chooses from a list. Sends nothing to anybody."""

from __future__ import annotations

from collections.abc import Mapping

import anyio.to_thread

from cellwright.agent.models.connect import connect, rows_with
from cellwright.agent.models.keys import Keys, find_keys
from cellwright.agent.models.table import ModelRow
from cellwright.errors import NoModel
from cellwright.settings.model import ModelsSettings

__all__ = ["reachable"]

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

"""SLURM as a plugin of the kind ``hosts``: light, as ``assembly`` reads it at every start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellwright.engine.providers import HostKindPlugin, HostProvider
from cellwright.sandbox.policy import LEAST_SHARE

if TYPE_CHECKING:
    from cellwright.engine.hosts import Hosts
    from cellwright.hosts.protocol import HostOptions
    from cellwright.settings import Settings

__all__ = ["SLURM"]

CELLWRIGHT_API = 1


def _make(
    settings: Settings, hosts: Hosts, options: HostOptions, environment: Mapping[str, str]
) -> HostProvider:
    from cellwright.slurm.provider import slurm_hosts  # not before one of its hosts is wanted

    return slurm_hosts(
        settings,
        settings.storage,
        settings.pass_environment,
        LEAST_SHARE if settings.max_session_memory == "auto" else settings.max_session_memory,
        hosts,
        options,
        environment,
    )


SLURM = HostKindPlugin(_make, program="sbatch", needs_lasting=True)

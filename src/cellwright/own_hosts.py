"""SLURM and Jupyter servers as plugins of the kind ``hosts``: light, as every engine's start reads it.

It stands beside their packages, which are loaded with the first of their hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellwright.engine.providers import HostKindPlugin, HostProvider
from cellwright.sandbox.policy import LEAST_SHARE

if TYPE_CHECKING:
    import anyio.abc

    from cellwright.engine.hosts import Hosts
    from cellwright.engine.records import Recorder
    from cellwright.engine.remote_documents import DocumentMirror, Subscribe
    from cellwright.hosts.protocol import HostOptions
    from cellwright.settings import Settings

__all__ = ["JUPYTER", "SLURM"]

CELLWRIGHT_API = 1


def _slurm_hosts(
    settings: Settings, hosts: Hosts, options: HostOptions, environment: Mapping[str, str]
) -> HostProvider:
    from cellwright.slurm.provider import slurm_hosts

    return slurm_hosts(
        settings,
        settings.storage,
        settings.pass_environment,
        LEAST_SHARE if settings.max_session_memory == "auto" else settings.max_session_memory,
        hosts,
        options,
        environment,
    )


def _jupyter_hosts(
    settings: Settings, hosts: Hosts, _options: HostOptions, _environment: Mapping[str, str]
) -> HostProvider:
    from cellwright.jupyter.provider import JupyterHosts

    return JupyterHosts(settings, hosts)


def _jupyter_mirror(
    settings: Settings, recorder: Recorder, subscribe: Subscribe, tasks: anyio.abc.TaskGroup
) -> DocumentMirror:
    from cellwright.jupyter.mirrors import Mirrors

    return Mirrors(settings, settings.storage, settings.agent_name, recorder, subscribe, tasks)


SLURM = HostKindPlugin(_slurm_hosts, program="sbatch", needs_lasting=True)
JUPYTER = HostKindPlugin(_jupyter_hosts, make_mirror=_jupyter_mirror)

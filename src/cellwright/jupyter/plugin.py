"""Jupyter servers as a plugin of the kind ``hosts``: light, as ``assembly`` reads it at every start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellwright.engine.providers import HostKindPlugin, HostProvider

if TYPE_CHECKING:
    import anyio.abc

    from cellwright.engine.hosts import Hosts
    from cellwright.engine.records import Recorder
    from cellwright.engine.remote_documents import DocumentMirror, Subscribe
    from cellwright.hosts.protocol import HostOptions
    from cellwright.settings import Settings

__all__ = ["JUPYTER"]

CELLWRIGHT_API = 1


def _make(
    settings: Settings, hosts: Hosts, _options: HostOptions, _environment: Mapping[str, str]
) -> HostProvider:
    from cellwright.jupyter.provider import JupyterHosts  # not before one of its hosts is wanted

    return JupyterHosts(settings, hosts)


def _make_mirror(
    settings: Settings, recorder: Recorder, subscribe: Subscribe, tasks: anyio.abc.TaskGroup
) -> DocumentMirror:
    from cellwright.jupyter.mirrors import Mirrors  # not before a notebook lies there

    return Mirrors(settings, settings.storage, settings.agent_name, recorder, subscribe, tasks)


JUPYTER = HostKindPlugin(_make, make_mirror=_make_mirror)

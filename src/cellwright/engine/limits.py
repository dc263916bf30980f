"""What the host and every session are told of the settings. Pure."""

from __future__ import annotations

from pathlib import Path

from cellwright.engine.installing import package_store
from cellwright.engine.network import network_opening
from cellwright.hosts import protocol
from cellwright.sandbox.policy import Policy
from cellwright.settings import Settings

__all__ = ["host_options"]


def host_options(settings: Settings, home: Path) -> protocol.HostOptions:
    """The limits that the host keeps.

    Raises:
        NetworkRuleInvalid: an entry of a network list cannot be understood.
    """
    return protocol.HostOptions(
        standby_kernels=settings.standby_kernels,
        preload=settings.preload,
        max_concurrent_starts=settings.max_concurrent_starts,
        start_timeout_s=settings.start_timeout_s,
        interrupt_grace_s=settings.interrupt_grace_s,
        max_output_bytes=settings.max_output_bytes,
        max_output_messages=settings.max_output_messages,
        max_memory_fraction=settings.max_memory_fraction,
        idle_s=settings.host_idle_s,
        policy=None if settings.unsafe_no_sandbox else _policy(settings),
        secret=(str(home), str(settings.storage)),
        passed_environment=settings.pass_environment,
        namespaces=settings.sandbox_namespaces,
        packages=str(package_store(settings)),
        opening=network_opening(settings),
    )


def _policy(settings: Settings) -> Policy:
    return Policy(
        memory_bytes=settings.max_session_memory,
        processes=settings.max_session_processes,
        open_files=settings.max_session_open_files,
        cpu_seconds=settings.max_session_cpu_s,
        cpus=settings.max_session_cpus,
        disk_bytes=settings.max_session_disk,
        disk_files=settings.max_session_files,
        network="proxy" if network_opening(settings) is not None else "off",
        read=tuple(str(path) for path in settings.read_paths),
        write=tuple(str(path) for path in settings.write_paths),
    )

"""Puts an engine together from the settings: storage directory and lock, journal, limits, SLURM, Jupyter. Nothing else does."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from cellwright.audit import AuditLog
from cellwright.charts import Renderer
from cellwright.connections.known import known_connections
from cellwright.engine.engine import Engine, EngineParts, HostFactory
from cellwright.engine.journal import Journal
from cellwright.engine.options import EngineOptions, PackageOptions
from cellwright.engine.placement import DefaultHost, HostKind
from cellwright.engine.remote_documents import MirrorFactory
from cellwright.errors import PackageRefused, StorageInUse
from cellwright.formats.renderer import PageMaker
from cellwright.hosts import HostPaths, protocol
from cellwright.plugins.registry import let_in, registry
from cellwright.sandbox.approved_packages import DEFAULT_APPROVED, ApprovedList
from cellwright.sandbox.npm import DEFAULT_APPROVED_NPM
from cellwright.sandbox.packages import InstallLimits
from cellwright.sandbox.policy import Policy
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.relay import EgressLimits
from cellwright.settings import Settings
from cellwright.settings.paths import make_storage

__all__ = ["engine_options", "host_options", "open_engine"]

_CLOSE_DEADLINE_S = 30.0


@asynccontextmanager
async def open_engine(settings: Settings | None = None, *, ephemeral: bool = False) -> AsyncIterator[Engine]:
    """Open the engine of a storage directory.

    Kernels live on in their host when the engine is closed, and the next engine finds them. An ``ephemeral`` engine
    keeps its state in a directory of its own and ends everything when it is closed; notebooks stay in either case.

    Raises:
        StorageInUse: another process has this storage directory open.
    """
    settings = settings if settings is not None else Settings()
    with _storage(settings, ephemeral=ephemeral) as storage, _owned(storage):
        audit = AuditLog(
            storage if settings.persist_sessions else _kept_whatever(settings.storage),
            max_bytes=settings.audit_max_bytes,
        )
        kept = settings.storage
        settings = settings.model_copy(update={"storage": storage})
        await anyio.to_thread.run_sync(partial(let_in, kept, trusted=settings.trusted_plugins))
        journal = Journal(storage / "journal.db")
        try:
            async with (
                Renderer() as renderer,
                PageMaker() as pages,
                _running(
                    Engine(
                        settings,
                        engine_options(settings, kept=kept),
                        _parts(settings, lasting=not ephemeral),
                        journal,
                        audit,
                        renderer,
                        pages,
                    ),
                    ephemeral=ephemeral,
                ) as engine,
            ):
                yield engine
        finally:
            with anyio.CancelScope(shield=True):
                await journal.close()
            audit.close()


@asynccontextmanager
async def _running(engine: Engine, *, ephemeral: bool) -> AsyncIterator[Engine]:
    """Keep the engine at work, and let through what the caller's own block raises as it was raised."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            await tasks.start(engine.run)
            yield engine
        except Exception as error:  # noqa: BLE001  # raised again below, outside of the group that would wrap it
            failure = error
        finally:
            with anyio.move_on_after(_CLOSE_DEADLINE_S, shield=True):
                await engine.close(stop_host=ephemeral)
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


@contextmanager
def _storage(settings: Settings, *, ephemeral: bool) -> Iterator[Path]:
    if not ephemeral:
        make_storage(str(settings.storage))
        yield settings.storage
        return
    directory = Path(tempfile.mkdtemp(prefix="cellwright-"))
    # As a lasting one: without namespaces root's sessions run as others, each in a folder of its own below.
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _kept_whatever(storage: Path) -> Path:
    """The directory of what is kept also where sessions are not to be: who did what."""
    make_storage(str(storage))
    return storage


@contextmanager
def _owned(storage: Path) -> Iterator[None]:
    """Hold the storage directory for this process; the kernel lets go of it however the process ends."""
    fd = os.open(storage / "engine.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StorageInUse(
                f"Another engine (process {owner}) has {storage} open",
                hint="Close it, or give this one another directory with CELLWRIGHT_STORAGE",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


# What is put in from above the engine ------------------------------------------------------------------------------


def _parts(settings: Settings, *, lasting: bool) -> EngineParts:
    """The plugins that are hosts of other kinds, nothing of which is loaded before one of their hosts is wanted.

    Only a ``lasting`` engine, whose storage outlives it, can have allocations.
    """
    hosts: dict[HostKind, HostFactory] = {}
    mirror: MirrorFactory | None = None
    for entry, kind in registry().every("hosts"):
        if (kind.needs_lasting and not lasting) or (kind.program and shutil.which(kind.program) is None):
            continue
        hosts[entry.entry.name] = partial(kind.make, settings)
        if kind.make_mirror is not None and mirror is None:
            mirror = partial(kind.make_mirror, settings)
    return EngineParts(hosts, mirror)


# Values out of the settings ----------------------------------------------------------------------------------------


def engine_options(settings: Settings, *, kept: Path | None = None) -> EngineOptions:
    """All that an engine takes from the settings; ``kept`` is the storage directory where theirs is for a time only.

    Raises:
        NetworkRuleInvalid: an entry of a network list cannot be understood.
    """
    home = Path(os.environ.get("HOME") or Path.home()).resolve()
    approved, approved_npm = settings.approved_packages, settings.approved_npm_packages
    return EngineOptions(
        storage=settings.storage,
        root=settings.root,
        notebook_dir=settings.root / settings.notebook_dir,
        project=settings.project,
        home=home,
        default_language=settings.default_language,
        default_host=DefaultHost(settings.host or "", settings.run_mode),
        host=host_options(settings, home),
        host_wait_s=settings.slurm_wait_s,
        packages=PackageOptions(
            store=settings.storage / "packages",
            approved_names=DEFAULT_APPROVED if approved is None else approved,
            approved_npm_names=DEFAULT_APPROVED_NPM if approved_npm is None else approved_npm,
            limits=InstallLimits(settings.install_timeout_s, settings.max_install_bytes),
        ),
        max_cells=settings.max_cells,
        max_source_bytes=settings.max_source_bytes,
        max_sessions=settings.max_sessions,
        suspends_when_full=settings.when_full == "suspend",
        max_runs=settings.max_runs,
        cell_timeout_s=settings.cell_timeout_s,
        session_idle_s=settings.session_idle_s,
        undelete_s=settings.undelete_s,
        save_quiet_s=settings.save_quiet_s,
        event_buffer=settings.event_buffer,
        history_days=settings.history_days,
        max_journal=settings.max_journal,
        moves_on_expiry=settings.slurm_on_expiry == "move",
        kept=kept or settings.storage,
        approvals=settings.approvals,
        connections=known_connections(settings.connections),
        dangers=tuple(settings.dangers),
    )


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
        input_timeout_s=settings.input_timeout_s,
        max_output_bytes=settings.max_output_bytes,
        max_output_messages=settings.max_output_messages,
        max_memory_fraction=settings.max_memory_fraction,
        idle_s=settings.host_idle_s,
        policy=None if settings.unsafe_no_sandbox else _policy(settings),
        secret=(str(home), str(settings.storage)),
        passed_environment=_passed_environment(settings),
        namespaces=settings.sandbox_namespaces,
        packages=str(settings.storage / "packages"),
        approved_imports=_approved_imports(settings),
        opening=_opening(settings),
        connections=str(HostPaths(settings.storage).connections) if settings.connections else "",
        max_checkpoints=settings.max_checkpoints,
        max_checkpoint_memory=settings.max_checkpoint_memory,
        remote_launcher="cellwright.jupyter.launcher:JupyterLauncher",
        allocation_idle_s=settings.slurm_idle_s,
    )


def _passed_environment(settings: Settings) -> tuple[str, ...]:
    """The variables that code sees: none that holds a connection's credential, or the settings themselves."""
    secret = {one.password_env for one in settings.connections.values()} | {"CELLWRIGHT_CONNECTIONS"}
    return tuple(name for name in settings.pass_environment if name not in secret)


def _approved_imports(settings: Settings) -> tuple[tuple[str, str], ...]:
    names = settings.approved_packages
    try:
        return tuple(ApprovedList(DEFAULT_APPROVED if names is None else names).imports.items())
    except PackageRefused:  # whoever installs is told
        return ()


def _policy(settings: Settings) -> Policy:
    """What code may do at most."""
    memory = settings.max_session_memory
    return Policy(
        memory_bytes=None if memory == "auto" else memory,
        memory_auto=memory == "auto",
        processes=settings.max_session_processes,
        open_files=settings.max_session_open_files,
        cpu_seconds=settings.max_session_cpu_s,
        cpus=settings.max_session_cpus,
        cell_seconds=settings.cell_timeout_s,
        disk_bytes=settings.max_session_disk,
        disk_files=settings.max_session_files,
        gpus=settings.gpus,
        network="proxy" if _opening(settings) is not None else "off",
        read=tuple(str(path) for path in settings.read_paths),
        write=tuple(str(path) for path in settings.write_paths),
    )


def _opening(settings: Settings) -> Opening | None:
    """How far the settings open the network; None where they do not.

    Raises:
        NetworkRuleInvalid: an entry of a list cannot be understood.
    """
    mode = "open" if settings.network == "off" and settings.allow_network else settings.network
    limits = EgressLimits(
        max_connections=settings.network_max_connections,
        max_download_bytes=settings.max_download_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        max_total_bytes=settings.network_max_bytes,
        idle_timeout_s=settings.network_idle_s,
        max_seconds=settings.network_max_s,
    )
    opening = Opening(mode, settings.network_allow, settings.network_deny, limits)
    opening.rules()
    return opening if mode != "off" else None

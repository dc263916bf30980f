"""Packages for one session: chooses what the installer (``sandbox.packages``) is asked for. Keeps nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio

from cellwright.engine.records import SessionRecord
from cellwright.sandbox.approved import DEFAULT_APPROVED, ApprovedList
from cellwright.sandbox.packages import InstallLimits, InstallResult, PythonTarget, install, installed_in
from cellwright.settings import Settings

__all__ = ["approved_packages", "install_packages", "package_store"]


def package_store(settings: Settings) -> Path:
    """Where the layers of all sessions lie; every kernel may read them, and none may write."""
    return settings.storage / "packages"


def approved_packages(settings: Settings) -> ApprovedList:
    """What may be installed at all."""
    listed = settings.approved_packages
    return ApprovedList(DEFAULT_APPROVED if listed is None else listed)


async def install_packages(names: Sequence[str], record: SessionRecord, settings: Settings) -> InstallResult:
    """Make a layer of what a session asks for and its interpreter, and its earlier layers, do not have."""
    store = package_store(settings)
    places = [*map(Path, record.search_path), *(store / layer for layer in record.layers)]
    return await install(
        names,
        target=PythonTarget(record.python_version),
        store=store,
        approved=approved_packages(settings),
        installed=await anyio.to_thread.run_sync(installed_in, places),
        limits=InstallLimits(settings.install_timeout_s, settings.max_install_bytes),
    )

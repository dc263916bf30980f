"""Packages for one session: chooses what the installer (``sandbox.packages``) is asked for. Keeps nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio

from cellwright.engine.environment import runtime_of
from cellwright.engine.records import SessionRecord
from cellwright.errors import PackageRefused
from cellwright.kernels import find_deno
from cellwright.sandbox.approved_packages import DEFAULT_APPROVED, ApprovedList
from cellwright.sandbox.npm import DEFAULT_APPROVED_NPM, NpmList, install_npm, is_npm_layer
from cellwright.sandbox.packages import InstallLimits, InstallResult, PythonTarget, install, installed_in
from cellwright.settings import Settings

__all__ = ["approved_packages", "install_packages", "package_store"]

_NPM = "npm:"


def package_store(settings: Settings) -> Path:
    """Where the layers of all sessions lie; every kernel may read them, and none may write."""
    return settings.storage / "packages"


def approved_packages(settings: Settings) -> ApprovedList:
    """What may be installed at all."""
    listed = settings.approved_packages
    return ApprovedList(DEFAULT_APPROVED if listed is None else listed)


async def install_packages(names: Sequence[str], record: SessionRecord, settings: Settings) -> InstallResult:
    """Make a layer of what a session asks for and its interpreter, and its earlier layers, do not have.

    In a TypeScript or JavaScript session names are npm's; elsewhere those are that say so (``npm:lodash``).
    """
    said = [name.startswith(_NPM) for name in names]
    if runtime_of(record.language) == "deno" or all(said):
        return await _install_npm(names, record, settings)
    if any(said):
        raise PackageRefused(
            "npm packages and Python's were asked for at once", hint="Ask for each kind by itself"
        )
    store = package_store(settings)
    layers = [store / layer for layer in record.layers if not is_npm_layer(layer)]
    places = [*map(Path, record.search_path), *layers]
    return await install(
        names,
        target=PythonTarget(record.python_version),
        store=store,
        approved=approved_packages(settings),
        installed=await anyio.to_thread.run_sync(installed_in, places),
        limits=InstallLimits(settings.install_timeout_s, settings.max_install_bytes),
    )


async def _install_npm(names: Sequence[str], record: SessionRecord, settings: Settings) -> InstallResult:
    listed = settings.approved_npm_packages
    store = package_store(settings)
    before = [store / layer for layer in record.layers if is_npm_layer(layer)]
    return await install_npm(
        names,
        deno=await anyio.to_thread.run_sync(find_deno),
        store=store,
        approved=NpmList(DEFAULT_APPROVED_NPM if listed is None else listed),
        before=before[-1] if before else None,
        limits=InstallLimits(settings.install_timeout_s, settings.max_install_bytes),
    )

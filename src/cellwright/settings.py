"""Every number and path that a user may change, read once where the engine is opened.

Values come from arguments, then ``CELLWRIGHT_*`` variables, then the defaults here. A limit's error names the
setting behind it, so the names are part of the interface. Nothing below the engine reads this: the host and the
kernels are told what they need.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings", "default_storage"]

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


def default_storage() -> Path:
    """Where sessions and history are kept unless told otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "cellwright"


class Settings(BaseSettings):
    """What the engine may use and where it stops."""

    model_config = SettingsConfigDict(env_prefix="CELLWRIGHT_", frozen=True, extra="forbid")

    root: Path = Field(default_factory=Path.cwd)
    """The directory under which new notebooks are put, in ``notebooks/``."""

    storage: Path = Field(default_factory=default_storage)
    """The directory of the journal, of the host's files and of layered environments."""

    default_language: str = "python"
    """The language of a session that names none."""

    preload: tuple[str, ...] = ()
    """Modules that the fork server imports once for all Python kernels, for instance ``["numpy", "pandas"]``."""

    standby_kernels: int = Field(default=2, ge=0, le=64)
    """Forked kernels that wait, warm, for the next session of a fork server."""

    max_sessions: int = Field(default=10, ge=1, le=10_000)
    """Sessions that may be active at once."""

    max_cells: int = Field(default=100, ge=1, le=100_000)
    """Cells that a notebook may hold."""

    max_concurrent_starts: int = Field(default=4, ge=1, le=256)
    """Kernels that may be starting at once."""

    start_timeout_s: Seconds = 60
    """How long a kernel may take to answer for the first time."""

    cell_timeout_s: Seconds = 30
    """How long a cell may run before it is interrupted."""

    interrupt_grace_s: Seconds = 3
    """How long an interrupted cell may take to stop before its kernel is killed."""

    max_output_bytes: int = Field(default=1_000_000, ge=1_000, le=1_000_000_000)
    """Output kept of one cell; the middle of anything longer is dropped and counted."""

    max_output_messages: int = Field(default=25_000, ge=100, le=10_000_000)
    """Output messages kept of one cell; those beyond are dropped and counted."""

    max_memory_fraction: float = Field(default=0.8, gt=0, le=1)
    """The part of the machine's memory above which nothing starts and the running cell is stopped."""

    session_idle_s: Seconds = 3600
    """How long a session may be idle before its kernel is let go."""

    host_idle_s: Seconds = 900
    """How long the host stays with no engine attached and nothing running."""

    save_quiet_s: float = Field(default=0.5, ge=0, le=60)
    """How long a notebook must be quiet before it is written to its file."""

    event_buffer: int = Field(default=1_000, ge=1, le=1_000_000)
    """Events that wait for one slow subscriber before it starts to miss some and is told so."""

    @field_validator("root", "storage")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

"""The settings that are about one-shot runs alone. Part of ``model``; what they mean is said in ``tools.runs``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from cellwright.settings.sizes import size_bytes

__all__ = ["RunSettings"]

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


class RunSettings(BaseSettings):
    """How long scripts run, how many at once, and what is kept of them."""

    run_timeout_s: Seconds = 60
    """How long a one-shot run may take, and does where it does not say."""

    max_runs: int = Field(default=8, ge=1, le=1_000)
    """One-shot runs at once; the rest waits for its turn."""

    max_run_disk: int = Field(default=100 * 1024**2, ge=1024**2)
    """What the directory of a one-shot run may hold, in bytes or as ``"100MB"``; never more than ``max_session_disk``."""

    max_kept_runs: int = Field(default=100, ge=1, le=100_000)
    """Runs whose files are kept in ``runs/`` of the data directory; the oldest go first."""

    max_kept_run_bytes: int = Field(default=1024**3, ge=1024**2)
    """What those files may take together, in bytes or as ``"1GB"``."""

    keep_runs_s: Seconds = 7 * 24 * 3600
    """How long those files are kept."""

    @field_validator("max_run_disk", "max_kept_run_bytes", mode="before")
    @classmethod
    def _bytes_of_runs(cls, value: Any) -> Any:
        return size_bytes(value)

"""The settings that are about SLURM alone. Part of ``model``; what a shape may be is said in ``hosts.slurm.shapes``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

__all__ = ["SlurmSettings"]

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


def _words(value: Any) -> Any:
    """Words as people write them in a variable, or a JSON list of them; anything else as it is."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.lstrip().startswith("[") else value.split()


def _text(value: Any) -> Any:
    """SLURM's numbers without a unit, such as 32000 (MB), are written as numbers too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
Text = Annotated[str | None, BeforeValidator(_text)]


class SlurmSettings(BaseSettings):
    """How allocations are asked for and kept."""

    slurm_partition: str | None = None
    """The partition of allocations, where a call names none."""

    slurm_gres: str | None = None
    """Generic resources, for instance ``"gpu:1"``."""

    slurm_cpus: int | None = Field(default=4, ge=1, le=4_096)
    """Processors of an allocation."""

    slurm_mem: Text = None
    """Memory of an allocation as SLURM writes it: ``"32G"``, or MB without a unit; the site's default where not said."""

    slurm_time: Text = "4:00:00"
    """The time limit of an allocation as SLURM writes it, for instance ``"1-12:00:00"``."""

    slurm_account: str | None = None
    """The account that allocations are charged to."""

    slurm_qos: str | None = None
    """The quality of service of allocations."""

    slurm_constraint: str | None = None
    """Features that an allocation's node must have."""

    slurm_modules: Words = ()
    """Environment modules that are loaded before the host starts, for instance ``"cuda/12.6 gcc"``."""

    slurm_extra: Words = ()
    """Further arguments of ``sbatch``, for instance ``["--reservation=course"]``."""

    slurm_debug_partition: str | None = None
    """The partition of ``cellwright start --debug``."""

    slurm_debug_time: Text = "30:00"
    """The time limit of ``cellwright start --debug``."""

    slurm_template: Path | None = None
    """A batch script to use instead of our own."""

    slurm_python: Path | None = None
    """The interpreter that has Cellwright on the nodes; the daemon's own where not said."""

    slurm_max_allocations: int = Field(default=4, ge=1, le=1_000)
    """Allocations that may be pending or running at once."""

    slurm_warn_s: int = Field(default=300, ge=10, le=65_000)
    """How long before its time limit an allocation tells its sessions; less for short ones."""

    slurm_poll_s: float = Field(default=10, ge=1, le=600)
    """How often SLURM is asked for the states of allocations."""

    slurm_wait_s: float = Field(default=20, ge=0, le=280)
    """How long a call waits for a new allocation before it tells its place in the queue instead."""

    slurm_on_expiry: Literal["tell", "move"] = "tell"
    """What sessions do before the time limit: they are told, or also run again, on another allocation, what made their state."""

    slurm_connection: Literal["srun", "tls"] = "srun"
    """How the daemon reaches an allocation's host: through ``srun``, or by TLS to a port on its node."""

    slurm_idle_s: Seconds | None = None
    """How long an allocation stays when no daemon is attached and nothing runs; until its time limit where not said."""

    slurm_command_timeout_s: Seconds = 20
    """How long one command of SLURM may take."""

    @field_validator("slurm_template", "slurm_python")
    @classmethod
    def _in_full(cls, value: Path | None) -> Path | None:
        # Links are kept: an interpreter knows its environment by the name that it is called by.
        return value.expanduser().absolute() if value is not None else None

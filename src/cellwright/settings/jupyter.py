"""The settings that are about Jupyter servers alone. Part of ``model``; what they mean is said in ``engine.jupyterservers``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

__all__ = ["JupyterServerSettings", "JupyterSettings"]

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


class JupyterServerSettings(BaseModel):
    """One of several servers: ``[jupyter_servers.NAME]`` in a settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    token: SecretStr | None = None
    token_file: Path | None = None
    username: str = ""
    kernel: str = ""


class JupyterSettings(BaseSettings):
    """Where Jupyter servers are, and what opens them."""

    jupyter_url: str | None = None
    """The address of the Jupyter server, gateway or hub that the host ``jupyter`` means."""

    jupyter_token: SecretStr | None = None
    """The token that opens it; otherwise it is read from ``jupyter_token_file``."""

    jupyter_token_file: Path | None = None
    """The file of that token."""

    jupyter_username: str = ""
    """Whom kernels are for, where a gateway asks, and whose server is meant, where a hub's token opens several."""

    jupyter_kernel: str = ""
    """The kernelspec of new kernels there; one that fits the notebook's language by default."""

    jupyter_servers: dict[str, JupyterServerSettings] = {}
    """More servers by name, each a host ``jupyter:NAME``."""

    jupyter_insecure_http: bool = False
    """Send tokens and code to servers on other machines without encryption."""

    jupyter_start_timeout_s: Seconds = 300
    """How long a hub may take to start the user's server."""

    jupyter_unreachable_s: Seconds = 60
    """How long a Jupyter server may be out of reach before its kernels are given up for the time being."""

    @field_validator("jupyter_token_file")
    @classmethod
    def _whole_path(cls, value: Path | None) -> Path | None:
        return value.expanduser().resolve() if value is not None else None

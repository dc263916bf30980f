"""What the daemon is asked for by whoever wants a TCP port: where, and who may come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.cli.mcp_client import daemon_paths
from cellwright.daemon.tokens import obtain_token

__all__ = ["DEFAULT_PORT", "LOOPBACK", "listener_request"]

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8765


def listener_request(host: str, port: int, **details: Any) -> dict[str, Any]:
    """A request for a listener, as the settings say.

    Raises:
        CellwrightError: the settings or the token are refused.
    """
    from cellwright.settings import load_settings  # most verbs do without pydantic

    loaded = load_settings()
    given = loaded.token.get_secret_value() if loaded.token is not None else None
    token, file = obtain_token(given, loaded.token_file or Path(daemon_paths().token))
    return {
        "host": host,
        "port": port,
        "token": token,
        "token_file": str(file) if file is not None else None,
        "hosts": list(loaded.allowed_hosts),
        "origins": list(loaded.allowed_origins),
        **details,
    }

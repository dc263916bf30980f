"""What a person gives along with a connection, read from its hello: keys, files, servers. Only the private socket has it.

It is taken out of the hello, so that nobody who shows that shows it too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.settings.modelkeys import model_environment

if TYPE_CHECKING:
    from cellwright.mcp.clients import ClientGrants

__all__ = ["take_grants"]


def take_grants(hello: dict[str, Any]) -> ClientGrants:
    """What a hello grants, out of it; whatever is of the wrong kind is left aside."""
    from cellwright.mcp.clients import ClientGrants  # the SDK takes a second to import

    environment, files, servers, models, applied = (
        hello.pop(name, None) for name in ("environment", "files", "servers", "models", "applied")
    )
    return ClientGrants(
        environment=model_environment(_texts(environment)) if isinstance(environment, dict) else None,
        files=frozenset(Path(file) for file in _list(files) if isinstance(file, str)),
        servers=tuple(
            (name, target)
            for name, target in (
                pair for pair in _list(servers) if isinstance(pair, list) and len(pair) == 2
            )  # a pair
            if isinstance(name, str) and isinstance(target, str)
        ),
        models=frozenset(model for model in _list(models) if isinstance(model, str)),
        applied=frozenset(path for path in _list(applied) if isinstance(path, str)),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: dict[Any, Any]) -> dict[str, str]:
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}

"""The tool that installs packages for a session."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cellwright.mcp.arguments import Arguments, SessionId
from cellwright.mcp.calls import CHANGES, Call, Definition, Reply, data_reply

__all__ = ["PACKAGE_TOOLS"]


class InstallPackages(Arguments):
    session_id: SessionId = None
    packages: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=50, description="Names, with versions if need be: pandas, polars>=1"
    )


async def package_install(call: Call, args: InstallPackages) -> Reply:
    """Install approved Python packages for a session; importable at once. Code itself cannot install any."""
    session = call.session(args.session_id)
    result = await session.install(args.packages)
    about = {
        "session_id": session.id,
        "installed": [str(pin) for pin in result.installed],
        "already_there": list(result.already_there),
        "not_listed": list(result.not_listed),
        "seconds": round(result.seconds, 1),
    }
    return data_reply({key: value for key, value in about.items() if value != []}, call)


PACKAGE_TOOLS = (Definition(package_install, InstallPackages, CHANGES, asks_for=("session_id",)),)

"""How a Jupyter server is: whether it answers, takes the token, and which kernels it has. Starts nothing."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from cellwright.errors import KernelStartError
from cellwright.kernels.jupyter.addresses import JupyterServer, joined
from cellwright.kernels.jupyter.hubs import User, find_hub, server_url
from cellwright.kernels.jupyter.rest import Api

__all__ = ["Health", "look_at"]

LOOK_S = 10.0


@dataclass(frozen=True, slots=True)
class Health:
    """What a look at a server found, in words."""

    answers: bool
    detail: str
    next_step: str | None = None


async def look_at(server: JupyterServer) -> Health:
    """How a server is; a hub's is not started for that."""
    with anyio.move_on_after(LOOK_S):
        try:
            return await _asked(server)
        except KernelStartError as error:
            return Health(answers=False, detail=error.message, next_step=error.hint)
    return Health(
        answers=False,
        detail=f"{server.url} did not answer within {LOOK_S:g} s",
        next_step="See whether it is overloaded",
    )


async def _asked(server: JupyterServer) -> Health:
    path = await find_hub(server)
    if path is not None and path.user is None:
        api = Api(server.name, joined(path.base, "hub"), server.token)
        try:
            me = await api.ask_for(User, "GET", "api", "user")
        finally:
            await api.close()
        return Health(answers=True, detail=f"JupyterHub at {server.url}, for {server.username or me.name}")
    url = server_url(path, path.user) if path is not None and path.user is not None else server.url
    api = Api(server.name, url, server.token)
    try:
        specs = (await api.kernelspecs()).get("kernelspecs") or {}
    finally:
        await api.close()
    return Health(
        answers=True,
        detail=f"Jupyter server at {server.url} with kernels {', '.join(sorted(specs)) or 'none'}",
    )

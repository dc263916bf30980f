"""Finds the way to a server: straight, or through a JupyterHub, which starts the user's own and opens it.

At a hub a token is made that opens that one server only, where the hub allows it; it goes when it is no longer
needed. Kernels are none of its business (see ``launcher``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit, urlunsplit

import anyio
import msgspec

from cellwright.errors import KernelStartError
from cellwright.hosts.protocol import JupyterServer
from cellwright.jupyter._rest import Api, ServerRefused
from cellwright.jupyter._servers import joined

__all__ = ["HubPath", "Reached", "hub_path", "look_at", "reach"]
TOKEN_LIFE_S = 24 * 3600

_FORBIDDEN = (401, 403, 404)

_PENDING = 400

_LOOK_AGAIN_S = 0.2

_CLOSE_S = 5.0

# What a browser's address goes on with below a user's server.
_PAGES = frozenset({"api", "doc", "edit", "files", "lab", "nbclassic", "notebooks", "terminals", "tree"})


@dataclass(frozen=True, slots=True)
class HubPath:
    """What an address tells of a hub."""

    base: str
    """The hub's own, before ``/hub`` and ``/user``."""
    user: str | None = None
    server: str = ""
    """The name of one of the user's servers; theirs without a name where it is empty."""


def hub_path(url: str) -> HubPath | None:
    """The hub behind an address; None where the address does not tell."""
    split = urlsplit(url)
    parts = split.path.strip("/").split("/")
    for place, part in enumerate(parts):
        base = urlunsplit(split._replace(path="/".join(["", *parts[:place]]), query="", fragment=""))
        if part == "hub":
            return HubPath(base)
        if part == "user" and len(parts) > place + 1:
            name, *below = (unquote(one) for one in parts[place + 1 :])
            return HubPath(base, name, below[0] if below else "")
    return None


def server_url(path: HubPath, user: str) -> str:
    """The address of a user's server at a hub."""
    return joined(path.base, "user", user, *([path.server] if path.server else []))


class _Spawned(msgspec.Struct):
    ready: bool = False


class User(msgspec.Struct):
    """A user as a hub tells of one."""

    name: str = ""
    servers: dict[str, _Spawned] = {}


class _Token(msgspec.Struct):
    token: str
    id: str | None = None


class Reached:
    """A server that can be asked. Whoever reached it closes it."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def ensure(self) -> None:
        """Have it running, where that is ours to do."""

    async def close(self) -> None:
        """Let go of it; it goes on."""
        await self.api.close()


async def reach(server: JupyterServer) -> Reached:
    """The way to a server; a hub's is running by then.

    Raises:
        ServerRefused: it does not let us, or does not answer.
        KernelStartError: the hub could not start it.
    """
    path = await find_hub(server)
    if path is None:
        return Reached(Api(server.name, server.url, server.token, username=server.username))
    hub = Api(server.name, joined(path.base, "hub"), server.token)
    try:
        me = await hub.ask_for(User, "GET", "api", "user")
        user = path.user or server.username or me.name
        reached = HubServer(server, hub, path, user)
        await reached.ensure()
    except ServerRefused as error:
        await hub.close()
        if path.user is None or error.status not in _FORBIDDEN:
            raise
        # A token that opens this server and nothing else cannot ask the hub, and need not.
        url = server_url(path, path.user)
        return Reached(Api(server.name, url, server.token, username=server.username))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await hub.close()
        raise
    return reached


async def find_hub(server: JupyterServer) -> HubPath | None:
    """The hub at or behind an address, if there is one.

    Raises:
        ServerRefused: nobody answers there.
    """
    path = hub_path(server.url)
    if path is None:
        return HubPath(server.url.rstrip("/")) if await _is_hub(server) else None
    if path.user is not None and path.server in _PAGES and not await _has(server, path, path.user):
        return replace(path, server="")
    return path


async def _has(server: JupyterServer, path: HubPath, user: str) -> bool:
    """Whether a user has a server of that name, running or not; where the hub does not say, it may be."""
    hub = Api(server.name, joined(path.base, "hub"), server.token)
    try:
        found = await hub.ask_for(User, "GET", "api", "users", user, query="include_stopped_servers=1")
    except ServerRefused as error:
        if error.status not in _FORBIDDEN:
            raise
        return True
    finally:
        await hub.close()
    return path.server in found.servers


async def _is_hub(server: JupyterServer) -> bool:
    """Whether there is a hub at an address: it says its version to everybody."""
    asking = Api(server.name, server.url, "")
    try:
        said = await asking.ask("GET", "hub", "api")
    except ServerRefused as error:
        if error.status is None:
            raise
        return False
    finally:
        await asking.close()
    return isinstance(said, dict) and "version" in said


class HubServer(Reached):
    """One user's server at a hub."""

    def __init__(self, server: JupyterServer, hub: Api, path: HubPath, user: str) -> None:
        super().__init__(Api(server.name, server_url(path, user), server.token, username=server.username))
        self.api.renew = self._renew
        self.api.is_stopped = self._is_stopped
        self._hub = hub
        self._own_token = server.token
        self._start_s = server.start_s
        self._user = user
        self._server = path.server
        self._token_id: str | None = None
        self._token_until = 0.0

    async def ensure(self) -> None:
        """Have it running, and a token that opens it."""
        if not await self._is_ready():
            await self._start()
        if time.monotonic() > self._token_until:
            await self._renew()

    async def close(self) -> None:
        """Let go of it, and of the token that was made for it."""
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await self._drop_token()
            await self._hub.close()
        await super().close()

    async def _is_stopped(self) -> bool:
        try:
            return not await self._is_ready()
        except ServerRefused:
            return False

    async def _is_ready(self) -> bool:
        user = await self._hub.ask_for(User, "GET", "api", "users", self._user)
        mine = user.servers.get(self._server)
        return mine is not None and mine.ready

    @property
    def _spawner(self) -> tuple[str, ...]:
        mine = ("servers", self._server) if self._server else ("server",)
        return ("api", "users", self._user, *mine)

    async def _start(self) -> None:
        told = "nothing"
        with anyio.move_on_after(self._start_s):
            # One that is just being stopped can be neither started nor followed: then it is asked for again.
            while not await self._is_ready():
                with _unless_pending():
                    await self._hub.ask("POST", *self._spawner, timeout_s=self._start_s)
                with _unless_pending():
                    told = await self._follow(told)
                await anyio.sleep(_LOOK_AGAIN_S)
            return
        raise KernelStartError(
            f"The hub {self.api.name!r} did not start the server of {self._user} within {self._start_s:g} s; it said last: "
            f"{told}",
            hint="Look at the hub's own page for why, or raise the setting jupyter_start_timeout_s",
        )

    async def _follow(self, told: str) -> str:
        """Hear what the hub says about a start until it is over."""
        async with aclosing(self._hub.follow(*self._spawner, "progress")) as events:
            async for event in events:
                told = str(event.get("message") or told)
                if event.get("failed"):
                    raise KernelStartError(
                        f"The hub {self.api.name!r} could not start the server of {self._user}: {told}",
                        hint="Look at the hub's own page for why",
                    )
                if event.get("ready"):
                    break
        return told

    async def _renew(self) -> bool:
        """Have a token that opens this server and nothing else; the user's own, where the hub makes none."""
        await self._drop_token()
        body = {
            "note": "cellwright",
            "expires_in": TOKEN_LIFE_S,
            "scopes": [f"access:servers!server={self._user}/{self._server}"],
        }
        try:
            made = await self._hub.ask_for(_Token, "POST", "api", "users", self._user, "tokens", body=body)
        except ServerRefused:
            changed, self.api.token = self.api.token != self._own_token, self._own_token
            self._token_until = time.monotonic() + TOKEN_LIFE_S
            return changed
        self.api.token, self._token_id = made.token, made.id
        self._token_until = time.monotonic() + TOKEN_LIFE_S / 2
        return True

    async def _drop_token(self) -> None:
        token_id, self._token_id = self._token_id, None
        if token_id is not None:
            try:
                await self._hub.ask("DELETE", "api", "users", self._user, "tokens", token_id)
            except ServerRefused:
                return  # it expires by itself


@contextmanager
def _unless_pending() -> Iterator[None]:
    """Let pass that the hub refuses because something else about the server is still going on."""
    try:
        yield
    except ServerRefused as error:
        if error.status != _PENDING:
            raise


# How a Jupyter server is: whether it answers, takes the token, and which kernels it has. Starts nothing.

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

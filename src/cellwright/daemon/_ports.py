"""The ports that the daemon has open for machines and people. Each stays as long as who asked for it, or is detached.

A detached one ends with its daemon. If that did not end by itself, the next daemon opens it again at the same address, so
that a page which is open there finds its way back: what it takes lies in a file until then. A token that was given in a
variable is not written down, and its port not opened again.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import msgspec
from starlette.responses import PlainTextResponse

from cellwright.daemon._listeners import CannotListen, Listener, ListenerRequest, bind, url_of
from cellwright.daemon._mcp_servers import McpServers
from cellwright.daemon.paths import DaemonPaths
from cellwright.daemon.tokens import read_token
from cellwright.engine import Engine
from cellwright.errors import CellwrightError, PageNotInstalled
from cellwright.oauth.options import OWN, SignInOptions
from cellwright.people import Members
from cellwright.settings.paths import write_private
from cellwright.web.identities import Attempts, Codes, Identities, obtain_key

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from cellwright.oauth.own_issuer import OwnIssuer
    from cellwright.oauth.token_gate import TokenGate
    from cellwright.plans import Planner
    from cellwright.verification import Verifier

__all__ = ["Entry", "OpenPorts", "page_for_people", "page_lacks"]
_log = logging.getLogger(__name__)

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  # what a browser opens in its place


class _Detached(msgspec.Struct, frozen=True):
    """What it takes to open a listener again."""

    host: str
    port: int
    token_file: str
    lasting: bool
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    dialect: str | None = None
    toolset: str | None = None
    sign_in: SignInOptions | None = None

    def request(self) -> ListenerRequest:
        token = read_token(Path(self.token_file))
        return ListenerRequest(
            self.host,
            self.port,
            token,
            self.hosts,
            self.origins,
            self.dialect,
            self.toolset,
            self.sign_in,
        )


_decode = msgspec.json.Decoder(list[_Detached]).decode


class OpenPorts:
    """All TCP listeners of one daemon, but for the gateways of Labs."""

    def __init__(
        self,
        paths: DaemonPaths,
        engine: Engine,
        mcp_servers: McpServers,
        tasks: anyio.abc.TaskGroup,
        keep_open: Callable[[Listener], Awaitable[None]],
    ) -> None:
        self._paths = paths
        self._engine = engine
        self._mcp_servers = mcp_servers
        self._tasks = tasks
        self._keep_open = keep_open
        self._entry = Entry()
        self._open: list[Listener] = []
        self._detached: dict[Listener, _Detached] = {}
        self._opening = anyio.Lock()

    async def reopen(self) -> None:
        """Open what an earlier daemon left behind."""
        async with self._opening:
            for record in await anyio.to_thread.run_sync(_read, self._paths.listeners):
                try:
                    listener = await self._made(record.request(), lasting=record.lasting)
                except (CellwrightError, OSError) as error:
                    _log.warning("not_reopened port=%s %s", record.port, error)
                else:
                    self._detach(listener, record)

    async def detach(self, handshake: dict[str, Any]) -> str:
        """Open a port as asked, and leave it open; its address.

        Raises:
            CellwrightError: it cannot be had.
        """
        request = ListenerRequest.from_handshake(handshake)
        async with self._opening:
            listener = await self._made(request)
            self._detach(listener, _record(request, listener, handshake, lasting=True))
        return listener.url

    @asynccontextmanager
    async def opened(self, handshake: dict[str, Any]) -> AsyncIterator[str]:
        """Open a port as asked, for a while; its address.

        Raises:
            CellwrightError: it cannot be had.
        """
        async with self._opening:
            listener = await self._made(ListenerRequest.from_handshake(handshake))
            self._open.append(listener)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, listener)
            yield listener.url
            tasks.cancel_scope.cancel()

    async def page(self, handshake: dict[str, Any]) -> dict[str, str]:
        """The page's address and a code that opens it once: at a port that is open, else at one that is opened for it.

        Raises:
            CellwrightError: none is open, and none can be had, or the page's libraries are not installed.
        """
        if (missing := await page_lacks()) is not None:
            raise PageNotInstalled(f"The page needs {missing}, which is not installed", hint=INSTALL)
        request, exact = ListenerRequest.from_handshake(handshake), bool(handshake.get("exact"))
        async with self._opening:
            fitting = [one for one in self._open if not exact or one.port == request.port]
            listener = (
                fitting[0] if fitting else await self._opened_for_people(request, handshake, exact=exact)
            )
        self._engine.audit.note("sign_in", link_given=True)
        return {"url": _as_seen_here(listener.url), "code": self._entry.codes.issue()}

    async def _opened_for_people(
        self, request: ListenerRequest, handshake: dict[str, Any], *, exact: bool
    ) -> Listener:
        try:
            listener = await self._made(request, lasting=False)
        except CannotListen:
            if exact:
                raise
            listener = await self._made(replace(request, port=0), lasting=False)
        self._detach(listener, _record(request, listener, handshake, lasting=False))
        return listener

    async def _made(self, request: ListenerRequest, *, lasting: bool = True) -> Listener:
        engine = self._engine
        with ExitStack() as undo:
            bound = undo.enter_context(bind(request.host, request.port))
            tokens = await self._token_gate(request.sign_in, url_of(bound))
            asks = tokens.asks if tokens is not None else None
            people = await page_for_people(request.token, self._entry, engine, self._mcp_servers, asks)
            mcp_server = await self._mcp_servers.of(request.dialect, request.toolset)
            listener = Listener.on(bound, request, engine, mcp_server, people, tokens=tokens, lasting=lasting)
            undo.pop_all()
        return listener

    async def _token_gate(self, options: SignInOptions | None, url: str) -> TokenGate | None:
        """How clients sign in at an address, if they may.

        Raises:
            PageNotInstalled: our own issuer asks the user there.
            SignInRefused: nothing says by which address clients reach it.
        """
        if options is None:
            return None
        if options.issuer == OWN and (missing := await page_lacks()) is not None:
            raise PageNotInstalled(
                f"Sign-in asks on the page, which needs {missing}: that is not installed", hint=INSTALL
            )
        from cellwright.oauth.client_documents import MOST_BYTES  # only for who serves
        from cellwright.oauth.token_gate import TokenGate  # as above
        from cellwright.tools.web.document import document_reader  # as above

        read = document_reader(options.client_hosts, MOST_BYTES) if options.client_hosts else None
        return TokenGate.at(url, options, self._engine.settings.storage, self._engine.audit, read)

    def _detach(self, listener: Listener, record: _Detached | None) -> None:
        if record is not None:
            self._detached[listener] = record
            self._remember()
        self._open.append(listener)
        self._tasks.start_soon(self._keep, listener)

    async def _keep(self, listener: Listener) -> None:
        try:
            await self._keep_open(listener)
        finally:
            self._open.remove(listener)
            if self._detached.pop(listener, None) is not None:
                self._remember()

    def _remember(self) -> None:
        try:
            if self._detached:
                write_private(self._paths.listeners, msgspec.json.encode(list(self._detached.values())))
            else:
                Path(self._paths.listeners).unlink(missing_ok=True)
        except OSError as error:  # they are open all the same, and only a daemon after this one misses it
            _log.warning("listeners_not_remembered %s", error)


def _record(
    request: ListenerRequest, listener: Listener, handshake: dict[str, Any], *, lasting: bool
) -> _Detached | None:
    token_file = handshake.get("token_file")
    if not isinstance(token_file, str):
        return None
    return _Detached(
        request.host,
        listener.port,
        token_file,
        lasting,
        request.hosts,
        request.origins,
        request.dialect,
        request.toolset,
        request.sign_in,
    )


def _read(path: str) -> list[_Detached]:
    with suppress(OSError, msgspec.MsgspecError):
        return _decode(Path(path).read_bytes())
    return []


def _as_seen_here(url: str) -> str:
    """A listener's address as a browser on this machine opens it."""
    host = urlsplit(url).hostname or ""
    seen = _EVERY_ADDRESS.get(host)
    return f"http://{seen}:{urlsplit(url).port}" if seen is not None else url


# The page, put together for a listener; where its libraries are missing, the command that adds them stands
# there instead.

INSTALL = "pip install 'cellwright[web]'"


@dataclass(frozen=True, slots=True)
class Entry:
    """How people come in, at every listener of one daemon."""

    codes: Codes = field(default_factory=Codes)
    attempts: Attempts = field(default_factory=Attempts)


async def page_for_people(
    token: str, entry: Entry, engine: Engine, mcp_servers: McpServers, asks: OwnIssuer | None = None
) -> ASGIApp:
    """What a browser finds at ``/``; where an issuer ``asks``, its questions too."""
    planner, verifier = await mcp_servers.plans_and_proofs()
    if (missing := await page_lacks()) is not None:
        return PlainTextResponse(f"The page needs {missing}, which is not installed. Run: {INSTALL}\n", 501)
    made = partial(_made, token, entry, engine, mcp_servers, asks=asks)
    return await anyio.to_thread.run_sync(made, planner, verifier)


async def page_lacks() -> str | None:
    """The library that the page needs and this installation lacks, if there is one."""
    try:
        await anyio.to_thread.run_sync(importlib.import_module, "cellwright.web.site")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cellwright"):
            raise
        return error.name
    return None


def _made(
    token: str,
    entry: Entry,
    engine: Engine,
    mcp_servers: McpServers,
    planner: Planner,
    verifier: Verifier,
    *,
    asks: OwnIssuer | None,
) -> ASGIApp:
    from cellwright.templates import Catalogue  # only for who serves
    from cellwright.templates.galleries import Galleries  # as above
    from cellwright.tools import Fetcher  # as above
    from cellwright.web.auth import SignIn  # as above
    from cellwright.web.requests import Site  # as above
    from cellwright.web.site import application  # as above

    storage = engine.settings.storage
    identities = Identities(token, obtain_key(storage / "page.key"), Members(storage))
    sign_in = SignIn(identities, entry.codes, entry.attempts, engine.audit)
    templates = Catalogue.at(storage)
    galleries = Galleries(engine.settings.templates, storage, Fetcher(engine.settings).body)
    site = Site(engine, planner, verifier, mcp_servers.delegate, sign_in, templates, galleries, asks)
    return application(site)

"""What is on the web, for an agent: pages as Markdown, JSON as a digest, text, files; under the network policy.

The library's side of ``web_fetch``. How an address becomes an answer is ``visits``'s, how a body becomes words
``reader``'s. The network is closed by default, here as for code: what opens it is said in the refusal.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio

from cellwright.engine import Engine, Session
from cellwright.engine.jupyter_sessions import refuse_elsewhere
from cellwright.errors import FetchFailed, FileTooLarge, HostCannot, KernelBusy
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.network_log import NetworkEntry
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.relay import EgressLimits, Resolver, system_resolver
from cellwright.settings import Settings
from cellwright.tools.files.grounds import Ground, check_room, ground_of_place
from cellwright.tools.files.overlaid import change_inside
from cellwright.tools.shelf import Shelf, relative
from cellwright.tools.web.cache import WebCache
from cellwright.tools.web.client import WebClient
from cellwright.tools.web.log import FetchLog
from cellwright.tools.web.names import file_name, numbered, page_name
from cellwright.tools.web.pace import HostPace
from cellwright.tools.web.reader import read_body
from cellwright.tools.web.reading import Kind
from cellwright.tools.web.visits import Visit, Visitor

__all__ = ["FETCHED", "FetchType", "Fetched", "Fetcher", "SavedIn", "fetch"]

FetchType: TypeAlias = Literal["html", "json", "text", "file"]

SavedIn: TypeAlias = Literal["", "data", "session"]

FETCHED = "fetched"
"""Where in the data directory what was fetched lies, if nobody says otherwise."""

_log = logging.getLogger(__name__)

_AT_ONCE = 4
"""Fetches that go on at once; each may hold its whole body in memory."""
_MOST_NUMBERED = 1_000
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = frozenset({"application/xml", "application/javascript", "application/x-ndjson", "application/yaml"})
_ACCEPT: dict[FetchType, str] = {
    "html": "text/html,application/xhtml+xml;q=0.9,text/*;q=0.8,*/*;q=0.5",
    "json": "application/json,*/*;q=0.5",
    "text": "text/plain,text/*;q=0.9,*/*;q=0.5",
    "file": "*/*",
}
_SUFFIXES: dict[Kind, str] = {"html": ".md", "json": ".json", "text": ".txt"}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came of one fetch."""

    url: str
    """Where it was found in the end."""
    type: FetchType
    """What it was read as, which is not always what was asked for."""
    content_type: str
    size: int
    """Of the body, decoded, in bytes."""
    text: str = ""
    """All of it, as Markdown, JSON or text; nothing for a file."""
    title: str = ""
    charset: str = ""
    outline: str = ""
    """The structure of JSON."""
    saved: str | None = None
    """The file it lies in."""
    saved_in: SavedIn = ""
    """Which directory ``saved`` begins at: the data directory, or the session's."""
    redirects: tuple[str, ...] = ()
    """The addresses that led on to this one."""
    cached: Literal["", "fresh", "revalidated"] = ""
    notes: tuple[str, ...] = ()


class Fetcher:
    """Fetches for one engine: its pace, its cache and its log are all of its callers'."""

    def __init__(
        self,
        settings: Settings,
        *,
        resolve: Resolver = system_resolver,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """``resolve`` and ``tls`` are how names become addresses and whose certificates are trusted."""
        self.log = FetchLog(settings)
        self._settings = settings
        self._shelf = Shelf(settings)
        self._resolve = resolve
        # Reading the machine's certificates takes longer than many a request.
        self._tls = cache(tls)
        self._pace = HostPace(settings.fetch_interval_s)
        self._room = anyio.Semaphore(_AT_ONCE)
        keeps = settings.fetch_cache_bytes > 0
        self._cache = (
            WebCache(settings.storage / "fetch" / "cache", settings.fetch_cache_bytes) if keeps else None
        )

    async def fetch(
        self,
        url: str,
        *,
        type: FetchType = "html",  # noqa: A002  # the word of the tool
        session: Session | None = None,
        path: str | None = None,
        working_dir: str = ".",
        save_beyond: int | None = None,
        refresh: bool = False,
    ) -> Fetched:
        """Fetch what is at a URL.

        A file goes to ``path`` below ``working_dir`` in the data directory, or to the session's directory where one is
        given, under a name that nothing has yet. Text longer than ``save_beyond`` characters is saved too. ``refresh``
        asks the host whatever the cache has.

        Raises:
            FetchRefused: the URL, the network policy or the pace; the message names the setting.
            FetchFailed: it did not come, or is not what it was asked for as.
            FileRefused: the path leads elsewhere.
        """
        relative(path or "")
        async with self._room:
            until = anyio.current_time() + self._settings.fetch_timeout_s
            visitor = Visitor(self._client(session), self._pace, self._cache, self._settings.fetch_user_agent)
            visit = await visitor.visit(url, accept=_ACCEPT[type], until=until, refresh=refresh)
            read_as, notes = _read_as(type, visit)
            place = _Place(self._settings, self._shelf, session, working_dir, path)
            fetched = Fetched(
                str(visit.url),
                read_as,
                visit.answer.headers.get("content-type", ""),
                len(visit.answer.body),
                redirects=visit.redirects,
                cached=visit.cached,
                notes=notes,
            )
            if read_as == "file":
                return await self._as_file(fetched, visit, place)
            return await self._as_text(fetched, visit, place, read_as, save_beyond)

    async def _as_file(self, fetched: Fetched, visit: Visit, place: _Place) -> Fetched:
        name = file_name(visit.url, visit.answer.headers)
        saved = await place.put(name, visit.answer.body)
        return _with(fetched, saved)

    async def _as_text(
        self, fetched: Fetched, visit: Visit, place: _Place, kind: Kind, save_beyond: int | None
    ) -> Fetched:
        reading = await read_body(
            visit.answer.body, kind=kind, content_type=fetched.content_type, url=fetched.url
        )
        notes = [*fetched.notes]
        if reading.hidden:
            notes.append(f"{reading.hidden} passages that the page hides from people were left out")
        if reading.cut:
            notes.append("the page is too long to be read to its end")
        saved = _Saved()
        if place.path is not None or (save_beyond is not None and len(reading.text) > save_beyond):
            # JSON as the host wrote it: a number that was read and written again may be another.
            whole = visit.answer.body.decode(reading.charset, "replace") if kind == "json" else reading.text
            content = whole.removeprefix("\ufeff").encode()
            name = page_name(visit.url, content, _SUFFIXES[kind])
            saved = await (place.put if place.path is not None else place.keep)(name, content)
        read = replace(
            fetched,
            text=reading.text,
            title=reading.title,
            charset=reading.charset,
            outline=reading.outline,
            notes=tuple(notes),
        )
        return _with(read, saved)

    def _client(self, session: Session | None) -> WebClient:
        opening = _opening(self._settings, session)
        told = partial(self._told, session)
        return WebClient(opening.rules(), opening.limits, resolve=self._resolve, tls=self._tls, told=told)

    def _told(self, session: Session | None, entry: NetworkEntry) -> None:
        if session is not None:
            session.note_fetch(entry)
            return
        try:
            self.log.add(entry)
        except OSError as error:  # a full disk does not undo what was fetched
            _log.warning("request_not_logged host=%s verdict=%s %s", entry.host, entry.verdict, error)


async def fetch(
    engine: Engine,
    url: str,
    *,
    type: FetchType = "html",  # noqa: A002  # as above
    session: Session | None = None,
) -> Fetched:
    """Fetch one thing; a program that fetches several has a ``Fetcher``, which knows its pace."""
    return await Fetcher(engine.settings).fetch(url, type=type, session=session)


@dataclass(frozen=True, slots=True)
class _Saved:
    """Where a file was put, and what there is to know about it."""

    path: str | None = None
    within: SavedIn = ""
    notes: tuple[str, ...] = ()


def _with(fetched: Fetched, saved: _Saved) -> Fetched:
    return replace(fetched, saved=saved.path, saved_in=saved.within, notes=(*fetched.notes, *saved.notes))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file goes."""

    settings: Settings
    shelf: Shelf
    session: Session | None
    working_dir: str
    path: str | None

    async def put(self, name: str, content: bytes) -> _Saved:
        """Write a file under a name that is free; what a session was given is not what its next cell leaves."""
        session = self.session
        if session is None:
            return await anyio.to_thread.run_sync(self._on_shelf, name, content)
        try:
            saved = await self._for_session(session, name, content)
        except (FileTooLarge, HostCannot, KernelBusy) as error:
            if session.mode != "overlay":
                raise
            # It is here now: the session can be given it later, and without another request.
            shelved = await anyio.to_thread.run_sync(self._on_shelf, name, content)
            note = (
                f"the file lies in the data directory, which the session's code does not see: {error.message}"
            )
            return replace(shelved, notes=(note,))
        await session.take_as_given()
        return saved

    async def keep(self, name: str, content: bytes) -> _Saved:
        """Write what was too long to be shown; the same content has the same name. It can be read without that."""
        try:
            return await anyio.to_thread.run_sync(self._kept, f"{FETCHED}/{name}", content)
        except FileTooLarge as error:
            return _Saved(notes=(f"not saved: {error.message}",))

    async def _for_session(self, session: Session, name: str, content: bytes) -> _Saved:
        refuse_elsewhere(session.record, "files")
        if session.mode == "overlay":
            # Where nothing can be mounted it is another mode, which only a kernel finds out.
            await session.resume()
        ground = ground_of_place(session.place)
        wanted = relative(self.path or name)
        ground.check(wanted, writes=True)
        if not ground.is_layered:
            return await anyio.to_thread.run_sync(self._in_directory, session, ground, wanted, content)
        free = await anyio.to_thread.run_sync(_free, wanted, lambda one: ground.entry(one) is not None)
        await change_inside(session, "write", free, content)
        return _Saved(free, "session")

    # Blocking --------------------------------------------------------------------------------------------------------

    def _in_directory(self, session: Session, ground: Ground, wanted: str, content: bytes) -> _Saved:
        Path(session.place.written_cwd).mkdir(parents=True, exist_ok=True)
        with ground.roots[0].open() as workdir:
            whole = session.mode == "private"
            return _Saved(_written(workdir, wanted, content, self._room, whole=whole), "session")

    def _on_shelf(self, name: str, content: bytes) -> _Saved:
        within = relative(self.working_dir)
        wanted = relative(self.path) if self.path else name if within else f"{FETCHED}/{name}"
        with self.shelf.open(within or ".") as workdir:
            saved = _written(workdir, wanted, content, self._room)
        return _Saved(f"{within}/{saved}" if within else saved, "data")

    def _kept(self, wanted: str, content: bytes) -> _Saved:
        with self.shelf.open() as workdir:
            check_room(workdir, wanted, len(content), self.shelf.room)
            workdir.write(wanted, content, parents=True)
        return _Saved(wanted, "data")

    @property
    def _room(self) -> int:
        policy = self.session.own_policy if self.session is not None else None
        return policy.disk_bytes if policy is not None else self.settings.max_session_disk


def _written(workdir: Workdir, wanted: str, content: bytes, room: int, *, whole: bool = False) -> str:
    name = _free(wanted, workdir.exists)
    check_room(workdir, name, len(content), room, whole=whole)
    workdir.write(name, content, parents=True)
    return name


def _free(wanted: str, is_taken: Callable[[str], bool]) -> str:
    for number in range(1, _MOST_NUMBERED):
        name = numbered(wanted, number)
        if not is_taken(name):
            return name
    raise FetchFailed(f"There are {_MOST_NUMBERED} files called {wanted} already", hint="Give another `path`")


def _opening(settings: Settings, session: Session | None) -> Opening:
    """How far the network is open for whoever asks."""
    mode = "open" if settings.network == "off" and settings.allow_network else settings.network
    limits = session.record.limits if session is not None else None
    if limits is not None and limits.network is not None:
        mode = "off"
    bounds = EgressLimits(
        max_download_bytes=settings.max_download_bytes, idle_timeout_s=settings.network_idle_s
    )
    return Opening(mode, settings.network_allow, settings.network_deny, bounds)


def _read_as(wanted: FetchType, visit: Visit) -> tuple[FetchType, tuple[str, ...]]:
    """What a body is read as: as it was asked for, unless it says that it is something else."""
    kind = visit.answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if wanted in {"file", "json"} or not kind:
        return wanted, ()
    is_json = kind == "application/json" or kind.endswith("+json")
    is_text = kind.startswith("text/") or kind in _TEXTS or kind.endswith("+xml") or is_json or kind in _HTML
    if not is_text:
        return "file", (f"it is {kind}, and was saved as a file",)
    if wanted == "html" and kind not in _HTML:
        return ("json" if is_json else "text"), (f"it is {kind}",)
    return wanted, ()

"""What is on the web, for an agent: pages as Markdown, JSON as a digest, text, files; under the network policy.

The library's side of ``web_fetch``. How an address becomes an answer is ``fetch``'s, how a body becomes words
``fetch``'s. The network is closed by default, here as for code: what opens it is said in the refusal.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import msgspec

from cellwright.engine import Engine, Session
from cellwright.engine.placement import refuse_foreign
from cellwright.errors import FetchFailed, FetchRefused, FileTooLarge, HostCannot, KernelBusy
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.network_log import NetworkEntry, Verdict
from cellwright.sandbox.network_rules import MODE_SETTING, Destination, parse_address
from cellwright.sandbox.proxy import Opening
from cellwright.sandbox.relay import Cut, EgressLimits, Resolver, system_resolver
from cellwright.settings import Settings
from cellwright.tools._confined_process import ask_apart
from cellwright.tools.data_directory import DataDirectory, relative
from cellwright.tools.files.file_system import FileRoots, change_inside, check_capacity, workspace_roots
from cellwright.tools.web._client import ACCEPTED, Answer, Kept, WebCache, WebClient
from cellwright.tools.web.body_reader import Kind, Order, Reading
from cellwright.tools.web.fetch_log import FetchLog
from cellwright.tools.web.urls import WebUrl, file_name, numbered, page_name, parse_url

__all__ = ["FETCHED", "Fetched", "Fetcher", "HostPace", "fetch", "next_turn", "read_body"]
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
        self.log = FetchLog(settings.storage)
        self._settings = settings
        self._data_directory = DataDirectory(
            settings.data_directory or settings.storage / "data", settings.max_session_disk
        )
        self._resolve = resolve
        # Reading the machine's certificates takes longer than many a request.
        self._tls = cache(tls)
        self._pace = HostPace(settings.fetch_interval_s)
        self._capacity = anyio.Semaphore(_AT_ONCE)
        keeps = settings.fetch_cache_bytes > 0
        self._cache = (
            WebCache(settings.storage / "fetch" / "cache", settings.fetch_cache_bytes) if keeps else None
        )

    async def fetch(
        self,
        url: str,
        *,
        type: FetchType = "html",  # the word of the tool
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
        async with self._capacity:
            until = anyio.current_time() + self._settings.fetch_timeout_s
            requests = PageRequests(
                self._client(session), self._pace, self._cache, self._settings.fetch_user_agent
            )
            response = await requests.get(url, accept=_ACCEPT[type], until=until, refresh=refresh)
            read_as, notes = _read_as(type, response)
            target = _Destination(self._data_directory, session, working_dir, path)
            fetched = Fetched(
                str(response.url),
                read_as,
                response.answer.headers.get("content-type", ""),
                len(response.answer.body),
                redirects=response.redirects,
                cached=response.cached,
                notes=notes,
            )
            if read_as == "file":
                return await self._as_file(fetched, response, target)
            return await self._as_text(fetched, response, target, read_as, save_beyond)

    async def body(self, url: str, *, most_bytes: int) -> bytes:
        """What is at a URL that the operator named in the settings, for Cellwright itself and not for an agent.

        Having named it allows its host, and no other unless ``network_allow`` does; ``network_deny`` counts.

        Raises:
            FetchRefused, FetchFailed: as in ``fetch``.
        """
        settings = self._settings
        allowed = (str(parse_url(url).destination), *settings.network_allow)
        limits = EgressLimits(max_download_bytes=most_bytes, idle_timeout_s=settings.network_idle_s)
        rules = Opening("allow", allowed, settings.network_deny, limits).rules()
        client = WebClient(rules, limits, resolve=self._resolve, tls=self._tls, log=partial(self._note, None))
        async with self._capacity:
            until = anyio.current_time() + settings.fetch_timeout_s
            requests = PageRequests(client, self._pace, self._cache, settings.fetch_user_agent)
            return (await requests.get(url, accept=_ACCEPT["file"], until=until)).answer.body

    async def _as_file(self, fetched: Fetched, response: PageResponse, target: _Destination) -> Fetched:
        name = file_name(response.url, response.answer.headers)
        saved = await target.put(name, response.answer.body)
        return _with(fetched, saved)

    async def _as_text(
        self,
        fetched: Fetched,
        response: PageResponse,
        target: _Destination,
        kind: Kind,
        save_beyond: int | None,
    ) -> Fetched:
        reading = await read_body(
            response.answer.body, kind=kind, content_type=fetched.content_type, url=fetched.url
        )
        notes = [*fetched.notes]
        if reading.hidden:
            notes.append(f"{reading.hidden} passages that the page hides from people were left out")
        if reading.cut:
            notes.append("the page is too long to be read to its end")
        saved = _Saved()
        if target.path is not None or (save_beyond is not None and len(reading.text) > save_beyond):
            # JSON as the host wrote it: a number that was read and written again may be another.
            whole = (
                response.answer.body.decode(reading.charset, "replace") if kind == "json" else reading.text
            )
            content = whole.removeprefix("\ufeff").encode()
            name = page_name(response.url, content, _SUFFIXES[kind])
            saved = await (target.put if target.path is not None else target.keep)(name, content)
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
        log = partial(self._note, session)
        return WebClient(opening.rules(), opening.limits, resolve=self._resolve, tls=self._tls, log=log)

    def _note(self, session: Session | None, entry: NetworkEntry) -> None:
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
    type: FetchType = "html",  # as above
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
class _Destination:
    """The directory in which a fetched file is saved."""

    data_directory: DataDirectory
    session: Session | None
    working_dir: str
    path: str | None

    async def put(self, name: str, content: bytes) -> _Saved:
        """Write a file under a name that is free; what a session was given is not what its next cell leaves."""
        session = self.session
        if session is None:
            return await anyio.to_thread.run_sync(self._in_data_directory, name, content)
        try:
            saved = await self._for_session(session, name, content)
        except (HostCannot, KernelBusy) as error:
            if session.mode != "overlay":
                raise
            # It is here now: the session can be given it later, and without another request.
            shelved = await anyio.to_thread.run_sync(self._in_data_directory, name, content)
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
        refuse_foreign(session.record, "files")
        if session.mode == "overlay":
            # Where nothing can be mounted it is another mode, which only a kernel finds out.
            await session.resume()
        file_roots = workspace_roots(session.place)
        path = relative(self.path or name)
        file_roots.check(path, writes=True)
        if not file_roots.is_layered:
            return await anyio.to_thread.run_sync(self._in_directory, session, file_roots, path, content)
        free = await anyio.to_thread.run_sync(_free, path, lambda one: file_roots.entry(one) is not None)
        await change_inside(session, "write", free, content)
        return _Saved(free, "session")

    # Blocking --------------------------------------------------------------------------------------------------------

    def _in_directory(self, session: Session, file_roots: FileRoots, path: str, content: bytes) -> _Saved:
        Path(session.place.written_cwd).mkdir(parents=True, exist_ok=True)
        with file_roots.roots[0].open() as workdir:
            whole = session.mode == "private"
            return _Saved(_written(workdir, path, content, self._capacity, whole=whole), "session")

    def _in_data_directory(self, name: str, content: bytes) -> _Saved:
        within = relative(self.working_dir)
        path = relative(self.path) if self.path else name if within else f"{FETCHED}/{name}"
        with self.data_directory.open(within or ".") as workdir:
            saved = _written(workdir, path, content, self._capacity)
        return _Saved(f"{within}/{saved}" if within else saved, "data")

    def _kept(self, path: str, content: bytes) -> _Saved:
        with self.data_directory.open() as workdir:
            check_capacity(workdir, path, len(content), self.data_directory.capacity)
            workdir.write(path, content, parents=True)
        return _Saved(path, "data")

    @property
    def _capacity(self) -> int:
        policy = self.session.own_policy if self.session is not None else None
        return policy.disk_bytes if policy is not None else self.data_directory.capacity


def _written(workdir: Workdir, path: str, content: bytes, capacity: int, *, whole: bool = False) -> str:
    name = _free(path, workdir.exists)
    check_capacity(workdir, name, len(content), capacity, whole=whole)
    workdir.write(name, content, parents=True)
    return name


def _free(path: str, is_taken: Callable[[str], bool]) -> str:
    for number in range(1, _MOST_NUMBERED):
        name = numbered(path, number)
        if not is_taken(name):
            return name
    raise FetchFailed(f"There are {_MOST_NUMBERED} files called {path} already", hint="Give another `path`")


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


def _read_as(requested: FetchType, response: PageResponse) -> tuple[FetchType, tuple[str, ...]]:
    """What a body is read as: as it was asked for, unless it says that it is something else."""
    kind = response.answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if requested in {"file", "json"} or not kind:
        return requested, ()
    is_json = kind == "application/json" or kind.endswith("+json")
    is_text = kind.startswith("text/") or kind in _TEXTS or kind.endswith("+xml") or is_json or kind in _HTML
    if not is_text:
        return "file", (f"it is {kind}, and was saved as a file",)
    if requested == "html" and kind not in _HTML:
        return ("json" if is_json else "text"), (f"it is {kind}",)
    return requested, ()


# From an address to the answer that it leads to: turns, redirects hop by hop, the cache, one second try.


MAX_REDIRECTS = 10

_REDIRECTS = frozenset(
    {
        HTTPStatus.MOVED_PERMANENTLY,
        HTTPStatus.FOUND,
        HTTPStatus.SEE_OTHER,
        HTTPStatus.TEMPORARY_REDIRECT,
        HTTPStatus.PERMANENT_REDIRECT,
    }
)

_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

_LONGEST_WAIT_S = 10.0

_MAX_SECONDS_DIGITS = 9

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The answer to a request, its address, and the redirects before it."""

    url: WebUrl
    answer: Answer
    redirects: tuple[str, ...]
    cached: Literal["", "fresh", "revalidated"]


@dataclass(frozen=True, slots=True)
class PageRequests:
    """Requests pages: by pace, cache and client."""

    client: WebClient
    pace: HostPace
    cache: WebCache | None
    user_agent: str

    async def get(self, text: str, *, accept: str, until: float, refresh: bool = False) -> PageResponse:
        """Follow an address to its answer.

        Raises:
            FetchRefused: it, or where it leads, may not be asked.
            FetchFailed: no answer came, or one that says no.
        """
        try:
            url = parse_url(text)
        except FetchRefused as error:
            self.client.note(_noted("malformed", error.why))
            raise
        passed: list[str] = []
        while True:
            answer, cached = await self._hop(url, accept, until, refresh=refresh)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or location is None:
                break
            passed.append(str(url))
            if len(passed) > MAX_REDIRECTS:
                raise FetchFailed(
                    f"{text[:_SHOWN]!r} leads on more than {MAX_REDIRECTS} times",
                    hint="Fetch its target itself",
                )
            url = self._next(url, location)
        _check_status(url, answer)
        return PageResponse(url, answer, tuple(passed), cached)

    def _next(self, url: WebUrl, location: str) -> WebUrl:
        try:
            # Headers are bytes; what is not ASCII in them is meant as UTF-8.
            return url.join(location.encode("latin-1").decode("utf-8", "replace"))
        except FetchRefused as error:
            self.client.note(_noted("refused", f"it leads on, and {error.why}", url.destination))
            raise

    async def _hop(
        self, url: WebUrl, accept: str, until: float, *, refresh: bool
    ) -> tuple[Answer, Literal["", "fresh", "revalidated"]]:
        # Judged before the cache: what was kept while the network was open says nothing once it is closed.
        refusal = self.client.rules.refuse_name(url.destination)
        kept = None
        if refusal is None and self.cache is not None:
            kept = self._usable(
                await anyio.to_thread.run_sync(self.cache.find, str(url)), url.destination, accept
            )
        if kept is not None and not refresh and kept.is_fresh(time.time()):
            self.client.note(_noted("allowed", "from the cache", url.destination))
            return kept.answer, "fresh"
        answer = await self._request(url, accept, kept, until, turn=refusal is None)
        if answer.status == HTTPStatus.NOT_MODIFIED and kept is not None:
            answer = replace(kept.answer, headers={**kept.headers, **answer.headers}, address=answer.address)
            await self._keep(url, answer, accept)
            return answer, "revalidated"
        if answer.status == HTTPStatus.OK:
            await self._keep(url, answer, accept)
        return answer, ""

    def _usable(self, kept: Kept | None, destination: Destination, accept: str) -> Kept | None:
        """What is kept, if the host would answer so and may be asked where it was then."""
        address = parse_address(kept.address) if kept is not None else None
        if kept is None or address is None or not kept.answers(accept):
            return None
        return kept if self.client.rules.refuse_address(destination, address) is None else None

    async def _keep(self, url: WebUrl, answer: Answer, accept: str) -> None:
        if self.cache is not None:
            keep = partial(self.cache.keep, str(url), answer, time.time(), accept=accept)
            try:
                await anyio.to_thread.run_sync(keep)
            except OSError as error:  # the answer is good without it
                _log.warning("answer_not_kept host=%s %s", url.destination.host, error)

    async def _request(
        self, url: WebUrl, accept: str, kept: Kept | None, until: float, *, turn: bool
    ) -> Answer:
        """What the host answers; asked once more where it said when to come back, and that is soon."""
        headers = {"User-Agent": self.user_agent, "Accept": accept, "Accept-Encoding": ACCEPTED}
        headers |= kept.conditions if kept is not None else {}
        for again in (False, True):
            if turn:
                await self._turn(url.destination, until)
            try:
                answer = await self.client.get(url, headers, until=until)
            except Cut as cut:
                raise _fetch_error(url, cut) from None
            wait_s = _retry_after_s(answer)
            room_s = min(_LONGEST_WAIT_S, until - anyio.current_time())
            if again or wait_s is None or wait_s >= room_s:
                break
            await anyio.sleep(wait_s)
        return answer

    async def _turn(self, destination: Destination, until: float) -> None:
        try:
            await self.pace.turn(destination.host, until=until)
        except FetchRefused as error:
            self.client.note(replace(_noted("refused", error.why, destination), setting=error.setting))
            raise


def _check_status(url: WebUrl, answer: Answer) -> None:
    if answer.status == HTTPStatus.OK or HTTPStatus.OK < answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    try:
        name = f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        name = str(answer.status)
    text = " ".join(answer.body[:_SHOWN].decode("utf-8", "replace").split())
    is_text = answer.headers.get("content-type", "").startswith(
        ("text/plain", "application/json", "application/problem")
    )
    wait_s = _retry_after_s(answer)
    hint = (
        "Check the URL" if answer.status == HTTPStatus.NOT_FOUND else "Use another source, or try again later"
    )
    if wait_s is not None:
        hint = f"It asks to be left alone for {wait_s:g} s"
    raise FetchFailed(
        f"{url} answered {name}" + (f": {text}" if text and is_text else ""),
        hint=hint,
        status=answer.status,
        retry_after_s=wait_s,
    )


def _retry_after_s(answer: Answer) -> float | None:
    if answer.status not in _BUSY:
        return None
    value = answer.headers.get("retry-after", "").strip()
    is_count = value.isascii() and value.isdigit() and len(value) <= _MAX_SECONDS_DIGITS
    return float(value) if is_count else None


def _fetch_error(url: WebUrl, cut: Cut) -> FetchRefused | FetchFailed:
    """Why a request ended, as whoever asked reads it."""
    setting = f" (setting {cut.setting})" if cut.setting else ""
    message = f"{url} was not fetched: {cut.reason}{setting}"
    if cut.verdict != "refused":
        return FetchFailed(message, hint=cut.hint)
    hint = cut.hint
    if cut.setting == MODE_SETTING:
        hint = f'Have the operator set network = "allow" and add "{url.destination}" to network_allow'
    return FetchRefused(message, hint=hint, setting=cut.setting)


def _noted(verdict: Verdict, reason: str, destination: Destination | None = None) -> NetworkEntry:
    return NetworkEntry(
        number=0,
        time=time.time(),
        seconds=0.0,
        method="GET",
        host=destination.host if destination else "",
        port=destination.port if destination else 0,
        address=None,
        bytes_up=0,
        bytes_down=0,
        verdict=verdict,
        reason=reason,
        setting=None,
        execution=None,
    )


# How often one host is asked: a few requests at once, then one every so often. Polite, and no wall.

BURST = 4
"""Requests to a host that need not wait."""

_MOST_HOSTS = 1_000


def next_turn(due: float, now: float, interval_s: float) -> tuple[float, float]:
    """How long a request waits for its turn, and when the next one is due; ``due`` is what the last one was told."""
    due = max(due, now)
    return max(0.0, due - now - (BURST - 1) * interval_s), due + interval_s


class HostPace:
    """Who has to wait for a turn with which host."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due: OrderedDict[str, float] = OrderedDict()

    async def turn(self, host: str, *, until: float) -> None:
        """Wait until the host may be asked.

        Raises:
            FetchRefused: that would be too late.
        """
        now = anyio.current_time()
        wait_s, due = next_turn(self._due.get(host, now), now, self._interval_s)
        if wait_s and now + wait_s >= until:
            raise FetchRefused(
                f"{host} was asked too often: the next turn is in {wait_s:.0f} s",
                hint="Wait, or have the operator lower `fetch_interval_s`",
                setting="fetch_interval_s",
            )
        self._due[host] = due
        self._due.move_to_end(host)
        if len(self._due) > _MOST_HOSTS:
            self._due.popitem(last=False)
        if wait_s:
            await anyio.sleep(wait_s)


# Bodies from the web read in a process of their own, since they are strangers'. The child is ``digests``.

CPU_S = 20

# A busy machine gives processor time late; a process that gets none at all is not waited for.
TIMEOUT_S = 120.0

MEMORY_BYTES = 1536 * 1024**2

_MOST_ANSWERED = 200 * 1024**2

_AS_FILE = "Fetch it with type='file' and look at it there"


async def read_body(
    body: bytes,
    *,
    kind: Kind,
    content_type: str,
    url: str,
    limit_s: float = TIMEOUT_S,
    memory_bytes: int = MEMORY_BYTES,
    cpu_s: int = CPU_S,
) -> Reading:
    """What a body says, read as HTML, JSON or text.

    Raises:
        FetchFailed: it is not that, or not to be read within the bounds.
    """
    order = Order(body, content_type, url, kind, memory_bytes, cpu_s)
    try:
        output, code = await ask_apart(
            "cellwright.tools.web.body_reader",
            given=msgspec.msgpack.encode(order),
            limit_s=limit_s,
            most_answered=_MOST_ANSWERED,
        )
    except TimeoutError:
        raise FetchFailed(f"{url} was not read as {kind} within {limit_s:g} s", hint=_AS_FILE) from None
    try:
        reading = msgspec.msgpack.decode(output, type=Reading)
    except msgspec.MsgspecError:
        reason = f"the process that reads it ended with {code}"
        raise FetchFailed(f"{url} cannot be read as {kind}: {reason}", hint=_AS_FILE) from None
    if reading.error is not None:
        raise FetchFailed(f"{url} cannot be read as {kind}: {reading.error}", hint=_AS_FILE)
    return reading

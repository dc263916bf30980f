"""From an address to the answer that it leads to: turns, redirects hop by hop, the cache, one second try.

Each hop is judged as if somebody had asked for it; nothing is carried from one to the next. What an answer means is for
``fetching``.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Literal

import anyio

from cellwright.errors import FetchFailed, FetchRefused
from cellwright.sandbox.network_log import NetworkEntry, Verdict
from cellwright.sandbox.network_rules import MODE_SETTING, Destination, parse_address
from cellwright.sandbox.relay import Cut
from cellwright.tools.web.cache import Kept, WebCache
from cellwright.tools.web.client import Answer, WebClient
from cellwright.tools.web.codings import ACCEPTED
from cellwright.tools.web.pace import HostPace
from cellwright.tools.web.urls import WebUrl, parse_url

__all__ = ["MAX_REDIRECTS", "Visit", "Visitor"]

_log = logging.getLogger(__name__)

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
class Visit:
    """The answer, where it was found, and how one got there."""

    url: WebUrl
    answer: Answer
    redirects: tuple[str, ...]
    cached: Literal["", "fresh", "revalidated"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """What visits go through."""

    client: WebClient
    pace: HostPace
    cache: WebCache | None
    user_agent: str

    async def visit(self, text: str, *, accept: str, until: float, refresh: bool = False) -> Visit:
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
        return Visit(url, answer, tuple(passed), cached)

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
        answer = await self._asked(url, accept, kept, until, turn=refusal is None)
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

    async def _asked(
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
                raise _told(url, cut) from None
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
    said = " ".join(answer.body[:_SHOWN].decode("utf-8", "replace").split())
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
        f"{url} answered {name}" + (f": {said}" if said and is_text else ""),
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


def _told(url: WebUrl, cut: Cut) -> FetchRefused | FetchFailed:
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

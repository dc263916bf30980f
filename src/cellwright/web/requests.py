"""One request of somebody who is signed in: what was asked, by whom, and how to answer it with HTML or an action's result."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive

from cellwright.audit import acting
from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError, UnknownConversation, UnknownRun, UnknownSession
from cellwright.oauth.options import UnknownConnectRequest
from cellwright.people import Person, Role, may
from cellwright.web._templates import render

if TYPE_CHECKING:
    from cellwright.delegation import Delegate
    from cellwright.oauth.own_issuer import OwnIssuer
    from cellwright.plans import Planner
    from cellwright.templates import Catalogue
    from cellwright.templates.galleries import Galleries
    from cellwright.verification import Verifier
    from cellwright.web.auth import SignIn

__all__ = ["PageRequest", "Site", "action", "answer", "attachment", "page"]

_log = logging.getLogger(__name__)

View: TypeAlias = Callable[["PageRequest"], Awaitable[Response]]

_MAX_BODY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Site:
    """What views work with."""

    engine: Engine
    planner: Planner
    verifier: Verifier
    delegate: Delegate
    sign_in: SignIn
    templates: Catalogue
    galleries: Galleries
    asks: OwnIssuer | None = None
    """Whose clients the user is asked about here, if clients sign in by an issuer of our own."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of somebody who is signed in."""

    http: Request
    """As Starlette has it."""
    site: Site
    person: Person

    @property
    def engine(self) -> Engine:
        return self.site.engine

    def session(self) -> Session:
        """The session that the address names.

        Raises:
            UnknownSession: there is none.
        """
        return self.engine.session(self.http.path_params["session_id"])

    def refuse_if_anothers(self, session: Session) -> None:
        """Let nobody change a session that another person has.

        Raises:
            SessionTaken: another has it.
        """
        if session.held_by != self.person.name:
            session.refuse_if_taken()

    def html(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A whole page."""
        about = {
            "person": self.person,
            "csrf": self.site.sign_in.csrf(self.http),
            "path": self.http.url.path,
        }
        return HTMLResponse(_bytes(render(template, **about, **values)), status)

    def fragment(self, template: str, **values: Any) -> HTMLResponse:
        """A part of a page, for whoever loads it into one."""
        return HTMLResponse(_bytes(render(template, person=self.person, **values)))

    def done(
        self,
        say: str = "",
        *,
        parts: Mapping[str, str | None] | None = None,
        upto: int | None = None,
        go: str | None = None,
    ) -> Response:
        """An action was done: what to say, parts of the page that changed by it (None: gone), where to go next.

        ``upto`` is the event up to which the stream would tell the same; without it the parts are this answer's alone.
        """
        return answer({"say": say, "parts": parts or {}, "upto": upto, "go": go})

    async def form(self) -> dict[str, str]:
        """The texts that a form sent.

        Raises:
            HTTPException: it is longer than a form may be, or is no form.
        """
        form = await self.http.form(max_part_size=_MAX_BODY_BYTES)
        return {name: value for name, value in form.items() if isinstance(value, str)}


def _at_most(limit_bytes: int, receive: Receive) -> Receive:
    """Stop reading a body that goes on beyond a limit, whatever length it was announced with."""
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit_bytes:
            raise HTTPException(
                413, f"This is longer than the {limit_bytes // 1024**2} MB that one request may have"
            )
        return message

    return receiving


def answer(told: Mapping[str, Any], status: int = 200) -> Response:
    """What the page's script reads; in letters that every text can be written with."""
    return Response(json.dumps(told), status, media_type="application/json")


def _bytes(html: str) -> bytes:
    """A notebook may hold half a character, which no encoding has."""
    return html.encode(errors="replace")


def page(path: str, view: View, *, needs: Role = "view", as_data: bool = False) -> Route:
    """Something to look at; with ``as_data`` the page's script looks, and reads what went wrong as data too."""
    return Route(path, _let_in(view, needs, _refusal if as_data else _error_page), methods=["GET"])


def action(
    path: str,
    act: View,
    *,
    needs: Role = "run",
    while_held: bool = False,
    most_bytes: int = _MAX_BODY_BYTES,
) -> Route:
    """Something to do. The sign-in has checked that the page itself sent it.

    While one person has a session, another may only look, unless this may be done ``while_held``. What is sent with it
    has at most ``most_bytes``.
    """

    async def alone(request: PageRequest) -> Response:
        if not while_held and "session_id" in request.http.path_params:
            request.refuse_if_anothers(request.session())
        return await act(request)

    return Route(path, _let_in(alone, needs, _refusal, most_bytes), methods=["POST"])


def _let_in(
    view: View,
    needs: Role,
    refuse: Callable[[PageRequest, CellwrightError, int], Response],
    most_bytes: int = _MAX_BODY_BYTES,
) -> Callable[[Request], Awaitable[Response]]:
    @wraps(view)
    async def respond(http: Request) -> Response:
        bounded = Request(http.scope, _at_most(most_bytes, http.receive))
        request = PageRequest(bounded, http.app.state.site, http.state.person)
        try:
            with acting(f"page:{request.person.name}"):
                return await _allowed(request, needs, view)
        except _NotAllowed as error:
            return refuse(request, error, 403)
        except (UnknownSession, UnknownConversation, UnknownRun, UnknownConnectRequest) as error:
            return refuse(request, error, 404)
        except CellwrightError as error:
            return refuse(request, error, 409)
        except HTTPException as error:
            return refuse(request, _Unreadable(error.detail), error.status_code)
        except Exception:  # noqa: BLE001  # boundary: a defect met by one page must be told, and must not end the others
            _log.exception("page_failed path=%s", http.url.path)
            return refuse(request, _Defect(), 500)

    return respond


async def _allowed(request: PageRequest, needs: Role, view: View) -> Response:
    if not may(request.person, needs):
        with request.engine.audit.outcome("people", path=request.http.url.path):
            raise _NotAllowed(needs, request.person)
    return await view(request)


class _Defect(CellwrightError):
    code = "page_failed"

    def __init__(self) -> None:
        super().__init__("This failed inside Cellwright", hint="Look at `cellwright daemon logs`")


class _Unreadable(CellwrightError):
    code = "form_unreadable"

    def __init__(self, problem: str) -> None:
        super().__init__(problem, hint="Send less at once: larger data belongs in a file of the project")


class _NotAllowed(CellwrightError):
    code = "not_allowed"

    def __init__(self, needs: Role, person: Person) -> None:
        super().__init__(
            f"{person.name} may {person.role}, and this needs the role {needs}",
            hint="Whoever runs `cellwright serve` gives roles with `cellwright people add`",
        )


def _error_page(request: PageRequest, error: CellwrightError, status: int) -> Response:
    return request.html("error.html", status=status, title="Not here", error=error)


def _refusal(_request: PageRequest, error: CellwrightError, status: int) -> Response:
    return answer({"error": error.message, "hint": error.hint, "code": error.code}, status)


# What a browser is told of an answer that it is to save. Pure.


def attachment(name: str) -> dict[str, str]:
    """The header that names the file, whatever letters its name has."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}

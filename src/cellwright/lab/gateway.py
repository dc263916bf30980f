"""A gateway to one session, for a Jupyter server that was told to have its kernels elsewhere.

It offers one kernelspec and one kernel, and both are the session. Who may speak to it, and where, is not known here
(see the daemon's guard and listeners).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import cellwright
from cellwright.audit import acting
from cellwright.engine import Engine, Session
from cellwright.errors import CellwrightError, UnknownSession
from cellwright.lab._channels import (
    Channels,
    is_kernel_id,
    kernel_model,
    kernelspec,
    kernelspec_name,
    kernelspecs,
    new_kernel_id,
)

__all__ = ["RESTARTED", "Gateway"]

RESTARTED = "The kernel was restarted from JupyterLab, and what it had in memory is gone"
_Answer: TypeAlias = Callable[[Request, Session], Awaitable[Response]]


class Gateway:
    """What one Lab sees of Cellwright."""

    def __init__(self, engine: Engine, session_id: str) -> None:
        self._engine = engine
        self._session_id = session_id
        self._connections: Counter[str] = Counter()
        """Sockets, by the name of the kernel that they were opened for."""
        self._names: dict[str, None] = {}
        """The names that the session's one kernel goes by here, oldest first."""
        self._let_go: set[str] = set()
        self._ended_here: set[int] = set()
        """Generations of the kernel that a restart in Lab has ended: Lab knows."""
        self._last_activity = time.time()

    def app(self) -> Starlette:
        kernel = "/api/kernels/{kernel_id}"
        answers: list[tuple[str, str, _Answer]] = [
            ("GET", "/api", self._about),
            ("GET", "/api/kernelspecs", self._kernelspecs),
            ("GET", "/api/kernelspecs/{name}", self._kernelspec),
            ("GET", "/api/kernels", self._kernels),
            ("POST", "/api/kernels", self._start),
            ("GET", kernel, self._kernel),
            ("DELETE", kernel, self._shut_down),
            ("POST", f"{kernel}/interrupt", self._interrupt),
            ("POST", f"{kernel}/restart", self._restart),
        ]
        routes = [Route(path, self._answering(do), methods=[method]) for method, path, do in answers]
        return Starlette(routes=[*routes, WebSocketRoute(f"{kernel}/channels", self._channels)])

    def _answering(self, do: _Answer) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                session = self._engine.session(self._session_id)
                if not self._knows(request.path_params.get("kernel_id")):
                    return _refusal(404, "There is no such kernel here")
                with acting("lab"):
                    return await do(request, session)
            except CellwrightError as error:
                return _refusal(404 if isinstance(error, UnknownSession) else 503, str(error))

        return endpoint

    def _knows(self, kernel_id: str | None) -> bool:
        """Whether this is a name of the kernel; one that an earlier daemon gave is."""
        if kernel_id is None:
            return True
        if kernel_id in self._let_go or not is_kernel_id(kernel_id, self._session_id):
            return False
        self._names[kernel_id] = None
        return True

    # Questions ---------------------------------------------------------------------------------------------------

    async def _about(self, _: Request, session: Session) -> Response:
        return JSONResponse({"version": cellwright.__version__, "session": session.id})

    async def _kernelspecs(self, _: Request, session: Session) -> Response:
        return JSONResponse(kernelspecs(session))

    async def _kernelspec(self, request: Request, session: Session) -> Response:
        if request.path_params["name"] != kernelspec_name(session):
            return _refusal(404, f"The only kernel here is {kernelspec_name(session)}")
        return JSONResponse(kernelspec(session))

    async def _kernels(self, _: Request, session: Session) -> Response:
        return JSONResponse([self._model(session, kernel_id) for kernel_id in self._names])

    async def _kernel(self, request: Request, session: Session) -> Response:
        return JSONResponse(self._model(session, request.path_params["kernel_id"]))

    def _model(self, session: Session, kernel_id: str) -> dict[str, object]:
        connections = self._connections[kernel_id]
        return kernel_model(session, kernel_id, last_activity=self._last_activity, connections=connections)

    # Wishes ------------------------------------------------------------------------------------------------------

    async def _start(self, _: Request, session: Session) -> Response:
        await session.resume()
        kernel_id = new_kernel_id(session.id)
        self._names[kernel_id] = None
        return JSONResponse(self._model(session, kernel_id), 201)

    async def _shut_down(self, request: Request, _: Session) -> Response:
        """A person's window closes, and the session goes on: it is not that window's, and others work on it."""
        kernel_id = request.path_params["kernel_id"]
        self._names.pop(kernel_id, None)
        self._let_go.add(kernel_id)
        return Response(status_code=204)

    async def _interrupt(self, _: Request, session: Session) -> Response:
        await session.interrupt()
        return Response(status_code=204)

    async def _restart(self, request: Request, session: Session) -> Response:
        self._ended_here.add(session.generation)
        await session.restart()
        session.context.notice = RESTARTED
        return JSONResponse(self._model(session, request.path_params["kernel_id"]))

    async def _channels(self, socket: WebSocket) -> None:
        try:
            session = self._engine.session(self._session_id)
        except UnknownSession as error:
            await socket.send_denial_response(_refusal(404, str(error)))
            return
        kernel_id = socket.path_params["kernel_id"]
        if not self._knows(kernel_id):
            await socket.send_denial_response(_refusal(404, "There is no such kernel here"))
            return
        self._connections[kernel_id] += 1
        try:
            with acting("lab"), session.shown_elsewhere():
                await Channels(socket, self._engine, session, knows=self._ended_here).serve()
        finally:
            self._connections[kernel_id] -= 1
            self._last_activity = time.time()


def _refusal(code: int, message: str) -> Response:
    return JSONResponse({"message": message, "reason": message}, code)

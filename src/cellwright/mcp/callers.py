"""Who makes a tool call, and what it hears while the call goes on: progress, log messages, whether it was taken back.

A plain ``Caller`` is a program in the daemon's own process, such as the data agent; a ``RequestCaller`` is a client on
the other side of the protocol.
"""

from __future__ import annotations

import warnings
from typing import Any

from mcp import MCPDeprecationWarning
from mcp.server.mcpserver import Context
from mcp.server.session import ServerSession
from mcp.types import LOG_LEVEL_META_KEY, LoggingLevel
from starlette.requests import ClientDisconnect

from cellwright.mcp.clients import Clients

__all__ = ["Caller", "RequestCaller"]

_MAX_PROGRAM = 60


class Caller:
    """A caller in the same process: it hears nothing before the reply, and takes a call back by cancelling its task."""

    wants_log = False
    """Whether it is sent log messages during the call."""

    def __init__(self, program: str | None, session: ServerSession | None = None) -> None:
        self.program = program
        """What it calls itself."""
        self.session = session
        """Its connection, where it has one: its own model may be asked through it."""

    async def report_progress(self, progress: float, message: str) -> None:
        """Tell how far the call is."""

    async def log(self, level: LoggingLevel, data: Any) -> None:
        """Send a log message; only where ``wants_log`` says so."""

    async def was_cancelled(self) -> bool:
        """Whether the caller took back this call, rather than went away or was cut off by the daemon's end."""
        return True


class RequestCaller(Caller):
    """The client that sent a request."""

    def __init__(self, context: Context[Clients, Any]) -> None:
        session = context.request_context.session
        about = session.client_params
        super().__init__(about.client_info.name[:_MAX_PROGRAM] if about is not None else None, session)
        self._context = context
        self.wants_log = LOG_LEVEL_META_KEY in (context.request_context.meta or {})

    async def report_progress(self, progress: float, message: str) -> None:
        await self._context.report_progress(progress, message=message)

    async def log(self, level: LoggingLevel, data: Any) -> None:
        with warnings.catch_warnings():
            # Deprecated by the newest protocol, and still asked for. Awaited outside: the filters are everybody's.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            sending = self._context.session.send_log_message(level, data, logger="cellwright")
        await sending

    async def was_cancelled(self) -> bool:
        context = self._context.request_context
        # The SDK has no public word for this yet: the request's own channel knows that its peer cancelled it.
        if context.session._request_outbound.cancel_requested.is_set():  # noqa: SLF001
            return True
        if context.request is None:
            return False
        try:
            # The newest protocol has no other way over HTTP to take back a call than to close its response.
            return context.protocol_version >= "2026" and await context.request.is_disconnected()
        except (ClientDisconnect, RuntimeError):
            return False

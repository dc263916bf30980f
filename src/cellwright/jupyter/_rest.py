"""Asks a Jupyter server by HTTP: kernels, sessions, kernelspecs. What kernels say comes over ``channels``.

Redirects are never followed, so a token goes nowhere but to the address that it was given for; and it goes in a
header, never in an address, which others write to their logs.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from cellwright.errors import KernelStartError
from cellwright.jupyter._servers import is_loopback, joined

if TYPE_CHECKING:
    import httpx2

__all__ = ["NOT_FOUND", "Api", "ServerRefused", "http_library", "status_text"]

T = TypeVar("T")
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

TIMEOUT_S = 20.0
NOT_FOUND = 404
_TOKEN_REFUSED = (401, 403)
_REDIRECTS = range(300, 400)
_LONGEST_ANSWER = 300
# Whatever is asked here is answered with less, unless by somebody who means to fill our memory.
_LARGEST_ANSWER = 64 << 20
_LARGEST_EVENT = 1 << 20


class _Spec(msgspec.Struct):
    language: str | None = None


class _Offered(msgspec.Struct):
    spec: _Spec | None = None


class _Specs(msgspec.Struct):
    kernelspecs: dict[str, _Offered | None] | None = None
    default: str | None = None


class _Kernel(msgspec.Struct):
    id: str
    execution_state: str | None = None
    connections: int | None = None


class _Session(msgspec.Struct):
    path: str | None = None
    kernel: _Kernel | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a server said, whole."""

    status: int
    reason: str
    body: bytes


class ServerRefused(KernelStartError):
    """A server answered with an error, or not at all; ``status`` is HTTP's, none where there was no answer."""

    def __init__(self, message: str, *, hint: str | None = None, status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def http_library() -> ModuleType:
    """The library that speaks HTTP.

    Raises:
        KernelStartError: it is not installed.
    """
    try:
        return importlib.import_module("httpx2")
    except ImportError:
        raise KernelStartError(
            "Kernels on Jupyter servers need httpx2, which is not installed",
            hint="pip install 'cellwright[jupyter]'",
        ) from None


class Api:
    """One server's REST interface, with the token that opens it. Use as a context."""

    def __init__(self, name: str, url: str, token: str, *, username: str = "") -> None:
        self.name = name
        """What people call the server."""
        self.url = url.rstrip("/")
        self.username = username
        self.token = token
        self.renew: Callable[[], Awaitable[bool]] | None = None
        """Gets another token where this one is refused, and says whether there is one."""
        self.is_stopped: Callable[[], Awaitable[bool]] | None = None
        """Asks whoever started the server whether it was ended; None where nobody can be asked."""
        # A proxy of the environment's cannot know what is this machine's own.
        self._http: httpx2.AsyncClient = http_library().AsyncClient(
            timeout=TIMEOUT_S, follow_redirects=False, trust_env=not is_loopback(url)
        )

    def __repr__(self) -> str:
        return f"Api({self.name!r}, {self.url!r})"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"token {self.token}"} if self.token else {}

    async def close(self) -> None:
        """Let go of its connections."""
        await self._http.aclose()

    async def ask(
        self, method: Method, *parts: str, query: str = "", body: Any = None, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """What the server answers, read from its JSON; None where it says nothing.

        Raises:
            ServerRefused: it answers with an error, or not at all.
        """
        doing = f"{method} {'/'.join(parts)}"
        url = joined(self.url, *parts) + (f"?{query}" if query else "")
        answer = await self._sent(doing, method, url, body, timeout_s)
        if answer.status in _TOKEN_REFUSED and self.renew is not None and await self.renew():
            answer = await self._sent(doing, method, url, body, timeout_s)
        if answer.status >= _REDIRECTS.start:
            raise self._refused(doing, answer.status, _refusal_text(answer))
        try:
            return msgspec.json.decode(answer.body) if answer.body else None
        except (msgspec.MsgspecError, RecursionError):
            raise self._refused(doing, answer.status, "something that is not JSON") from None

    async def ask_for(
        self,
        kind: type[T],
        method: Method,
        *parts: str,
        query: str = "",
        body: Any = None,
        timeout_s: float = TIMEOUT_S,
    ) -> T:
        """The same, as what it has to be.

        Raises:
            ServerRefused: as ``ask``, and where the answer is something else.
        """
        answer = await self.ask(method, *parts, query=query, body=body, timeout_s=timeout_s)
        try:
            return msgspec.convert(answer, kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._unreadable(f"{method} {'/'.join(parts)}", error) from None

    async def follow(self, *parts: str) -> AsyncGenerator[dict[str, Any], None]:
        """What the server tells of something as it goes on, one event after the other.

        Raises:
            ServerRefused: it answers with an error, or not at all.
        """
        doing = f"GET {'/'.join(parts)}"
        try:
            async with self._http.stream(
                "GET", joined(self.url, *parts), headers=self.headers, timeout=None
            ) as answer:
                if answer.status_code >= _REDIRECTS.start:
                    raise self._refused(doing, answer.status_code, str(answer.reason_phrase))
                rest = b""
                async for data in answer.aiter_bytes():
                    *lines, rest = (rest + data).split(b"\n")
                    if len(rest) > _LARGEST_EVENT:
                        raise self._too_much(doing, _LARGEST_EVENT)
                    for line in lines:
                        if line.startswith(b"data:"):
                            yield msgspec.json.decode(line.removeprefix(b"data:"), type=dict[str, Any])
        except http_library().HTTPError as error:
            raise self._unreachable(doing, error) from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._unreadable(doing, error) from None

    async def _sent(self, doing: str, method: Method, url: str, body: Any, timeout_s: float) -> _Answer:
        http = http_library()
        try:
            with suppress(*([http.ReadTimeout] if method == "GET" else [])):
                return await self._exchanged(doing, method, url, body, timeout_s)
            # It is there, and the question changes nothing. Where this machine or that one stood still, nobody had
            # the time that is over.
            return await self._exchanged(doing, method, url, body, timeout_s)
        except http.HTTPError as error:
            raise self._unreachable(doing, error) from None

    async def _exchanged(self, doing: str, method: Method, url: str, body: Any, timeout_s: float) -> _Answer:
        said = bytearray()
        async with self._http.stream(
            method, url, json=body, headers=self.headers, timeout=timeout_s
        ) as answer:
            async for data in answer.aiter_bytes():
                said += data
                if len(said) > _LARGEST_ANSWER:
                    raise self._too_much(doing, _LARGEST_ANSWER)
            return _Answer(answer.status_code, str(answer.reason_phrase), bytes(said))

    def _too_much(self, doing: str, limit: int) -> ServerRefused:
        return ServerRefused(
            f"The Jupyter server {self.name!r} at {self.url} answers {doing} with more than {limit >> 20} MB",
            hint="See whether the address is a Jupyter server's",
        )

    def _unreadable(self, doing: str, error: Exception) -> ServerRefused:
        return ServerRefused(
            f"The Jupyter server {self.name!r} at {self.url} answers {doing} with what is no answer to that: "
            f"{str(error)[:_LONGEST_ANSWER]}",
            hint="See whether the address is a Jupyter server's",
        )

    def _refused(self, doing: str, status: int, said: str) -> ServerRefused:
        message, hint = status_text(status, self.name, self.url)
        return ServerRefused(f"{message} ({doing}: {status} {said})".rstrip(), hint=hint, status=status)

    def _unreachable(self, doing: str, error: Exception) -> ServerRefused:
        return ServerRefused(
            f"The Jupyter server {self.name!r} at {self.url} cannot be reached ({doing}: {_cause(error)})",
            hint="See whether it runs and whether its address is right, then try again",
        )

    # Kernels -----------------------------------------------------------------------------------------------------

    async def kernelspecs(self) -> dict[str, Any]:
        """The kernels that the server can start, and which one unless told."""
        specs = await self.ask_for(_Specs, "GET", "api", "kernelspecs")
        told: dict[str, Any] = msgspec.to_builtins(specs)
        return told

    async def start_kernel(self, name: str) -> str:
        """The id of a new kernel."""
        body: dict[str, Any] = {"name": name}
        if self.username:
            # An enterprise gateway starts it as, and charges it to, this user. Nothing else of ours goes there.
            body["env"] = {"KERNEL_USERNAME": self.username}
        made = await self.ask_for(_Kernel, "POST", "api", "kernels", body=body, timeout_s=3 * TIMEOUT_S)
        return made.id

    async def find_session(self, path: str) -> str | None:
        """The id of the kernel that people have for a notebook there, if they have one."""
        for session in await self.ask_for(list[_Session] | None, "GET", "api", "sessions") or []:  # type: ignore[arg-type]  # a union is no type to it
            if session.path == path and session.kernel is not None:
                return str(session.kernel.id)
        return None

    async def start_session(self, path: str, name: str) -> str:
        """The id of a new kernel for a notebook there: whoever opens that gets the same one."""
        body = {"path": path, "name": path.rpartition("/")[2], "type": "notebook", "kernel": {"name": name}}
        made = await self.ask_for(_Session, "POST", "api", "sessions", body=body, timeout_s=3 * TIMEOUT_S)
        if made.kernel is None:
            raise self._unreadable("POST api/sessions", ValueError("no kernel"))
        return made.kernel.id

    async def kernel(self, kernel_id: str) -> dict[str, Any] | None:
        """What the server knows of a kernel; None where it has none of that id."""
        try:
            model = await self.ask("GET", "api", "kernels", kernel_id)
        except ServerRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise
        try:
            msgspec.convert(model, _Kernel)
        except msgspec.MsgspecError as error:
            raise self._unreadable(f"GET api/kernels/{kernel_id}", error) from None
        found: dict[str, Any] = model
        return found

    async def interrupt_kernel(self, kernel_id: str) -> None:
        """Interrupt what runs on it, in whatever way that kernel is interrupted."""
        await self.ask("POST", "api", "kernels", kernel_id, "interrupt")

    async def restart_kernel(self, kernel_id: str) -> None:
        """Have it start again, empty, under its id."""
        await self.ask("POST", "api", "kernels", kernel_id, "restart", timeout_s=3 * TIMEOUT_S)

    async def end_kernel(self, kernel_id: str) -> None:
        """End it; one that is gone is fine."""
        try:
            await self.ask("DELETE", "api", "kernels", kernel_id)
        except ServerRefused as error:
            if error.status != NOT_FOUND:
                raise


def status_text(status: int, name: str, url: str) -> tuple[str, str]:
    """What an HTTP status means here, and the next step."""
    server = f"The Jupyter server {name!r} at {url}"
    match status:
        case 401 | 403:
            return (
                f"{server} refuses the token",
                "Set jupyter_token or jupyter_token_file to one that it accepts",
            )
        case 404:
            return f"{server} has no such thing", "See whether the address is the server's own, path and all"
        case 424 | 503:
            return f"{server} is not running", "Run a cell: a hub's server is then started again"
        case 429:
            return f"{server} is asked too often", "Try again in a while"
        case status if status in _REDIRECTS:
            return f"{server} sends elsewhere", "Give the address that it leads to, and a token for it"
        case _:
            return f"{server} failed", "See the server's log"


def _refusal_text(answer: _Answer) -> str:
    """What a server said about its refusal, shortened."""
    try:
        body = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError):
        return answer.reason
    text = str(body.get("message") or body.get("reason") or "") if isinstance(body, dict) else ""
    return text[:_LONGEST_ANSWER] or answer.reason


def _cause(error: BaseException) -> str:
    """The reason behind a failure to reach a server, in words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    text = str(error).strip()
    return text or type(error).__name__

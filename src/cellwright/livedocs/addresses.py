"""Where a notebook's server is and what opens it, and how a refusal of it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from cellwright.errors import CellwrightError, HostCannot, HostUnreachable, NotebookError

if TYPE_CHECKING:
    import httpx2

__all__ = ["ServerAddress", "answered", "client_for", "refusal", "required", "unreachable"]

_UNAUTHORIZED = (401, 403)
_NOT_FOUND = 404
_SERVER_FAILED = 500
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A Jupyter server; the token is in no text that is made of this."""

    name: str
    """What people call it."""
    url: str
    token: str = field(repr=False)
    by_proxy: bool = True
    """Whether a proxy that the environment names may stand between; never to this machine itself."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"} if self.token else {}

    def api(self, *parts: str) -> str:
        """The address of a call; slashes in a part stay."""
        return "/".join([self.url.rstrip("/"), "api", *(quote(part.strip("/"), safe="/:") for part in parts)])

    def socket(self, *parts: str) -> str:
        """The same, for a WebSocket."""
        split = urlsplit(self.api(*parts))
        return urlunsplit(split._replace(scheme="wss" if split.scheme == "https" else "ws"))


def client_for(address: ServerAddress) -> httpx2.AsyncClient:
    """What asks a server; redirects are not followed, so that a token goes nowhere else."""
    import httpx2  # noqa: PLC0415  # an extra

    return httpx2.AsyncClient(
        headers=address.headers, timeout=_TIMEOUT_S, follow_redirects=False, trust_env=address.by_proxy
    )


async def answered(
    address: ServerAddress, client: httpx2.AsyncClient, method: str, url: str, **options: Any
) -> Any:
    """What the server answers to a call, decoded.

    Raises:
        HostUnreachable: it cannot be reached, or fails.
        HostCannot: it does not let us.
        NotebookError: there is no such notebook or call.
    """
    import httpx2  # noqa: PLC0415  # an extra

    try:
        response = await client.request(method, url, **options)
    except httpx2.HTTPError as error:
        raise unreachable(address, error) from None
    if response.is_success:
        return response.json() if response.content else None
    raise refusal(address, response.status_code, f"{method} {urlsplit(url).path}")


def unreachable(address: ServerAddress, error: BaseException) -> HostUnreachable:
    """Tells that the server does not answer."""
    return HostUnreachable(
        f"The Jupyter server {address.name} at {address.url} cannot be reached: {str(error) or type(error).__name__}",
        hint="The session goes on with its own copy, and brings the two together when the server is back",
    )


def refusal(address: ServerAddress, status: int, what: str) -> CellwrightError:
    """Tells that the server answered, and not with what was asked for."""
    where = f"{what} on the Jupyter server {address.name}"
    if status in _UNAUTHORIZED:
        return HostCannot(
            f"The Jupyter server {address.name} refuses the token ({what}: {status})",
            hint="Set jupyter_token_file, or the token_file of that server, to one of the server's own",
        )
    if status >= _SERVER_FAILED:
        return HostUnreachable(f"{where} failed ({status})", hint="The server's log has the reason")
    if status == _NOT_FOUND:
        return NotebookError(
            f"The Jupyter server {address.name} has no such file ({what}: {status})",
            hint="Check the path, which begins at the server's root",
        )
    return NotebookError(f"{where} was refused ({status})")


def required() -> None:
    """Refuse where the libraries are missing.

    Raises:
        HostCannot: with the command that adds them.
    """
    try:
        import httpx2  # noqa: F401, PLC0415  # an extra
        import pycrdt  # noqa: F401, PLC0415  # an extra
    except ImportError as error:
        raise HostCannot(
            f"Notebooks on Jupyter servers need {error.name}, which is not installed",
            hint="pip install 'cellwright[jupyter]'",
        ) from None

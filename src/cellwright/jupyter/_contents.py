"""Notebooks on a Jupyter server as files: read, made, and written where nobody else wrote meanwhile.

The way to a notebook where documents are not shared. A server has no call that writes only on a condition: that is
checked right before, and what comes in between two requests is seen with the next look.
"""

from __future__ import annotations

import colorsys
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from cellwright.errors import CellwrightError, HostCannot, HostUnreachable, NotebookError
from cellwright.notebook import Document

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "Contents",
    "ServerAddress",
    "Stamp",
    "WrittenMeanwhile",
    "answered",
    "client_for",
    "identity",
    "refusal",
    "required",
    "unreachable",
]


class Stamp(msgspec.Struct, frozen=True):
    """What tells one version of a file on a server from another."""

    last_modified: str
    size: int | None = None


class WrittenMeanwhile(Exception):  # a step of a loop, not a failure
    """Somebody else wrote the file since the version that was expected."""


class Contents:
    """A server's files."""

    def __init__(self, address: ServerAddress, client: httpx2.AsyncClient) -> None:
        self._address = address
        self._client = client

    async def look(self, path: str) -> Stamp:
        """Which version of a notebook is there.

        Raises:
            NotebookError: there is none.
            HostUnreachable: the server cannot be reached.
        """
        return _stamp(await self._ask("GET", path, params={"content": "0"}))

    async def read(self, path: str) -> tuple[Document, Stamp]:
        """A notebook and its version.

        Raises:
            NotebookFormatError: it is not a notebook that this version reads.
        """
        model = await self._ask("GET", path, params={"type": "notebook", "content": "1"})
        data = json.dumps(model["content"], ensure_ascii=False).encode("utf-8", "backslashreplace")
        return Document.from_bytes(data, name=f"{path} on {self._address.name}"), _stamp(model)

    async def write(self, path: str, document: Document, expected: Stamp) -> None:
        """Write a notebook over the version that is expected there.

        Which version it then is cannot be told for certain without reading it: somebody else may have written since.

        Raises:
            WrittenMeanwhile: another version is there.
        """
        if await self.look(path) != expected:
            raise WrittenMeanwhile
        await self._put(path, document)

    async def create(self, path: str, document: Document) -> None:
        """Make a notebook, in folders that are made with it.

        Raises:
            NotebookError: there is already one.
        """
        folder = path.rpartition("/")[0]
        if folder and not await self.exists(folder):
            await self._make_folder(folder)
        if await self.exists(path):
            raise NotebookError(f"There is already a notebook {path!r} on {self._address.name}")
        await self._put(path, document)

    async def delete(self, path: str) -> None:
        """Remove a notebook; the server may keep it in its bin."""
        await self._ask("DELETE", path)

    async def exists(self, path: str) -> bool:
        """Whether something of that name is there."""
        try:
            await self.look(path)
        except NotebookError:
            return False
        return True

    async def _make_folder(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and not await self.exists(parent):
            await self._make_folder(parent)
        await self._ask("PUT", path, json={"type": "directory"})

    async def _put(self, path: str, document: Document) -> None:
        content = json.loads(document.to_bytes())
        await self._ask("PUT", path, json={"type": "notebook", "format": "json", "content": content})

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        url = self._address.api("contents", path)
        return await answered(self._address, self._client, method, url, **options)


def _stamp(model: dict[str, Any]) -> Stamp:
    return Stamp(str(model["last_modified"]), model.get("size"))


# Where a notebook's server is and what opens it, and how a refusal of it is told.

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
    import httpx2  # an extra

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
    import httpx2  # an extra

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
        import httpx2  # noqa: F401  # an extra
        import pycrdt  # noqa: F401  # an extra
    except ImportError as error:
        raise HostCannot(
            f"Notebooks on Jupyter servers need {error.name}, which is not installed",
            hint="pip install 'cellwright[jupyter]'",
        ) from None


# Who the agent is to the people who have a document open: a name, and a colour of its own. Pure.

_INITIALS = 2

_LIGHTNESS, _SATURATION = 0.42, 0.65  # white letters are to be read on it


def identity(name: str) -> dict[str, Any]:
    """What JupyterLab shows of a user with this name; the colour follows from the name."""
    return {
        "user": {
            "username": f"cellwright-{hashlib.sha256(name.encode()).hexdigest()[:8]}",
            "name": name,
            "display_name": name,
            "initials": "".join(word[0] for word in name.split())[:_INITIALS].upper(),
            "color": _color(name),
            "avatar_url": None,
        }
    }


def _color(name: str) -> str:
    hue = hashlib.sha256(name.encode()).digest()[0] / 256
    red, green, blue = colorsys.hls_to_rgb(hue, _LIGHTNESS, _SATURATION)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"

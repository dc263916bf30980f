"""Notebooks on a Jupyter server as files: read, made, and written where nobody else wrote meanwhile.

The way to a notebook where documents are not shared. A server has no call that writes only on a condition: that is
checked right before, and what comes in between two requests is seen with the next look.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.errors import NotebookError
from cellwright.livedocs.addresses import ServerAddress, answered
from cellwright.notebook import Document

if TYPE_CHECKING:
    import httpx2

__all__ = ["Contents", "Stamp", "WrittenMeanwhile"]


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

"""An S3-compatible store, inside a broker: lists, reads and, where it may, writes objects of one bucket.

The address is ``s3://BUCKET/PREFIX?endpoint=https://…&region=…``; nothing above the prefix is reached.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.store import S3Store

from cellwright.connections._services import Given, Refused, Reply, described, json_reply

__all__ = ["ObjectStore"]

_MOST_LISTED = 1_000


class ObjectStore:
    """One bucket, or what of it lies below a prefix."""

    def __init__(self, given: Given) -> None:
        self._given = given
        parts, query = urlsplit(given.url), given.query
        endpoint = query.get("endpoint")
        config: dict[str, Any] = {"region": query.get("region", "us-east-1")}
        if endpoint is not None:
            config["endpoint"] = endpoint
        if given.username and given.password:
            config |= {"access_key_id": given.username, "secret_access_key": given.password}
        else:
            config["skip_signature"] = True
        self._store = S3Store(
            parts.netloc,
            prefix=unquote(parts.path).strip("/") or None,
            client_options={
                "timeout": f"{given.timeout_s:g}s",
                "allow_http": endpoint is not None and endpoint.startswith("http://"),
            },
            **config,
        )

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        does = {"list": self._list, "read": self._read, "write": self._write, "schema": self._schema}
        return described(request, "s3", does)

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        return self._listed(str(request.get("search", "")))

    def _list(self, request: Mapping[str, Any]) -> Reply:
        return self._listed(str(request.get("path", "")))

    def _listed(self, prefix: str) -> Reply:
        """The folders and objects directly below a prefix."""
        found = obstore.list_with_delimiter(self._store, _path(prefix, empty=True) or None)
        folders = [{"path": f"{name}/"} for name in found["common_prefixes"]]
        objects = [
            {"path": one["path"], "bytes": one["size"], "modified": one["last_modified"].isoformat()}
            for one in found["objects"]
        ]
        every = [*folders, *objects]
        return json_reply(
            {"objects": every[:_MOST_LISTED], "more": max(0, len(every) - _MOST_LISTED)}, len(every)
        )

    def _read(self, request: Mapping[str, Any]) -> Reply:
        path, start = _path(str(request.get("path", ""))), int(request.get("start") or 0)
        try:
            size = obstore.head(self._store, path)["size"]
        except FileNotFoundError:
            raise Refused(f"There is no object {path!r}", "List the folder that it should be in") from None
        wanted = request.get("length")
        length = min(int(wanted), size - start) if wanted is not None else size - start
        if length > self._given.max_bytes:
            raise Refused(
                f"{path} has {size:,} bytes, and {self._given.max_bytes:,} are read at once (max_bytes)",
                "connect(…).fetch(path) brings it piece by piece into a file",
            )
        data = bytes(obstore.get_range(self._store, path, start=start, length=length)) if length > 0 else b""
        return Reply("bytes", data)

    def _write(self, request: Mapping[str, Any]) -> Reply:
        if self._given.read_only:
            raise Refused(
                f"Connection {self._given.name!r} is read-only",
                "The operator can set read_only = false for it",
            )
        path, data = _path(str(request.get("path", ""))), request.get("data", b"")
        obstore.put(self._store, path, data)
        return json_reply({"path": path, "bytes": len(data)})


def _path(path: str, *, empty: bool = False) -> str:
    """A key as the store has it, which leads nowhere else."""
    plain = posixpath.normpath(path.strip("/")) if path.strip("/") else ""
    if plain.startswith("..") or (not plain and not empty):
        raise Refused(f"{path!r} names no object", "Give a path below the connection's prefix")
    return plain

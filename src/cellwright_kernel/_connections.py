"""The operator's connections, as code in a kernel uses them: ``connect("sales").query("SELECT …")``.

Asks the engine by way of the kernel's proxy (see ``bridge``), and has no credential: neither this process nor anything
it can reach knows one. Standard library only; frames are those of the library that is there.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import decimal
import http.client
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from cellwright_kernel._sqlframes import library_for_frames, load
from cellwright_kernel.bridge import CONNECTIONS_VARIABLE

__all__ = ["Connection", "ConnectionFailed", "connect"]

_PIECE = 8 * 1024 * 1024
_NOWHERE = (
    "This kernel has no way to connections: none was named under [connections] in the user's cellwright.toml when "
    "it began, so restart it if that came later; or the machine's sandbox has no network of its own (tier C)"
)


class ConnectionFailed(RuntimeError):
    """A connection, or what it leads to, refused or failed; the message says what to do."""


def connect(name: str) -> Connection:
    """A connection that the operator named. Nothing is asked of it yet."""
    return Connection(name)


class Connection:
    """A database, an object store, an API or an MCP server, by the operator's name for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"connect({self.name!r})"

    # Databases ---------------------------------------------------------------------------------------------------

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, max_rows: int | None = None
    ) -> Any:
        """The rows of one SQL statement, as a frame; ``$name`` in it stands for a parameter.

        What changed instead, where a statement has no rows: ``{"changed": 3, "status": "UPDATE 3"}``.
        """
        given = {name: _sent(value) for name, value in (parameters or {}).items()}
        answer = self._ask("query", {"sql": sql, "parameters": given, "max_rows": max_rows})
        if "columns" not in answer:
            return answer
        if answer["truncated"]:
            _warn(f"{self.name}: only {answer['rows']:,} rows were read, the limit is {answer['truncated']}")
        return _frame(answer["columns"])

    def schema(self, search: str = "") -> Any:
        """What there is: tables with their columns, objects, or operations; those with a word in their name."""
        answer = self._ask("schema", {"search": search})
        return next((answer[key] for key in ("tables", "objects", "operations") if key in answer), answer)

    # Object stores -----------------------------------------------------------------------------------------------

    def list(self, path: str = "") -> Any:
        """The folders and objects directly below a path."""
        return self._ask("list", {"path": path})["objects"]

    def read(self, path: str, *, start: int = 0, length: int | None = None) -> bytes:
        """An object's bytes, or some of them."""
        data: bytes = self._ask("read", {"path": path, "start": start, "length": length})
        return data

    def fetch(self, path: str, to: str | None = None) -> str:
        """Copy an object into a file of the working directory, whatever its size; the file's name."""
        target, start = to or os.path.basename(path), 0
        with open(target, "wb") as file:
            while piece := self.read(path, start=start, length=_PIECE):
                file.write(piece)
                start += len(piece)
                if len(piece) < _PIECE:
                    break
        return target

    def write(self, path: str, data: bytes | str) -> Any:
        """Put an object, where the operator lets this connection write."""
        body = data.encode() if isinstance(data, str) else bytes(data)
        return self._exchange("write", body, {"X-Path": path})

    # APIs and MCP servers ----------------------------------------------------------------------------------------

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """What an operation of an API, or a tool of an MCP server, answers."""
        return self._ask("call", {"operation": operation, "arguments": arguments})["result"]

    # All of them -------------------------------------------------------------------------------------------------

    def _ask(self, does: str, request: Mapping[str, Any]) -> Any:
        return self._exchange(
            does, json.dumps(request, default=str).encode(), {"Content-Type": "application/json"}
        )

    def _exchange(self, does: str, body: bytes, headers: Mapping[str, str]) -> Any:
        try:
            status, kind, data = self._sent(does, body, headers)
        except BaseException:
            # Whoever interrupts a query does not want it to go on there.
            with contextlib.suppress(Exception):
                self._sent("cancel", b"", {})
            raise
        if kind == "application/octet-stream":
            return data
        try:
            answer = json.loads(data)
        except ValueError:
            raise ConnectionFailed(data.decode("utf-8", "replace").strip()) from None
        if status != http.client.OK:
            raise ConnectionFailed(". ".join(filter(None, (answer.get("error"), answer.get("hint")))))
        return answer

    def _sent(self, does: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
        at = os.environ.get(CONNECTIONS_VARIABLE)
        if at is None:
            raise ConnectionFailed(_NOWHERE)
        proxy = http.client.HTTPConnection(at)
        try:
            proxy.request("POST", f"http://{self.name}.connections.cellwright/{does}", body, dict(headers))
            response = proxy.getresponse()
            return response.status, response.headers.get_content_type(), response.read()
        except OSError as error:
            raise ConnectionFailed(f"Connection {self.name!r} cannot be asked: {error}") from None
        finally:
            proxy.close()


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, stacklevel=3)


# Frames ---------------------------------------------------------------------------------------------------------


_READERS: dict[str, Callable[[Any], Any]] = {
    "decimal": decimal.Decimal,
    "bytes": base64.b64decode,
    "json": json.loads,
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
    "instant": dt.datetime.fromisoformat,
    "seconds": lambda value: dt.timedelta(seconds=value),
}


def _frame(columns: list[dict[str, Any]]) -> Any:
    """The columns as a frame of the library that is there; without one, a list of dicts."""
    values = {column["name"]: _values_of(column) for column in columns}
    library = library_for_frames()
    if library == "pandas":
        return _pandas(columns, values)
    if library == "polars":
        return load("polars").DataFrame(values, strict=False)
    if library == "pyarrow":
        return load("pyarrow").table(values)
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _values_of(column: Mapping[str, Any]) -> list[Any]:
    reader = _READERS.get(column["type"])
    if reader is None:
        held: list[Any] = column["values"]
        return held
    return [None if value is None else reader(value) for value in column["values"]]


def _pandas(columns: list[dict[str, Any]], values: dict[str, list[Any]]) -> Any:
    pandas = load("pandas")
    made = {}
    for column in columns:
        name, kind, held = column["name"], column["type"], values[column["name"]]
        if kind in {"time", "instant"}:
            made[name] = pandas.to_datetime(pandas.Series(held, dtype=object), utc=kind == "instant")
        elif kind == "int" and None in held:
            made[name] = pandas.array(held, dtype="Int64")
        elif kind in {"decimal", "json", "bytes", "date"}:
            made[name] = pandas.Series(held, dtype=object)
        else:
            made[name] = held
    return pandas.DataFrame(made)


def _sent(value: Any) -> Any:
    """A parameter's value as JSON has it: of numpy's and pandas' scalars the plain one."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):
        value = value.item()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_sent(one) for one in value]
    return str(value)

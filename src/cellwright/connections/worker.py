"""The broker's process: takes a connection and its credential, then answers requests until its input ends.

``python -m cellwright.connections.worker``; frames are a big-endian 32-bit length and that many bytes of MessagePack, on
standard input and output. What a kind of server can do is for its own module to say. No credential leaves in an answer.
"""

from __future__ import annotations

import base64
import os
import resource
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, NoReturn
from urllib.parse import quote

import msgspec

from cellwright.connections._services import Given, Refused, Reply, Service
from cellwright.rlimits import limit_own_memory

__all__: list[str] = []

_SERVICES = {
    "postgresql": "_postgresql:Postgresql",
    "mysql": "_mysql:Mysql",
    "sqlite": "_sqlite:Sqlite",
    "duckdb": "_duckdb:Duckdb",
    "s3": "_s3:ObjectStore",
    "http": "_http:HttpApi",
    "mcp": "_mcp:ToolServer",
}
_LIBRARIES = frozenset({"psycopg", "pymysql", "obstore", "duckdb"})
_MEMORY_BYTES = 2 << 30
_SHORTEST_SECRET = 4
_SHORTEST_TOKEN = 12
_REDACTED = b"[redacted]"


def main() -> None:
    """Answer until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_own_memory(_MEMORY_BYTES)
    requests, answers = _own_pipes()
    first = _read(requests)
    given = msgspec.convert(first["connection"] | {"password": first["password"]}, Given)
    secrets = [one for secret in _secrets(given) for one in _spellings(secret)]
    service: Service | None = None
    while True:
        request = _read(requests)
        try:
            if service is None:
                service = _service(given)
            reply = service.answer(request)
        except Exception as error:  # noqa: BLE001  # boundary: drivers raise what they like, and all of it is an answer
            reply = _failure(error)
        _write(answers, reply, secrets)


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to whoever asks; what a driver prints, or a program that it starts reads, must not meet them."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return requests, answers


def _service(given: Given) -> Service:
    module, _, name = _SERVICES[given.kind].partition(":")
    try:
        made: Service = getattr(import_module(f"cellwright.connections.{module}"), name)(given)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _LIBRARIES:
            raise
        extra = "files" if error.name == "duckdb" else "connections"
        raise Refused(
            f"A {given.kind} connection needs {error.name}, which is not installed",
            f"pip install 'cellwright[{extra}]', then ask again",
        ) from None
    return made


def _failure(error: Exception) -> Reply:
    if isinstance(error, Refused):
        told = {"error": error.message, "hint": error.hint}
    elif isinstance(error, MemoryError):
        told = {"error": "The answer needs more memory than a broker has", "hint": "Ask for less"}
    else:
        text = " ".join(str(error).split()) or type(error).__name__
        told = {"error": f"{type(error).__name__}: {text}"[:4_000], "hint": None}
    return Reply("error", msgspec.json.encode(told))


def _secrets(given: Given) -> Iterator[str]:
    """What must not leave: the credential, and what is as long as a token in an MCP server's address."""
    yield given.password or ""
    if given.kind == "mcp":
        # Shorter ones are words, such as `true`, which answers are full of.
        yield from (value for value in given.query.values() if len(value) >= _SHORTEST_TOKEN)


def _spellings(password: str) -> list[bytes]:
    """The credential as it may come back: as it is, in an address, in JSON, or as a header has it."""
    if len(password) < _SHORTEST_SECRET:
        return []
    plain = password.encode()
    coded = {
        plain,
        quote(password, safe="").encode(),
        msgspec.json.encode(password)[1:-1],
        base64.b64encode(plain),
    }
    return sorted(coded, key=len, reverse=True)


def _write(answers: BinaryIO, reply: Reply, secrets: list[bytes]) -> None:
    payload = reply.payload
    for secret in (*secrets, *reply.also_secret):
        if secret in payload:
            payload = payload.replace(secret, _REDACTED)
    data = msgspec.msgpack.encode([reply.kind, payload, reply.rows])
    answers.write(len(data).to_bytes(4) + data)
    answers.flush()


def _read(requests: BinaryIO) -> dict[str, Any]:
    length = requests.read(4)
    if len(length) < 4:
        _leave()
    data = requests.read(int.from_bytes(length))
    return dict(msgspec.msgpack.decode(data))


def _leave() -> NoReturn:
    # A driver's threads, or a program that it started, must not keep the process.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

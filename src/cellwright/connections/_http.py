"""An HTTP API with an OpenAPI description, inside a broker: its operations by name, with the credential attached here.

A connection that only reads has the operations that are GET or HEAD. Nothing but the base address is asked: redirects are
not followed, and no argument leads above its path.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from cellwright.connections._services import Given, Refused, Reply, described, json_reply

__all__ = ["HttpApi", "signed"]

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_READING = frozenset({"get", "head"})
_MOST_OPERATIONS = 500
_MOST_DESCRIPTION = 20 * 1024**2
_MOST_FAILURE = 500


@dataclass(frozen=True, slots=True)
class _Operation:
    name: str
    method: str
    path: str
    about: str
    parameters: tuple[tuple[str, str, bool], ...]
    """Name, place (path, query or header) and whether it is required."""
    takes_body: bool

    def told(self) -> dict[str, Any]:
        arguments = [[name, needed] for name, _, needed in self.parameters]
        return {
            "name": self.name,
            "about": self.about,
            "arguments": [*arguments, *[["body", False]] * self.takes_body],
        }


class HttpApi:
    """One API; its description is read with the first request."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._base = given.url.rstrip("/")
        self._client = httpx2.Client(timeout=given.timeout_s, follow_redirects=False, trust_env=False)
        self._operations: dict[str, _Operation] | None = None

    def answer(self, request: dict[str, Any]) -> Reply:
        """See ``Service``."""
        return described(request, "http", {"call": self._call, "schema": self._schema})

    def _schema(self, request: Mapping[str, Any]) -> Reply:
        word = str(request.get("search", "")).casefold()
        every = [one for one in self._known().values() if self._may(one)]
        found = [one.told() for one in every if word in f"{one.name} {one.path} {one.about}".casefold()]
        return json_reply(
            {"operations": found[:_MOST_OPERATIONS], "more": max(0, len(found) - _MOST_OPERATIONS)}
        )

    def _call(self, request: Mapping[str, Any]) -> Reply:
        known, name = self._known(), str(request.get("operation"))
        if name not in known:
            raise Refused(
                f"{self._given.name} has no operation {name!r}", "Search its operations with connection_list"
            )
        operation = known[name]
        if not self._may(operation):
            raise Refused(
                f"{name} is {operation.method.upper()}, and connection {self._given.name!r} is read-only",
                "The operator can set read_only = false for it",
            )
        return self._sent(operation, dict(request.get("arguments") or {}))

    def _may(self, operation: _Operation) -> bool:
        return not self._given.read_only or operation.method in _READING

    def _sent(self, operation: _Operation, arguments: dict[str, Any]) -> Reply:
        missing = [name for name, _, needed in operation.parameters if needed and name not in arguments]
        if missing:
            raise Refused(f"{operation.name} needs {', '.join(missing)}", "Give them as arguments")
        places: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
        for name, place, _ in operation.parameters:
            if name in arguments:
                places[place][name] = arguments.pop(name)
        body = arguments.pop("body", None) if operation.takes_body else None
        if arguments:
            raise Refused(
                f"{operation.name} takes no {', '.join(arguments)}", "connection_list has its arguments"
            )
        path = operation.path
        for name, value in places["path"].items():
            if str(value) in {"", ".", ".."}:
                raise Refused(f"{name}={value!r} is no part of a path", "Give an identifier")
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        headers = {name: str(value) for name, value in places["header"].items()}
        return self._result(operation.method, f"{self._base}{path}", places["query"], headers, body)

    def _result(
        self, method: str, url: str, query: dict[str, Any], headers: dict[str, str], body: Any
    ) -> Reply:
        given_headers, query = signed(self._given, headers, query)
        given = {"json": body} if body is not None else {}
        with self._client.stream(
            method.upper(), url, params=query or None, headers=given_headers, **given
        ) as response:
            data = self._read(response, self._given.max_bytes)
        text = data.decode(response.encoding or "utf-8", "replace")
        if not response.is_success:
            raise Refused(f"{urlsplit(url).path}: HTTP {response.status_code} {text[:_MOST_FAILURE]}")
        try:
            return json_reply({"result": json.loads(text) if text else None})
        except ValueError:
            return json_reply({"result": text})

    @staticmethod
    def _read(response: httpx2.Response, most: int) -> bytes:
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > most:
                raise Refused(
                    f"The answer has more than {most:,} bytes (max_bytes)",
                    "Ask for less, or for a page of it",
                )
        return bytes(data)

    # The description ---------------------------------------------------------------------------------------------

    def _known(self) -> dict[str, _Operation]:
        if self._operations is None:
            self._operations = {one.name: one for one in _operations(self._description())}
        return self._operations

    def _description(self) -> Mapping[str, Any]:
        place = self._given.openapi or f"{self._base}/openapi.json"
        try:
            if urlsplit(place).scheme in {"http", "https"}:
                own = urlsplit(place).netloc == urlsplit(self._base).netloc
                headers, query = signed(self._given, {}, {}) if own else ({}, {})
                with self._client.stream("GET", place, headers=headers, params=query or None) as response:
                    held = json.loads(self._read(response.raise_for_status(), _MOST_DESCRIPTION))
            else:
                held = json.loads(Path(place).expanduser().read_bytes())
        except (OSError, ValueError, httpx2.HTTPError) as error:
            raise Refused(
                f"The OpenAPI description of {self._given.name!r} cannot be read: {type(error).__name__}",
                "Set `openapi` to its address or file, in JSON",
            ) from None
        if not isinstance(held, dict) or not isinstance(held.get("paths"), dict):
            raise Refused("The OpenAPI description has no paths", "Set `openapi` to one that has")
        return held


def signed(
    given: Given, headers: Mapping[str, str], query: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """A request's headers and query with the credential; what was given in its place does not count."""
    if not given.password:
        return dict(headers), dict(query)
    kind, _, name = (given.auth or ("basic" if given.username else "bearer")).partition(":")
    if kind == "query":
        return dict(headers), {**query, name: given.password}
    value = given.password
    if kind == "basic":
        pair = base64.b64encode(f"{given.username}:{given.password}".encode()).decode()
        value, name = f"Basic {pair}", "Authorization"
    elif kind == "bearer":
        value, name = f"Bearer {given.password}", "Authorization"
    return {**{key: one for key, one in headers.items() if key.lower() != name.lower()}, name: value}, dict(
        query
    )


def _operations(description: Mapping[str, Any]) -> Iterator[_Operation]:
    for path, item in description["paths"].items():
        for method in _METHODS:
            if isinstance(item, dict) and isinstance(made := item.get(method), dict):
                given = [*item.get("parameters", ()), *made.get("parameters", ())]
                known = (_resolved(description, one) for one in given)
                parameters = {
                    (str(one["name"]), str(one["in"])): bool(one.get("required"))
                    for one in known
                    if one.get("in") in {"path", "query", "header"} and "name" in one
                }
                yield _Operation(
                    str(made.get("operationId") or f"{method.upper()} {path}"),
                    method,
                    str(path),
                    str(made.get("summary") or made.get("description") or ""),
                    tuple((name, place, needed) for (name, place), needed in parameters.items()),
                    "requestBody" in made,
                )


def _resolved(description: Mapping[str, Any], one: Mapping[str, Any]) -> Mapping[str, Any]:
    """A parameter, also where it is a reference within the description."""
    if "$ref" not in one:
        return one
    found: Any = description
    for part in str(one["$ref"]).removeprefix("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}

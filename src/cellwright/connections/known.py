"""The connections that the operator named: their kinds, addresses without credentials, limits, and where credentials are.

A ``Connection`` may be shown to anybody; ``Connection.password`` is looked up when a broker starts, and kept by nobody.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from cellwright.errors import ConnectionFailed, UnknownConnection
from cellwright.settings.model import ConnectionKind, ConnectionSettings

__all__ = ["Connection", "ConnectionKind", "find", "known_connections", "lent"]

_SERVICE = "cellwright"
"""What the keyring knows us by, as for the keys of models; the user there is ``connection:NAME``."""

_LONGEST_SECRET = 64 * 1024
_LENT_S = 600.0
_FILE_KINDS = frozenset({"sqlite", "duckdb"})


@dataclass(frozen=True, slots=True)
class Connection:
    """Something that code and agents reach by its name."""

    name: str
    kind: ConnectionKind
    url: str
    """The address without user, password and query: what people and agents are shown."""
    read_only: bool
    username: str
    timeout_s: float
    max_rows: int
    max_bytes: int
    query: Mapping[str, str]
    """The parameters of the address."""
    auth: str = ""
    """How an API is signed in to."""
    openapi: str = ""
    """Where an API's description is."""
    command: tuple[str, ...] = field(default=(), repr=False)
    """The program of an MCP server that is started here, with its arguments."""
    directory: str = ""
    """Where a command is started; empty: in the user's home."""
    _password: str | None = field(default=None, repr=False)
    _password_env: str | None = None
    _password_file: Path | None = None

    @property
    def rights(self) -> str:
        return "read-only" if self.read_only else "may write"

    @property
    def password_env(self) -> str | None:
        """The variable that holds the credential, where one does: no code sees it."""
        return self._password_env

    def password(self) -> str | None:
        """The credential, from where the operator put it; None where there is none.

        Raises:
            ConnectionFailed: the variable or the file that was named is not there.
        """
        if self._password is not None:
            return self._password
        if self._password_env is not None:
            if not (value := os.environ.get(self._password_env)):
                raise ConnectionFailed(
                    f"Connection {self.name!r}: the variable {self._password_env} is not set",
                    hint="Set it where the daemon is started (`cellwright daemon stop` ends one that runs)",
                )
            return value
        if self._password_file is not None:
            return self._from_file(self._password_file)
        return None if self.kind in _FILE_KINDS else _from_keyring(f"connection:{self.name}")

    def _from_file(self, path: Path) -> str:
        try:
            with path.open(encoding="utf-8") as file:
                return file.read(_LONGEST_SECRET).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ConnectionFailed(
                f"Connection {self.name!r}: its password_file {path} cannot be read: {reason}",
                hint="Correct the path, or let this user read it",
            ) from None

    def described(self) -> dict[str, Any]:
        """All that its broker needs, but for the credential."""
        return {
            "name": self.name,
            "kind": self.kind,
            "url": self.url,
            "read_only": self.read_only,
            "username": self.username,
            "timeout_s": self.timeout_s,
            "max_rows": self.max_rows,
            "max_bytes": self.max_bytes,
            "query": dict(self.query),
            "auth": self.auth,
            "openapi": self.openapi,
            "command": self.command,
            "directory": self.directory,
        }


def known_connections(settings: Mapping[str, ConnectionSettings]) -> dict[str, Connection]:
    """The connections of the settings, by name."""
    return {name: _connection(name, given) for name, given in settings.items()}


def lent(name: str, target: str, directory: Path | None = None) -> Connection:
    """An MCP server that a person names for one question: an address, or a command. It may do what its tools do.

    Raises:
        ConnectionFailed: there is no address and no command.
    """
    url = target if target.startswith(("http://", "https://")) else ""
    try:
        command = () if url else tuple(shlex.split(target))
        given = ConnectionSettings(
            url=SecretStr(url), kind="mcp", command=command, read_only=False, timeout_s=_LENT_S
        )
    except ValueError:
        raise ConnectionFailed(
            f"Server {name!r} has no command that can be read", hint="Write NAME=COMMAND or NAME=URL"
        ) from None
    # Never None: what the keyring has for a name is for the connection that the operator calls so.
    password = unquote(urlsplit(url).password or "")
    return replace(_connection(name, given), directory=str(directory or ""), _password=password)


def find(known: Mapping[str, Connection], name: str) -> Connection:
    """One connection.

    Raises:
        UnknownConnection: the operator named none like this.
    """
    if name in known:
        return known[name]
    there = (
        f"There are: {', '.join(known)}" if known else "The settings name none: see the guide on connections"
    )
    raise UnknownConnection(f"There is no connection {name!r}", hint=there)


def _connection(name: str, given: ConnectionSettings) -> Connection:
    parts = urlsplit(given.url.get_secret_value())
    embedded = unquote(parts.password) if parts.password is not None else None
    return Connection(
        name=name,
        kind=given.leads_to,
        url=_shown(parts) if not given.command else f"command:{Path(given.command[0]).name}",
        read_only=given.read_only,
        username=given.username or unquote(parts.username or ""),
        timeout_s=given.timeout_s,
        max_rows=given.max_rows,
        max_bytes=given.max_bytes,
        query=dict(parse_qsl(parts.query)),
        auth=_auth(given),
        openapi=given.openapi,
        command=given.command,
        _password=embedded,
        _password_env=given.password_env,
        _password_file=given.password_file,
    )


def _auth(given: ConnectionSettings) -> str:
    """How the credential goes to the server; a command has it in the variable that it comes from."""
    if given.command and not given.auth and given.password_env is not None:
        return f"env:{given.password_env}"
    return given.auth


def _shown(parts: SplitResult) -> str:
    """An address without what may be secret in it."""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    place = f"{host}:{parts.port}" if parts.port is not None else host
    shown = urlunsplit((parts.scheme, place, parts.path, "", ""))
    # The library drops the empty host of a file's address.
    return shown if place or not parts.scheme else f"{parts.scheme}://{parts.path}"


def _from_keyring(user: str) -> str | None:
    """What the keyring holds; None where there is none, whatever the reason."""
    try:
        import keyring  # of the extra ``agent``, and slow to import

        return keyring.get_password(_SERVICE, user)
    except Exception:  # noqa: BLE001  # boundary: backends fail in ways of their own
        return None

"""The people who may open the web page besides its owner: names, roles and tokens, in ``people.json``.

Of a token only its digest is kept. Tokens are long and random, so that a plain digest says nothing about them. A writer
holds the file's lock; a reader sees the file whole, and sees a change at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import write_private

__all__ = [
    "OWNER",
    "Members",
    "PeopleError",
    "Person",
    "Role",
    "add_member",
    "change_role",
    "may",
    "read_members",
    "remove_member",
]
Role: TypeAlias = Literal["view", "run", "own"]
"""``view`` looks; ``run`` also edits, runs, asks and takes over; ``own`` also suspends, deletes and lets others in."""

ROLES: tuple[Role, ...] = get_args(Role)

OWNER = "owner"
"""Whoever has the listener's own token."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in."""

    name: str
    role: Role


def may(person: Person, needed: Role) -> bool:
    """Whether somebody's role is enough."""
    return ROLES.index(person.role) >= ROLES.index(needed)


# The people who may look at the page besides its owner: names with roles and tokens, in ``people.json``.

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[\w][\w .@+-]{0,62}[\w]|[\w]")


class PeopleError(CellwrightError):
    """Somebody cannot be let in, changed or shown out as asked."""

    code = "people"


class Member(msgspec.Struct, frozen=True):
    """Somebody who has a token."""

    name: str
    role: Role
    digest: str
    """Of the token."""
    stamp: str
    """In their cookies: another member of the same name has another."""
    added_at: float


_decode = msgspec.json.Decoder(list[Member]).decode


def read_members(storage: Path) -> dict[str, Member]:
    """Everybody, by name.

    Raises:
        PeopleError: the file cannot be read.
    """
    try:
        return {member.name: member for member in _decode(_file(storage).read_bytes())}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise PeopleError(
            f"{_file(storage)} cannot be read: {error}", hint="Fix it, or remove it and add everybody again"
        ) from error


def add_member(storage: Path, name: str, role: Role) -> str:
    """Let somebody in; their token, which nobody can tell later.

    Raises:
        PeopleError: the name is taken, or no name.
    """
    if not _NAME.fullmatch(name) or name == OWNER:
        raise PeopleError(
            f"{name!r} cannot be somebody's name here",
            hint=f"Use up to 64 letters, digits, spaces and . _ @ + -, and not {OWNER!r}",
        )
    token = secrets.token_urlsafe(32)
    with _changing(storage) as members:
        if name in members:
            raise PeopleError(
                f"There is somebody called {name} already",
                hint="`cellwright people role` changes what they may do; `cellwright people remove` makes room",
            )
        members[name] = Member(name, role, _digest(token), secrets.token_hex(8), time.time())
    return token


def change_role(storage: Path, name: str, role: Role) -> None:
    """Let somebody do more or less, at once.

    Raises:
        PeopleError: there is nobody of that name.
    """
    with _changing(storage) as members:
        members[name] = msgspec.structs.replace(_known(members, name), role=role)


def remove_member(storage: Path, name: str) -> None:
    """Show somebody out, also where they are signed in.

    Raises:
        PeopleError: there is nobody of that name.
    """
    with _changing(storage) as members:
        del members[_known(members, name).name]


class Members:
    """Everybody, as the file says now."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._seen: tuple[int, int] | None = None
        self._members: dict[str, Member] = {}

    def named(self, name: str) -> Member | None:
        return self._now().get(name)

    def with_token(self, token: str) -> Member | None:
        """Whose token that is. Everybody's is compared, so that the time it takes names nobody."""
        digest = _digest(token)
        found = [one for one in self._now().values() if hmac.compare_digest(one.digest, digest)]
        return found[0] if found else None

    def _now(self) -> dict[str, Member]:
        try:
            status = _file(self._storage).stat()
            seen = status.st_ino, status.st_mtime_ns
        except OSError:
            seen = None
        if seen != self._seen:
            try:
                self._members = read_members(self._storage)
            except PeopleError as error:
                _log.warning("people_unreadable %s", error)
                self._members = {}
            self._seen = seen
        return self._members


@contextmanager
def _changing(storage: Path) -> Iterator[dict[str, Member]]:
    """Everybody, to be changed; what is there at the end is kept."""
    try:
        storage.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (storage / "people.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            members = read_members(storage)
            yield members
            write_private(str(_file(storage)), msgspec.json.encode(list(members.values())))
    except OSError as error:
        raise PeopleError(
            f"{_file(storage)} cannot be written: {error}",
            hint="Nothing was changed: make room for it, and try again",
        ) from error


def _known(members: dict[str, Member], name: str) -> Member:
    if name not in members:
        raise PeopleError(f"There is nobody called {name}", hint="`cellwright people list` shows everybody")
    return members[name]


def _file(storage: Path) -> Path:
    return storage / "people.json"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()

"""Folders without a project's mark that a person works in: which of them code may see, and what in them it never sees.

A folder is chosen by where a client was started, never by what a call says. Most are seen as a project is; a home, a
directory that many share and a place of keys are seen once a person has said so, which ``folders.json`` remembers; the
system's own directories are not seen this way at all.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.paths import make_storage, write_private

__all__ = [
    "SECRET_NAMES",
    "ChosenFolder",
    "FolderAnswerError",
    "forget_answer",
    "is_secret",
    "judge_folder",
    "read_answers",
    "remember_answer",
    "secrets_in",
]

SECRET_NAMES = frozenset(
    {
        ".ssh", ".gnupg", ".aws", ".azure", ".oci", ".kube", ".docker", ".config", ".password-store", ".terraform.d",
        ".vault-token", ".netrc", ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".mozilla", ".thunderbird",
        ".claude", ".claude.json", ".codex", ".gemini", ".bash_history", ".zsh_history", ".python_history", ".psql_history",
        ".secrets", "keyrings",
    }
)  # fmt: skip
"""Files and directories in which programs keep keys, passwords and what was typed."""

# Below these the machine's own files lie, and a sandbox has its own view of them already.
_SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
)

# A sandbox mounts its own there.
_NEVER = ("/", "/tmp")

_SHARED = ("/home", "/root", "/Users", "/mnt", "/media", "/opt", "/srv", "/var", "/var/tmp")

_DEPTH = 3
_MOST_DIRECTORIES = 10_000


class FolderAnswerError(CellwrightError):
    """The answers of people about folders cannot be read or written."""

    code = "folder_answer"


@dataclass(frozen=True, slots=True)
class ChosenFolder:
    """What holds of one folder; ``path`` is resolved."""

    path: Path
    reason: str | None = None
    """Why code sees it only after a person allowed it."""
    answer: bool | None = None
    """A person's answer about it; None without one."""
    never: bool = False
    """Whether no answer lets code see it."""

    @property
    def is_seen(self) -> bool:
        return not self.never and (self.reason is None or self.answer is True)

    @property
    def is_to_ask(self) -> bool:
        """Whether a person has yet to answer whether code may see it."""
        return self.reason is not None and self.answer is None and not self.never

    @property
    def unseen(self) -> str | None:
        """Why code sees none of its files, and what to do; None where it sees them."""
        if self.is_seen:
            return None
        closed = f"Code sees none of the files in {self.path}: {self.reason}."
        if self.never:
            return f"{closed} Work in a folder of your own"
        refused = "The user said no. " if self.answer is False else ""
        return (
            f"{closed} {refused}`cellwright folders allow {self.path}`, run by the user, lets code read it in new "
            "notebooks; a folder below it needs no such word"
        )


def judge_folder(folder: Path, *, home: Path, storage: Path) -> ChosenFolder:
    """Judge a chosen folder by its place and by a person's answer about it. Blocking.

    Raises:
        FolderAnswerError: the remembered answers cannot be read.
    """
    path = folder.resolve()
    if (why := _why_never(path, storage.resolve())) is not None:
        return ChosenFolder(path, why, never=True)
    reason = _why_asked(path, home)
    if reason is None and not secrets_in(path)[1]:
        reason = f"it has more than {_MOST_DIRECTORIES:,} directories near its top, too many to look through for keys"
    return ChosenFolder(path, reason, read_answers(storage).get(str(path)) if reason is not None else None)


def _why_never(path: Path, storage: Path) -> str | None:
    if str(path) in _NEVER or any(path.is_relative_to(directory) for directory in _SYSTEM):
        return "it is the system's own"
    return "it is Cellwright's own" if path.is_relative_to(storage) else None


def _why_asked(path: Path, home: Path) -> str | None:
    if path == home:
        return "it is a home directory"
    if home.is_relative_to(path) or str(path) in _SHARED:
        return "it holds what belongs to others, too"
    secret = next((part for part in path.parts if part in SECRET_NAMES), None)
    return f"{secret} is where programs keep keys" if secret is not None else None


def is_secret(path: str) -> bool:
    """Whether a path is one that code does not see in a chosen folder."""
    return PurePath(path).name in SECRET_NAMES


def secrets_in(folder: Path) -> tuple[tuple[str, ...], bool]:
    """The paths that hold keys at the folder's top and up to two directories below it, and whether those are all.

    They may not be where there are too many directories to look at. No link is followed. Blocking.
    """
    found: list[str] = []
    level, looked = [str(folder)], 0
    for _ in range(_DEPTH):
        below: list[str] = []
        for directory in level:
            looked += 1
            if looked > _MOST_DIRECTORIES:
                return tuple(found), False
            for entry in _entries(directory):
                if entry.name in SECRET_NAMES:
                    found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
        level = below
    return tuple(found), True


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:  # a user that cannot list it here cannot in a sandbox either
        return []


# The answers of people, by folder, in ``folders.json``. A writer holds the file's lock; a reader sees the file whole.

_decode = msgspec.json.Decoder(dict[str, bool]).decode


def read_answers(storage: Path) -> dict[str, bool]:
    """The answers by folder: whether code may see it.

    Raises:
        FolderAnswerError: the file cannot be read.
    """
    try:
        return _decode(_file(storage).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise FolderAnswerError(
            f"{_file(storage)} cannot be read: {error}", hint="Fix it, or remove it and be asked again"
        ) from error


def remember_answer(storage: Path, folder: ChosenFolder, *, allow: bool) -> None:
    """Keep a person's answer about a folder.

    Raises:
        FolderAnswerError: it cannot be written, or no answer lets code see this folder.
    """
    if allow and folder.never:
        raise FolderAnswerError(
            f"Code cannot be shown {folder.path}: {folder.reason}", hint="Work in a folder of your own"
        )
    if not folder.path.is_dir():
        raise FolderAnswerError(f"{folder.path} is no folder", hint="Name one that there is")
    with _changing(storage) as answers:
        answers[str(folder.path)] = allow


def forget_answer(storage: Path, folder: Path) -> None:
    """Forget the answer about a folder, so that the question is put again.

    Raises:
        FolderAnswerError: there is no answer about it.
    """
    with _changing(storage) as answers:
        if answers.pop(str(folder), None) is None:
            raise FolderAnswerError(
                f"Nothing was said about {folder}", hint="`cellwright folders list` shows all answers"
            )


@contextmanager
def _changing(storage: Path) -> Iterator[dict[str, bool]]:
    try:
        make_storage(str(storage))
        with (storage / "folders.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            answers = read_answers(storage)
            yield answers
            write_private(str(_file(storage)), msgspec.json.format(msgspec.json.encode(answers)))
    except OSError as error:
        raise FolderAnswerError(
            f"{_file(storage)} cannot be written: {error}",
            hint="Nothing was changed: make room for it, and try again",
        ) from error


def _file(storage: Path) -> Path:
    return storage / "folders.json"

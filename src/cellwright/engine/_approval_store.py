"""What people allowed for a project or for always, in ``approvals.json``. A writer holds the file's lock; a reader sees it whole."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cellwright.errors import CellwrightError
from cellwright.settings.model import Action
from cellwright.settings.paths import make_storage, write_private

__all__ = ["ApprovalStore", "Remembered"]


class ApprovalStoreError(CellwrightError):
    """What people allowed cannot be read or kept."""

    code = "approval_store"


class Remembered(msgspec.Struct, frozen=True):
    """What is allowed without asking."""

    always: tuple[Action, ...] = ()
    projects: dict[str, tuple[Action, ...]] = {}
    """For each project, by its path."""


_decode = msgspec.json.Decoder(Remembered).decode


class ApprovalStore:
    """The file of one storage directory, which no sandbox shows."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._path = storage / "approvals.json"

    def read(self) -> Remembered:
        """What is allowed.

        Raises:
            ApprovalStoreError: the file cannot be read.
        """
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return Remembered()
        except (OSError, msgspec.MsgspecError) as error:
            raise ApprovalStoreError(
                f"{self._path} cannot be read: {error}", hint="Correct it, or remove it and be asked again"
            ) from error

    def remember(self, action: Action, project: str | None) -> None:
        """Keep that an action is allowed in a project, or always.

        Raises:
            ApprovalStoreError: it cannot be kept.
        """
        with self._changed() as (always, projects):
            (always if project is None else projects.setdefault(project, [])).append(action)

    def forget(self, action: Action | None, project: str | None) -> int:
        """Take back one action or all, in a project or everywhere; returns how many answers that were."""
        gone = 0
        with self._changed() as (always, projects):
            for path, actions in [*projects.items(), *([("", always)] if project is None else [])]:
                if project in (None, path):
                    gone += sum(action in (None, one) for one in actions)
                    actions[:] = [one for one in actions if action not in (None, one)]
        return gone

    @contextmanager
    def _changed(self) -> Iterator[tuple[list[Action], dict[str, list[Action]]]]:
        try:
            make_storage(str(self._storage))
            with (self._storage / "approvals.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                now = self.read()
                always, projects = list(now.always), {path: list(one) for path, one in now.projects.items()}
                yield always, projects
                kept = {path: tuple(dict.fromkeys(one)) for path, one in projects.items() if one}
                changed = Remembered(tuple(dict.fromkeys(always)), kept)
                write_private(str(self._path), msgspec.json.format(msgspec.json.encode(changed)))
        except OSError as error:
            raise ApprovalStoreError(
                f"{self._path} cannot be written: {error}", hint="Make room for it, and answer again"
            ) from error

"""The Labs that run: what is known of each lies in a file that only its user can read, with its tokens.

By it a second ``cellwright lab`` finds the first one's Lab, and a new daemon opens the gateway that Lab still calls.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from cellwright.settings.paths import write_private

__all__ = ["LabRecord", "forget_lab", "lab_directory", "process_of", "read_lab", "read_labs", "write_lab"]

_FILE = "lab.json"


class LabRecord(msgspec.Struct, frozen=True):
    """One JupyterLab at work on a session."""

    session: str
    pid: int
    started: float
    """When its process began: a number that another process has later is not it."""
    url: str
    """With the notebook open, without the token."""
    token: str
    gateway_port: int
    gateway_token: str

    @property
    def link(self) -> str:
        """What a person opens."""
        return f"{self.url}?token={self.token}"


_decode = msgspec.json.Decoder(LabRecord).decode


def lab_directory(storage: Path, session: str) -> Path:
    """The directory of a session's Lab."""
    return storage / "labs" / session


def read_labs(storage: Path) -> list[LabRecord]:
    """Every Lab that still runs."""
    homes = sorted((storage / "labs").glob("*")) if (storage / "labs").is_dir() else []
    return [record for home in homes if (record := read_lab(storage, home.name)) is not None]


def read_lab(storage: Path, session: str) -> LabRecord | None:
    """A session's Lab, if it still runs."""
    try:
        record = _decode((lab_directory(storage, session) / _FILE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
    return record if process_of(record) is not None else None


def process_of(record: LabRecord) -> psutil.Process | None:
    """The Lab's process, while it lives."""
    with suppress(psutil.Error):
        process = psutil.Process(record.pid)
        if process.create_time() == record.started and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def write_lab(storage: Path, record: LabRecord) -> None:
    write_private(str(lab_directory(storage, record.session) / _FILE), msgspec.json.encode(record))


def forget_lab(storage: Path, session: str) -> None:
    (lab_directory(storage, session) / _FILE).unlink(missing_ok=True)

"""The models that people entered by their servers' addresses, in ``models.json``. Keys are elsewhere: in the keyring."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cellwright.errors import AgentError
from cellwright.settings.paths import write_private

__all__ = ["EnteredModels"]

_decode = msgspec.json.Decoder(list[str]).decode


class EnteredModels:
    """Names of the kind ``http://localhost:8000/v1#name``, in the order in which they were entered."""

    def __init__(self, storage: Path) -> None:
        self._file = storage / "models.json"

    def names(self) -> list[str]:
        """What is kept.

        Raises:
            AgentError: the file cannot be read.
        """
        try:
            return _decode(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise AgentError(
                f"{self._file} cannot be read: {error}", hint="Remove it, and enter the models again"
            ) from error

    def add(self, name: str) -> None:
        self._write([*(one for one in self.names() if one != name), name])

    def remove(self, name: str) -> None:
        self._write([one for one in self.names() if one != name])

    def _write(self, names: list[str]) -> None:
        write_private(str(self._file), msgspec.json.encode(names))

"""The codings of a body on its way, undone piece by piece and never beyond a bound: a few bytes can hold gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from cellwright.sandbox.relay import Cut

__all__ = ["ACCEPTED", "Decoding"]

ACCEPTED = "gzip, deflate"
"""Codings that the standard library undoes within bounds; others are not asked for."""

_PIECE = 256 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"
_ZLIB_METHOD = 8
_MOST_MEMBERS = 1_000


class Decoding:
    """Undoes one coding. Raises ``Cut`` where more than ``limit`` bytes would come of it, or it is none of ours."""

    def __init__(self, coding: str, limit: int) -> None:
        self._coding = coding.strip().lower()
        self._limit = limit
        self._made = 0
        self._members = 0
        self._state: zlib._Decompress | None = None
        if self._coding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Cut.failed(
                502,
                f"the answer is coded as {coding[:40]!r}, and only {ACCEPTED} were asked for",
                "Fetch it from elsewhere",
            )

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What comes of the next piece, in pieces of a bounded size."""
        if self._coding in {"", "identity"}:
            yield self._counted(data)
            return
        made = b""
        # A full piece may leave more behind, though all that came was taken.
        while data or len(made) == _PIECE:
            if (self._state is None or self._state.eof) and not self._begun(data):
                return
            assert self._state is not None  # noqa: S101  # for the type checker: it was begun
            try:
                made = self._state.decompress(data, _PIECE)
            except zlib.error as error:
                told = f"the answer cannot be decoded as {self._coding}: {error}"
                raise Cut.failed(502, told, "Try again") from None
            yield self._counted(made)
            data = self._state.unused_data if self._state.eof else self._state.unconsumed_tail

    def finish(self, *, received: bool) -> None:
        """Say that nothing more comes.

        Raises:
            Cut: the coding is not at its end.
        """
        if received and self._state is not None and not self._state.eof:
            raise Cut.failed(502, f"the answer's {self._coding} was cut short", "Try again")

    def _begun(self, data: bytes) -> bool:
        """Whether another part begins here; what else follows the last one means nothing."""
        gzip = self._coding != "deflate"
        if self._state is not None and not (gzip and data.startswith(_GZIP_MAGIC)):
            return False
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise Cut.failed(
                502, f"the answer has more than {_MOST_MEMBERS} parts", "Fetch it from elsewhere"
            )
        # By the standard there is a header around deflate; some servers leave that out.
        bare = not gzip and data[0] & 0x0F != _ZLIB_METHOD
        self._state = zlib.decompressobj(_GZIP if gzip else -zlib.MAX_WBITS if bare else zlib.MAX_WBITS)
        return True

    def _counted(self, made: bytes) -> bytes:
        self._made += len(made)
        if self._made > self._limit:
            raise Cut(
                502,
                f"more than {self._limit:,} bytes received, decoded",
                setting="max_download_bytes",
                hint="Fetch less, or have the operator raise `max_download_bytes`",
            )
        return made

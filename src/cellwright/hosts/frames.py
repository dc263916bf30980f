"""How messages lie on the wire and in the host's journal, so that replaying is copying.

A frame is a big-endian 32-bit length and that many bytes of MessagePack. What is in it is ``protocol``.
"""

from __future__ import annotations

import msgspec

__all__ = ["MAX_FRAME_BYTES", "FrameReader", "frame", "frame_bytes", "whole_frames"]

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH_BYTES = 4
_encoder = msgspec.msgpack.Encoder()


def frame(message: msgspec.Struct) -> bytes:
    """Encode one message with its length before it."""
    payload = _encoder.encode(message)
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(payload):,} bytes is over the protocol's {MAX_FRAME_BYTES:,}")
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def frame_bytes(data: bytes, at: int = 0) -> int:
    """The size of the frame that starts at ``at``, its length included."""
    return _LENGTH_BYTES + int.from_bytes(data[at : at + _LENGTH_BYTES], "big")


def whole_frames(data: bytes) -> int:
    """How many leading bytes of ``data`` are whole frames."""
    at = 0
    while at + _LENGTH_BYTES <= len(data) and at + frame_bytes(data, at) <= len(data):
        at += frame_bytes(data, at)
    return at


class FrameReader:
    """Cuts a byte stream into the payloads of its frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the payloads that are now whole.

        Raises:
            ValueError: the peer announced a frame over the limit; nothing after it can be trusted.
        """
        self._pending += data
        payloads: list[bytes] = []
        at = 0
        while len(self._pending) - at >= _LENGTH_BYTES:
            length = int.from_bytes(self._pending[at : at + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                if payloads:  # what came before it is whole; the next bytes, or none, find it again
                    break
                raise ValueError(f"a frame of {length:,} bytes is over the protocol's {MAX_FRAME_BYTES:,}")
            if len(self._pending) - at - _LENGTH_BYTES < length:
                break
            at += _LENGTH_BYTES
            payloads.append(bytes(self._pending[at : at + length]))
            at += length
        del self._pending[:at]
        return payloads

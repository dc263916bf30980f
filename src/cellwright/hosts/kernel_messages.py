"""Checks the messages of kernels and gives them the shape that everybody after the host relies on. Pure.

Code can speak for its kernel, and then says anything. What is no message of its kind becomes a line that tells so: it
must neither end an engine that folds it nor lie in a journal and end the next one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

__all__ = ["OUTPUTS", "dropped_of", "output_of", "reply_of"]

# Whoever folds, copies or writes a message goes down as deep as it does, from wherever its own stack is.
_MAX_DEPTH = 100
_MAX_REPLY_BYTES = 4 << 20

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Content(msgspec.Struct):
    execution_count: _Count | None = None


class _Stream(_Content):
    name: str = "stdout"
    text: str = ""


class _Transient(msgspec.Struct):
    display_id: str | None = None


class _Display(_Content):
    data: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    transient: _Transient | None = None


class _Error(_Content):
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = []


class _Clearing(_Content):
    wait: bool = False


class _Reply(_Error):
    status: str = "error"


class _Report(msgspec.Struct):
    dropped_bytes: _Count = 0
    dropped_messages: _Count = 0
    exit_code: int | None = None


class _About(msgspec.Struct):
    cellwright: _Report | None = None


_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_about = msgspec.json.Decoder(_About).decode
_decode_whole = msgspec.json.Decoder(dict[str, Any]).decode
OUTPUTS: Mapping[str, type[_Content]] = {
    "stream": _Stream,
    "display_data": _Display,
    "execute_result": _Display,
    "update_display_data": _Display,
    "error": _Error,
    "clear_output": _Clearing,
}
"""The kinds of message that are outputs, each with its shape."""


def output_of(kind: str, content: bytes) -> tuple[str, bytes]:
    """An output's kind and content as they may be passed on."""
    try:
        return kind, _checked(kind, content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        # What Python writes by default and JSON does not know, and halves of characters, are no reason to lose it all.
        plain = json.dumps(json.loads(content, parse_constant=lambda _: None), ensure_ascii=False)
        return kind, _checked(kind, plain.encode("utf-8", "replace"))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        words = (
            f"[cellwright: a {kind} message of the kernel was left out, for it is none: {str(error)[:200]}]\n"
        )
        return "stream", msgspec.json.encode({"name": "stderr", "text": words})


def _checked(kind: str, content: bytes) -> bytes:
    # All of it: what a shape does not know is skipped without a look, and others will look.
    whole = _decode_whole(content)
    said = msgspec.convert(whole, OUTPUTS[kind])
    if isinstance(said, _Display):
        for mime, form in (said.data or {}).items():
            if not _is_form(mime, form):
                raise ValueError(f"its {mime[:100]} is no text")
    if content.count(b"[") + content.count(b"{") > _MAX_DEPTH:
        _refuse_deep(whole)
    return content


def _is_form(mime: str, form: Any) -> bool:
    if isinstance(form, str) or mime.endswith("json"):
        return True
    return isinstance(form, list) and all(isinstance(line, str) for line in form)


def _refuse_deep(said: dict[str, Any]) -> None:
    level: list[Any] = [said]
    for _ in range(_MAX_DEPTH):
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [value for values in inside for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")


def dropped_of(metadata: bytes) -> int:
    """How many messages were dropped on the way, where a message says so."""
    try:
        report = _decode_about(metadata).cellwright
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    return report.dropped_messages if report is not None else 0


def reply_of(content: bytes, metadata: bytes) -> dict[str, Any]:
    """The reply to an execution: ``status``, ``execution_count``, the error, and our own kernels' account."""
    try:
        reply, report = _decode_reply(content[:_MAX_REPLY_BYTES]), _decode_about(metadata).cellwright
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        evalue = f"the kernel's reply cannot be read: {str(error)[:200]}"
        reply, report = _Reply(ename="BadReply", evalue=evalue), None
    return {**msgspec.structs.asdict(reply), "cellwright": msgspec.structs.asdict(report or _Report())}

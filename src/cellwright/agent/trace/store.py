"""The log of a run: a line for each step when it begins and one when it ends, beside the conversation it belongs to.

Lines are written whole, in order and for good, in a thread of their own. A prompt is a chain of messages, each stored
once with a link to the one before it, whichever request or branch sent it again; large texts lie in files beside it.
Reading is ``export``'s.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import pydantic_core
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from cellwright.agent.models.requests import Delta
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.steps import Step
from cellwright.settings.paths import make_private, write_private

__all__ = ["LARGE", "VERSION", "TraceLog", "decoded", "files_of", "jsonable", "messages_json", "restored"]

VERSION = 1

LARGE = 200_000
"""A text of more characters lies in a file of its own."""

_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


def files_of(path: Path) -> Path:
    """Where the large texts of a log lie."""
    return path.with_suffix(".files")


class TraceLog:
    """Keeps the steps of one run. Watches it; close it at the end of the run.

    A disk that refuses does not stop the run: ``trouble`` says what is missing and why.
    """

    def __init__(self, path: Path, redactor: Redactor, *, run_id: str | None = None) -> None:
        self.path = path
        self.run_id = run_id or path.stem
        self.trouble: str | None = None
        self._redactor = redactor
        make_private(str(path.parent))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self._chain: set[str] = set()
        self._seen: dict[int, tuple[ModelMessage, str]] = {}
        """Messages with a name for what is in them, by identity: what was sent once does not change."""
        self._torn = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="cellwright-trace")
        began = {"line": "run", "version": VERSION, "run_id": self.run_id, "began": time.time()}
        self._writer.submit(self._attempt, began)

    # Watching ----------------------------------------------------------------------------------------------------

    def began(self, step: Step) -> None:
        """Note that it began: where the run is killed, the log shows what it was at."""
        self._submit({"line": "began", "step": beginning(step)})

    def heard(self, step: Step, delta: Delta) -> None:
        """Pieces are not kept; the reply is."""

    async def ended(self, step: Step) -> None:
        """Return when the step is on the disk, or after a while where that does not answer."""
        await self._settled(self._submit(step))

    async def note(self, what: str, facts: Mapping[str, Any]) -> None:
        """Keep something of the run as a whole, such as its ``environment`` and its ``outcome``; the last one counts."""
        await self._settled(self._submit({"line": "note", "what": what, "facts": jsonable(dict(facts))}))

    async def aclose(self) -> None:
        """Note the end of the run, and let the file go."""
        with anyio.CancelScope(shield=True):
            await self._settled(self._submit({"line": "end", "ended": time.time()}))
            await anyio.to_thread.run_sync(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _submit(self, what: Step | dict[str, Any]) -> Future[None] | None:
        try:
            return self._writer.submit(self._attempt, what)
        except RuntimeError:  # closed, or the interpreter ends
            return None

    async def _settled(self, written: Future[None] | None) -> None:
        if written is None:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_wait, written)

    # In the thread -----------------------------------------------------------------------------------------------

    def _attempt(self, what: Step | dict[str, Any]) -> None:
        try:
            if isinstance(what, Step):
                self._write_step(what)
            else:
                self._write(self._redactor.value(what))
        except Exception as error:  # noqa: BLE001  # boundary: the run goes on without its log
            self.trouble = (
                self.trouble
                or f"The trace of run {self.run_id} is not complete: {type(error).__name__}: {error}"
            )
            _log.warning("trace_not_written run=%s error=%s", self.run_id, type(error).__name__)

    def _write_step(self, step: Step) -> None:
        last = None
        for message in step.prompt:
            last = self._write_message(message, last)
        facts = self._redactor.value(record(step)) | {"prompt": last}
        self._write({"line": "ended", "step": facts})

    def _write_message(self, message: ModelMessage, before: str | None) -> str:
        facts: dict[str, Any] | None = None
        if id(message) not in self._seen:
            facts = self._facts(message)
            self._seen[id(message)] = (message, digest(encoded(facts)))
        name = digest((before or "").encode(), self._seen[id(message)][1].encode())
        if name not in self._chain:
            said = facts if facts is not None else self._facts(message)
            self._write({"line": "message", "id": name, "after": before, "message": said})
            self._chain.add(name)
        return name

    def _facts(self, message: ModelMessage) -> dict[str, Any]:
        facts: dict[str, Any] = self._redactor.value(messages_json([message])[0])
        return facts

    def _write(self, value: dict[str, Any]) -> None:
        line = encoded(spilled(value, self._keep, longest=LARGE))
        size = os.fstat(self._descriptor).st_size
        try:
            rest = memoryview(b"\n" + line if self._torn else line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            self._torn = True  # half a line would spoil the next one
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
                self._torn = False
            raise
        self._torn = False

    def _keep(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        name = digest(data)
        directory = make_private(str(files_of(self.path)))
        if not os.path.exists(f"{directory}/{name}"):  # as its neighbours in `places`
            write_private(f"{directory}/{name}", data)
        return name

    def _close(self) -> None:
        self._writer.shutdown(wait=True)
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _wait(written: Future[None]) -> None:
    try:
        written.result(_TIMEOUT_S)
    except TimeoutError:
        _log.warning("trace_not_written_in_time seconds=%s", _TIMEOUT_S)


# A step as JSON, and its messages. Pure: written by ``store``, put together again by ``export``.

_FILE = "$file"


def beginning(step: Step) -> dict[str, Any]:
    """What is known of a step when it begins."""
    return {
        "number": step.number,
        "kind": step.kind,
        "role": step.role,
        "pattern": step.pattern,
        "branch": step.branch,
        "began": step.began,
    }


def record(step: Step) -> dict[str, Any]:
    """All of a step that has ended, except for its prompt."""
    return beginning(step) | {
        "session_id": step.session_id,
        "state": "failed" if step.failed else "ok",
        "model": step.model,
        "reply": messages_json([step.reply])[0] if step.reply is not None else None,
        "tool": step.tool,
        "arguments": jsonable(step.arguments),
        "result": step.result,
        "pictures": step.pictures,
        "runs": [asdict(run) for run in step.runs],
        "usage": asdict(step.usage),
        "seconds": asdict(step.seconds),
        "took": step.took,
        "note": step.note,
        "error": step.error,
    }


def messages_json(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Messages as pydantic-ai writes them, pictures as base64."""
    dumped: list[dict[str, Any]] = json.loads(
        json.dumps(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))
    )
    return dumped


def jsonable(value: Any) -> Any:
    """Any value as JSON; what JSON has no word for as a text."""
    return _finite(pydantic_core.to_jsonable_python(value, fallback=str, bytes_mode="base64"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


# Lines -----------------------------------------------------------------------------------------------------------


def encoded(value: Any) -> bytes:
    """One line of JSON, in UTF-8 that everybody can read, also where a text holds half a character."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decoded(line: bytes) -> dict[str, Any] | None:
    """A line as it was written; None where it is torn."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def digest(*parts: bytes) -> str:
    """A name for what these hold."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


# Large texts -----------------------------------------------------------------------------------------------------


def spilled(value: Any, keep: Callable[[str], str], *, longest: int) -> Any:
    """The value with each text that is longer replaced by the name that ``keep`` gives it."""
    if isinstance(value, str):
        return {_FILE: keep(value)} if len(value) > longest else value
    if isinstance(value, list):
        return [spilled(one, keep, longest=longest) for one in value]
    if isinstance(value, dict):
        # A key of the same look must not be taken for ours.
        return {
            f"${key}" if key.startswith("$") else key: spilled(one, keep, longest=longest)
            for key, one in value.items()
        }
    return value


def restored(value: Any, kept: Callable[[str], str]) -> Any:
    """The reverse of ``spilled``."""
    if isinstance(value, list):
        return [restored(one, kept) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_FILE}:
        return kept(value[_FILE])
    return {key.removeprefix("$"): restored(one, kept) for key, one in value.items()}

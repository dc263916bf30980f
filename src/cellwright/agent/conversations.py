"""Conversations that last: a directory each, with a log of JSON lines that is only added to, and pictures beside it.

A line is on the disk, whole, before the call that wrote it returns; one that a crash cut short is taken away by the next
run.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest

from cellwright.agent._notebook_names import Notebook
from cellwright.engine.records import new_conversation_id
from cellwright.errors import (
    ConversationBusy,
    ConversationUnreadable,
    SaveFailed,
    UnknownConversation,
    UnknownRun,
)
from cellwright.settings.paths import make_private, write_private

__all__ = ["FIRST", "VERSION", "Conversation", "Conversations", "History", "folded", "pack", "unpack"]

_MESSAGES = b'{"kind":"messages"'

_MAX_TITLE = 120

_TRACES = "runs"
"""Where the traces of a conversation's runs lie, beside its log."""

_id = re.compile(r"c-[0-9a-z]{4,32}")

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Brief:
    """A conversation in a list; ``trouble`` says why one cannot be gone on with."""

    id: str
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    notebook: Notebook | None = None
    model: str | None = None
    runs: int = 0
    trouble: str | None = None
    made: tuple[str, ...] = ()
    """The sessions that were made for it."""


class Conversations:
    """All conversations of a storage directory. The engine's process is the one that works with them."""

    def __init__(self, directory: Path) -> None:
        """``directory`` is made where it is missing: ``conversations`` in the storage directory."""
        self._directory = directory

    async def create(self, title: str) -> History:
        """Begin a conversation."""
        return await anyio.to_thread.run_sync(self._create, title)

    async def get(self, conversation_id: str) -> History:
        """A conversation as it is now, to read; also while a run works with it.

        Raises:
            UnknownConversation: there is none of that id.
            ConversationUnreadable: a newer version wrote it, or it is damaged.
        """
        return await anyio.to_thread.run_sync(self._get, conversation_id)

    async def fork(self, conversation_id: str, run_id: str) -> History:
        """A conversation of its own with what was said in another before one of its questions.

        Raises:
            UnknownConversation, UnknownRun: there is none of that id.
            ConversationUnreadable: a newer version wrote it, or it is damaged.
        """
        return await anyio.to_thread.run_sync(self._fork, conversation_id, run_id)

    async def list(self) -> Sequence[Brief]:
        """All of them, the one that was asked last first."""
        return await anyio.to_thread.run_sync(self._list)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its pictures and traces. Its notebooks stay.

        Raises:
            UnknownConversation: there is none of that id.
            ConversationBusy: a run works with it.
        """
        await anyio.to_thread.run_sync(self._delete, conversation_id)

    @asynccontextmanager
    async def work_on(
        self, conversation_id: str, *, clean: Clean | None = None
    ) -> AsyncIterator[Conversation]:
        """A conversation, to go on with. ``clean`` takes secrets out of every text that is written.

        Raises:
            UnknownConversation: there is none of that id.
            ConversationBusy: another run works with it.
            ConversationUnreadable: a newer version wrote it, or it is damaged.
        """
        conversation = await anyio.to_thread.run_sync(partial(self._open, conversation_id, clean))
        try:
            yield conversation
        finally:
            conversation.close()

    def directory_of(self, conversation_id: str) -> Path:
        """Where a conversation lies, and what is kept beside it, such as traces of its runs.

        Raises:
            UnknownConversation: there is none of that id.
        """
        directory = self._directory / conversation_id
        # The id comes from outside, and must not lead elsewhere.
        if _id.fullmatch(conversation_id) is None or not (directory / LOG).is_file():
            raise UnknownConversation(
                f"There is no conversation {conversation_id!r}",
                hint="`cellwright conversations` lists those that there are; leave it out to begin one",
            )
        return directory

    def _create(self, title: str) -> History:
        make_private(str(self._directory))
        now = time.time()
        while (directory := self._directory / new_conversation_id()).exists():
            pass
        make_private(str(directory))
        short = " ".join(title.split())[:_MAX_TITLE]
        line = {
            "kind": "conversation",
            "version": VERSION,
            "id": directory.name,
            "title": short,
            "created": now,
        }
        write_private(str(directory / LOG), written(line))
        return folded(None, line)

    def _fork(self, conversation_id: str, run_id: str) -> History:
        origin = self.directory_of(conversation_id)
        content, _ = whole_lines((origin / LOG).read_bytes())
        lines = content.splitlines()
        asked = {one["run_id"]: place for place, one in _runs_in(lines)}
        if run_id not in asked:
            raise UnknownRun(f"There is no run {run_id!r} in conversation {conversation_id}")
        history = read_history(origin, lines[: asked[run_id]])
        made = self._create(history.title)
        directory = self._directory / made.id
        for kept in (PICTURES, _TRACES):
            if (origin / kept).is_dir():
                shutil.copytree(
                    origin / kept,
                    directory / kept,
                    ignore=_all_but({*(one.run_id for one in history.runs)}) if kept == _TRACES else None,
                )
        head, *_ = (directory / LOG).read_bytes().splitlines()
        write_private(
            str(directory / LOG), b"".join(line + b"\n" for line in (head, *lines[1 : asked[run_id]]))
        )
        return self._get(made.id)

    def _get(self, conversation_id: str) -> History:
        directory = self.directory_of(conversation_id)
        content, _ = whole_lines((directory / LOG).read_bytes())
        return read_history(directory, content.splitlines())

    def _list(self) -> Sequence[Brief]:
        logs = self._directory.glob(f"c-*/{LOG}")
        return sorted(map(_brief, logs), key=lambda brief: (brief.updated, brief.id), reverse=True)

    def _delete(self, conversation_id: str) -> None:
        directory = self.directory_of(conversation_id)
        descriptor = _locked(directory / LOG)
        try:
            # First the log: what is left behind by a crash half-way is then no conversation any more.
            (directory / LOG).unlink()
            shutil.rmtree(directory)
        finally:
            os.close(descriptor)

    def _open(self, conversation_id: str, clean: Clean | None) -> Conversation:
        directory = self.directory_of(conversation_id)
        descriptor = _locked(directory / LOG)
        try:
            content, whole = whole_lines((directory / LOG).read_bytes())
            history = read_history(directory, content.splitlines())
            os.ftruncate(descriptor, whole)
        except BaseException:
            os.close(descriptor)
            raise
        return Conversation(directory, descriptor, history, whole, clean)


class Conversation:
    """A conversation that a run works with. Made by ``Conversations``; calls may be made at the same time."""

    def __init__(
        self, directory: Path, descriptor: int, history: History, size: int, clean: Clean | None
    ) -> None:
        self.directory = directory
        self.history = history
        """As far as it is written."""
        self._descriptor = descriptor
        self._size = size
        self._clean = clean
        self._said = history.messages()
        """The current branch, as whoever said it has it: only texts that are cleaned are stored otherwise."""
        self._turn = anyio.Lock()
        self._closed = False

    @property
    def id(self) -> str:
        return self.history.id

    async def keep(self, messages: Sequence[ModelMessage], *, why: str = "") -> None:
        """Make this the history: what is new of it is added.

        Where it does not go on from what is stored, because it was compacted or another way was adopted, a branch of it
        begins, for the reason ``why``; the one before stays as it was.
        """
        async with self._turn:
            step = step_from(self._said, messages)
            own = len(self.history.segments[self.history.current].own)
            over = int(step.grew and own > 0)
            if step.rewrites(len(self._said)) or (step.grew and not over):
                await self._branch({"parent": self.history.current, "taken": step.same, "why": why})
                over = 0
            await self._say(messages[step.same :], self.history.current, over)
            self._said = list(messages)

    async def say(self, messages: Sequence[ModelMessage], *, segment: str | None = None) -> None:
        """Add messages to a branch of the history, the current one by default."""
        async with self._turn:
            await self._say(messages, segment or self.history.current)
            if segment in (None, self.history.current):
                self._said += messages

    async def branch(self, *, parent: str, taken: int, label: str, why: str = "") -> str:
        """Begin a branch beside the current one, with the first ``taken`` messages of its parent."""
        async with self._turn:
            told = {"parent": parent, "taken": taken, "label": label, "why": why}
            return await self._branch(told, current=False)

    async def worked_with(self, notebook: Notebook, *, made: bool = False) -> None:
        """This is the notebook that the conversation is about now; whether it was ``made`` for it."""
        async with self._turn:
            if self.history.notebook != notebook:
                told = {"session_id": notebook.session_id, "name": notebook.name, "path": notebook.path}
                await self._note("notebook", {**told, "made": True} if made else told)

    async def answered_by(self, model: str) -> None:
        async with self._turn:
            if self.history.model != model:
                await self._note("model", {"model": model})

    async def entitle(self, title: str) -> None:
        async with self._turn:
            await self._note("title", {"title": self._cleaned(" ".join(title.split())[:_MAX_TITLE])})

    async def begin_run(self, run_id: str, question: str) -> None:
        async with self._turn:
            told = {"run_id": run_id, "question": self._cleaned(question), "at": time.time()}
            await self._note("run", told)

    async def end_run(self, run_id: str, answer: str, *, ok: bool) -> None:
        async with self._turn:
            await self._note("ran", {"run_id": run_id, "answer": self._cleaned(answer), "ok": ok})

    def close(self) -> None:
        """Let others work with it."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def _cleaned(self, text: str) -> str:
        return self._clean(text) if self._clean is not None else text

    async def _branch(self, told: dict[str, Any], *, current: bool = True) -> str:
        segment_id = self.history.next_segment_id()
        await self._note("branch", {"id": segment_id, "label": "main", **told, "current": current})
        return segment_id

    async def _say(self, messages: Sequence[ModelMessage], segment: str, over: int = 0) -> None:
        if messages:
            await anyio.to_thread.run_sync(self._store, list(messages), segment, over)

    async def _note(self, kind: str, told: dict[str, Any]) -> None:
        await anyio.to_thread.run_sync(self._add, {"kind": kind, **told})

    def _store(self, messages: list[ModelMessage], segment: str, over: int) -> None:
        packed = pack(messages, self._clean)
        pictures = self.directory / PICTURES
        for digest, content in packed.pictures.items():
            if not (pictures / digest).exists():
                make_private(str(pictures))
                write_private(str(pictures / digest), content)
        line: Line = {"kind": "messages", "segment": segment, "messages": packed.messages}
        if over:
            line["over"] = over
        if packed.places:
            line["pictures"] = packed.places
        self._add(line)

    def _add(self, line: Line) -> None:
        if self._closed:
            raise ConversationBusy(f"The run that worked with conversation {self.id} is over")
        content = written(line)
        try:
            _write_all(self._descriptor, content)
            os.fsync(self._descriptor)
        except OSError as error:
            # Half a line would make everything behind it unreadable.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise SaveFailed(
                f"Conversation {self.id} could not be written: {error.strerror}",
                hint="Free space on that disk, then ask again",
            ) from error
        self._size += len(content)
        # Read from what was written, so that what is in memory is what a restart finds.
        [self.history] = histories(self.directory, [content], self.history)


def _runs_in(lines: Sequence[bytes]) -> Iterator[tuple[int, Line]]:
    """Where each question stands among a log's lines."""
    for place, content in enumerate(lines):
        if content.startswith(b'{"kind":"run"'):
            yield place, json.loads(content)


def _all_but(run_ids: Container[str]) -> Callable[[str, list[str]], list[str]]:
    """What to leave out of a copy: the traces of all other runs."""
    return lambda _, names: [name for name in names if name.removesuffix(".jsonl") not in run_ids]


def _brief(log: Path) -> Brief:
    """A conversation without what was said in it."""
    try:
        content, _ = whole_lines(log.read_bytes())
        lines = [line for line in content.splitlines() if not line.startswith(_MESSAGES)]
        history = read_history(log.parent, lines)
    except (ConversationUnreadable, OSError) as error:
        return Brief(log.parent.name, trouble=str(error))
    return Brief(
        history.id,
        history.title,
        history.created,
        history.updated,
        history.notebook,
        history.model,
        len(history.runs),
        made=tuple(sorted(history.made)),
    )


def _locked(log: Path) -> int:
    """The log, opened to be added to by nobody else."""
    descriptor = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConversationBusy(
            f"Another run works with conversation {log.parent.name}",
            hint="Wait for its end, or ask without it to begin another",
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


# A conversation's lines as they lie on the disk: how they are written, and read back whole.

LOG = "log.jsonl"

PICTURES = "pictures"


def written(line: Line) -> bytes:
    """A line as it is stored."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def whole_lines(content: bytes) -> tuple[bytes, int]:
    """The content without a last line that was cut short, and how long that is."""
    whole = content.rfind(b"\n") + 1
    # A crash of the machine may leave a line's place without its bytes.
    while whole and b"\0" in content[content.rfind(b"\n", 0, whole - 1) + 1 : whole]:
        whole = content.rfind(b"\n", 0, whole - 1) + 1
    return content[:whole], whole


def read_history(directory: Path, lines: Sequence[bytes]) -> History:
    """What all lines of a conversation tell.

    Raises:
        ConversationUnreadable: a newer version wrote it, or it is damaged.
    """
    last = deque(histories(directory, lines, None), maxlen=1)
    if not last:
        raise ConversationUnreadable(f"Conversation {directory.name} is empty", hint="Delete it")
    return last[0]


def histories(directory: Path, lines: Sequence[bytes], history: History | None) -> Iterator[History]:
    """What is known after each of these lines; before them that was ``history``."""

    def picture(digest: str) -> bytes:
        return (directory / PICTURES / Path(digest).name).read_bytes()

    for number, content in enumerate(lines, 1):
        try:
            line = json.loads(content)
            if not isinstance(line, dict):
                raise LineUnreadable("it is no object")
            if history is None:
                _refuse_newer(directory.name, line)
            history = folded(history, unpack(line, picture))
        except (ValueError, OSError, LookupError, TypeError) as error:
            told = str(error) if isinstance(error, LineUnreadable) else f"{type(error).__name__}: {error}"
            raise ConversationUnreadable(
                f"Conversation {directory.name} is damaged at line {number}: {told}",
                hint=f"Its log is {directory / LOG}; begin another conversation",
            ) from error
        yield history


def _refuse_newer(conversation_id: str, line: Line) -> None:
    version = line.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ConversationUnreadable(
            f"Conversation {conversation_id} was written by a newer version of Cellwright"
            f" (format {version}, this one reads {VERSION})",
            hint="Use that version, or begin another conversation",
        )


# A conversation as data: its notebooks, runs and branches of history, folded from the lines that tell what
# happened.

VERSION = 1
"""Of the lines. Raised with every change that an older version would misread."""

FIRST = "h1"
"""The branch that every conversation begins with."""

Line: TypeAlias = dict[str, Any]

JsonPath: TypeAlias = tuple[str | int, ...]

# A short one costs more in a file of its own than it saves.
_LEAST_KEPT_APART = 1_000


class LineUnreadable(ValueError):
    """A line that is none of ours, or not of this version; the message says which."""


@dataclass(frozen=True, slots=True)
class Run:
    """One question and how it ended; ``ok`` is None where it did not come to an end."""

    run_id: str
    question: str
    began: float
    answer: str = ""
    ok: bool | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A branch of the history: what it took over from its parent, and what was said since."""

    id: str
    parent: str | None = None
    taken: int = 0
    """As many of the parent's messages come before its own."""
    label: str = "main"
    """The branch of the run, as ``branches.Branch`` has it."""
    why: str = ""
    own: tuple[ModelMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of a conversation."""

    id: str
    title: str
    created: float
    notebooks: tuple[Notebook, ...] = ()
    """Those that it worked with, the current one last."""
    made: frozenset[str] = frozenset()
    """The sessions that were made for it."""
    model: str | None = None
    """The one that answered last."""
    runs: tuple[Run, ...] = ()
    segments: Mapping[str, Segment] = field(default_factory=lambda: {FIRST: Segment(FIRST)})
    current: str = FIRST
    """The branch that the next question goes on with."""

    @property
    def notebook(self) -> Notebook | None:
        """The current notebook, whether or not it is still there."""
        return self.notebooks[-1] if self.notebooks else None

    @property
    def updated(self) -> float:
        """When it was last asked something."""
        return self.runs[-1].began if self.runs else self.created

    def messages(self, segment_id: str | None = None) -> list[ModelMessage]:
        """What was said on a branch, the current one by default, oldest first."""
        line: list[Segment] = []
        wanted: str | None = segment_id or self.current
        while wanted is not None:
            line.append(self.segments[wanted])
            wanted = line[-1].parent
        said: list[ModelMessage] = []
        for segment in reversed(line):
            said = [*said[: segment.taken], *segment.own]
        return said

    def next_segment_id(self) -> str:
        return f"h{len(self.segments) + 1}"


def folded(history: History | None, line: Line) -> History:
    """What is known after one more line.

    Raises:
        LineUnreadable: it is not one of ours.
    """
    try:
        if history is None:
            return _opened(line)
        return _FOLDS[line["kind"]](history, line)
    except KeyError as error:
        raise LineUnreadable(f"{error.args[0]!r} is not known, or missing") from error
    except (TypeError, ValueError) as error:
        raise LineUnreadable(str(error)) from error


def _opened(line: Line) -> History:
    if line["kind"] != "conversation":
        raise LineUnreadable("it does not begin as a conversation")
    if line["version"] != VERSION:
        raise LineUnreadable(f"it is of version {line['version']}, and this is {VERSION}")
    return History(line["id"], line["title"], line["created"])


def _titled(history: History, line: Line) -> History:
    return replace(history, title=line["title"])


def _worked_with(history: History, line: Line) -> History:
    notebook = Notebook(line["session_id"], line["name"], line["path"])
    others = (other for other in history.notebooks if other.session_id != notebook.session_id)
    made = {notebook.session_id} if line.get("made") else set()
    return replace(history, notebooks=(*others, notebook), made=history.made | made)


def _answered_by(history: History, line: Line) -> History:
    return replace(history, model=line["model"])


def _began(history: History, line: Line) -> History:
    return replace(history, runs=(*history.runs, Run(line["run_id"], line["question"], line["at"])))


def _ended(history: History, line: Line) -> History:
    runs = tuple(
        replace(run, answer=line["answer"], ok=line["ok"]) if run.run_id == line["run_id"] else run
        for run in history.runs
    )
    return replace(history, runs=runs)


def _branched(history: History, line: Line) -> History:
    segment = Segment(line["id"], line["parent"], line["taken"], line["label"], line["why"])
    segments = {**history.segments, segment.id: segment}
    return replace(history, segments=segments, current=segment.id if line["current"] else history.current)


def _said(history: History, line: Line) -> History:
    segment = history.segments[line["segment"]]
    said = ModelMessagesTypeAdapter.validate_python(line["messages"])
    # A request that was not sent yet and grew is there twice: the later one counts.
    before = segment.own[: len(segment.own) - line.get("over", 0)]
    return replace(history, segments={**history.segments, segment.id: replace(segment, own=(*before, *said))})


_FOLDS: dict[str, Callable[[History, Line], History]] = {
    "title": _titled,
    "notebook": _worked_with,
    "model": _answered_by,
    "run": _began,
    "ran": _ended,
    "branch": _branched,
    "messages": _said,
}


@dataclass(frozen=True, slots=True)
class Step:
    """How a history goes on from what is stored: where it differs, and whether its last request merely grew."""

    same: int
    """So many messages are the same in both."""
    grew: bool = False

    def rewrites(self, stored: int) -> bool:
        """Whether it leaves messages out that are stored: then it is another branch."""
        return self.same + self.grew < stored


def step_from(stored: Sequence[ModelMessage], now: Sequence[ModelMessage]) -> Step:
    """What is new in a history. A request that was not sent yet may have grown; nothing else changes unnoticed."""
    pairs = zip(stored, now, strict=False)
    same = next((place for place, (old, new) in enumerate(pairs) if old is not new and old != new), None)
    if same is None:
        return Step(min(len(stored), len(now)))
    old, new = stored[same], now[same]
    grew = (
        same == len(stored) - 1
        and isinstance(old, ModelRequest)
        and isinstance(new, ModelRequest)
        and list(new.parts[: len(old.parts)]) == list(old.parts)
    )
    return Step(same, grew)


# Messages as JSON -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """Messages as JSON without their pictures, which are kept apart, each once."""

    messages: list[Any]
    places: tuple[tuple[JsonPath, str], ...]
    """Where which picture belongs."""
    pictures: Mapping[str, bytes] = field(repr=False)
    """By the hash of their bytes."""


def pack(messages: Sequence[ModelMessage], clean: Callable[[str], str] | None = None) -> Packed:
    """Messages as they are stored; ``clean`` takes out of every text what must not be written."""
    told = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    places: list[tuple[JsonPath, str]] = []
    pictures: dict[str, bytes] = {}

    def walked(value: Any, path: JsonPath) -> Any:
        match value:
            case dict():
                content = _kept_apart(value)
                if content is not None:
                    digest = hashlib.sha256(content).hexdigest()
                    pictures[digest] = content
                    places.append(((*path, "data"), digest))
                    value = {**value, "data": ""}
                return {key: walked(item, (*path, key)) for key, item in value.items()}
            case list():
                return [walked(item, (*path, place)) for place, item in enumerate(value)]
            case str() if clean is not None:
                return clean(value)
        return value

    return Packed(walked(told, ()), tuple(places), pictures)


def unpack(line: Line, picture: Callable[[str], bytes]) -> Line:
    """A line with its pictures back in their places; ``picture`` finds one by its hash."""
    for path, digest in line.get("pictures", ()):
        *way, last = path
        found: Any = line["messages"]
        for step in way:
            found = found[step]
        found[last] = base64.urlsafe_b64encode(picture(digest)).decode()
    return line


def _kept_apart(value: Mapping[str, Any]) -> bytes | None:
    """The bytes of a picture, or of anything else that is no text, where they come back just as they were."""
    data = value.get("data")
    if value.get("kind") != "binary" or not isinstance(data, str) or len(data) < _LEAST_KEPT_APART:
        return None
    try:
        content = base64.urlsafe_b64decode(data)
    except (binascii.Error, ValueError):
        return None
    return content if base64.urlsafe_b64encode(content).decode() == data else None

"""One cell: the view that callers see, and the record that a document keeps of it.

A record holds a cell's fields in memory form (text joined, as nbformat does on reading) beside the bytes they came
from, and writes anew only the fields that were touched. Which cells there are, and in what order, is the
document's business (see document).
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

__all__ = [
    "Cell",
    "CellKind",
    "CellRecord",
    "Members",
    "RunTimes",
    "derived_id",
    "encode",
    "format_value",
    "is_output",
    "is_valid_id",
    "iso_time",
    "join_lines",
    "new_id",
    "ran_mark",
    "read_value",
    "run_times",
    "same",
    "scan_array",
    "scan_object",
    "skip_space",
    "source_hash",
]

CellKind: TypeAlias = Literal["code", "markdown", "raw"]

OWN_SECTION = "cellwright"
"""The key of our own part of a notebook's or a cell's metadata."""

TIMES_SECTION = "execution"
"""The key of a cell's metadata under which Jupyter's programs tell when its last run began and ended."""

_BEGAN = ("iopub.execute_input", "iopub.status.busy")

_ENDED = ("iopub.status.idle", "shell.execute_reply")

_CELL_DEPTH = 2

_MEMBER_DEPTH = 3

_SPLIT_MIMES = frozenset({"application/javascript", "image/svg+xml"})


def source_hash(source: str) -> str:
    """What a source is known by where it is not at hand; half a character, which no kernel is given, is that of its ``?``."""
    return hashlib.sha256(source.encode(errors="replace")).hexdigest()


def ran_mark(source: str) -> str:
    """What a cell's metadata keep of the source that ran: enough to see an edit, not to withstand a forger."""
    return source_hash(source)[:16]


def own_section(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Cellwright itself keeps in a notebook's or a cell's metadata."""
    section = metadata.get(OWN_SECTION)
    return section if isinstance(section, Mapping) else {}


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a cell's run began and ended, in seconds since 1970; None where nobody wrote it down."""

    began: float | None = None
    ended: float | None = None

    def to_metadata(self) -> dict[str, str]:
        """The times by the keys that JupyterLab and nbclient write."""
        known = (*((key, self.began) for key in _BEGAN), *((key, self.ended) for key in _ENDED))
        return {key: iso_time(at) for key, at in known if at is not None}


def run_times(metadata: Mapping[str, Any]) -> RunTimes:
    """Read the times of a cell's last run from its metadata, whoever ran it."""
    held = metadata.get(TIMES_SECTION)
    if not isinstance(held, Mapping):
        return RunTimes()
    began, ended = ([_seconds(held.get(key)) for key in keys] for keys in (_BEGAN, _ENDED))
    return RunTimes(
        next((at for at in began if at is not None), None), next((at for at in ended if at is not None), None)
    )


def iso_time(at: float) -> str:
    """A time in UTC as ISO 8601 has it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def is_plain_path(name: str) -> bool:
    """Whether a name can be a file's below a directory: relative, and not leading out of it."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it was when asked for. Its contents belong to the document: read them, do not change them."""

    id: str
    kind: CellKind
    source: str
    version: int
    """Rises with every change of the source. Runs and metadata leave it, so that a run never makes an edit stale."""
    metadata: Mapping[str, Any]
    outputs: tuple[dict[str, Any], ...]
    execution_count: int | None
    language: str | None
    """What the cell itself says; None means the notebook's language."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Jupyter's tags."""
        tags = self.metadata.get("tags")
        return tuple(tags) if isinstance(tags, list) else ()

    @property
    def filename(self) -> str | None:
        """The file name under which other cells import this one, if it has one."""
        name = own_section(self.metadata).get("filename")
        return name if isinstance(name, str) and name else None

    @property
    def diagnostics(self) -> list[Mapping[str, Any]]:
        """What the last check of types found in it: ``line``, ``column``, ``code`` and ``message`` of each."""
        held = own_section(self.metadata).get("diagnostics")
        return [one for one in held if isinstance(one, Mapping)] if isinstance(held, list) else []

    @property
    def was_edited(self) -> bool:
        """Whether its source is another than the one that ran last; not where nobody noted that."""
        ran = own_section(self.metadata).get("ran")
        return ran is not None and ran != ran_mark(self.source)

    @property
    def explains(self) -> bool:
        """Whether a plan wrote it beside its steps, so that it does not count against ``max_cells``."""
        return self.kind == "markdown" and own_section(self.metadata).get("explains") is True

    @property
    def may_raise(self) -> bool:
        """Whether the cell says that its failure is wanted."""
        return "raises-exception" in self.tags

    @property
    def runs(self) -> bool:
        """Whether running the whole notebook runs this cell."""
        return self.kind == "code" and bool(self.source.strip()) and "skip-execution" not in self.tags


class CellRecord:
    """A cell's fields and its bytes in the file. Never altered: a change makes another record."""

    __slots__ = ("_original", "_raw", "_touched", "fields")

    def __init__(
        self, fields: dict[str, Any], *, original: bytes | None = None, touched: frozenset[str] = frozenset()
    ) -> None:
        self.fields = fields
        self._original = original
        self._touched = touched
        self._raw = None if touched else original

    @classmethod
    def new(cls, cell_id: str, kind: CellKind, source: str, metadata: Mapping[str, Any]) -> CellRecord:
        """A cell that was never in a file, with the fields that nbformat asks of its kind."""
        fields: dict[str, Any] = {
            "id": cell_id,
            "cell_type": kind,
            "source": source,
            "metadata": dict(metadata),
        }
        if kind == "code":
            fields |= {"outputs": [], "execution_count": None}
        return cls(fields)

    @property
    def id(self) -> str:
        return cast("str", self.fields["id"])

    @property
    def source(self) -> str:
        return cast("str", self.fields["source"])

    @property
    def kind(self) -> CellKind:
        """The cell's kind; a kind of a later nbformat is shown as raw, and kept."""
        kind = self.fields["cell_type"]
        return kind if kind in {"code", "markdown"} else "raw"

    @property
    def raw(self) -> bytes:
        """The cell's JSON as it stands in the file; made when first asked for."""
        if self._raw is None:
            self._raw = encode(self._render())
            self._original, self._touched = self._raw, frozenset()
        return self._raw

    def changed(self, updates: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> CellRecord:
        """A record with these fields in place of its own; the others keep their bytes."""
        fields = {key: value for key, value in {**self.fields, **updates}.items() if key not in without}
        touched = self._touched | updates.keys() | without
        return CellRecord(fields, original=self._original, touched=touched)

    def view(self, version: int) -> Cell:
        """What callers see of this record."""
        metadata = self.fields["metadata"]
        return Cell(
            id=self.id,
            kind=self.kind,
            source=self.source,
            version=version,
            metadata=MappingProxyType(metadata),
            outputs=tuple(self.fields.get("outputs", ())),
            execution_count=self.fields.get("execution_count"),
            language=_language(metadata),
        )

    def _render(self) -> str:
        if self._original is None:
            return Members({key: _format_field(key, value) for key, value in self.fields.items()}).render(
                _CELL_DEPTH
            )
        members, _, _ = scan_object(self._original.decode(), 0)
        present = self._touched & self.fields.keys()
        texts = {key: _format_field(key, self.fields[key]) for key in present}
        return members.with_texts(texts, without=self._touched - present).render(_CELL_DEPTH)


def join_lines(fields: dict[str, Any]) -> None:
    """Bring a cell's multi-line text, as files hold it, into one string each, as nbformat does."""
    fields["source"] = _joined(fields["source"])
    for attachments in _mappings([fields.get("attachments")]):
        for attachment in _mappings(attachments.values()):
            _join_bundle(attachment)
    for output in fields.get("outputs", ()):
        if output.get("output_type") in ("execute_result", "display_data"):
            for bundle in _mappings([output.get("data")]):
                _join_bundle(bundle)
        elif "text" in output:
            output["text"] = _joined(output["text"])


def is_output(output: Mapping[str, Any]) -> bool:
    """Whether an output has the shape that everybody relies on who shows or compares it; its lines are joined."""
    match output.get("output_type"):
        case "stream":
            return isinstance(output.get("text"), str) and isinstance(output.get("name", ""), str)
        case "error":
            lines = output.get("traceback") or []
            texts = (
                output.get("ename", ""),
                output.get("evalue", ""),
                *(lines if isinstance(lines, list) else (lines,)),
            )
            return all(isinstance(text, str) for text in texts)
        case str(kind):
            data, metadata = output.get("data"), output.get("metadata")
            is_shown = kind in ("execute_result", "display_data")
            return (isinstance(data, dict) or (data is None and not is_shown)) and isinstance(
                metadata, dict | None
            )
        case _:
            return False


def _language(metadata: Mapping[str, Any]) -> str | None:
    """The language a cell names for itself, in any of the ways that are in use."""
    ways = (
        ("vscode", "languageId"),
        (OWN_SECTION, "language"),
        ("polyglot_notebook", "kernelName"),
        ("dotnet_interactive", "language"),
    )
    for owner, key in ways:
        section = metadata.get(owner)
        if isinstance(section, Mapping) and isinstance(section.get(key), str):
            return cast("str", section[key])
    kernel = metadata.get("kernel")  # SoS notebooks
    return kernel if isinstance(kernel, str) else None


def _format_field(key: str, value: Any) -> str:
    if key == "source":
        value = value.splitlines(keepends=True)
    elif key == "outputs":
        value = [_split_output(output) for output in value]
    elif key == "attachments" and isinstance(value, Mapping):
        value = {name: _split_bundle(bundle) for name, bundle in value.items()}
    return format_value(value, _MEMBER_DEPTH)


def _split_output(output: Mapping[str, Any]) -> dict[str, Any]:
    split = dict(output)
    if split.get("output_type") in ("execute_result", "display_data"):
        if "data" in split:
            split["data"] = _split_bundle(split["data"])
    elif split.get("output_type") == "stream" and isinstance(split.get("text"), str):
        split["text"] = split["text"].splitlines(keepends=True)
    return split


def _split_bundle(bundle: Any) -> Any:
    if not isinstance(bundle, Mapping):
        return bundle
    return {
        mime: data.splitlines(keepends=True)
        if isinstance(data, str) and (mime.startswith("text/") or mime in _SPLIT_MIMES)
        else data
        for mime, data in bundle.items()
    }


def _join_bundle(bundle: dict[str, Any]) -> None:
    for mime, data in bundle.items():
        if not (mime == "application/json" or (mime.startswith("application/") and mime.endswith("+json"))):
            bundle[mime] = _joined(data)


def _joined(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _mappings(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


# Cell ids: which are valid, how new ones are made, and how cells that came without one get theirs.

_valid = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def is_valid_id(value: object) -> bool:
    """Whether nbformat 4.5 accepts this as a cell's id."""
    return isinstance(value, str) and _valid.fullmatch(value) is not None


def new_id(taken: Container[str]) -> str:
    """A random id in Jupyter's form that none of the others has."""
    while (candidate := uuid.uuid4().hex[:8]) in taken:
        pass
    return candidate


def derived_id(seed: str, taken: Container[str]) -> str:
    """An id that follows from the content alone.

    Reading the same file twice, or merging the same documents twice, must give the same ids.
    """
    for attempt in count():
        digest = hashlib.sha256(f"{attempt}:{seed}".encode("utf-8", "backslashreplace")).hexdigest()
        if (candidate := digest[:8]) not in taken:
            return candidate
    raise AssertionError  # count() never ends


# JSON as text: where the values of an object stand, and how nbformat would write a value.

ReadValue = Callable[[str, int], tuple[Any, int]]

_decode = json.JSONDecoder().raw_decode

_space = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Members:
    """An object's members as text: each value by its key, and what stands before each of them.

    ``leads`` is None where the text is not an original one; it is then laid out as nbformat does.
    """

    texts: Mapping[str, str]
    leads: tuple[str, ...] | None = None
    tail: str = ""

    def with_texts(self, texts: Mapping[str, str], *, without: frozenset[str] = frozenset()) -> Members:
        """Put in these values; members that were not there before force a new layout."""
        merged = {key: text for key, text in {**self.texts, **texts}.items() if key not in without}
        return replace(self, texts=merged, leads=self.leads if merged.keys() == self.texts.keys() else None)

    def render(self, depth: int) -> str:
        """The object's text, as it was read where possible, else indented for its depth in the file."""
        if self.leads is not None:
            pairs = zip(self.leads, self.texts.values(), strict=True)
            return "".join(lead + text for lead, text in pairs) + self.tail
        if not self.texts:
            return "{}"
        margin = "\n" + " " * (depth + 1)
        body = ",".join(f"{margin}{_dump(key)}: {self.texts[key]}" for key in sorted(self.texts))
        return f"{{{body}\n{' ' * depth}}}"


def scan_object(
    text: str, start: int, readers: Mapping[str, ReadValue] | None = None
) -> tuple[Members, dict[str, Any], int]:
    """Read the object at ``start``: its members as text, its values, and where it ends.

    A member named in ``readers`` is read by that function instead of the JSON decoder.

    Raises:
        ValueError: this is no JSON object; a ``JSONDecodeError`` where the place is known.
    """
    _expect(text, start, "{")
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    leads: list[str] = []
    mark, position = start, skip_space(text, start + 1)
    while text[position : position + 1] != "}":
        if leads:
            position = skip_space(text, _expect(text, position, ","))
        key, position = _decode(text, position)
        if not isinstance(key, str):
            raise json.JSONDecodeError("Expecting a name in double quotes", text, position)
        position = skip_space(text, _expect(text, skip_space(text, position), ":"))
        values[key], end = (readers or {}).get(key, _decode)(text, position)
        leads.append(text[mark:position])
        texts[key] = text[position:end]
        mark, position = end, skip_space(text, end)
    # Of a name that is there twice only the last value counts, so that the text cannot be put together again.
    members = Members(texts, tuple(leads) if len(leads) == len(texts) else None, text[mark : position + 1])
    return members, values, position + 1


def scan_array(text: str, start: int, read_item: ReadValue) -> tuple[list[Any], tuple[str, str, str], int]:
    """Read the array at ``start``: its items, what stands before, between and after them, and where it ends.

    Raises:
        ValueError: this is no JSON array; a ``JSONDecodeError`` where the place is known.
    """
    _expect(text, start, "[")
    items: list[Any] = []
    gaps: list[str] = []
    mark, position = start, skip_space(text, start + 1)
    while text[position : position + 1] != "]":
        if items:
            position = skip_space(text, _expect(text, position, ","))
        gaps.append(text[mark:position])
        item, mark = read_item(text, position)
        items.append(item)
        position = skip_space(text, mark)
    before = gaps[0] if gaps else "["
    between = gaps[1] if len(gaps) > 1 else ""
    return items, (before, between, text[mark : position + 1] if gaps else "]"), position + 1


def skip_space(text: str, position: int) -> int:
    """Where the next token begins."""
    found = _space.match(text, position)
    return found.end() if found else position


def read_value(text: str, position: int) -> tuple[Any, int]:
    """Decode the value at this place; where it ends comes with it."""
    return _decode(text, position)


def format_value(value: Any, depth: int) -> str:
    """A value as nbformat writes it, at this depth of indentation."""
    return _dump(value, indent=1).replace("\n", "\n" + " " * depth)


def encode(text: str) -> bytes:
    """JSON text as UTF-8; lone surrogates, which UTF-8 cannot hold, become JSON escapes."""
    return text.encode("utf-8", "backslashreplace")


def canonical(value: Any) -> str:
    """A text that two values share exactly when they are the same JSON (to Python, ``True == 1 == 1.0``)."""
    return _dump(value)


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON."""
    return left is right or canonical(left) == canonical(right)


def _dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False, separators=(",", ": "))


def _expect(text: str, position: int, token: str) -> int:
    if text[position : position + 1] != token:
        raise json.JSONDecodeError(f"Expecting {token!r}", text, position)
    return position + 1

"""The visualization manifest, version 1.0: what it may say, and every fault of one that says something else.

Knows no data: whether a column is there is found out when its file is read (see ``encodings``). Reads no files: a
name is refused here by its form, and by whoever opens it by where it leads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.charts._labels import quoted, suggestion
from cellwright.charts.encodings import ChartType, Config, Output, Problem
from cellwright.charts.kinds import chart_types, spelled_types, type_called

__all__ = ["FILENAME", "MAX_MANIFEST_BYTES", "Manifest", "read_manifest"]

FILENAME = "visualization_manifest.json"

VERSION = "1.0"

MAX_MANIFEST_BYTES = 1_000_000

MAX_OUTPUTS = 100

MAX_COLUMNS = 100

MAX_ROWS = 1_000_000_000

MAX_ID_CHARACTERS = 200

MAX_TEXT_CHARACTERS = 2_000

_OUTPUT_FIELDS = ("id", "type", "title", "dataFile", "config")

_CONFIG_FIELDS = (
    "columns",
    "maxRows",
    "xColumn",
    "yColumn",
    "xLabel",
    "yLabel",
    "groupBy",
    "labelColumn",
    "valueColumn",
    "notice",
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The outputs that can be drawn, in their order, and what is wrong with the others."""

    outputs: tuple[Output, ...]
    problems: tuple[Problem, ...]


def read_manifest(content: bytes) -> Manifest:
    """Read a manifest; all its faults are found at once, and one bad output leaves the others alone."""
    if len(content) > MAX_MANIFEST_BYTES:
        return _refused(f"{len(content):,} bytes are more than the {MAX_MANIFEST_BYTES:,} of a manifest")
    try:
        held = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return _refused(f"byte {error.start} is not UTF-8")
    except json.JSONDecodeError as error:
        return _refused(f"line {error.lineno}, column {error.colno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        return _refused(f"it cannot be read as JSON: {error}")
    if not isinstance(held, Mapping):
        return _refused('it must be an object with "version" and "outputs"')
    return _read(held)


def _refused(message: str) -> Manifest:
    return Manifest((), (Problem(FILENAME, message),))


def _read(held: Mapping[str, Any]) -> Manifest:
    problems: list[Problem] = []
    # Written without quotes it arrives as a number.
    if str(held.get("version")) not in (VERSION, "1"):
        version = quoted(held["version"]) if "version" in held else "missing"
        problems.append(Problem("version", f'it is {version}, and must be "{VERSION}"'))
        return Manifest((), tuple(problems))
    entries = held.get("outputs")
    if not isinstance(entries, list):
        problems.append(Problem("outputs", "it must be a list of outputs"))
        return Manifest((), tuple(problems))
    if len(entries) > MAX_OUTPUTS:
        problems.append(
            Problem("outputs", f"{len(entries):,} outputs; only the first {MAX_OUTPUTS} are looked at")
        )
    outputs: list[Output] = []
    places: dict[str, str] = {}
    for index, entry in enumerate(entries[:MAX_OUTPUTS]):
        output, found = _read_output(entry, f"outputs[{index}]")
        if output is not None and output.id in places:
            found.append(Problem(f"{output.path}.id", f"{quoted(output.id)} is taken by {places[output.id]}"))
        problems += found
        if output is not None and not found:
            places[output.id] = output.path
            outputs.append(output)
    return Manifest(tuple(outputs), tuple(problems))


def _read_output(entry: object, path: str) -> tuple[Output | None, list[Problem]]:
    if not isinstance(entry, Mapping):
        return None, [Problem(path, f"it must be an object, and is {quoted(entry)}")]
    reader = FieldReader(entry, path, _OUTPUT_FIELDS)
    identifier = reader.text("id", required=True, longest=MAX_ID_CHARACTERS)
    type_ = _read_type(reader)
    data_file = reader.text("dataFile", required=True, longest=MAX_TEXT_CHARACTERS)
    if data_file and (fault := _path_fault(data_file)):
        reader.refuse("dataFile", fault)
    title = reader.text("title", longest=MAX_TEXT_CHARACTERS)
    reader.look_for_strangers()
    inner = _config_reader(reader, path)
    config = _read_config(inner)
    problems = reader.problems + inner.problems
    if identifier is None or data_file is None:
        return None, problems
    notice = inner.text("notice", longest=MAX_TEXT_CHARACTERS)
    notices = (*reader.notices, *inner.notices, *((notice,) if notice else ()))
    return Output(identifier, type_, data_file, title, config, path, notices), problems


def _read_type(reader: FieldReader) -> ChartType:
    word = reader.text("type", required=True, longest=MAX_ID_CHARACTERS)
    if word is None:
        return "auto"
    if (meant := type_called(word)) is not None:
        return meant
    near = suggestion(word.strip().lower().replace(" ", "_").replace("-", "_"), tuple(spelled_types()))
    reader.refuse("type", f"there is no type {quoted(word)}{near}; types are {', '.join(chart_types())}")
    return "auto"


def _path_fault(name: str) -> str | None:
    """Why a file's name is refused by its form alone."""
    shown = quoted(name)
    parts = name.replace("\\", "/").split("/")
    if "\0" in name or any(ord(letter) < ord(" ") for letter in name):
        return f"{shown} holds a control character"
    if "://" in name or name.startswith("data:"):
        return f"{shown} is an address; a data file lies in the working directory"
    if parts[0] == "" or parts[0].startswith("~") or parts[0].endswith(":"):
        return f"{shown} is not relative to the working directory"
    if ".." in parts:
        return f"{shown} climbs out of where it starts; name it from the working directory"
    return None


def _config_reader(reader: FieldReader, path: str) -> FieldReader:
    held = reader.held.get("config")
    if held is not None and not isinstance(held, Mapping):
        reader.refuse("config", f"it must be an object, and is {quoted(held)}")
        held = None
    inner = FieldReader(held or {}, f"{path}.config", _CONFIG_FIELDS)
    inner.look_for_strangers()
    return inner


def _read_config(reader: FieldReader) -> Config:
    return Config(
        columns=reader.names("columns", at_most=MAX_COLUMNS),
        max_rows=reader.whole_number("maxRows", at_least=1, at_most=MAX_ROWS),
        x_column=reader.text("xColumn"),
        y_columns=reader.names("yColumn", at_most=MAX_COLUMNS, also_one=True),
        x_label=reader.text("xLabel", longest=MAX_TEXT_CHARACTERS),
        y_label=reader.text("yLabel", longest=MAX_TEXT_CHARACTERS),
        group_by=reader.text("groupBy"),
        label_column=reader.text("labelColumn"),
        value_column=reader.text("valueColumn"),
    )


# Fields of untrusted JSON, read one by one: a value of the right form, or a problem that names the field by
# its path.


class FieldReader:
    """Reads the fields of one object and keeps what is wrong with them."""

    def __init__(self, held: Mapping[str, Any], path: str, known: Sequence[str]) -> None:
        self.held = held
        self.problems: list[Problem] = []
        self.notices: list[str] = []
        self._path = path
        self._known = known

    def refuse(self, name: str, message: str) -> None:
        self.problems.append(Problem(f"{self._path}.{name}", message))

    def look_for_strangers(self) -> None:
        """A field that is a slip of a known one is refused; any other is said to do nothing."""
        for name in self.held:
            if name in self._known:
                continue
            meant = suggestion(str(name), self._known)
            if meant:
                self.refuse(str(name), f"there is no such field{meant}")
            else:
                self.notices.append(f"{self._path}.{name} does nothing: known are {', '.join(self._known)}")

    def text(self, name: str, *, required: bool = False, longest: int | None = None) -> str | None:
        value = self.held.get(name)
        if value is None or (required and value == ""):
            if required:
                self.refuse(name, "it is missing" if value is None else "it is empty")
            return None
        if not isinstance(value, str):
            self.refuse(name, f"it must be text, and is {quoted(value)}")
            return None
        if longest is not None and len(value) > longest:
            self.refuse(name, f"{len(value):,} characters are more than {longest:,}")
            return None
        return _without_surrogates(value)

    def names(self, name: str, *, at_most: int, also_one: bool = False) -> tuple[str, ...]:
        value = self.held.get(name)
        if value is None:
            return ()
        if also_one and isinstance(value, str):
            return (_without_surrogates(value),)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            form = "a column's name or a list of names" if also_one else "a list of column names"
            self.refuse(name, f"it must be {form}, and is {quoted(value)}")
            return ()
        if len(value) > at_most:
            self.refuse(name, f"{len(value):,} columns are more than {at_most}")
            return ()
        return tuple(dict.fromkeys(_without_surrogates(entry) for entry in value))

    def whole_number(self, name: str, *, at_least: int, at_most: int) -> int | None:
        value = self.held.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
            self.refuse(
                name, f"it must be a whole number from {at_least:,} to {at_most:,}, and is {quoted(value)}"
            )
            return None
        return value


def _without_surrogates(text: str) -> str:
    """JSON can write half of a character, which nothing else can."""
    return text.encode("utf-8", "replace").decode()

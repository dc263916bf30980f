"""Data as a picture, and as a manifest beside it that says how it is shown: the tool ``visualize``.

Data comes inline or from a file, of the data directory or of a session. It is drawn first: what cannot be drawn leaves
nothing behind. What a manifest may say and how it is drawn stands in ``charts``.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import anyio

from cellwright.charts import FILENAME, MAX_MANIFEST_BYTES, Output, Picture, Renderer, read_manifest
from cellwright.engine import Engine
from cellwright.engine.charts import MAX_DATA_BYTES, checked_entry, entry_for, read_left
from cellwright.errors import CellwrightError, ChartRefused, NoSuchFile, SandboxError
from cellwright.sandbox.files import Workdir
from cellwright.tools.data_directory import DataDirectory, relative
from cellwright.tools.files.file_system import check_capacity

__all__ = ["Shown", "Visualization", "visualize"]

_INLINE = "the data"
_PATTERN = "data"  # stands for the data file until its name is known
_FIELDS = ("id", "type", "title", "dataFile", "config")
_LONGEST_ID = 60
_HEAD_BYTES = 4_096
# Two calls that add to one manifest must not lose each other's output.
_MERGING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Shown:
    """One output of a manifest, drawn."""

    id: str
    data_file: str
    """In the data directory."""
    picture: Picture


@dataclass(frozen=True, slots=True)
class Visualization:
    """What was drawn, and where the manifest lies that says so."""

    manifest: str
    """In the data directory."""
    shown: tuple[Shown, ...]
    problems: tuple[str, ...] = ()
    """What is wrong with those outputs of a whole manifest that could not be drawn."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Data to be drawn."""

    content: bytes
    label: str
    """What messages call it."""
    suffix: str
    lies_at: str | None = None
    """In the data directory; none for what is yet to be put there."""


async def visualize(
    engine: Engine,
    data: Any = None,
    *,
    file: str | None = None,
    session_id: str | None = None,
    type: str = "auto",  # the manifest's word
    options: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    working_dir: str | None = None,
) -> Visualization:
    """Draw data and write it down as a manifest, which other outputs may be in already: the same id is replaced.

    ``data`` is a list of records, an object of columns, or CSV or JSON as text. ``file`` is in the data directory, or in
    the directory of the session that is named. ``options`` has ``title``, ``id``, ``x``, ``y``, ``group`` and the rest of
    a manifest's config. Instead of all these, ``manifest`` is a whole one, or ``file`` names one that is there. The
    manifest goes to ``working_dir``, by default where the file lies.

    Raises:
        ChartRefused: it cannot be drawn as asked; the message names the field, and the columns there are.
        NoSuchFile: there is no such file.
        FileTooLarge: the directory would hold more than ``max_session_disk``.
        DrawingFailed: it took too long, or too much memory.
    """
    _check_one_is_given(data, file, manifest)
    data_directory = DataDirectory.of(engine)
    if manifest is not None:
        directory = relative(working_dir or ".")
        return await _whole(
            engine.renderer, data_directory, directory, _encoded(manifest, "manifest"), keep=True
        )
    if file is not None and session_id is None and PurePosixPath(relative(file)).name == FILENAME:
        content = await anyio.to_thread.run_sync(_read, data_directory, relative(file), MAX_MANIFEST_BYTES)
        return await _whole(engine.renderer, data_directory, _parent(relative(file)), content, keep=False)
    source = await _source(engine, data_directory, data, file, session_id)
    directory = relative(working_dir) if working_dir is not None else _parent(source.lies_at or "")
    return await _one(engine.renderer, data_directory, directory, source, _Request(type, dict(options or {})))


@dataclass(frozen=True, slots=True)
class _Request:
    type: str
    options: dict[str, Any]


def _check_one_is_given(data: Any, file: str | None, manifest: Any) -> None:
    if sum(one is not None for one in (data, file, manifest)) != 1:
        raise ChartRefused("give one of data, file and manifest: what is to be shown must be named once")


# One output ---------------------------------------------------------------------------------------------------------


async def _source(
    engine: Engine, data_directory: DataDirectory, data: Any, file: str | None, session_id: str | None
) -> _Source:
    if file is None:
        content = data.encode() if isinstance(data, str) else _encoded(data, "data")
        as_json = not isinstance(data, str) or data.lstrip()[:1] in ("{", "[")
        return _Source(content, _INLINE, ".json" if as_json else ".csv")
    suffix = PurePosixPath(file).suffix
    if session_id is not None:
        place = engine.session(session_id).place
        content = await anyio.to_thread.run_sync(read_left, place, file, MAX_DATA_BYTES)
        return _Source(_checked_text(content, file), file, suffix)
    path = relative(file)
    content = await anyio.to_thread.run_sync(_read, data_directory, path, MAX_DATA_BYTES)
    return _Source(_checked_text(content, file), file, suffix, path)


def _checked_text(content: bytes, name: str) -> bytes:
    """Refuse what no manifest can name: Parquet, Excel and their like."""
    if b"\0" in content[:_HEAD_BYTES]:
        raise ChartRefused(
            f"{name} is no text: a manifest's data is CSV or JSON. Write it so first, such as in python_execute with "
            "pandas' to_csv"
        )
    return content


async def _one(
    renderer: Renderer, data_directory: DataDirectory, directory: str, source: _Source, request: _Request
) -> Visualization:
    given = request.options.pop("id", None)
    about = entry_for(request.type, request.options)
    output = checked_entry({**about, "id": given or "visual", "dataFile": _PATTERN}, source=source.label)
    picture = await renderer.chart(output, source.content)
    about |= {"id": given or default_id(output, picture.type), "type": picture.type, "dataFile": ""}
    entry = {field: about[field] for field in _FIELDS if field in about}
    named = given is not None or output.title is not None
    kept = await anyio.to_thread.run_sync(
        partial(_keep, data_directory, directory, source, entry, named=named)
    )
    shown = Shown(kept["id"], _joined(directory, kept["dataFile"]), picture)
    return Visualization(_joined(directory, FILENAME), (shown,))


def _keep(
    data_directory: DataDirectory, directory: str, source: _Source, entry: dict[str, Any], *, named: bool
) -> dict[str, Any]:
    """Write data and manifest, and tell the output as it stands there."""
    with _MERGING, data_directory.open(directory or ".") as workdir:
        outputs = _outputs_of(_manifest_in(workdir))
        below = _below(directory, source.lies_at)
        if not named:
            entry["id"] = _id_of_its_own(workdir, outputs, entry["id"], source.content)
        entry["dataFile"] = below or _free_name(workdir, outputs, entry["id"], source.suffix)
        written = _written(merged_outputs(outputs, [entry]))
        if below is None:
            _put(data_directory, directory, entry["dataFile"], source.content)
        _put(data_directory, directory, FILENAME, written)
    return entry


def _put(data_directory: DataDirectory, directory: str, name: str, content: bytes) -> None:
    path = _joined(directory, name)
    with data_directory.open() as workdir:
        check_capacity(workdir, path, len(content), data_directory.capacity)
        workdir.write(path, content)


def _id_of_its_own(workdir: Workdir, outputs: Sequence[Any], base_name: str, content: bytes) -> str:
    """An id that nobody chose: it replaces an output of the same data, and no other."""
    files = {one.get("id"): one.get("dataFile") for one in outputs if isinstance(one, Mapping)}
    names = (base_name if count == 1 else f"{base_name}_{count}" for count in itertools.count(1))
    return next(name for name in names if name not in files or _holds(workdir, files[name], content))


def _holds(workdir: Workdir, name: Any, content: bytes) -> bool:
    try:
        return workdir.read(str(name), len(content)) == content
    except SandboxError:  # it is not there, or larger
        return False


def _free_name(workdir: Workdir, outputs: Sequence[Any], identifier: str, suffix: str) -> str:
    """A file for an output's data: the one that it had, else one that nothing has."""
    stem = _slug(identifier)
    used = [
        one.get("dataFile") for one in outputs if isinstance(one, Mapping) and one.get("id") != identifier
    ]
    had = [one.get("dataFile") for one in outputs if isinstance(one, Mapping) and one.get("id") == identifier]
    count = 1
    while True:
        name = f"{stem}{suffix}" if count == 1 else f"{stem}_{count}{suffix}"
        if name not in used and (name in had or not workdir.exists(name)):
            return name
        count += 1


def default_id(output: Output, kind: str) -> str:
    """What an output is called that nobody named: after its title, else after what it shows."""
    config = output.config
    columns = (config.x_column, *config.y_columns, config.label_column, config.value_column, config.group_by)
    title = output.title or "_".join([kind, *(column for column in columns if column), *config.columns])
    return _slug(title)


def _slug(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")[:_LONGEST_ID] or "visual"


# Whole manifests ----------------------------------------------------------------------------------------------------


async def _whole(
    renderer: Renderer, data_directory: DataDirectory, directory: str, content: bytes, *, keep: bool
) -> Visualization:
    """Draw every output that can be, and ``keep`` those in the directory's manifest."""
    manifest = read_manifest(content)
    shown: list[Shown] = []
    problems = [str(problem) for problem in manifest.problems]
    for output in manifest.outputs:
        path = _joined(directory, output.data_file)
        try:
            data = await anyio.to_thread.run_sync(_read, data_directory, path, MAX_DATA_BYTES)
            shown.append(Shown(output.id, path, await renderer.chart(output, data)))
        except ChartRefused as error:
            problems += error.problems
        except SandboxError as error:
            problems.append(f"{output.path}.dataFile: {error}")
        except CellwrightError as error:
            problems.append(f"{output.path}: {error}")
    if not shown:
        raise ChartRefused(*(problems or ["outputs: there is none"]))
    if keep:
        drawn = {one.id for one in shown}
        entries = [one for one in json.loads(content)["outputs"] if one.get("id") in drawn]
        await anyio.to_thread.run_sync(_keep_all, data_directory, directory, entries)
    return Visualization(_joined(directory, FILENAME), tuple(shown), tuple(problems))


def _keep_all(data_directory: DataDirectory, directory: str, entries: Sequence[dict[str, Any]]) -> None:
    with _MERGING, data_directory.open(directory or ".") as workdir:
        outputs = _outputs_of(_manifest_in(workdir))
        _put(data_directory, directory, FILENAME, _written(merged_outputs(outputs, entries)))


def merged_outputs(outputs: Sequence[Any], entries: Sequence[dict[str, Any]]) -> list[Any]:
    """A manifest's outputs with others: in place of those that have their ids, else after them."""
    merged = list(outputs)
    for entry in entries:
        places = [
            index
            for index, one in enumerate(merged)
            if isinstance(one, Mapping) and one.get("id") == entry["id"]
        ]
        if places:
            merged[places[0]] = entry
        else:
            merged.append(entry)
    return merged


def _manifest_in(workdir: Workdir) -> bytes | None:
    try:
        return workdir.read(FILENAME, MAX_MANIFEST_BYTES)
    except NoSuchFile:
        return None


def _outputs_of(content: bytes | None) -> list[Any]:
    """What a manifest has, faulty outputs too: they are somebody else's.

    Raises:
        ChartRefused: it is no manifest, and adding to it would lose what it is.
    """
    if content is None:
        return []
    manifest = read_manifest(content)
    broken = [problem for problem in manifest.problems if not str(problem).startswith("outputs[")]
    if broken:
        reasons = "; ".join(str(problem).removeprefix(f"{FILENAME}: ") for problem in broken)
        raise ChartRefused(
            f"the {FILENAME} that is there cannot be added to: {reasons}. Fix or remove it, or name another workingDir"
        )
    return list(json.loads(content.decode("utf-8-sig"))["outputs"])


def _written(outputs: Sequence[Any]) -> bytes:
    content = json.dumps({"version": "1.0", "outputs": outputs}, indent=2, ensure_ascii=False).encode()
    problems = [str(one) for one in read_manifest(content).problems if not str(one).startswith("outputs[")]
    if problems:  # too many outputs, or too large
        raise ChartRefused(*(f"{problem}; name another workingDir" for problem in problems))
    return content


# Places -------------------------------------------------------------------------------------------------------------


def _read(data_directory: DataDirectory, path: str, max_bytes: int) -> bytes:
    with data_directory.open() as whole:
        return whole.read(path, max_bytes)


def _encoded(held: Any, what: str) -> bytes:
    try:
        return json.dumps(held).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ChartRefused(f"{what}: it cannot be written as JSON: {error}") from None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _below(directory: str, path: str | None) -> str | None:
    """A path as seen from a directory above it; none where it does not lie there."""
    if path is None:
        return None
    if not directory:
        return path
    return path.removeprefix(f"{directory}/") if path.startswith(f"{directory}/") else None

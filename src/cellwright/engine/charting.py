"""What a manifest in a working directory says, as outputs of the cell that wrote it. Reads files; changes no session.

What a manifest may say and how a chart is drawn stands in ``charts``; when anybody looks, in ``charted``.
"""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import anyio

from cellwright.charts import FILENAME, MAX_MANIFEST_BYTES, Output, Picture, Renderer, read_manifest
from cellwright.errors import CellwrightError, ChartRefused, SandboxError
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.workspace import Place

__all__ = [
    "MAX_DATA_BYTES",
    "VEGA_LITE",
    "ChartOutput",
    "Stamp",
    "charts_left",
    "manifest_stamp",
    "picture_bundle",
    "read_left",
]

VEGA_LITE = "application/vnd.vegalite.v5+json"
MAX_DATA_BYTES = 128 << 20
# File systems tell time by a clock that may be some ticks behind.
_TICKS_S = 0.02


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what one manifest is told from another."""

    inode: int
    changed_ns: int
    size: int

    def is_of_run(self, started_at: float) -> bool:
        """Whether it came or changed since a run began."""
        return self.changed_ns / 1e9 >= started_at - _TICKS_S


@dataclass(frozen=True, slots=True)
class ChartOutput:
    """One output message of the Jupyter protocol."""

    kind: str
    content: dict[str, Any]


def manifest_stamp(place: Place) -> Stamp | None:
    """The manifest in a working directory, if there is one. Quick: one look at one name."""
    try:
        # Only whether it may be worth reading: what is read is opened without following any link.
        status = os.stat(f"{place.written_cwd}/{FILENAME}", follow_symlinks=False)  # noqa: PTH116  # quick
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_ino, status.st_ctime_ns, status.st_size)


async def charts_left(place: Place, renderer: Renderer) -> list[ChartOutput]:
    """Every chart of the manifest, and after them what is wrong with those that cannot be drawn."""
    try:
        content = await anyio.to_thread.run_sync(read_left, place, FILENAME, MAX_MANIFEST_BYTES + 1)
    except SandboxError as error:
        return _complaints([f"{FILENAME}: {error.message}"])
    manifest = read_manifest(content)
    found: list[ChartOutput] = []
    complaints = [str(problem) for problem in manifest.problems]
    for output in manifest.outputs:
        try:
            picture = await _drawn(place, output, renderer)
        except ChartRefused as error:
            complaints += error.problems
        except SandboxError as error:
            complaints.append(f"{output.path}.dataFile: {error.message}")
        except CellwrightError as error:
            complaints.append(f"{output.path}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        else:
            found.append(_shown(output, picture))
    return [*found, *_complaints(complaints)]


async def _drawn(place: Place, output: Output, renderer: Renderer) -> Picture:
    read = partial(read_left, place, output.data_file, MAX_DATA_BYTES)
    return await renderer.chart(output, await anyio.to_thread.run_sync(read))


def read_left(place: Place, path: str, max_bytes: int) -> bytes:
    """A file of the working directory: as the session wrote it, else as the project has it."""
    # From the uppermost directory on: code may have put a link where one above the working directory was.
    below = str(PurePath(place.cwd).relative_to(place.top))
    top = place.top if place.mode == "direct" else place.written
    try:
        with Workdir.open(Path(top), below=below) as written:
            return written.read(path, max_bytes)
    except SandboxError:
        if place.mode != "overlay":
            raise
    with Workdir.open(Path(place.top), below=below) as project:
        return project.read(path, max_bytes)


def _shown(output: Output, picture: Picture) -> ChartOutput:
    about = {"chart": output.id, "digest": picture.digest}
    content = {"data": picture_bundle(picture), "metadata": {"cellwright": about}, "transient": {}}
    return ChartOutput("display_data", content)


def picture_bundle(picture: Picture) -> dict[str, Any]:
    """A picture in every form it has: for those who draw it themselves, for those who see, for those who read."""
    data: dict[str, Any] = {"text/plain": picture.digest}
    if picture.spec is not None:
        data[VEGA_LITE] = picture.spec
    if picture.png is not None:
        data["image/png"] = base64.b64encode(picture.png).decode()
    if picture.html is not None:
        data["text/html"] = picture.html
    return data


def _complaints(lines: Sequence[str]) -> list[ChartOutput]:
    if not lines:
        return []
    text = "".join(f"{line}\n" for line in lines)
    return [ChartOutput("stream", {"name": "stderr", "text": f"{FILENAME}:\n{text}"})]

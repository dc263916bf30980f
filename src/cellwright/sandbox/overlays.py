"""What a session in ``overlay`` mode wrote, against the project it never touched: listed, shown as a diff, applied.

Everything is read and written through ``files``, so that nothing planted in the layer leads anywhere else; what the
project had before stands in ``originals``. Blocking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cellwright.errors import FileConflict, FileFailed, FileRefused, NoSuchFile, SandboxError
from cellwright.sandbox.autorun import is_trusted, why_autorun
from cellwright.sandbox.differences import file_difference
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.listing import EntryType, quoted_path, shown_path
from cellwright.sandbox.originals import Originals, Shadow
from cellwright.sandbox.places import Place

__all__ = ["Applied", "LayerChange", "apply_changes", "layer_changes", "layer_diff", "note_originals"]

_MOST_ENTRIES = 100_000
_COMPARED_BYTES = 1 << 20
_NS = 1_000_000_000
_NAMED = 5


@dataclass(frozen=True, slots=True)
class LayerChange:
    """One name that is different for the session; ``real`` is where others find what it wrote."""

    path: str
    change: Literal["added", "changed", "deleted"]
    type: EntryType
    """What the session has there, or what it deleted."""
    size: int
    time: float
    real: str
    conflict: bool = False
    """Whether the project's own changed since the session began to have its own."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What was brought over into the project, and what was not, each with the reason."""

    changes: tuple[LayerChange, ...]
    skipped: Mapping[str, str]


def note_originals(place: Place, *, since: float) -> None:
    """Remember what the project has under every name that the session has its own under since a moment."""
    if not _has_layer(place):
        return
    with _opened(place) as (layer, project):
        Originals.load(place).note(_shadows(layer, project), since=since)


def layer_changes(place: Place) -> list[LayerChange]:
    """Every file that the session added, changed or deleted, by its path in the project."""
    if not _has_layer(place):
        return []
    with _opened(place) as (layer, project):
        originals = Originals.load(place)
        return [_told(place, shadow, originals) for shadow in _differing(layer, project, originals)]


def layer_diff(place: Place, paths: Iterable[str] | None = None) -> str:
    """The changes as a unified diff; what is no text is named only.

    Raises:
        NoSuchFile: a named path was not changed.
    """
    if not _has_layer(place):
        return ""
    with _opened(place) as (layer, project):
        originals = Originals.load(place)
        chosen = _chosen(_differing(layer, project, originals), paths)
        return "".join(
            file_difference(layer, project, shadow, conflict=originals.conflicts(shadow)) for shadow in chosen
        )


def apply_changes(
    place: Place,
    paths: Iterable[str] | None = None,
    *,
    since: float,
    force: bool = False,
    trusted: Collection[str] = (),
) -> Applied:
    """Bring changes over into the project: all, or those of the named files and directories.

    ``since`` is when the layer was last looked at. Links are never brought over; what tools run by themselves
    (``autorun``) and new programs only where a person named them, which ``trusted`` says.

    Raises:
        FileConflict: the project's own changed meanwhile, and ``force`` was not given. Nothing was applied.
        NoSuchFile: a named path was not changed.
        FileRefused: the session has no layer, or a named path is no plain file or for a person to name.
    """
    if place.mode != "overlay" or place.project is None:
        raise FileRefused(
            "This session has no layer over a project", hint="Its files are in its directory already"
        )
    if not _has_layer(place):
        return Applied((), {})
    with _opened(place) as (layer, project):
        originals = Originals.load(place)
        originals.note(_shadows(layer, project), since=since)
        found = _differing(layer, project, originals)
        chosen = _chosen(found, paths)
        skipped = {shown_path(shadow.path): why for shadow in chosen if (why := _obstacle(shadow, trusted))}
        _refuse_named(skipped, paths)
        free = [shadow for shadow in chosen if shown_path(shadow.path) not in skipped]
        wanted = _with_what_is_in_the_way(free, found)
        if not force:
            _refuse_conflicts([shadow.path for shadow in wanted if originals.conflicts(shadow)])
        told = [_told(place, shadow, originals) for shadow in wanted]
        try:
            _bring_over(layer, project, wanted, originals)
        finally:
            originals.save()
    return Applied(tuple(sorted(told, key=lambda change: change.path)), skipped)


# What is different ------------------------------------------------------------------------------------------------


def _has_layer(place: Place) -> bool:
    return place.mode == "overlay" and place.project is not None and Path(place.written).is_dir()


@contextmanager
def _opened(place: Place) -> Iterator[tuple[Workdir, Workdir]]:
    with (
        Workdir.open(Path(place.written)) as layer,
        Workdir.open(Path(place.project or place.cwd), cross_mounts=True) as project,
    ):
        yield layer, project


def _shadows(layer: Workdir, project: Workdir) -> list[Shadow]:
    """Every name under which the session does not see what the project has, parents first."""
    entries = layer.snapshot(max_entries=_MOST_ENTRIES, skip=frozenset()).entries
    found: dict[str, Shadow] = {}
    for path, ours in sorted(entries.items()):
        theirs = _entry(project, path)
        both = ours.type == "directory" and theirs is not None and theirs.type == "directory"
        if both and not layer.is_opaque(path):
            continue  # only what is in it matters
        found[path] = Shadow(path, None if ours.type == "whiteout" else ours, theirs)
        if theirs is not None and theirs.type == "directory":
            for hidden in _below(project, path):
                if hidden.path not in entries:
                    found[hidden.path] = Shadow(hidden.path, None, hidden, hidden_by=path)
    return [found[path] for path in sorted(found)]


def _below(project: Workdir, path: str) -> Iterator[Entry]:
    ahead = [path]
    while ahead:
        for entry in project.list(ahead.pop(), max_entries=_MOST_ENTRIES).entries:
            yield entry
            if entry.type == "directory":
                ahead.append(entry.path)


def _entry(directory: Workdir, path: str) -> Entry | None:
    try:
        return directory.entry(path)
    except SandboxError:  # a part of the way is a file or a link there
        return None


def _differing(layer: Workdir, project: Workdir, originals: Originals) -> list[Shadow]:
    return [
        shadow
        for shadow in _shadows(layer, project)
        if not originals.is_settled(shadow) and not _same(layer, project, shadow)
    ]


def _same(layer: Workdir, project: Workdir, shadow: Shadow) -> bool:
    ours, theirs = shadow.ours, shadow.theirs
    if ours is None or theirs is None or ours.type != theirs.type:
        return ours is None and theirs is None
    if ours.type == "directory":
        return True
    if ours.type != "file" or ours.size != theirs.size or ours.executable != theirs.executable:
        return False
    try:
        return all(
            layer.read_part(shadow.path, offset=offset, max_bytes=_COMPARED_BYTES).data
            == project.read_part(shadow.path, offset=offset, max_bytes=_COMPARED_BYTES).data
            for offset in range(0, ours.size, _COMPARED_BYTES)
        )
    except SandboxError:  # it cannot be read as a plain file
        return False


def _told(place: Place, shadow: Shadow, originals: Originals) -> LayerChange:
    seen = shadow.ours or shadow.theirs
    if seen is None:
        raise FileFailed(f"{shown_path(shadow.path)} went away", hint="Try again")
    path = shown_path(shadow.path)
    return LayerChange(
        path=path,
        change="deleted" if shadow.ours is None else "added" if shadow.theirs is None else "changed",
        type=seen.type,
        size=seen.size if shadow.ours is not None and seen.type == "file" else 0,
        time=seen.mtime_ns / _NS,
        real=f"{place.written}/{path}",
        conflict=originals.conflicts(shadow),
    )


# What is brought over -----------------------------------------------------------------------------------------------


def _chosen(found: Sequence[Shadow], paths: Iterable[str] | None) -> list[Shadow]:
    if paths is None:
        return list(found)
    chosen: dict[str, Shadow] = {}
    for path in paths:
        name = path.removeprefix("./").rstrip("/")
        below = [
            shadow
            for shadow in found
            if (shown := shown_path(shadow.path)) == name or shown.startswith(f"{name}/") or name in {"", "."}
        ]
        if not below:
            raise NoSuchFile(
                f"{quoted_path(path)} was not changed by this session",
                hint="Name a path from the top of the project, as the list of changes has it",
            )
        chosen |= {shadow.path: shadow for shadow in below}
    return [chosen[path] for path in sorted(chosen)]


def _obstacle(shadow: Shadow, trusted: Collection[str]) -> str | None:
    """Why a change cannot be brought over, if it cannot."""
    path = shown_path(shadow.path)
    if not is_trusted(path, trusted):
        if why := why_autorun(path):
            return f"for a person to bring over by its name: {why}"
        if _is_new_program(shadow):
            return (
                "for a person to bring over by its name: it can be run, and what the project has there cannot"
            )
    match shadow.ours:
        case Entry(type="link"):
            return "a link: whoever uses it would be led wherever it points"
        case Entry(type="other"):
            return "a pipe, socket or device"
        case Entry(type="file", links=links) if links > 1:
            return f"a file with {links} names (hard links): copy it to one of its own"
    return None


def _is_new_program(shadow: Shadow) -> bool:
    ours, theirs = shadow.ours, shadow.theirs
    if ours is None or ours.type != "file" or not ours.executable:
        return False
    return theirs is None or theirs.type != "file" or not theirs.executable


def _refuse_named(skipped: Mapping[str, str], paths: Iterable[str] | None) -> None:
    for path in paths or ():
        if path in skipped:
            raise FileRefused(
                f"{quoted_path(path)} is {skipped[path]}",
                hint="Nothing was applied; a person can, with `cellwright files apply SESSION PATH`",
            )


def _refuse_conflicts(paths: Sequence[str]) -> None:
    if not paths:
        return
    shown = tuple(shown_path(path) for path in paths)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    raise FileConflict(
        "Changed in the project since the session began to have its own: "
        f"{', '.join(map(quoted_path, shown[:_NAMED]))}{more}. Nothing was applied",
        paths=shown,
        hint="Look at the diff; then name other paths, or overwrite with force=true (--force)",
    )


def _with_what_is_in_the_way(chosen: Sequence[Shadow], found: Sequence[Shadow]) -> list[Shadow]:
    """The chosen changes, with those that must come first: a file that stands where a directory is to be."""
    by_path = {shadow.path: shadow for shadow in found}
    wanted = {shadow.path: shadow for shadow in chosen}
    for shadow in chosen:
        parts = shadow.path.split("/")
        for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if above in by_path and shadow.ours is not None:
                wanted[above] = by_path[above]
    return [wanted[path] for path in sorted(wanted)]


def _bring_over(layer: Workdir, project: Workdir, wanted: Sequence[Shadow], originals: Originals) -> None:
    done = 0
    try:
        # What goes makes room for what comes: the deepest first, then from the top.
        for shadow in reversed(wanted):
            if shadow.theirs is not None and (shadow.ours is None or shadow.ours.type != shadow.theirs.type):
                project.remove(shadow.path)
                if shadow.ours is None:
                    originals.settle(shadow, None)
                    done += 1
        for shadow in wanted:
            if shadow.ours is None:
                continue
            if shadow.ours.type == "directory":
                project.make_directory(shadow.path)
                originals.settle(shadow, shadow.ours)
            else:
                originals.settle(shadow, project.bring(layer, shadow.path))
            done += 1
    except SandboxError as error:
        error.message = f"{error.message} ({done} of {len(wanted)} changes were applied before)"
        raise

"""Makes a directory again what it was. What is to be done is decided first, by pure functions. Blocking.

How it is done, so that a full disk changes nothing and whoever dies half-way leaves whole files, is ``placing``'s.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cellwright.sandbox.beneath import open_beneath
from cellwright.sandbox.contents import Contents
from cellwright.sandbox.kept import Identity, Kept, Look, Taken, identity_of, key_of, look_at
from cellwright.sandbox.listing import kind_of
from cellwright.sandbox.placing import Placing
from cellwright.sandbox.trees import READ, Names, closing, opened

__all__ = ["Plan", "Restored", "fill_layer", "plan_layer", "plan_restore", "restore"]

_WHITEOUT = Kept("whiteout", 0, 0, (0, 0), (0, 0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Restored:
    """What is different from before, and what could not be made as it was, with the reasons."""

    changed: tuple[Names, ...]
    removed: tuple[Names, ...]
    failed: Mapping[Names, str]


@dataclass(slots=True)
class Plan:
    """What is to be done, parents before what lies in them."""

    place: list[Names] = field(default_factory=list)
    """What is to be written and put in place."""
    adjust: list[Names] = field(default_factory=list)
    """What has the right content, but not the right mode or time."""
    clear: list[Names] = field(default_factory=list)
    """What is to go, with all that is in it."""
    failed: dict[Names, str] = field(default_factory=dict)
    """What cannot be done."""


def restore(
    contents: Contents, taken: Taken, target: int, *, owner: tuple[int, int] | None, make_room: bool
) -> Restored:
    """Make an open directory what it was."""
    placing = Placing(contents, taken.entries, target, owner)
    with placing.undone_if_it_fails():
        look = look_at(
            target,
            taken.skip,
            open_up=lambda names: names not in taken.left_out and placing.open_up(names),
        )
        plan = plan_restore(taken, look, _same(contents, taken.entries, target, look))
        placing.stage(plan.place, plan.clear, make_room=make_room)
    placing.put(plan.place)
    placing.clear(plan.clear)
    placing.adjust({names: look.found[names] for names in plan.adjust})
    placing.finish([names for names, kept in taken.entries.items() if kept.kind == "directory"])
    gone = set(plan.clear) - placing.failed.keys()
    removed = [names for names in look.found if any(above in gone for above in _ways(names))]
    return Restored(tuple(sorted(placing.changed)), tuple(sorted(removed)), plan.failed | placing.failed)


def fill_layer(
    contents: Contents, taken: Taken, lower: int, upper: int, *, owner: tuple[int, int] | None
) -> Restored:
    """Put into the upper layer over a directory what makes it look as it did."""
    look = look_at(lower, taken.skip)
    entries, plan = plan_layer(taken, look, _same(contents, taken.entries, lower, look))
    placing = Placing(contents, entries, upper, owner)
    with placing.undone_if_it_fails():
        placing.stage(plan.place)
    placing.put(plan.place)
    placing.finish([names for names, kept in entries.items() if kept.kind == "directory"])
    removed = tuple(names for names in plan.place if entries[names] is _WHITEOUT)
    changed = tuple(sorted(placing.changed - set(removed)))
    return Restored(changed, removed, plan.failed | placing.failed)


# Decisions ---------------------------------------------------------------------------------------------------------


def plan_restore(taken: Taken, look: Look, same: set[Names]) -> Plan:
    """What makes a directory that looks so what it was; ``same`` are the names that have their content still."""
    plan = Plan(failed=_lost(taken, look))
    left_alone = look.skipped | (look.found.keys() & taken.left_out.keys())
    holders = {above for names in left_alone for above in _ways(names[:-1])}
    blocked: set[Names] = set()
    for names, kept in sorted(taken.entries.items(), key=_depth):
        status = look.found.get(names)
        if names[:-1] in blocked:
            blocked.add(names)
            plan.failed[names] = plan.failed[names[:-1]]
        elif names in look.skipped or (names in holders and kept.kind != "directory"):
            blocked.add(names)
            plan.failed[names] = "a directory that is left alone stands in its place"
        elif not names or (status is not None and kind_of(status) == kept.kind == "directory"):
            continue
        elif status is None or names not in same:
            plan.place.append(names)
        elif _is_different(kept, status):
            plan.adjust.append(names)
    going = _new_names(taken, look)
    for names in [names for names in going if names in holders]:
        plan.failed[names] = "it is new, and holds what is left alone"
    plan.clear = _topmost([names for names in going if names not in holders])
    return plan


def plan_layer(taken: Taken, look: Look, same: set[Names]) -> tuple[dict[Names, Kept], Plan]:
    """What makes a directory that looks so appear as it was, once it lies over it; with the names of the layer."""
    plan = Plan(failed=_lost(taken, look))
    wanted: dict[Names, Kept] = {}
    for names, kept in taken.entries.items():
        status = look.found.get(names)
        is_there = status is not None and (kind_of(status) == kept.kind == "directory" or names in same)
        if kept.kind == "whiteout":
            plan.failed[names] = "it would hide what lies below it"
        elif names and (status is None or not is_there or _is_different(kept, status)):
            wanted[names] = kept
    wanted |= dict.fromkeys(_topmost(_new_names(taken, look)), _WHITEOUT)
    for names in list(wanted):
        for above in _ways(names[:-1]):
            wanted[above] = taken.entries[above]
    plan.place = [names for names, _ in sorted(wanted.items(), key=_depth)]
    entries = {(): taken.entries[()], **wanted}
    return {names: replace(kept, opaque=()) if kept.opaque else kept for names, kept in entries.items()}, plan


def _lost(taken: Taken, look: Look) -> dict[Names, str]:
    """What was left out and does not surely look as it did."""
    lost: dict[Names, str] = {}
    for names, reason in taken.left_out.items():
        status = look.found.get(names)
        if status is None or key_of(status) != taken.passed_over.get(names):
            lost[names] = f"it was not kept: {reason}"
    return lost


def _new_names(taken: Taken, look: Look) -> list[Names]:
    """What was not there, but for what may have been there unseen, and what goes with something else."""
    replaced = {
        names
        for names, status in look.found.items()
        if names in taken.entries
        and taken.entries[names].kind != "directory"
        and kind_of(status) == "directory"
    }
    unseen = taken.left_out
    return [
        names
        for names in look.found
        if names not in taken.entries
        and not ((replaced or unseen) and any(above in replaced or above in unseen for above in _ways(names)))
        and () not in unseen
    ]


def _topmost(going: list[Names]) -> list[Names]:
    """Names that go by themselves, without those that go with a directory above them."""
    all_of_them = set(going)
    return [names for names in going if names[:-1] not in all_of_them]


def _ways(names: Names) -> list[Names]:
    """A name and all that it lies in, from the top."""
    return [names[:count] for count in range(1, len(names) + 1)]


def _depth(item: tuple[Names, object]) -> int:
    return len(item[0])


def _is_different(kept: Kept, status: os.stat_result) -> bool:
    if kept.kind == "whiteout":
        return False
    return kept.mtime_ns != status.st_mtime_ns or (
        kept.kind != "link" and kept.mode != status.st_mode & 0o777
    )


# What is the same --------------------------------------------------------------------------------------------------


def _same(contents: Contents, entries: Mapping[Names, Kept], root: int, look: Look) -> set[Names]:
    """The files, links and whiteouts that have the content they had, and no name too many or too few."""
    mates: dict[Identity, set[Names]] = defaultdict(set)
    for names, kept in entries.items():
        if kept.shared is not None:
            mates[kept.shared].add(names)
    same: set[Names] = set()
    for names, kept in entries.items():
        status = look.found.get(names)
        if status is None or kind_of(status) != kept.kind or kept.kind == "directory":
            continue
        wanted = mates[kept.shared] if kept.shared is not None else {names}
        if kept.kind == "whiteout":
            same.add(names)
        elif kept.kind == "link":
            same |= {names} if _points_there(root, names, kept) else set()
        elif _shares_rightly(wanted, names, entries, look) and _has_content(
            contents, root, names, kept, status
        ):
            same.add(names)
    return same


def _shares_rightly(wanted: set[Names], names: Names, entries: Mapping[Names, Kept], look: Look) -> bool:
    """Whether a file has those names, of all that matter, that it had."""
    status = look.found[names]
    if look.has_name_elsewhere(status):
        return False
    identity = identity_of(status)
    strangers = (other for other in look.names_of.get(identity, ()) if other not in wanted)
    if any(other in entries for other in strangers):
        return False
    return all(other in look.found and identity_of(look.found[other]) == identity for other in wanted)


def _has_content(contents: Contents, root: int, names: Names, kept: Kept, status: os.stat_result) -> bool:
    if kept.content is None or kept.size != status.st_size:
        return False
    if contents.holds(kept.content, key_of(status)):
        return True
    try:
        descriptor = open_beneath(root, names, READ)
        with closing(descriptor):
            return key_of(os.fstat(descriptor)) == key_of(status) and contents.is_same(
                kept.content, descriptor
            )
    except OSError:
        return False


def _points_there(root: int, names: Names, kept: Kept) -> bool:
    try:
        with opened(root, names[:-1]) as directory:
            return os.readlink(names[-1], dir_fd=directory) == kept.points_to
    except OSError:
        return False

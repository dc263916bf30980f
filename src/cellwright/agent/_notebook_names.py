"""Names of notebooks in what a model says: those that are wrong, lost their time, or belong to another notebook.

Pure. Sure or silent: a word that merely looks like a name is no name, and a data file is no notebook.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from cellwright.mcp.calls import untimed
from cellwright.notebook import slug

__all__ = ["Correction", "Mistake", "Notebook", "by_id", "check_call", "check_names", "corrected"]

Mistake: TypeAlias = Literal["unknown", "other", "lost_time", "wrong_time", "similar"]

_ALIKE = 0.8
_SHOWN = 3
_LONGEST_NAME = 255
_LONGEST_PATH = 4_000
_BLANK = "\N{REPLACEMENT CHARACTER}"
# Session ids have no vowels and no look-alikes (see ``engine.records``), so no word is taken for one.
_session_id = re.compile(r"(?<![\w/.-])s-[23456789bcdfghjkmnpqrstvwxz]{7}(?![\w-])")
# Each pattern begins where a word does: what models quote may be one word of a megabyte.
_file = re.compile(r"(?<![\w.-])[\w.-]*[\w-]\.ipynb(?!\w)")
_time = re.compile(r"\d{8}_\d{6}")
# A time that is part of a name, and nothing behind it that makes it a file of another kind.
_timed = re.compile(r"(?<![\w.-])(?:\d{8}_\d{6}_[\w-]*\w|\w[\w-]*_\d{8}_\d{6})(?![\w-]|\.\w|[/(\[=])")
_quote = "[`'\"\u2018\u2019\u201c\u201d*]"
_SESSION_ARGUMENTS = ("session_id", "session_ids", "notebook", "current_notebook")
_SAYS_NOTHING = frozenset({"", "current", "default", "latest", "none", "null"})


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook by its names."""

    session_id: str
    name: str
    """With its time, without ``.ipynb``."""
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Correction:
    """A name that is wrong, and what is told back to the model."""

    mistake: Mistake
    named: str
    """As the model wrote it."""
    meant: Notebook | None
    """Where only one can be meant."""
    message: str


def check_names(
    text: str,
    *,
    current: Notebook | None,
    known: Sequence[Notebook] = (),
    files: Collection[str] = (),
    asked: str = "",
) -> Correction | None:
    """The first notebook or session in a text that is not the current one, or none at all.

    ``known`` are all notebooks that there are, ``files`` names of files in the working directory. What ``asked``, the
    question, names may be named in its answer. A text that names the current notebook may name others that exist.
    """
    others = [one for one in known if current is None or one.session_id != current.session_id]
    named_current = current is not None and _names(text, current)
    allowed = [current] if current is not None else []
    allowed += [one for one in others if named_current or _names(asked, one)]
    words = [name for one in allowed for name in (one.session_id, one.name)]
    words += [*files, *(PurePosixPath(name).name for name in files)]
    words += [*_file.findall(asked), *_timed.findall(asked)]
    rest = _without(text, words)
    for named in _mentions(rest, current):
        correction = _judged(named, current, others)
        if correction is not None:
            return correction
    return None


def check_call(
    arguments: Mapping[str, Any],
    *,
    current: Notebook | None,
    known: Sequence[Notebook] = (),
    reads: bool = False,
    asked: str = "",
) -> Correction | None:
    """The same for the arguments of a call. Another notebook that exists may be read, and one that was asked for used."""
    others = [one for one in known if current is None or one.session_id != current.session_id]
    for named in _session_values(arguments):
        stem = named.removesuffix(".ipynb")
        if current is not None and _means(stem, current):
            continue
        if any(_means(stem, other) and (reads or _names(asked, other)) for other in others):
            continue
        return _judged(named, current, others) or _unknown(named, current, others)
    return None


def by_id(arguments: Mapping[str, Any], current: Notebook | None) -> dict[str, Any]:
    """The arguments with the current session by its id, however it is named: no other can be taken for it then."""
    named = arguments.get("session_id")
    if not isinstance(named, str):
        return dict(arguments)
    if named.strip().lower() in _SAYS_NOTHING:
        return {name: value for name, value in arguments.items() if name != "session_id"}
    means = current is not None and _means(named.strip().removesuffix(".ipynb"), current)
    return {**arguments, "session_id": current.session_id} if means and current else dict(arguments)


def corrected(text: str, correction: Correction) -> str | None:
    """The text with the right name in place of the wrong one, where that is certain."""
    meant = correction.meant
    if meant is None or correction.mistake not in ("lost_time", "wrong_time"):
        return None
    named = correction.named
    right = f"{meant.name}.ipynb" if named.endswith(".ipynb") else meant.name
    if correction.mistake == "lost_time" and not named.endswith(".ipynb"):
        # The bare word may also be a variable's name: only where it is called a notebook.
        return _bare(named).sub(lambda found: found[0].replace(named, right), text)
    return re.sub(rf"(?<![\w.-]){re.escape(named)}(?!\w)", lambda _: right, text)


def _mentions(text: str, current: Notebook | None) -> Iterator[str]:
    """What in a text is meant as a notebook's name, or a session's."""
    for pattern in (_session_id, _file, _timed):
        yield from (found[0] for found in pattern.finditer(text) if len(found[0]) <= _LONGEST_NAME)
    if current is not None and (plain := untimed(current.name)) != current.name and _bare(plain).search(text):
        yield plain


def _bare(plain: str) -> re.Pattern[str]:
    """A name without its time, where a text calls it a notebook. One word must stand in quotes: it may be any word."""
    name = re.escape(plain)
    quote = _quote + ("{0,3}" if "_" in plain else "{1,3}")
    return re.compile(
        rf"\bnotebook:?\s+(?:named\s+|called\s+)?{quote}{name}(?![\w.-]){quote}"
        rf"|{quote}(?<![\w.-]){name}{quote}\s+notebook\b",
        re.IGNORECASE,
    )


def _judged(named: str, current: Notebook | None, others: Sequence[Notebook]) -> Correction | None:
    if _session_id.fullmatch(named):
        other = next((one for one in others if one.session_id == named), None)
        return _other(named, other, current) if other is not None else _unknown(named, current, others)
    stem = named.removesuffix(".ipynb")
    for one in others:
        if stem == one.name:
            return _other(named, one, current)
    for one in [*([current] if current is not None else []), *others]:
        if slug(untimed(stem)) == slug(untimed(one.name)):
            return _out_of_time(named, one, current)
    if not named.endswith(".ipynb") and _similar(stem, current, others) is None:
        return None  # a time in a name alone makes no notebook of it
    return _unknown(named, current, others)


def _out_of_time(named: str, meant: Notebook, current: Notebook | None) -> Correction:
    mistake: Mistake = "wrong_time" if _time.search(named) else "lost_time"
    what = "its time is another, or elsewhere" if mistake == "wrong_time" else "its time is missing"
    sure = meant if meant is current else None
    return Correction(mistake, named, sure, f"No notebook is called {named!r}: {what}. {_told(current)}")


def _other(named: str, other: Notebook, current: Notebook | None) -> Correction:
    message = f"{named!r} is another notebook ({other.name}, session {other.session_id}). {_told(current)}"
    return Correction("other", named, current, message)


def _unknown(named: str, current: Notebook | None, others: Sequence[Notebook]) -> Correction:
    near = _similar(named.removesuffix(".ipynb"), current, others)
    what = "session" if _session_id.fullmatch(named) else "notebook"
    there_are = ", ".join(f"{one.name} ({one.session_id})" for one in others[-_SHOWN:])
    besides = f" Others that there are: {there_are}." if there_are and current is None else ""
    message = f"There is no {what} {named!r}. {_told(current)}{besides}"
    return Correction("similar" if near is not None else "unknown", named, near, message)


def _told(current: Notebook | None) -> str:
    if current is None:
        return "There is no notebook in this conversation yet; call notebook_create to make one."
    return (
        f"The notebook of this conversation is {current.name}, session {current.session_id}."
        " Go on with it, and name it just so."
    )


def _similar(stem: str, current: Notebook | None, others: Sequence[Notebook]) -> Notebook | None:
    """The notebook whose name looks like this one."""
    notebooks = [*others, *([current] if current is not None else [])]
    plain = {slug(untimed(one.name)): one for one in notebooks}
    near = difflib.get_close_matches(slug(untimed(stem)), plain, n=1, cutoff=_ALIKE)
    if near:
        return plain[near[0]]
    ids = {one.session_id: one for one in notebooks}
    near = difflib.get_close_matches(stem, ids, n=1, cutoff=_ALIKE)
    return ids[near[0]] if near else None


def _names(text: str, notebook: Notebook) -> bool:
    return any(_exactly(name).search(text) for name in (notebook.session_id, notebook.name))


def _means(named: str, notebook: Notebook) -> bool:
    """Whether the MCP server would take this for that notebook."""
    stem = PurePosixPath(named).name
    if named in (notebook.session_id, notebook.path) or stem == notebook.name:
        return True
    time = _time.search(stem)
    same_time = time is None or time[0] in notebook.name
    return same_time and slug(untimed(stem)) == slug(untimed(notebook.name))


def _session_values(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key in _SESSION_ARGUMENTS:
        value = arguments.get(key)
        for named in value if isinstance(value, list | tuple) else [value]:
            if isinstance(named, str) and named.strip().lower() not in _SAYS_NOTHING:
                yield named.strip()[:_LONGEST_PATH]


def _without(text: str, words: Collection[str]) -> str:
    """The text with these names blanked out, the longest first: a name may be part of another."""
    for word in sorted(set(filter(None, words)), key=len, reverse=True):
        text = _exactly(word).sub(_BLANK, text)
    return text


def _exactly(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?:\.ipynb)?(?![\w-])")

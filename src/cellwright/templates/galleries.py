"""Galleries: where others offer templates, and how one is brought here. A folder, a git repository, an index over HTTPS.

An index (``index.json``) has the SHA-256 of each file of each template, and may be signed. What comes is data: plain
files of bounded size under names that are known, held against the index, read, and never run. Which templates a
notebook can begin with is ``catalogue``'s: those of a gallery only once somebody added them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias

import anyio
import msgspec

from cellwright.errors import CellwrightError, TemplateError, TemplateRefused, UnknownTemplate
from cellwright.sandbox.files import Workdir
from cellwright.settings.model import GallerySettings
from cellwright.templates.catalogue import ORIGIN, Catalogue, files_of
from cellwright.templates.model import MANIFEST, MOST_BYTES, Template, belongs, is_name, read_template

__all__ = ["INDEX", "SIGNATURE", "SIGNED_AS", "Galleries", "Offer", "ReadUrl", "index_text"]

INDEX = "index.json"
SIGNATURE = f"{INDEX}.sig"
SIGNED_AS = "cellwright-templates"
"""The namespace of signatures: one made for something else is none of an index."""

ReadUrl: TypeAlias = Callable[..., Awaitable[bytes]]
"""``read(url, most_bytes=…)``: what is at a URL; asked through the guarded client."""

_MOST_INDEX = 1_000_000
_MOST_OFFERS = 500
_MOST_REPOSITORY = 200 * 1024**2
_FRESH_S = 600
_TIMEOUT_S = 120

_Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Words: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class _Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: _Words
    description: _Words
    files: dict[str, _Digest]


class _Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    templates: dict[str, _Listed]


@dataclass(frozen=True, slots=True)
class Offer:
    """A template that a gallery has."""

    name: str
    title: str
    description: str
    gallery: str
    """The gallery's source, as the settings have it."""
    files: Mapping[str, str]
    """The SHA-256 of each file."""
    store: _Store = field(repr=False, compare=False)

    @property
    def picture(self) -> str | None:
        """The name of its picture, if it has one."""
        return next((name for name in self.files if name.startswith("picture.")), None)

    def is_about(self, words: str) -> bool:
        """Whether its name, title and description have every one of these words."""
        text = f"{self.name} {self.title} {self.description}".lower()
        return all(word in text for word in words.lower().split())

    def data(self) -> dict[str, Any]:
        """Return the offer as listings have it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "gallery": self.gallery,
        }

    async def content(self, filename: str) -> bytes:
        """One of its files, held against the index.

        Raises:
            TemplateRefused: it is not there, or another one.
        """
        content = await self.store.read(f"{self.name}/{filename}", most_bytes=MOST_BYTES)
        if content is None:
            raise TemplateRefused(
                f"{self.gallery} has no {self.name}/{filename}, which its index lists",
                hint="Tell whoever keeps the gallery",
            )
        if (found := hashlib.sha256(content).hexdigest()) != self.files[filename]:
            raise TemplateRefused(
                f"{self.name}/{filename} of {self.gallery} is not what its index says: its SHA-256 is {found}, and "
                f"{self.files[filename]} is expected",
                hint="Do not use it; tell whoever keeps the gallery",
            )
        return content


class Galleries:
    """The galleries of the settings."""

    def __init__(self, galleries: Sequence[GallerySettings], storage: Path, read_url: ReadUrl) -> None:
        self._galleries = tuple(galleries)
        self._storage = storage
        self._read_url = read_url
        self._seen: dict[tuple[str, str], Offer] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._galleries)

    def seen(self, name: str, gallery: str) -> Offer | None:
        """An offer as it was last listed."""
        return self._seen.get((gallery, name))

    async def offers(self) -> tuple[list[Offer], list[CellwrightError]]:
        """What all galleries have, and why one could not be read; the others are read all the same."""
        found: list[Offer] = []
        problems: list[CellwrightError] = []
        for gallery in self._galleries:
            try:
                found += await self._offers(gallery)
            except CellwrightError as error:
                problems.append(error)
        self._seen = {(offer.gallery, offer.name): offer for offer in found}
        return found, problems

    async def find(self, name: str, gallery: str | None = None) -> Offer:
        """The offer of this name, of one gallery or of the first that has it.

        Raises:
            UnknownTemplate: none has it; where one could not be read, the message says that too.
        """
        offers, problems = await self.offers()
        for offer in offers:
            if offer.name == name and gallery in (None, offer.gallery):
                return offer
        listed = ", ".join(dict.fromkeys(offer.name for offer in offers)) or "no templates"
        unread = "".join(f". {problem.message}" for problem in problems)
        raise UnknownTemplate(
            f"No gallery offers a template {name[:80]!r}{unread}",
            hint=f"They offer: {listed}" if self._galleries else "Name a gallery in the setting `templates`",
        )

    async def add(self, name: str, *, gallery: str | None = None, called: str | None = None) -> Template:
        """Bring a template here, so that notebooks can begin with it; ``called`` is another name for it. Nothing is run.

        Raises:
            TemplateRefused: a file is not what the index says.
            TemplateError: the name is taken, or it is no template.
        """
        offer = await self.find(name, gallery)
        taken = called or name
        known = await anyio.to_thread.run_sync(Catalogue.at(self._storage).templates)
        for one in known:
            if one.name == taken and one.source != offer.gallery:
                raise TemplateError(
                    f"There is a template {taken!r} already, from {one.source}",
                    hint="Add it under another name (--as)",
                )
        files = {filename: await offer.content(filename) for filename in offer.files}
        template = read_template(taken, files, source=offer.gallery)
        origin = json.dumps({"source": offer.gallery, "name": name, "files": dict(offer.files)}, indent=1)
        await anyio.to_thread.run_sync(_put, self._storage / "templates", taken, files, origin)
        return template

    def remove(self, name: str) -> None:
        """Let go of a template that was added; notebooks that began with it stay.

        Raises:
            UnknownTemplate: none was added under this name.
        """
        folder = self._storage / "templates" / name
        if not is_name(name) or not (folder / MANIFEST).is_file():
            raise UnknownTemplate(
                f"No template {name[:80]!r} was added",
                hint="`cellwright templates list` shows where each comes from",
            )
        shutil.rmtree(folder)

    async def _offers(self, gallery: GallerySettings) -> list[Offer]:
        store = self._store(gallery.source)
        content = await store.read(INDEX, most_bytes=_MOST_INDEX)
        if content is None and isinstance(store, _Folder) and gallery.signers is None:
            content = (await anyio.to_thread.run_sync(index_text, store.path)).encode()
        if content is None:
            raise TemplateRefused(
                f"{gallery.source} has no {INDEX}",
                hint="Whoever keeps it makes one: cellwright templates index FOLDER",
            )
        if gallery.signers is not None:
            signature = await store.read(SIGNATURE, most_bytes=_MOST_INDEX)
            await _verify(gallery.source, content, signature, gallery.signers)
        return [
            Offer(name, listed.title, listed.description, gallery.source, listed.files, store)
            for name, listed in _index(gallery.source, content).templates.items()
        ]

    def _store(self, source: str) -> _Store:
        if source.startswith("git+"):
            return _Repository(source.removeprefix("git+"), self._storage / "galleries")
        if source.startswith("https://"):
            return _Website(source, self._read_url)
        if "://" in source:
            raise TemplateRefused(
                f"{source} is no gallery", hint="Name a folder, git+https://…, or https://…/index.json"
            )
        return _Folder(Path(source).expanduser())


def _index(source: str, content: bytes) -> _Index:
    try:
        index = msgspec.json.decode(content, type=_Index)
    except msgspec.DecodeError as error:
        raise TemplateRefused(
            f"The index of {source} cannot be read: {error}", hint="Tell whoever keeps the gallery"
        ) from None
    wrong = [name for name in index.templates if not is_name(name)]
    wrong += [
        f"{name}/{file}"
        for name, listed in index.templates.items()
        for file in listed.files
        if not belongs(file)
    ]
    if index.version != 1 or wrong or len(index.templates) > _MOST_OFFERS:
        why = (
            f"it lists {wrong[0][:80]!r}"
            if wrong
            else f"version {index.version}, {len(index.templates)} templates"
        )
        raise TemplateRefused(
            f"The index of {source} is none that can be used: {why}",
            hint=f"Version 1 has at most {_MOST_OFFERS} templates, with their own files alone",
        )
    return index


def index_text(folder: Path) -> str:
    """The index of a folder of templates, each of which is read and checked.

    Raises:
        TemplateError: one of them cannot be read, or there is no such folder.
    """
    if not folder.is_dir():
        raise TemplateError(f"There is no folder {folder}", hint="Name one that holds folders of templates")
    listed = {}
    for inner in sorted(folder.iterdir()):
        if (inner / MANIFEST).is_file():
            files = files_of(inner)
            template = read_template(inner.name, files)
            listed[inner.name] = {
                "title": template.title,
                "description": template.description,
                "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            }
    return json.dumps({"version": 1, "templates": listed}, indent=1, ensure_ascii=False) + "\n"


def _put(folder: Path, name: str, files: Mapping[str, bytes], origin: str) -> None:
    """Write a template's folder whole, in the place of what it was."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as beside:
        fresh = Path(beside) / "fresh"
        fresh.mkdir()
        for filename, content in {**files, ORIGIN: origin.encode()}.items():
            (fresh / filename).write_bytes(content)
        if (folder / name).exists():
            (folder / name).rename(Path(beside) / "before")
        fresh.rename(folder / name)


# Where a gallery lies -----------------------------------------------------------------------------------------------


class _Store(Protocol):
    """The files of one gallery."""

    async def read(self, path: str, *, most_bytes: int) -> bytes | None:
        """A plain file's content; None where there is no such file.

        Raises:
            CellwrightError: it is larger, no plain file, or cannot be had.
        """


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path

    async def read(self, path: str, *, most_bytes: int) -> bytes | None:
        return await anyio.to_thread.run_sync(partial(self._read, path, most_bytes))

    def _read(self, path: str, most_bytes: int) -> bytes | None:
        if not self.path.is_dir():
            raise TemplateRefused(f"There is no folder {self.path}", hint="Correct the setting `templates`")
        with Workdir.open(self.path) as workdir:  # follows no link out of it
            return workdir.read(path, most_bytes) if workdir.exists(path) else None


@dataclass(frozen=True, slots=True)
class _Website:
    index: str
    read_url: ReadUrl

    async def read(self, path: str, *, most_bytes: int) -> bytes | None:
        url = self.index if path == INDEX else f"{self.index.rpartition('/')[0]}/{path}"
        return await self.read_url(url, most_bytes=most_bytes)


_a_blob = re.compile(r"(?P<mode>\d{6}) (?P<type>\w+) (?P<id>[0-9a-f]{40,64}) +(?P<size>\d+|-)\t")


@dataclass(frozen=True, slots=True)
class _Repository:
    """A branch's newest commit, read from a bare clone: nothing is checked out, so no filter, hook or link of it acts."""

    url: str
    folder: Path

    async def read(self, path: str, *, most_bytes: int) -> bytes | None:
        clone = await self._cloned()
        listed = (await self._git("-C", str(clone), "ls-tree", "-l", "HEAD", "--", path)).decode(
            errors="replace"
        )
        if not listed:
            return None
        blob = _a_blob.match(listed)
        if blob is None or blob["mode"] not in ("100644", "100755"):
            raise TemplateRefused(f"{path} of {self.url} is no plain file", hint="A template has no links")
        if int(blob["size"]) > most_bytes:
            raise TemplateRefused(
                f"{path} of {self.url} has more than {most_bytes:,} bytes", hint="Keep data out of templates"
            )
        return await self._git("-C", str(clone), "cat-file", "blob", blob["id"])

    async def _cloned(self) -> Path:
        """A clone of the last minutes, or a new one."""
        clone = self.folder / f"{hashlib.sha256(self.url.encode()).hexdigest()[:16]}.git"
        if clone.is_dir() and time.time() - clone.stat().st_mtime < _FRESH_S:
            return clone
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            options = (
                "--bare",
                "--depth=1",
                "--single-branch",
                "--no-tags",
                "--no-recurse-submodules",
                "--template=",
            )
            await self._git("clone", "--quiet", *options, "--", self.url, str(beside / "clone"))
            await anyio.to_thread.run_sync(partial(shutil.rmtree, clone, ignore_errors=True))
            (beside / "clone").rename(clone)
        finally:
            await anyio.to_thread.run_sync(partial(shutil.rmtree, beside, ignore_errors=True))
        return clone

    async def _git(self, *arguments: str) -> bytes:
        # A path of this machine is one only where the settings say so: a server cannot lead there.
        local = "always" if self.url.startswith(("file://", "/")) else "never"
        guards = {
            "core.hooksPath": "/dev/null",
            "core.fsmonitor": "false",
            "credential.helper": "",
            "fetch.fsckObjects": "true",
            "http.followRedirects": "false",
            "protocol.allow": "never",
            "protocol.https.allow": "always",
            "protocol.file.allow": local,
            "safe.directory": "*",
        }
        settings = [part for name, value in guards.items() for part in ("-c", f"{name}={value}")]
        bounded = ["prlimit", f"--fsize={_MOST_REPOSITORY}"] if shutil.which("prlimit") else []
        command = [*bounded, "git", *settings, *arguments]
        return await _output(command, f"{self.url} cannot be read by git", env=_GIT_ENVIRONMENT)


_GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "LC_ALL": "C.UTF-8",
}


async def _verify(source: str, content: bytes, signature: bytes | None, signers: Path) -> None:
    """Hold an index against its signature, as ``git verify-commit`` does with SSH keys.

    Raises:
        TemplateRefused: there is none, or it is by nobody whom the file of signers allows.
    """
    if signature is None:
        raise TemplateRefused(
            f"The index of {source} is not signed, and the settings ask for it", hint=f"It has no {SIGNATURE}"
        )
    refused = f"The signature of {source} is by nobody in {signers}"
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / SIGNATURE
        at.write_bytes(signature)
        common = ["-f", str(signers), "-s", str(at)]
        found = await _output(["ssh-keygen", "-Y", "find-principals", *common], refused)
        principal = found.decode(errors="replace").splitlines()[0]
        check = ["ssh-keygen", "-Y", "verify", *common, "-n", SIGNED_AS, "-I", principal]
        await _output(check, f"The signature of {source} does not fit its index", given=content)


async def _output(
    command: list[str], failed: str, *, given: bytes | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    """What a program puts out.

    Raises:
        TemplateRefused: it is not there, fails, or takes too long; ``failed`` is what that means.
    """
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | dict(
        env or {}
    )
    try:
        with anyio.fail_after(_TIMEOUT_S):
            done = await anyio.run_process(command, input=given, check=False, env=environment)
    except FileNotFoundError:
        raise TemplateRefused(failed, hint=f"Install what it needs: {command[0]}") from None
    except TimeoutError:
        raise TemplateRefused(failed, hint=f"It took more than {_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise TemplateRefused(
            failed, hint=said[-1][:300] if said else f"{command[0]} ended with {done.returncode}"
        )
    return done.stdout

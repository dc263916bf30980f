"""The files that a session in ``overlay`` mode wrote, against the project it never touched: listed, shown as a diff,
applied.

Everything is read and written through ``files``, so that nothing planted in the layer leads anywhere else; what the
project had before stands in ``overlay``. Blocking.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Self

from cellwright.errors import FileConflict, FileFailed, FileRefused, NoSuchFile, SandboxError
from cellwright.sandbox.files import Entry, EntryType, Workdir, quoted_path, shown_path
from cellwright.sandbox.workspace import Workspace

__all__ = [
    "Applied",
    "LayerChange",
    "apply_changes",
    "is_trusted",
    "layer_changes",
    "layer_diff",
    "note_originals",
    "why_autorun",
]
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


def note_originals(workspace: Workspace, *, since: float) -> None:
    """Remember what the project has under every name that the session has its own under since a moment."""
    if not _has_layer(workspace):
        return
    with _opened(workspace) as (layer, project):
        Originals.load(workspace).note(_shadows(layer, project), since=since)


def layer_changes(workspace: Workspace, paths: Iterable[str] | None = None) -> list[LayerChange]:
    """Every file that the session added, changed or deleted, by its path in the project; or those of the named ones.

    Raises:
        NoSuchFile: a named path was not changed.
    """
    if not _has_layer(workspace):
        return []
    with _opened(workspace) as (layer, project):
        originals = Originals.load(workspace)
        chosen = _chosen(_differing(layer, project, originals), paths)
        return [_layer_change(workspace, shadow, originals) for shadow in chosen]


def layer_diff(workspace: Workspace, paths: Iterable[str] | None = None) -> str:
    """The changes as a unified diff; what is no text is named only.

    Raises:
        NoSuchFile: a named path was not changed.
    """
    if not _has_layer(workspace):
        return ""
    with _opened(workspace) as (layer, project):
        originals = Originals.load(workspace)
        chosen = _chosen(_differing(layer, project, originals), paths)
        return "".join(
            file_difference(layer, project, shadow, conflict=originals.conflicts(shadow)) for shadow in chosen
        )


def apply_changes(
    workspace: Workspace,
    paths: Iterable[str] | None = None,
    *,
    since: float,
    force: bool = False,
    trusted: Collection[str] = (),
) -> Applied:
    """Bring changes over into the project: all, or those of the named files and directories.

    ``since`` is when the layer was last looked at. Links are never brought over; what tools run by themselves
    (``overlay``) and new programs only where a person named them, which ``trusted`` says.

    Raises:
        FileConflict: the project's own changed meanwhile, and ``force`` was not given. Nothing was applied.
        NoSuchFile: a named path was not changed.
        FileRefused: the session has no layer, or a named path is no plain file or for a person to name.
    """
    if workspace.mode != "overlay" or workspace.project is None:
        raise FileRefused(
            "This session has no layer over a project", hint="Its files are in its directory already"
        )
    if not _has_layer(workspace):
        return Applied((), {})
    with _opened(workspace) as (layer, project):
        originals = Originals.load(workspace)
        originals.note(_shadows(layer, project), since=since)
        found = _differing(layer, project, originals)
        chosen = _chosen(found, paths)
        skipped = {shown_path(shadow.path): why for shadow in chosen if (why := _obstacle(shadow, trusted))}
        _refuse_named(skipped, paths)
        free = [shadow for shadow in chosen if shown_path(shadow.path) not in skipped]
        wanted = _with_what_is_in_the_way(free, found)
        if not force:
            _refuse_conflicts([shadow.path for shadow in wanted if originals.conflicts(shadow)])
        told = [_layer_change(workspace, shadow, originals) for shadow in wanted]
        try:
            _bring_over(layer, project, wanted, originals)
        finally:
            originals.save()
    return Applied(tuple(sorted(told, key=lambda change: change.path)), skipped)


# What is different ------------------------------------------------------------------------------------------------


def _has_layer(workspace: Workspace) -> bool:
    return workspace.mode == "overlay" and workspace.project is not None and Path(workspace.written).is_dir()


@contextmanager
def _opened(workspace: Workspace) -> Iterator[tuple[Workdir, Workdir]]:
    with (
        Workdir.open(Path(workspace.written)) as layer,
        Workdir.open(Path(workspace.project or workspace.cwd), cross_mounts=True) as project,
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


def _layer_change(workspace: Workspace, shadow: Shadow, originals: Originals) -> LayerChange:
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
        real=f"{workspace.written}/{path}",
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


# What the project had under each name when a session in ``overlay`` mode began to have its own there.

_NAME = "originals.json"

# File systems tell time by a clock that may be some ticks behind.
_TICKS_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class Shadow:
    """A name under which the session does not see what the project has."""

    path: str
    ours: Entry | None
    """What the session has there; None where it deleted it."""
    theirs: Entry | None
    """What the project has there now."""
    hidden_by: str | None = None
    """The directory that the session deleted or replaced, where that is why."""


@dataclass(frozen=True, slots=True)
class Original:
    """What the project had: ``identity`` (inode, change time, size), or None for nothing."""

    identity: tuple[int, ...] | None
    known: bool = True
    """False where it may have changed before it was looked at."""
    settled: tuple[int, ...] | None = None
    """The session's own as it was when it was last brought over, if it was."""


class Originals:
    """The originals of one session."""

    def __init__(self, workspace: Workspace, held: dict[str, Original]) -> None:
        self._workspace = workspace
        self._held = held

    @classmethod
    def load(cls, workspace: Workspace) -> Self:
        try:
            stored = json.loads(Path(workspace.storage, _NAME).read_bytes())
        except FileNotFoundError:
            return cls(workspace, {})
        return cls(workspace, {path: _original(about) for path, about in stored.items()})

    def note(self, shadows: Iterable[Shadow], *, since: float) -> None:
        """Remember what newly shadowed names had, and forget those that the session gave back.

        ``since`` is a moment at which none of the new ones was shadowed yet.
        """
        first = int(since * _NS) - _TICKS_NS
        held = {
            shadow.path: self._held.get(shadow.path) or self._first_seen(shadow, first) for shadow in shadows
        }
        if held != self._held:
            self._held = held
            self._save()

    def conflicts(self, shadow: Shadow) -> bool:
        """Whether the project's own is no longer what the session's was made from."""
        original = self._held.get(shadow.path)
        return original is None or not original.known or original.identity != _identity(shadow.theirs)

    def is_settled(self, shadow: Shadow) -> bool:
        """Whether the session's own was brought over and has not changed since."""
        original = self._held.get(shadow.path)
        return (
            original is not None
            and original.settled is not None
            and original.settled == (_identity(shadow.ours) or ())
        )

    def settle(self, shadow: Shadow, applied: Entry | None) -> None:
        """The session's own was brought over: the project now has this."""
        self._held[shadow.path] = replace(
            self._held[shadow.path],
            identity=_identity(applied),
            known=True,
            settled=_identity(shadow.ours) or (),
        )

    def save(self) -> None:
        """Write down what was settled."""
        self._save()

    def _first_seen(self, shadow: Shadow, first: int) -> Original:
        directory = self._held.get(shadow.hidden_by or "")
        if directory is not None:
            # The session never saw it: it came after its directory had gone.
            return Original(None, settled=() if directory.settled is not None else None)
        theirs = shadow.theirs
        changed = theirs is not None and theirs.identity[1] >= first and theirs.type != "directory"
        return Original(_identity(theirs), known=not changed)

    def _save(self) -> None:
        target = Path(self._workspace.storage, _NAME)
        fresh = target.with_suffix(".new")
        # ASCII, with names that are no UTF-8 as escapes.
        fresh.write_text(json.dumps({path: asdict(held) for path, held in self._held.items()}))
        with contextlib.suppress(OSError):
            fresh.chmod(0o600)
        os.replace(fresh, target)  # says that there may be one


def _original(about: dict[str, Any]) -> Original:
    """From its own JSON, which knows lists only."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in about.items()
    }
    return Original(**values)


def _identity(entry: Entry | None) -> tuple[int, ...] | None:
    if entry is None:
        return None
    # What lies in a directory has names of its own here.
    return (-1,) if entry.type == "directory" else (*entry.identity, entry.size)


# One file of a session against the project's, as a unified diff that ``git apply`` takes. Blocking; see
# ``overlay``.

_MAX_BYTES = 1_000_000

_NO_NEWLINE = "\n\\ No newline at end of file\n"


def file_difference(layer: Workdir, project: Workdir, shadow: Shadow, *, conflict: bool) -> str:
    """What applying one change would do; a directory shows by what is in it."""
    ours, theirs = _seen(shadow.ours), _seen(shadow.theirs)
    if ours is None and theirs is None:
        return ""
    old, new = _quoted(f"a/{shadow.path}"), _quoted(f"b/{shadow.path}")
    head = [f"diff --git {old} {new}\n"]
    if conflict:
        head.append("# changed in the project meanwhile: applying it would overwrite that\n")
    if ours is None:
        head.append(f"deleted file mode {_mode(theirs)}\n")
    elif theirs is None:
        head.append(f"new file mode {_mode(ours)}\n")
    elif ours.executable != theirs.executable:
        head += [f"old mode {_mode(theirs)}\n", f"new mode {_mode(ours)}\n"]
    before, after = _lines(project, shadow.path, theirs), _lines(layer, shadow.path, ours)
    if before is None or after is None:
        size = ours.size if ours is not None else 0
        return "".join([*head, f"# no text, {size:,} bytes: {_what(ours or theirs)}\n"])
    names = ("/dev/null" if theirs is None else old, "/dev/null" if ours is None else new)
    return "".join([*head, *difflib.unified_diff(before, after, *names)])


def _seen(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry.type == "directory" else entry


def _mode(entry: Entry | None) -> str:
    if entry is not None and entry.type == "link":
        return "120000"
    return "100755" if entry is not None and entry.executable else "100644"


def _what(entry: Entry | None) -> str:
    return entry.type if entry is not None and entry.type != "file" else "binary"


def _quoted(path: str) -> str:
    text = shown_path(path)
    return text if text.isprintable() and not {'"', "\\"} & set(text) else json.dumps(text)


def _lines(directory: Workdir, path: str, entry: Entry | None) -> list[str] | None:
    """The lines of a text; None where it is none, or too long to show."""
    if entry is None:
        return []
    try:
        text = directory.read(path, _MAX_BYTES).decode()
    except (SandboxError, UnicodeDecodeError):
        return None
    if "\0" in text:
        return None
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest + _NO_NEWLINE] if rest else lines


# Which files of a project somebody's tools run by themselves: the way out of a sandbox that no wall is on.

# A name at any depth, in small letters, which is how some file systems compare them; the whole of a directory counts.
_REASONS: dict[str, tuple[str, ...]] = {
    "version control runs hooks and programs that are named there": (
        ".git", ".hg", ".jj", ".svn", ".gitmodules", ".gitattributes",
        # Git takes any folder with this file for a repository, and reads the `config` beside it.
        "head", "*.git", ".githooks",
    ),
    "Python runs it when it starts, in place of what the project's own files say": (
        ".venv", "venv", "site-packages", "__pypackages__", "__pycache__", "*.pyc", "*.pth", "pyvenv.cfg",
        "sitecustomize.py", "usercustomize.py",
    ),
    "packages there run with the project": ("node_modules", "bower_components"),
    "a shell runs it when somebody enters the folder or signs in": (
        ".envrc", ".direnv", ".env", ".env.*", "mise.toml", ".mise.toml", ".mise", ".tool-versions", "devenv.nix",
        "flake.nix", "shell.nix", "default.nix", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
        ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xsession",
        ".xinitrc", ".inputrc", ".pam_environment", ".autoenv*", ".tmuxinator*",
    ),
    "an editor runs tasks, tools and extensions that are named there": (
        ".vscode", ".idea", ".fleet", ".zed", ".cursor", ".devcontainer", "*.code-workspace", ".vim", ".vimrc", ".exrc",
        ".nvimrc", ".nvim.lua", ".lvimrc", ".local.vimrc", ".dir-locals.el", ".dir-locals-2.el", ".editorconfig-hooks", ".sublime-project",
    ),
    "a build or a test run runs it": (
        "makefile", "gnumakefile", "bsdmakefile", "*.mk", "justfile", ".justfile", "taskfile.y*ml", "rakefile",
        "gemfile", "cmakelists.txt", "*.cmake", "meson.build", "build.gradle*", "settings.gradle*", "gradlew", "mvnw",
        "pom.xml", "build.rs", "cargo.toml", ".cargo", "setup.py", "setup.cfg", "pyproject.toml", "conftest.py",
        "pytest.ini", "tox.ini", "noxfile.py", "dodo.py", "tasks.py", "fabfile.py", "sconstruct", "wscript",
        "package.json", ".npmrc", ".yarnrc*", ".yarn", ".pnpmfile.cjs", "pnpm-workspace.yaml", "deno.json*",
        "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "dockerfile*", "containerfile*",
        "docker-compose*.y*ml", "compose*.y*ml", "vagrantfile", ".mvn", ".gradle", "binding.gyp", ".bazelrc",
        "build.bazel", "workspace.bazel", "module.bazel", ".bundle", ".eslintrc*", ".prettierrc*", ".stylelintrc*",
        ".babelrc*", ".mocharc*", ".lintstagedrc*", "package.swift", ".swiftpm", "pip.conf", "tiltfile", "skaffold.yaml",
        "workspace", "build", "*.bzl", "directory.build.*", "directory.packages.props", "*.csproj", "*.fsproj", "*.vbproj",
        "*.vcxproj", "*.props", "*.targets", "*.sln", "nuget.config", "mix.exs", "rebar.config*", "project.clj", "deps.edn",
        "build.xml", "ivy.xml", "build.sbt", "build.sc", "build.zig*", "setup.hs", "setup.lhs", "*.cabal", "stack.yaml",
        "dune", "dune-project", "*.opam", "earthfile", "guardfile", "podfile", "brewfile", "capfile", "fastfile", "berksfile",
        ".rspec", ".rubocop.yml", "*.gemspec", "gruntfile.*", "gulpfile.*", "jakefile*", "bunfig.toml", ".swcrc",
        ".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", ".coveragerc", ".flake8", "ruff.toml", ".ruff.toml",
        "hatch_build.py", "hatch.toml", "pipfile", "uv.toml", "poetry.toml", "configure", "configure.ac", "*.m4",
        "*.ninja", "premake*.lua", "xmake.lua", "action.y*ml", "snapcraft.yaml", "procfile",
    ),
    "it runs with every commit or push": (
        ".pre-commit-config.yaml", ".husky", "lefthook.y*ml", ".lefthook.y*ml", ".github", ".gitlab-ci.yml",
        ".gitlab", ".circleci", ".travis.yml", ".drone.yml", ".buildkite", "buildkite.y*ml", ".woodpecker*", "jenkinsfile*",
        "azure-pipelines*.yml", "bitbucket-pipelines.yml", ".ci",
    ),
    "an interpreter or debugger runs it when it starts": (
        ".pythonrc*", ".pythonstartup", ".pdbrc*", ".ipython", "ipython_config.py", ".jupyter", "jupyter_*config.*",
        ".rprofile", ".renviron", ".julia", ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc", ".duckdbrc",
        ".irbrc", ".pryrc", ".ghci",
    ),
    "programs of this user are set up or started by it": (
        "*.desktop", ".screenrc", ".tmux.conf", ".curlrc", ".wgetrc", ".rbuildignore",
        ".ssh", ".gnupg", ".config", ".local", ".aws", ".kube", ".docker", ".gitconfig", ".netrc", ".pypirc",
    ),
    "agents and Cellwright itself are told by it what they may do": (
        "cellwright.toml", ".cellwright", ".mcp.json", ".claude", ".codex", ".gemini", "claude.md", "agents.md",
        "gemini.md",
    ),
}  # fmt: skip

# Folders of these names hold what people make, and are no tool's business.
_FILES_ONLY = frozenset({"build", "configure", "dune", "head", "workspace"})

_PATTERNS = [(pattern, why) for why, patterns in _REASONS.items() for pattern in patterns]


def why_autorun(path: str) -> str | None:
    """Why nobody but a person may bring this path of a project over, if so."""
    *above, last = path.lower().split("/")
    for name in (*(folder for folder in above if folder not in _FILES_ONLY), last):
        for pattern, why in _PATTERNS:
            if fnmatchcase(name, pattern):
                return why
    return None


def is_trusted(path: str, named: Collection[str]) -> bool:
    """Whether a person has named this path, or a directory of that kind above it; not just any directory above it."""
    return any(
        path == one or (path.startswith(f"{one}/") and why_autorun(one) is not None)
        for one in (name.removeprefix("./").rstrip("/") for name in named)
    )

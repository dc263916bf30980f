"""Paths and links that lead elsewhere: each is refused with the reason, and each leads there where nobody guards it."""

from __future__ import annotations

import ctypes
import os
import threading
import unicodedata
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from cellwright import Engine
from cellwright.errors import FileRefused, NoSuchFile, SandboxError
from cellwright.tools.data_directory import DataDirectory, relative
from cellwright.tools.files.file_system import (  # the race is on this very call
    FileRoots,
    Files,
    Root,
    _descriptor,
    workspace_roots,
)
from tests.kernel.engine.conftest import end_host, open_at
from tests.kernel.sandbox.test_files_races import hostile

pytestmark = pytest.mark.anyio

CANARY = "the host's own"
ROUNDS = 2_000


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    root = tmp_path_factory.mktemp("hostile")
    async with open_at(root, data_directory=root / "data", max_sessions=20) as engine:
        yield engine
    end_host(root / "state")


@pytest.fixture
def files(engine: Engine) -> Files:
    return Files(engine)


@pytest.fixture
def box(engine: Engine) -> Iterator[Path]:
    """The data directory, and beside it what nobody in it may reach."""
    box = engine.settings.root / "data"
    box.mkdir(exist_ok=True)
    (box / "sub").mkdir(exist_ok=True)
    outside = engine.settings.root / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text(CANARY)
    yield box
    for path in box.iterdir():
        if path.is_symlink() or not path.is_dir():
            path.unlink()


@dataclass(frozen=True)
class Case:
    """A path, what was planted for it, and how somebody without a guard would open it."""

    path: str
    reason: str
    plant: Callable[[Path], object] = lambda _: None
    naive: Callable[[str], str] = lambda path: path
    """What a careless tool makes of a path before it opens it."""


def link(name: str, target: str) -> Callable[[Path], object]:
    return lambda box: (box / name).symlink_to(target.format(outside=box.parent / "outside", root=box.parent))


def links(*made: tuple[str, str]) -> Callable[[Path], object]:
    return lambda box: [link(name, target)(box) for name, target in made]


def hard(name: str) -> Callable[[Path], object]:
    return lambda box: (box / name).hardlink_to(box.parent / "outside" / "secret")


def odd_name(box: Path) -> None:
    (box / "bad\udcff").symlink_to(box.parent / "outside" / "secret")


compatible = partial(unicodedata.normalize, "NFKC")
LEADS_OUT = r"cannot contain '\.\.'"
A_LINK = "symbolic link"
READS: dict[str, Case] = {
    "parent": Case("../outside/secret", LEADS_OUT),
    "parent in the middle": Case("sub/../../outside/secret", LEADS_OUT),
    "parent after dots": Case("./././../outside/secret", LEADS_OUT),
    "parent with doubled slashes": Case("sub//..//..//outside///secret", LEADS_OUT),
    "parent behind a thousand dots": Case("./" * 1_000 + "../outside/secret", LEADS_OUT),
    "parent behind a hundred directories": Case("sub/../" * 100 + "../outside/secret", LEADS_OUT),
    "absolute": Case("{root}/outside/secret", "must be relative"),
    "absolute with two slashes": Case("//{root}/outside/secret", "must be relative"),
    "absolute through the root's parent": Case("/..{root}/outside/secret", "must be relative"),
    "absolute into proc": Case("/proc/self/cwd/{root}/outside/secret", "must be relative"),
    "link": Case("a", A_LINK, link("a", "{outside}/secret")),
    "relative link": Case("b", A_LINK, link("b", "../outside/secret")),
    "link to a directory": Case("c/secret", A_LINK, link("c", "{outside}")),
    "link to a link": Case("d", A_LINK, links(("d", "e"), ("e", "{outside}/secret"))),
    "link in the middle that leads back up": Case("f/outside/secret", A_LINK, link("f", "..")),
    "link to the root of the process": Case("g{root}/outside/secret", A_LINK, link("g", "/proc/self/root")),
    "link to a working directory": Case("h/{root}/outside/secret", A_LINK, link("h", "/proc/self/cwd")),
    "link to the file system's root": Case("i{root}/outside/secret", A_LINK, link("i", "/")),
    "link with a name that ends like data": Case("j.csv", A_LINK, link("j.csv", "{outside}/secret")),
    "hard link": Case("k", "2 hard links", hard("k")),
    "hard link in a directory": Case("sub/k", "hard links", hard("sub/k")),
    "name that is no UTF-8": Case("bad\udcff", "no text in UTF-8", odd_name),
    "fullwidth dots": Case("\uff0e\uff0e/outside/secret", "there is none", naive=compatible),
    "one-dot leaders": Case("\u2024\u2024/outside/secret", "there is none", naive=compatible),
    "two-dot leader": Case("\u2025/outside/secret", "there is none", naive=compatible),
    "fullwidth slashes": Case("..\uff0foutside\uff0fsecret", "there is none", naive=compatible),
    "percent signs": Case("%2e%2e/outside/secret", "there is none", naive=urllib.parse.unquote),
    "percent signs for slashes": Case("..%2foutside%2fsecret", "there is none", naive=urllib.parse.unquote),
    "backslashes": Case("..\\outside\\secret", "there is none", naive=lambda path: path.replace("\\", "/")),
    "variable": Case("$HOSTILE_HOME/secret", "there is none", naive=os.path.expandvars),
    "home": Case("~/secret", "there is none", naive=os.path.expanduser),
    "file address": Case(
        "file:{root}/outside/secret", "there is none", naive=lambda path: urllib.parse.urlsplit(path).path
    ),
    "space before": Case(" ../outside/secret", "there is none", naive=str.strip),
    "trailing slash behind a link": Case("l/", A_LINK, link("l", "{outside}/secret"), lambda path: path[:-1]),
}


@pytest.mark.parametrize("name", READS)
async def test_what_leads_elsewhere_is_not_read(
    files: Files, box: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = READS[name]
    monkeypatch.chdir("/")  # for those that lead by the working directory of the process
    monkeypatch.setenv("HOSTILE_HOME", str(box.parent / "outside"))
    monkeypatch.setenv("HOME", str(box.parent / "outside"))
    case.plant(box)
    path = case.path.replace("{root}", str(box.parent))
    with pytest.raises(SandboxError, match=case.reason):
        await files.read(path)
    with pytest.raises(SandboxError):
        await files.read_bytes(path)
    assert Path(os.path.join(box, case.naive(path))).read_text() == CANARY  # as the careless do
    (box / "sub" / "k").unlink(missing_ok=True)
    (box.parent / "outside" / "secret").unlink()


async def test_a_name_with_nul_is_refused_though_c_would_read_up_to_it(files: Files, box: Path) -> None:
    path = "../outside/secret\0.csv"
    with pytest.raises(FileRefused, match="NUL"):
        await files.read(path)
    descriptor = ctypes.CDLL(None).open(os.fsencode(f"{box}/{path}"), os.O_RDONLY)
    assert os.read(descriptor, 100).decode() == CANARY
    os.close(descriptor)


async def test_a_pipe_is_refused_though_whoever_opens_it_hears_its_writer(files: Files, box: Path) -> None:
    os.mkfifo(box / "pipe")
    with pytest.raises(FileRefused, match="pipe, socket or device"):
        await files.read("pipe")
    writer = threading.Thread(target=(box / "pipe").write_text, args=("what an attacker feeds",))
    writer.start()
    assert (box / "pipe").read_text() == "what an attacker feeds"
    writer.join()


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
async def test_a_device_is_refused_though_it_never_ends(files: Files, box: Path) -> None:
    try:
        os.mknod(box / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices can be made here")
    with pytest.raises(SandboxError, match=r"pipe, socket or device|Cannot read"):
        await files.read("zero")
    assert (box / "zero").stat().st_size == 0


def test_another_mount_is_not_entered() -> None:
    ground = FileRoots("the root", (Root(Path("/")),))
    with pytest.raises(FileRefused, match="another mount"):
        _descriptor(ground, "proc/self/status")
    assert Path("/proc/self/status").read_text()


def _written(box: Path) -> set[str]:
    return {path.name for path in (box.parent / "outside").iterdir()}


@pytest.mark.parametrize(
    ("path", "reason", "plant"),
    [
        ("../outside/new", LEADS_OUT, None),
        ("{root}/outside/new", "must be relative", None),
        ("way/new", A_LINK, link("way", "{outside}")),
        ("sub/../../outside/new", LEADS_OUT, None),
        ("up/outside/new", A_LINK, link("up", "..")),
    ],
)
@pytest.mark.parametrize("action", ["write", "append", "mkdir", "move"])
async def test_what_leads_elsewhere_is_not_written(
    files: Files, box: Path, action: str, path: str, reason: str, plant: Callable[[Path], object] | None
) -> None:
    if plant is not None:
        plant(box)
    path = path.replace("{root}", str(box.parent))
    (box / "mine").write_text("mine")
    acts = {
        "write": lambda: files.write(path, "x"),
        "append": lambda: files.write(path, "x", append=True),
        "mkdir": lambda: files.make_directory(path),
        "move": lambda: files.move("mine", path),
    }
    with pytest.raises(SandboxError, match=reason):
        await acts[action]()
    assert _written(box) == {"secret"}
    naive = Path(os.path.join(box, path))  # as the careless do
    if action == "mkdir":
        naive.mkdir()
    elif action == "move":
        (box / "mine").rename(naive)
    else:
        naive.write_text("x")
    assert _written(box) == {"secret", "new"}
    if action == "mkdir":
        naive.rmdir()
    else:
        naive.unlink()


async def test_a_link_is_replaced_by_what_is_written_and_its_target_stays(files: Files, box: Path) -> None:
    secret = box.parent / "outside" / "secret"
    link("over", "{outside}/secret")(box)
    await files.write("over", "mine")
    assert (secret.read_text(), (box / "over").read_text()) == (CANARY, "mine")
    assert not (box / "over").is_symlink()
    link("naive", "{outside}/secret")(box)
    (box / "naive").write_text("gone")
    assert secret.read_text() == "gone"


@pytest.mark.parametrize(
    "path", ["../outside/secret", "{root}/outside/secret", "way/secret", "up/outside/secret"]
)
@pytest.mark.parametrize("action", ["delete", "move", "info", "exists"])
async def test_what_lies_elsewhere_is_not_deleted_taken_or_asked_about(
    files: Files, box: Path, action: str, path: str
) -> None:
    links(("way", "{outside}"), ("up", ".."))(box)
    path = path.replace("{root}", str(box.parent))
    acts = {
        "delete": lambda: files.delete(path),
        "move": lambda: files.move(path, "stolen"),
        "info": lambda: files.info(path),
        "exists": lambda: files.exists(path),
    }
    with pytest.raises(FileRefused):
        await acts[action]()
    naive = Path(os.path.join(box, path))  # as the careless do
    assert naive.exists()
    naive.unlink()
    assert _written(box) == set()


@pytest.mark.parametrize(
    "path", ["..", "../outside", "{root}/outside", "way", "way/", "up/outside", "sub/../../outside"]
)
async def test_other_directories_are_not_listed(files: Files, box: Path, path: str) -> None:
    links(("way", "{outside}"), ("up", ".."))(box)
    path = path.replace("{root}", str(box.parent))
    with pytest.raises(FileRefused):
        await files.list(path)
    assert {"secret", "outside"} & set(os.listdir(os.path.join(box, path)))  # as above


@pytest.mark.parametrize(
    "path", ["..", "../outside", "{root}/outside", "way", "up/outside", "way/sub", "a\0b"]
)
def test_a_working_directory_does_not_lead_out(engine: Engine, box: Path, path: str) -> None:
    links(("way", "{outside}"), ("up", ".."))(box)
    with pytest.raises(SandboxError):
        DataDirectory.of(engine).open(path.replace("{root}", str(box.parent)))
    assert _written(box) == {"secret"}


def test_a_file_that_is_swapped_for_a_link_under_our_hands_is_never_read(box: Path) -> None:
    """A process swaps a plain file and a link to the secret as fast as it can; whoever just looks first is fooled."""
    (box / "swapped").write_text("mine")
    (box / "other").symlink_to(box.parent / "outside" / "secret")
    ground = FileRoots("the box", (Root(box),))

    def guarded() -> bool:
        try:
            descriptor, _ = _descriptor(ground, "swapped")
        except SandboxError:
            return False
        try:
            return os.read(descriptor, 100).decode() == CANARY
        finally:
            os.close(descriptor)

    def careless() -> bool:
        path = box / "swapped"
        try:
            return not path.is_symlink() and path.read_text() == CANARY
        except OSError:
            return False

    script = "def attack(): swap(sys.argv[1], sys.argv[2])"
    with hostile(script, box / "swapped", box / "other"):
        assert not any(guarded() for _ in range(ROUNDS))
        # As long as it takes: tries without number may fall into a moment in which the other process stands still.
        while not careless():
            pass
    for path in (box / "swapped", box / "other"):
        path.unlink()


async def test_a_session_reaches_neither_another_nor_the_engines_own(engine: Engine, files: Files) -> None:
    folder = engine.settings.root / "work"
    one = await engine.create("one", mode="private")
    other = await engine.create("other", mode="private")
    await files.write("mine.txt", CANARY, session=other)
    path = f"../../{other.id}/files/mine.txt"
    with pytest.raises(FileRefused, match=LEADS_OUT):
        await files.read(path, session=one)
    assert Path(os.path.join(one.place.written, path)).read_text() == CANARY  # as above
    with pytest.raises(NoSuchFile):
        await files.read("mine.txt", session=one)
    with pytest.raises(FileRefused, match=LEADS_OUT):
        await files.read(f"../state/sessions/{other.id}/files/mine.txt")

    folder.mkdir()
    (folder / ".git").mkdir()
    direct = await engine.create("direct", mode="direct", directory=engine.settings.root)
    with pytest.raises(FileRefused, match="the engine's own"):
        await files.read("state/journal.db", session=direct)
    with pytest.raises(FileRefused, match="the engine's own"):
        await files.write("state/journal.db", "gone", session=direct)
    assert (engine.settings.root / "state" / "journal.db").read_bytes().startswith(b"SQLite")
    listed, _ = await files.list("", session=direct)
    assert "state" not in [found.path for found in listed]
    inside = await engine.create("git", mode="direct", directory=folder)
    with pytest.raises(FileRefused, match="others run"):
        await files.write(".git/hooks/pre-commit", "#!/bin/sh", session=inside)
    assert not workspace_roots(inside.place).is_layered
    for session in (one, other, direct, inside):
        await engine.delete(session.id)


async def test_links_that_code_plants_in_an_overlay_lead_nowhere_for_us(engine: Engine, files: Files) -> None:
    project = engine.settings.root / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    session = await engine.create("planting", mode="overlay", directory=project)
    secret = engine.settings.root / "overlaid secret"
    secret.write_text(CANARY)
    source = f"import os; os.symlink({str(secret)!r}, 'planted'); os.symlink({str(secret.parent)!r}, 'way')"
    run = await (await session.execute_code(source)).wait()
    assert run.ok, run.text
    for path in ("planted", "way/overlaid secret"):
        with pytest.raises(FileRefused, match=A_LINK):
            await files.read(path, session=session)
        assert Path(session.place.written_cwd, path).read_text() == CANARY
    await engine.delete(session.id)


async def test_text_that_is_none_is_refused_with_the_reason(files: Files) -> None:
    with pytest.raises(FileRefused, match="no character"):
        await files.write("half.txt", "a\ud800")
    await files.write("table.csv", "a,b\n1,2\n")
    for sheet in ("\ud800", "\0"):
        with pytest.raises(SandboxError, match="no name of a sheet"):
            await files.read("table.csv", sheet=sheet)


def test_name_that_no_file_can_have_is_refused_on_the_shelf() -> None:
    with pytest.raises(FileRefused, match="no name of a file"):
        relative("a/\ud800")
    assert relative("a/\udcff") == "a/\udcff"  # a byte that is no UTF-8, which a name may hold
